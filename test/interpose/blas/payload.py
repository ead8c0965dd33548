# SPDX-License-Identifier: BSD-3-Clause
"""The payloads of NaN in real products of level 3, as R's NA has one: an element of C that is NaN
has the payload of the first NaN in its row of A, or else in its column of B.  Also the flags of
overflow and of invalid operations.  The library is preloaded; a BLAS is in the process."""
import ctypes
import itertools
import platform

import numpy as np

program = ctypes.CDLL(None)
random = np.random.default_rng(1)
# {letter: (type, integer type of its size, bits of infinity, index of NaN's quiet bit)}
KINDS = {"s": (np.float32, np.uint32, 0x7F800000, 22),
         "d": (np.float64, np.uint64, 0x7FF << 52, 51)}
failures = checks = 0


def whole(n):
    """A pointer to an integer."""
    return ctypes.byref(ctypes.c_int(n))


def address(x):
    """The address of an array's data."""
    return x.ctypes.data_as(ctypes.c_void_p)


def call(letter, name, letters, sizes, alpha, a, b, beta, c):
    """Calls a Fortran routine."""
    kind = {"s": ctypes.c_float, "d": ctypes.c_double}[letter]
    matrices = [address(a), whole(a.shape[0])] + ([address(b), whole(b.shape[0])] if b is not None
                                                  else [])
    getattr(program, f"{letter}{name}_")(
        *[ctypes.c_char_p(x.encode()) for x in letters], *map(whole, sizes),
        ctypes.byref(kind(alpha)), *matrices, ctypes.byref(kind(beta)), address(c),
        whole(c.shape[0]), *[ctypes.c_size_t(1)] * len(letters))


def matrix(letter, shape, share):
    """Makes numbers and NaN with distinct payloads, quiet or signalling."""
    kind, bits, infinite, _ = KINDS[letter]
    x = np.asfortranarray(random.standard_normal(shape).astype(kind))
    for number, place in enumerate(np.argwhere(random.random(shape) < share)):
        x.view(bits)[tuple(place)] = infinite | (1954 + number) | int(random.integers(2)) << \
            (31 if letter == "s" else 63)
    return x


def expected(letter, a, b):
    """Returns the bits of the elements that are NaN, and 0 for others."""
    _, bits, _, quiet = KINDS[letter]
    want = np.zeros((a.shape[0], b.shape[1]), bits)
    for i, j in np.ndindex(*want.shape):
        found = [x for line in (a[i], b[:, j]) for x in line[np.isnan(line)].view(bits)]
        if found:
            want[i, j] = found[0] | bits(1 << quiet)
    return want


def compare(what, letter, c, want, part=None):
    """Compares the bits of NaNs; part: the elements that count."""
    global failures, checks
    bits = KINDS[letter][1]
    got = np.where(np.isnan(c), c.view(bits), 0)
    where = np.ones(c.shape, bool) if part is None else part
    checks += 1
    if (got != want)[where].any() or not want.any():
        failures += 1
        print("FAILED:", what, letter, np.count_nonzero((got != want)[where]), "of",
              np.count_nonzero(want))


for letter, (m, n, k), share in itertools.product("sd", ((5, 7, 9), (70, 45, 90), (1, 40, 300)),
                                                  (0.002, 0.05)):
    for ta, tb in itertools.product("NT", "NT"):
        a, b = matrix(letter, (m, k), share), matrix(letter, (k, n), share)
        a[0, k // 2] = np.nan       # there is one
        stored = [np.asfortranarray(x.T) if t == "T" else x for x, t in ((a, ta), (b, tb))]
        c = np.zeros((m, n), a.dtype, "F")
        call(letter, "gemm", ta + tb, (m, n, k), 1.5, *stored, 0, c)
        compare("gemm " + ta + tb, letter, c, expected(letter, a, b))
    for uplo, trans in itertools.product("UL", "NT"):
        a = matrix(letter, (n, k), share)
        a[0, k // 2] = np.nan
        part = np.triu(np.ones((n, n), bool)) if uplo == "U" else np.tril(np.ones((n, n), bool))
        stored = np.asfortranarray(a.T) if trans == "T" else a
        c = np.zeros((n, n), a.dtype, "F")
        call(letter, "syrk", uplo + trans, (n, k), 1, stored, None, 0, c)
        compare("syrk " + uplo + trans, letter, c, expected(letter, a, a.T), part)
    for side, uplo in itertools.product("LR", "UL"):
        size = m if side == "L" else n
        h, b = matrix(letter, (size, size), share), matrix(letter, (m, n), share)
        h[0, 0] = np.nan
        upper = np.triu((h if uplo == "U" else h.T).view(KINDS[letter][1]))
        full = (upper + np.triu(upper, 1).T).view(h.dtype)
        c = np.zeros((m, n), b.dtype, "F")
        call(letter, "symm", side + uplo, (m, n), 1, h, b, 0, c)
        want = expected(letter, full, b) if side == "L" else expected(letter, full, b.T).T
        compare("symm " + side + uplo, letter, c, want)
# FE_INVALID and FE_OVERFLOW of fenv.h
INVALID, OVERFLOW = 1, 8 if platform.machine() == "x86_64" else 4
math = ctypes.CDLL("libm.so.6")


def expect_flags(what, letter, a, b, want):
    """Requires that a product raises these flags alone."""
    global failures, checks
    c = np.full((a.shape[0], b.shape[1]), 1, a.dtype, "F")
    math.feclearexcept(INVALID | OVERFLOW)
    call(letter, "gemm", "NN", (*c.shape, a.shape[1]), 1, a, b, 0, c)
    raised = math.fetestexcept(INVALID | OVERFLOW)
    math.feclearexcept(INVALID | OVERFLOW)
    checks += 1
    if raised != want:
        failures += 1
        print("FAILED:", what, letter, "raised", raised, "instead of", want)


for letter, (m, n, k) in itertools.product("sd", ((1, 1, 40), (1, 1, 9000), (50, 1, 300),
                                                  (20, 30, 40))):
    kind = KINDS[letter][0]
    big = kind(np.finfo(kind).max)
    a, b = (np.asfortranarray(random.random(shape).astype(kind)) for shape in ((m, k), (k, n)))
    expect_flags("finite product", letter, a, b, 0)
    a[m // 2, 1], b[1, 0] = big, 16
    expect_flags("overflow", letter, a, b, OVERFLOW)
    a[m // 2, 1] = np.inf
    expect_flags("infinite operand", letter, a, b, 0)
    a[m // 2, 1] = np.nan
    expect_flags("NaN as operand", letter, a, b, 0)
    a[m // 2, 1], b[1, 0] = np.inf, 0
    expect_flags("infinity times 0", letter, a, b, INVALID)
print(checks, "checks,", failures, "failed")
