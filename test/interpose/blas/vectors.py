# SPDX-License-Identifier: BSD-3-Clause
"""Compares every routine of levels 1 and 2 with the level-3 product that it equals: the bits must
be the same, whatever the increments, triangle, transposition and storage order.  liblimber_blas is
preloaded.  The argument `correct` tests only routines whose elements are one product, and compares
nrm2, rot and trsv with exact arithmetic; `short` leaves out the longest vectors."""
import ctypes
import fractions
import itertools
import math
import random
import sys

here = ctypes.CDLL(None)
rng = random.Random(11)
correct = "correct" in sys.argv[1:]
checks = failures = 0
SIZES = (1, 5, 40) if "short" in sys.argv[1:] else (1, 5, 40, 307)


class Type:
    """One of the BLAS types s, d, c, z.  A number is a tuple of one or two parts."""
    def __init__(self, letter):
        self.letter, self.complex = letter, letter in "cz"
        self.real = ctypes.c_float if letter in "sc" else ctypes.c_double
        self.parts = 2 if self.complex else 1

    def array(self, values):
        """An array of numbers, each given as a tuple of its parts."""
        flat = [x for value in values for x in value]
        return (self.real * max(1, len(flat)))(*flat)

    def random(self, count):
        """Random numbers, as tuples of their parts."""
        return [tuple(rng.uniform(-1, 1) * 2.0 ** rng.randint(-6, 6) for _ in range(self.parts))
                for _ in range(count)]

    def scalar(self, *parts):
        """A scalar in memory, for a call."""
        return self.array([(parts + (0.0,))[:self.parts]])


def numbers(t, data, count):
    """Reads an array's numbers as tuples of their parts."""
    return [tuple(data[i * t.parts:(i + 1) * t.parts]) for i in range(count)]


def call(name, *arguments, letters=0, result=None):
    """Calls a Fortran routine.  letters: number of character arguments, whose lengths come last."""
    f = getattr(here, name + "_")
    f.restype = result
    made = [ctypes.c_char_p(a.encode()) if isinstance(a, str) else
            ctypes.byref(ctypes.c_int(a)) if isinstance(a, int) else a for a in arguments]
    return f(*made, *[ctypes.c_size_t(1)] * letters)


def steps(t, values, step):
    """The values as a BLAS vector with increment `step`; random numbers fill the gaps."""
    size = 1 + (len(values) - 1) * abs(step) if values else 1
    data = t.random(size)
    for i, value in enumerate(values):
        data[i * step if step > 0 else (len(values) - 1 - i) * -step] = value
    return t.array(data)


def stepped(t, data, count, step):
    """Reads the `count` numbers of a BLAS vector with increment `step`."""
    size = 1 + (count - 1) * abs(step)
    all_ = numbers(t, data, size)
    return [all_[i * step if step > 0 else (count - 1 - i) * -step] for i in range(count)]


def same(what, got, want):
    """Compares lists of numbers exactly, except for the signs of zeros."""
    global checks, failures
    checks += 1
    # the sign of a zero may differ, since products with zero may be skipped
    if [tuple(x + 0.0 for x in v) for v in got] != [tuple(x + 0.0 for x in v) for v in want]:
        failures += 1
        if failures < 20:
            print("FAILED:", what, got[:2], want[:2])


def as_float(value):
    """The number rounded to binary32."""
    return (ctypes.c_float(value[0]).value,)


def conj(t, value):
    """The conjugate of a complex number; a real one as it is."""
    return (value[0], -value[1]) if t.complex else value


def product(t, m, n, k, alpha, a, b, beta, c):
    """Returns alpha a b + beta c by gemm; matrices are column-major lists."""
    out = t.array(c)
    call(t.letter + "gemm", "N", "N", m, n, k, t.scalar(*alpha), t.array(a), max(1, m), t.array(b),
         max(1, k), t.scalar(*beta), out, max(1, m), letters=2)
    return numbers(t, out, m * n)


def operand(t, a, rows, cols, op):
    """Returns op(A) in column-major order, and its numbers of rows and columns."""
    if op == "N":
        return a, rows, cols
    turn = (lambda v: conj(t, v)) if op == "C" else (lambda v: v)
    return [turn(a[i + j * rows]) for i in range(rows) for j in range(cols)], cols, rows


def level_1(t, n, step_x, step_y):
    """Checks the level-1 routines against gemm and the reference formulas."""
    x, y = t.random(n), t.random(n)
    at_x, at_y = steps(t, x, step_x), steps(t, y, step_y)
    zero, one = (0.0,) * t.parts, (1.0,) + (0.0,) * (t.parts - 1)
    alpha = t.random(1)[0]
    what = f"{t.letter} {n} {step_x} {step_y}"
    for name in ("dotu", "dotc") if t.complex else ("dot",):
        if t.complex:
            out = t.scalar(0.0)
            f = getattr(here, f"cblas_{t.letter}{name}_sub")
            f.restype = None
            f(n, at_x, step_x, at_y, step_y, out)
            got = numbers(t, out, 1)
        else:
            got = [(call(t.letter + name, n, at_x, step_x, at_y, step_y, result=t.real),)]
        left = [conj(t, v) for v in x] if name == "dotc" else x
        same(f"{name} {what}", got, product(t, 1, 1, n, one, left, y, zero, [zero]))
    if not correct:
        wide = Type("d")
        parts = [(as_float((p,))[0] if t.real is ctypes.c_float else p,) for v in x for p in v]
        root = math.sqrt(product(wide, 1, 1, len(parts), (1.0,), parts, parts, (0.0,),
                                 [(0.0,)])[0][0])
        name = {"s": "snrm2", "d": "dnrm2", "c": "scnrm2", "z": "dznrm2"}[t.letter]
        want = as_float((root,)) if t.real is ctypes.c_float else (root,)
        same("nrm2 " + what, [(call(name, n, at_x, step_x, result=t.real),)], [want])
    if t.letter == "s":
        x, y = ([as_float(v) for v in each] for each in (x, y))
        wide, values = Type("d"), (n, at_x, step_x, at_y, step_y)
        got = call("dsdot", *values, result=ctypes.c_double)
        want = product(wide, 1, 1, n, one, x, y, zero, [zero])
        same("dsdot " + what, [(got,)], want)
        got = call("sdsdot", n, t.scalar(*alpha), *values[1:], result=t.real)
        if correct:     # one rounding
            want = product(t, 1, 1, n, one, x, y, one, [as_float(alpha)])
        else:
            want = [as_float((as_float(alpha)[0] + want[0][0],))]
        same("sdsdot " + what, [(got,)], want)
    out = steps(t, y, step_y)
    call(t.letter + "axpy", n, t.scalar(*alpha), at_x, step_x, out, step_y)
    same("axpy " + what, stepped(t, out, n, step_y), product(t, n, 1, 1, alpha, x, [one], one, y))
    if n > 1:       # all terms are added to one element
        out, want = t.array([y[0]]), y[:1]
        for value in x:
            want = product(t, 1, 1, 1, alpha, [value], [one], one, want)
        call(t.letter + "axpy", n, t.scalar(*alpha), at_x, step_x, out, 0)
        same(f"axpy {what}, step_y 0", numbers(t, out, 1), want)
    flat = Type("s" if t.letter in "sc" else "d")
    name = {"s": "sasum", "d": "dasum", "c": "scasum", "z": "dzasum"}[t.letter]
    # increments that are not positive give 0, as in the reference
    sizes = [(abs(p),) for v in x for p in v] if step_x > 0 else []
    same("asum " + what, [(call(name, n, at_x, step_x, result=t.real),)],
         product(flat, 1, 1, len(sizes), (1.0,), sizes, [(1.0,)] * len(sizes), (0.0,), [(0.0,)]))


def far_norms():
    """Squares outside the range of the format do not spoil the norm, and it is right for many equal
    numbers."""
    global checks, failures
    for name, t, value, n in (("snrm2", Type("s"), 1e-30, 40), ("snrm2", Type("s"), 2e37, 40),
                              ("dnrm2", Type("d"), 1e-200, 400), ("dnrm2", Type("d"), 1e200, 400),
                              ("dnrm2", Type("d"), 5e-324, 9), ("snrm2", Type("s"), 1.0, 10000)):
        x = t.array([(value,)] * n)
        got = call(name, n, x, 1, result=t.real)
        want = math.sqrt(n) * x[0]
        checks += 1
        if abs(got - want) > (6e-8 if t.letter == "s" else 1e-14) * want + 5e-324:
            failures += 1
            print("FAILED:", name, value, got, want)


def root(values, digits):
    """The root of the exact sum of squares, rounded to so many digits."""
    total = sum(fractions.Fraction(v) ** 2 for v in values)
    bits = 2300 - (total.numerator.bit_length() - total.denominator.bit_length()) // 2
    floor = math.isqrt((total.numerator << 2 * bits) // total.denominator) if total else 0
    # a last bit that is 1 stands for all bits that follow, so that only exact ties are ties
    floor = 2 * floor + (fractions.Fraction(floor, 1 << bits) ** 2 != total)
    drop = max(floor.bit_length() - digits, bits + 1 - (1074 if digits == 53 else 149), 0)
    half, rest = 1 << drop >> 1, floor & ((1 << drop) - 1)
    kept = floor >> drop
    kept += rest > half or (rest == half and kept & 1)
    return float(fractions.Fraction(kept << drop, 1 << bits + 1))


def norms(t):
    """Under `correct` the norm is rounded once, and so is each element of rot."""
    global checks, failures
    name = {"s": "snrm2", "d": "dnrm2", "c": "scnrm2", "z": "dznrm2"}[t.letter]
    flat = Type("s" if t.letter in "sc" else "d")
    least = 2.0 ** (-149 if t.letter in "sc" else -1074)
    lists = [t.random(n) for n in (1, 2, 3, 7, 7, 7, 40, 40, 300)]
    # exact roots, ties, subnormal and large results, and elements far apart
    lists += [[(3.0,) * t.parts, (4.0,) * t.parts], [(least,) * t.parts] * 9,
              [(1.0,) + (0.0,) * (t.parts - 1), (least,) * t.parts], [(0.0,) * t.parts] * 3]
    for x in lists:
        data = t.array(x)
        got = call(name, len(x), data, 1, result=t.real)
        checks += 1
        if got != root(list(data)[:len(x) * t.parts], 24 if t.letter in "sc" else 53):
            failures += 1
            print("FAILED:", name, x[:3], got)
    c, s = as_float((0.6,))[0], as_float((-0.8,))[0]
    x, y = ([flat.array([(p,)])[0] for v in t.random(40) for p in v] for _ in "xy")
    to_x, to_y = flat.array([(p,) for p in x]), flat.array([(p,) for p in y])
    name = {"s": "srot", "d": "drot", "c": "csrot", "z": "zdrot"}[t.letter]
    call(name, 40, to_x, 1, to_y, 1, flat.scalar(c), flat.scalar(s))
    exact = fractions.Fraction
    for new, a, b, s_ in ((to_x, x, y, s), (to_y, y, x, -s)):
        want = [exact(c) * exact(p) + exact(s_) * exact(q) for p, q in zip(a, b)]
        want = [(rounded(t, w),) for w in want]
        same(name, [(p,) for p in new], want)


def rounded(t, value):
    """An exact value rounded once to the real type (here far from its limits)."""
    if t.letter in "dz":
        return float(value)
    num, den = value.numerator, value.denominator       # den is a power of two
    drop = max(0, abs(num).bit_length() - 24)
    half, rest = 1 << drop >> 1, abs(num) & ((1 << drop) - 1)
    kept = abs(num) >> drop
    kept += rest > half or (rest == half and kept & 1 and drop > 0)
    return float(fractions.Fraction((kept << drop) * (1 if num >= 0 else -1), den))


def steps_of_substitution(t, n, uplo):
    """Under `correct` trsv rounds the sum of each step once, and then the quotient."""
    global checks, failures
    a, x = t.random(n * n), t.random(n)
    for i in range(n):
        a[i + i * n] = (a[i + i * n][0] + 5000,)
    out, data = t.array(x), t.array(a)
    call(t.letter + "trsv", uplo, "N", "N", n, data, n, out, 1, letters=3)
    solved, right = list(out), list(t.array(x))
    exact = fractions.Fraction
    for i in range(n):
        known = range(i) if uplo == "L" else range(i + 1, n)
        total = exact(right[i]) - sum(exact(data[i + q * n]) * exact(solved[q]) for q in known)
        want = rounded(t, exact(rounded(t, total)) / exact(data[i + i * n])) \
            if t.letter == "d" else as_float((rounded(t, total) / data[i + i * n],))[0]
        checks += 1
        if solved[i] != want:
            failures += 1
            print("FAILED:", t.letter, "trsv", uplo, n, i, solved[i], want)
            break


def nothing(t, n):
    """alpha = 0 reads no vector, and adds nothing."""
    infinite = t.array([(float("inf"),) * t.parts] * n)
    out, matrix = t.array(t.random(n)), t.array(t.random(n * n))
    y, a = numbers(t, out, n), numbers(t, matrix, n * n)
    call(t.letter + "axpy", n, t.scalar(0.0), infinite, 1, out, 1)
    same(f"{t.letter}axpy {n} by 0", numbers(t, out, n), y)
    for name in ("geru", "gerc") if t.complex else ("ger",):
        call(t.letter + name, n, n, t.scalar(0.0), infinite, 1, infinite, 1, matrix, n)
        same(f"{t.letter}{name} {n} by 0", numbers(t, matrix, n * n), a)


def general(t, m, n, op, step_x, step_y):
    """Checks gemv and gbmv against gemm."""
    a, alpha, beta = t.random(m * n), t.random(1)[0], t.random(1)[0]
    full, rows, cols = operand(t, a, m, n, op)
    x, y = t.random(cols), t.random(rows)
    want = product(t, rows, 1, cols, alpha, full, x, beta, y)
    out = steps(t, y, step_y)
    call(t.letter + "gemv", op, m, n, t.scalar(*alpha), t.array(a), m, steps(t, x, step_x), step_x,
         t.scalar(*beta), out, step_y, letters=1)
    same(f"{t.letter}gemv {op} {m} {n} {step_x} {step_y}", stepped(t, out, rows, step_y), want)
    below, above = min(2, m - 1), min(3, n - 1)
    band = [v if -above <= i - j <= below else (0.0,) * t.parts
            for j in range(n) for i, v in enumerate(a[j * m:(j + 1) * m])]
    lead = below + above + 2
    stored = t.random(lead * n)
    for j, i in itertools.product(range(n), range(m)):
        if -above <= i - j <= below:
            stored[above + i - j + j * lead] = band[i + j * m]
    full, rows, cols = operand(t, band, m, n, op)
    out = steps(t, y, step_y)
    call(t.letter + "gbmv", op, m, n, below, above, t.scalar(*alpha), t.array(stored), lead,
         steps(t, x, step_x), step_x, t.scalar(*beta), out, step_y, letters=1)
    same(f"{t.letter}gbmv {op} {m} {n}", stepped(t, out, rows, step_y),
         product(t, rows, 1, cols, alpha, full, x, beta, y))


def stored(t, a, n, uplo, width=None):
    """The triangle of a full matrix packed, or as a band of so many diagonals beside the main."""
    inside = (lambda i, j: i <= j) if uplo == "U" else (lambda i, j: i >= j)
    if width is None:
        return [a[i + j * n] for j in range(n) for i in range(n) if inside(i, j)]
    band = t.random((width + 1) * n)
    for j, i in itertools.product(range(n), range(n)):
        if inside(i, j) and abs(i - j) <= width:
            band[(width + i - j if uplo == "U" else i - j) + j * (width + 1)] = a[i + j * n]
    return band


def triangle(t, a, n, uplo, diag, width=None):
    """Returns the full matrix, with its implied zeros and ones."""
    zero, one = (0.0,) * t.parts, (1.0,) + (0.0,) * (t.parts - 1)
    out = []
    for j, i in itertools.product(range(n), range(n)):
        inside = (i <= j if uplo == "U" else i >= j) and (width is None or abs(i - j) <= width)
        out.append(one if i == j and diag == "U" else a[i + j * n] if inside else zero)
    return out


def symmetric(t, n, uplo, step):
    """Checks the routines of symmetric, packed and band matrices against gemm and syrk."""
    hermitian = t.complex
    a = t.random(n * n)
    for i in range(n):
        a[i + i * n] = (a[i + i * n][0], 0.0)[:t.parts]
        for j in range(i):      # both halves agree
            a[i + j * n] = conj(t, a[j + i * n]) if hermitian else a[j + i * n]
    alpha, beta, x, y = t.random(1)[0], t.random(1)[0], t.random(n), t.random(n)
    at_x = steps(t, x, step)
    width = min(3, n - 1)
    band = [v if abs(i - j) <= width else (0.0,) * t.parts
            for j in range(n) for i, v in enumerate(a[j * n:(j + 1) * n])]
    names = ("hemv", "hpmv", "hbmv") if hermitian else ("symv", "spmv", "sbmv")
    scalars = t.scalar(*alpha), t.scalar(*beta)
    for name, full, matrix in zip(names, (a, a, band), (a, stored(t, a, n, uplo),
                                                        stored(t, a, n, uplo, width))):
        out = steps(t, y, step)
        sizes = {"m": (n,), "p": (n,), "b": (n, width)}[name[1] if name[1] in "pb" else "m"]
        lead = {"p": (), "b": (width + 1,)}.get(name[1], (n,))
        call(t.letter + name, uplo, *sizes, scalars[0], t.array(matrix), *lead, at_x, step,
             scalars[1], out, step, letters=1)
        same(f"{t.letter}{name} {uplo} {n} {step}", stepped(t, out, n, step),
             product(t, n, 1, n, alpha, full, x, beta, y))
    # rank-one and rank-two updates equal syrk and syr2k of one column
    real = alpha[:1] if hermitian else alpha
    factor = Type("s" if t.letter in "sc" else "d").scalar(*real)
    for names, two in ((("her", "hpr", "herk") if hermitian else ("syr", "spr", "syrk"), False),
                       (("her2", "hpr2", "her2k") if hermitian else ("syr2", "spr2", "syr2k"),
                        True)):
        want = t.array(a)
        one = t.scalar(1.0) if two and not hermitian else factor.__class__(1.0)
        by = scalars[0] if two else factor
        if two:
            call(t.letter + names[2], uplo, "N", n, 1, by, t.array(x), n, t.array(y), n, one, want,
                 n, letters=2)
        else:
            call(t.letter + names[2], uplo, "N", n, 1, by, t.array(x), n, one, want, n, letters=2)
        want = numbers(t, want, n * n)
        out, at_y = t.array(a), steps(t, y, step)
        vectors = (at_x, step, at_y, step) if two else (at_x, step)
        call(t.letter + names[0], uplo, n, by, *vectors, out, n, letters=1)
        same(f"{t.letter}{names[0]} {uplo} {n}", numbers(t, out, n * n), want)
        packed = t.array(stored(t, a, n, uplo))
        call(t.letter + names[1], uplo, n, by, *vectors, packed, letters=1)
        same(f"{t.letter}{names[1]} {uplo} {n}", numbers(t, packed, n * (n + 1) // 2),
             stored(t, want, n, uplo))


def triangular(t, n, uplo, op, diag, step):
    """Checks trmv, trsv and their packed and band forms."""
    a = t.random(n * n)
    for i in range(n):
        a[i + i * n] = tuple(p + 5000 for p in a[i + i * n])
    x, one = t.random(n), (1.0,) + (0.0,) * (t.parts - 1)
    width = min(3, n - 1)
    for names, level_3 in ((("trmv", "tpmv", "tbmv"), "trmm"), (("trsv", "tpsv", "tbsv"), "trsm")):
        for name in names:
            w = width if name[1] == "b" else None
            full = triangle(t, a, n, uplo, diag, w)
            if diag == "U":     # the diagonal is not read
                for i in range(n):
                    full[i + i * n] = t.random(1)[0]
            want = t.array(x)
            call(t.letter + level_3, "L", uplo, op, diag, n, 1, t.scalar(*one), t.array(full), n,
                 want, n, letters=4)
            want = numbers(t, want, n)
            matrix = full if name[1] == "r" else stored(t, full, n, uplo, w)
            sizes = (n, width) if w is not None else (n,)
            lead = {"p": (), "b": (width + 1,)}.get(name[1], (n,))
            out = steps(t, x, step)
            call(t.letter + name, uplo, op, diag, *sizes, t.array(matrix), *lead, out, step,
                 letters=3)
            same(f"{t.letter}{name} {uplo}{op}{diag} {n} {step}", stepped(t, out, n, step), want)


def update(t, m, n, step_x, step_y):
    """Checks the rank-one updates against gemm."""
    alpha, x, y, a = t.random(1)[0], t.random(m), t.random(n), t.random(m * n)
    one = (1.0,) + (0.0,) * (t.parts - 1)
    for name in ("geru", "gerc") if t.complex else ("ger",):
        right = [conj(t, v) for v in y] if name == "gerc" else y
        out = t.array(a)
        call(t.letter + name, m, n, t.scalar(*alpha), steps(t, x, step_x), step_x,
             steps(t, y, step_y), step_y, out, m)
        same(f"{t.letter}{name} {m} {n}", numbers(t, out, m * n),
             product(t, m, n, 1, alpha, x, right, one, a))


for letter in "sdcz":
    t = Type(letter)
    for n in SIZES + ((3000,) if letter in "sd" else (700,)):
        for step_x, step_y in ((1, 1), (2, -1), (-1, 3)):
            level_1(t, n, step_x, step_y)
    nothing(t, 40)
    if correct:
        norms(t)
    if correct and not t.complex:
        for n, uplo in itertools.product((1, 20, 70), "UL"):
            steps_of_substitution(t, n, uplo)
    for (m, n), op in itertools.product(((1, 1), (7, 40), (300, 3), (5, 600)), "NTC"):
        step_x, step_y = rng.choice((1, 2, -1)), rng.choice((1, 3, -2))
        general(t, m, n, op, step_x, step_y)
        if op == "N":
            update(t, m, n, step_x, step_y)
    for n, uplo in itertools.product(SIZES, "UL"):
        step = rng.choice((1, 2, -1))
        symmetric(t, n, uplo, step)
        if not correct:     # band and packed triangles are solved in full
            for op, diag in itertools.product("NTC", "NU"):
                if n < 300 or (op, diag) == ("N", "N"):
                    triangular(t, n, uplo, op, diag, step)
if not correct:
    far_norms()
print(f"{checks} checks, {failures} failed")
