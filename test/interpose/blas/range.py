# SPDX-License-Identifier: BSD-3-Clause
"""Products with intermediate sums beyond the range of their type, and with subnormal terms, while
results may be ordinary.  liblimber_blas is preloaded and checks elements of the first products
most, so the argument, a seed, shuffles them."""
import ctypes
import random
import sys

here = ctypes.CDLL(None)
rng = random.Random(int(sys.argv[1]))
products = []


def gemm(letter, m, n, k, a, b, alpha, beta):
    """Calls xGEMM, with all elements of C 1."""
    kind = ctypes.c_float if letter in "sc" else ctypes.c_double
    parts = 2 if letter in "cz" else 1

    def array(values):
        return (kind * len(values))(*values)

    def number(x):
        return array([x, 0][:parts])

    f = getattr(here, letter + "gemm_")
    f.restype = None
    size = [ctypes.byref(ctypes.c_int(x)) for x in (m, n, k)]
    f(*[ctypes.c_char_p(b"N")] * 2, *size, number(alpha), array(a), size[0], array(b), size[2],
      number(beta), array([1.0] * (m * n * parts)), size[0], *[ctypes.c_size_t(1)] * 2)


def values(count, low, high):
    """Draws numbers of either sign with exponents from low to high."""
    return [rng.choice((-1, 1)) * rng.uniform(1, 1.99) * 2.0 ** rng.randint(low, high)
            for _ in range(count)]


for letter in "sdcz":
    reach, bits = (127, 24) if letter in "sc" else (1023, 53)
    parts = 2 if letter in "cz" else 1
    for m, n, k in ((1, 1, 64), (3, 2, 7), (40, 33, 300)):
        count_a, count_b = m * k * parts, k * n * parts
        top, low = 1.5 * 2.0 ** (reach - 1), 1.5 * 2.0 ** -((reach + bits) // 2)
        # sums that overflow and cancel; sums that alpha scales back into range; subnormal terms
        half = count_a // 2
        products.append((letter, m, n, k, [top] * half + [-top] * (count_a - half),
                         [1.0] * count_b, 1, 0))
        products.append((letter, m, n, k, [top] * count_a, [1.0] * count_b, 2.0 ** -20, 1))
        products.append((letter, m, n, k, [low] * count_a, [low] * count_b, 1, 0))
        for half in (-reach // 2, reach // 2):
            products.append((letter, m, n, k, values(count_a, half - 15, half + 1),
                             values(count_b, half - 15, half + 1), rng.choice((1, -0.75)), 0))
rng.shuffle(products)
for product in products:
    gemm(*product)
print(f"{len(products)} products")
