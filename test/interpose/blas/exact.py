# SPDX-License-Identifier: BSD-3-Clause
"""Checks every intercepted BLAS routine against exact integers: exact.py CONTRACT [REFERENCE BLAS].
The contract is also that of the environment; liblimber_blas is preloaded."""
import copy
import ctypes
import random
import struct
import sys

SCALE = 160         # inputs are multiples of 2^-SCALE
CONTRACT, REFERENCE = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
here = ctypes.CDLL(None)
rng = random.Random(1)
checks = failures = 0


def say(what):
    """Counts a failure, and prints the first ones."""
    global failures
    failures += 1
    if failures < 20:
        print("FAILED:", what)


def nearest(num, bits, digits):
    """Rounds num 2^-bits to that many digits, to nearest-even, exactly."""
    drop = abs(num).bit_length() - digits
    if drop > 0:
        half, rest = 1 << (drop - 1), abs(num) & ((1 << drop) - 1)
        q = abs(num) >> drop
        q += rest > half or (rest == half and q & 1)
        num = (q << drop) * (1 if num > 0 else -1)
    return num


class Type:
    """One of the BLAS types s, d, c, z, and a pool of random numbers of it."""
    def __init__(self, letter):
        self.letter, self.complex = letter, letter in "cz"
        self.single = letter in "sc"
        self.c = ctypes.c_float if self.single else ctypes.c_double
        self.digits = 24 if self.single else 53
        self.parts = 2 if self.complex else 1
        self.range = 12 if self.single else 40
        self.pool = [self.value() for _ in range(4099)]

    def value(self):
        """A random number."""
        v = rng.uniform(0.5, 1) * rng.choice((-1, 1)) * 2.0 ** rng.randint(-self.range, self.range)
        return struct.unpack("f", struct.pack("f", v))[0] if self.single else v

    def values(self, n):
        """n random numbers from a pool, which costs less than to draw them."""
        start = rng.randrange(len(self.pool))
        return (self.pool * (n // len(self.pool) + 2))[start:start + n]

    def pass_scalar(self, s, real=False):
        """Returns alpha or beta as an argument of a BLAS call."""
        parts = (s.real,) if real or not self.complex else (s.real, s.imag)
        return (self.c * len(parts))(*parts)


class Matrix:
    """A matrix of rows x cols.  part: what is stored: "whole", the triangle U or L, the triangle u
    or l without its diagonal, or "" for nothing.  Every other place of the array holds NaN."""
    def __init__(self, t, rows, cols, by_rows=False, part="whole"):
        self.t, self.rows, self.cols, self.by_rows = t, rows, cols, by_rows
        self.lead = (cols if by_rows else rows) + 3
        lines, length = (rows, cols) if by_rows else (cols, rows)
        self.data = (t.c * (self.lead * lines * t.parts))(*([float("nan")] * (self.lead * lines * t.parts)))
        for line in range(lines if part else 0):
            first, last = 0, length
            if part in "Uu" and by_rows or part in "Ll" and not by_rows:
                first = line + part.islower()
            elif part != "whole":
                last = line + (not part.islower())
            start = line * self.lead
            self.data[(start + first) * t.parts:(start + last) * t.parts] = t.values((last - first) * t.parts)

    def at(self, i, j):
        """The index of element (i, j) in the data."""
        return (i * self.lead + j if self.by_rows else i + j * self.lead) * self.t.parts

    def get(self, i, j):
        """Returns the real and imaginary part as multiples of 2^-SCALE."""
        k = self.at(i, j)
        im = self.data[k + 1] if self.t.complex else 0.0
        return fixed(self.data[k]), fixed(im)

    def copy(self):
        """A copy with data of its own."""
        other = copy.copy(self)
        other.data = type(self.data)(*self.data)
        return other


def fixed(v):
    """Returns a number as a multiple of 2^-SCALE."""
    n, d = v.as_integer_ratio()
    assert (n << SCALE) % d == 0
    return (n << SCALE) // d


def spoil(m):
    """Fills memory that must not be read: C where beta is 0."""
    m.data[:] = [float("nan")] * len(m.data)


def op(m, letter):
    """Returns the element function of op(m), for "N", "T" or "C"."""
    if letter == "N":
        return lambda i, j: m.get(i, j)
    if letter == "T" or not m.t.complex:
        return lambda i, j: m.get(j, i)
    return lambda i, j: (m.get(j, i)[0], -m.get(j, i)[1])


def full(m, uplo, hermitian):
    """Returns the element function of a symmetric or Hermitian matrix of which one triangle is
    stored."""
    def at(i, j):
        """Element (i, j) of the whole matrix."""
        if i == j and hermitian:
            return m.get(i, i)[0], 0
        if (i <= j) == (uplo == "U") or i == j:
            return m.get(i, j)
        re, im = m.get(j, i)
        return re, -im if hermitian else im
    return at


def triangle(m, uplo, trans, diag):
    """Returns the element function of op(m) for a triangular m.  diag "U": its diagonal is 1."""
    def stored(i, j):
        """Element (i, j) of the triangle; zeros outside."""
        if i == j and diag == "U":
            return 1 << SCALE, 0
        return m.get(i, j) if i == j or (i < j) == (uplo == "U") else (0, 0)
    if trans == "N":
        return stored
    return lambda i, j: (stored(j, i)[0], -stored(j, i)[1]) if trans == "C" and m.t.complex else stored(j, i)


def dot(a, b, i, j, k):
    """Returns the real and the imaginary part of the sum of a(i,p) b(p,j), and the sums of the
    terms' absolute values, as multiples of 2^(-2*SCALE)."""
    re = im = are = aim = 0
    for p in range(k):
        (x, y), (u, v) = a(i, p), b(p, j)
        re += x * u - y * v
        im += x * v + y * u
        are += abs(x * u) + abs(y * v)
        aim += abs(x * v) + abs(y * u)
    return re, im, are, aim


def scalars(s):
    """Returns real and imaginary part as multiples of 2^-SCALE."""
    return fixed(s.real), fixed(s.imag)


def expect(what, m, i, j, want, size):
    """Checks a result: want, and size (the sum of absolute values), are multiples of 2^-3 SCALE."""
    global checks
    try:
        got = m.get(i, j)
    except (ValueError, OverflowError):
        return say(f"{what} ({i},{j}) is not finite")
    for p in range(m.t.parts):
        checks += 1
        g = got[p] << 2 * SCALE
        if CONTRACT == "correct":
            good = g == nearest(want[p], 3 * SCALE, m.t.digits)
        else:       # bits=50, and one rounding
            good = abs(g - want[p]) <= (size[p] >> 50) + (abs(want[p]) >> (m.t.digits - 1)) + 1
        if not good:
            say(f"{what} ({i},{j}) part {p}: {g / 2.0 ** (3 * SCALE)} wanted {want[p] / 2.0 ** (3 * SCALE)}")


def combine(a, b, i, j, k, alpha, beta, c, digits):
    """Returns alpha a b + beta c; with a complex alpha, a b is rounded first."""
    re, im, are, aim = dot(a, b, i, j, k)
    (x, y), (u, v), (cre, cim) = scalars(alpha), scalars(beta), c
    if y:
        re, im = nearest(re, 0, digits), nearest(im, 0, digits)
    want = (x * re - y * im + ((u * cre - v * cim) << SCALE), x * im + y * re + ((u * cim + v * cre) << SCALE))
    size = (abs(x) * are + abs(y) * aim + (abs(u * cre) + abs(v * cim) << SCALE),
            abs(x) * aim + abs(y) * are + (abs(u * cim) + abs(v * cre) << SCALE))
    return want, size


# ---- calls ---------------------------------------------------------------------------------------
ORDER = {False: 102, True: 101}
CODES = {"N": 111, "T": 112, "C": 113, "U": 121, "L": 122}


def integers(width, *values):
    """Pointers to integers of the interface's width."""
    c = ctypes.c_int64 if width == 64 else ctypes.c_int32
    return [ctypes.byref(c(v)) for v in values]


def fortran(name, letters, sizes, rest, width=32):
    """Calls a Fortran routine.  rest: matrices, each with its leading dimension, and scalars."""
    f = getattr(here, name + ("_64_" if width == 64 else "_"))
    f.restype = None
    out = []
    for r in rest:
        out += [r.data, *integers(width, r.lead)] if isinstance(r, Matrix) else [r]
    f(*[ctypes.c_char_p(s.encode()) for s in letters], *integers(width, *sizes), *out,
      *[ctypes.c_size_t(1) for _ in letters])


def cblas(name, by_rows, codes, sizes, rest, width):
    """Calls a routine's C interface, with integers of 32 or 64 bits."""
    f = getattr(here, "cblas_" + name + ("64_" if width == 64 else ""))
    integer = ctypes.c_int64 if width == 64 else ctypes.c_int
    f.restype = None
    out = []
    for r in rest:
        if isinstance(r, Matrix):
            out += [r.data, integer(r.lead)]
        else:
            out.append(r if len(r) == 2 else r._type_(r[0]))
    f(ORDER[by_rows], *codes, *[integer(n) for n in sizes], *out)


def call(way, name, letters, codes, sizes, rest):
    """Calls a routine in one of WAYS: through Fortran or C, with integers of 32 or 64 bits."""
    if way.startswith("rows"):
        cblas(name, True, codes, sizes, rest, 64 if way == "rows64" else 32)
    else:
        fortran(name, letters, sizes, rest, 64 if way == "wide" else 32)


WAYS = ("columns", "rows", "wide", "rows64")


# ---- routines ------------------------------------------------------------------------------------
def few(n, edge=128):
    """Returns the indices that are checked: those at the ends, in the middle and at the edge of a
    block."""
    return sorted({i for i in (0, 1, edge - 1, edge, n // 2, n - 2, n - 1) if 0 <= i < n})


def check_symm(t, way, side, uplo, hermitian, q, wide, alpha, beta):
    """Checks xSYMM or xHEMM for one choice of arguments."""
    name = t.letter + ("hemm" if hermitian else "symm")
    m, n = (q, wide) if side == "L" else (wide, q)
    rows = way.startswith("rows")
    a = Matrix(t, q, q, rows, uplo)
    b, c = Matrix(t, m, n, rows), Matrix(t, m, n, rows)
    old = c.copy()
    if not beta:
        spoil(c)
    call(way, name, (side.lower(), uplo), (141 if side == "L" else 142, CODES[uplo]), (m, n),
         (t.pass_scalar(alpha), a, b, t.pass_scalar(beta), c))
    s = full(a, uplo, hermitian)
    for i in few(m):
        for j in few(n):
            x, y = (s, b.get) if side == "L" else (b.get, s)
            want, size = combine(x, y, i, j, q, alpha, beta, old.get(i, j), t.digits)
            expect(name + way + side + uplo, c, i, j, want, size)


def check_rank(t, way, kind, uplo, trans, n, k, alpha, beta):
    """Checks syrk, herk, syr2k, her2k or gemmt, as `kind` says."""
    name, rows, hermitian, two = t.letter + kind, way.startswith("rows"), kind[0] == "h", kind[-2] == "2"
    shape = (n, k) if trans == "N" else (k, n)
    a, b = Matrix(t, *shape, rows), Matrix(t, *(shape if two else (shape[::-1] if kind == "gemmt" else (1, 1))), rows)
    inside = lambda i, j: i == j or (i < j) == (uplo == "U")
    c = Matrix(t, n, n, rows, uplo)
    if not beta:
        spoil(c)
    old = c.copy()
    letters, codes = (uplo, trans.lower()), (CODES[uplo], CODES[trans])
    if kind == "gemmt":
        letters, codes = letters + (trans,), codes + (CODES[trans],)
    call(way, name, letters, codes, (n, k),
         (t.pass_scalar(alpha, kind == "herk"), a, *((b,) if two or kind == "gemmt" else ()),
          t.pass_scalar(beta, hermitian), c))
    x, y = op(a, trans), op(b, trans)
    flip = lambda f: lambda i, j: (f(j, i)[0], -f(j, i)[1] if hermitian else f(j, i)[1])
    for i in few(n):
        for j in few(n):
            if not inside(i, j):
                continue
            was = old.get(i, j) if beta else (0, 0)
            if hermitian and i == j:
                was = was[0], 0
            if kind == "gemmt":
                want, size = combine(x, y, i, j, k, alpha, beta, was, t.digits)
            elif not two:
                want, size = combine(x, flip(x), i, j, k, alpha, beta, was, t.digits)
            elif hermitian and alpha.imag:      # two products
                want, size = combine(x, flip(y), i, j, k, alpha, beta, was, t.digits)
                was = tuple(nearest(w, 0, t.digits) >> 2 * SCALE for w in want)
                if i == j:
                    was = was[0], 0
                want, more = combine(y, flip(x), i, j, k, alpha.conjugate(), 1.0, was, t.digits)
                size = tuple(map(sum, zip(size, more)))
            else:
                def left(i, p): return x(i, p) if p < k else y(i, p - k)
                def right(p, j): return flip(y)(p, j) if p < k else flip(x)(p - k, j)
                want, size = combine(left, right, i, j, 2 * k, alpha, beta, was, t.digits)
            if hermitian and i == j:
                want = want[0], 0
            expect(name + way + uplo + trans, c, i, j, want, size)
    for i in range(n):      # all other elements are unchanged, bit by bit
        for j in range(n):
            if inside(i, j):
                for p in range(t.parts):
                    old.data[c.at(i, j) + p] = c.data[c.at(i, j) + p]
    if bytes(c.data) != bytes(old.data):
        say(f"{name}{way}{uplo}{trans}: something outside the triangle has changed")


def check_trmm(t, way, side, uplo, trans, diag, q, wide, alpha):
    """Checks xTRMM for one choice of arguments."""
    name, rows = t.letter + "trmm", way.startswith("rows")
    m, n = (q, wide) if side == "L" else (wide, q)
    a = Matrix(t, q, q, rows, uplo if diag == "N" else uplo.lower())
    b = Matrix(t, m, n, rows)
    old = b.copy()
    call(way, name, (side, uplo.lower(), trans, diag),
         (141 if side == "L" else 142, CODES[uplo], CODES[trans], 131 if diag == "N" else 132), (m, n),
         (t.pass_scalar(alpha), a, b))
    s, was = triangle(a, uplo, trans, diag), old.get
    for i in few(m):
        for j in few(n):
            x, y = (s, was) if side == "L" else (was, s)
            want, size = combine(x, y, i, j, q, alpha, 0.0, (0, 0), t.digits)
            expect(name + way + side + uplo + trans + diag, b, i, j, want, size)


def check_trsm(t, way, side, uplo, trans, q, wide, alpha):
    """Checks trsm with identity matrices as diagonal blocks: solving these rounds nothing, so that
    only updates show."""
    block, name, rows = 32, t.letter + "trsm", way.startswith("rows")
    m, n = (q, wide) if side == "L" else (wide, q)
    a = Matrix(t, q, q, rows, uplo.lower())
    for i in range(q):
        for j in range(q):
            if i != j and i // block == j // block:
                for p in range(t.parts):
                    a.data[a.at(i, j) + p] = 0
    b = Matrix(t, m, n, rows)
    old = b.copy()
    call(way, name, (side, uplo, trans, "u"),
         (141 if side == "L" else 142, CODES[uplo], CODES[trans], 132), (m, n), (t.pass_scalar(alpha), a, b))
    s = triangle(a, uplo, trans, "U")
    minus = lambda i, j: tuple(-v for v in s(i, j))
    upper = (uplo == "U") ^ (trans != "N") ^ (side == "R")
    for i in few(q, block):
        first, last = (i // block + 1) * block if upper else 0, q if upper else i // block * block
        for j in range(wide):
            at = (i, j) if side == "L" else (j, i)
            c = old.get(*at)
            if first >= last:
                want, size = combine(s, s, 0, 0, 0, 1.0, alpha, c, t.digits)
            elif side == "L":
                x, y = lambda i, p: minus(i, first + p), lambda p, j: b.get(first + p, j)
                want, size = combine(x, y, i, j, last - first, 1.0, alpha, c, t.digits)
            else:
                x, y = lambda i, p: b.get(i, first + p), lambda p, j: minus(first + p, j)
                want, size = combine(x, y, j, i, last - first, 1.0, alpha, c, t.digits)
            expect(name + way + side + uplo + trans, b, *at, want, size)


def check_panels(uplo, side):
    """Checks an operand so large that it is expanded in two panels."""
    t, q, wide = Type("z"), 1030, 2
    m, n = (q, wide) if side == "L" else (wide, q)
    a, b, c = Matrix(t, q, q, part=""), Matrix(t, m, n), Matrix(t, m, n)
    a.data[:] = [float(rng.randint(-99, 99)) for _ in range(1021)] * (len(a.data) // 1021) + [1.0] * (len(a.data) % 1021)
    old = c.copy()
    fortran("zhemm", (side, uplo), (m, n), (t.pass_scalar(1.0), a, b, t.pass_scalar(-0.5), c))
    s = full(a, uplo, True)
    for i in few(m, 1018):
        for j in few(n, 1018):
            x, y = (s, b.get) if side == "L" else (b.get, s)
            want, size = combine(x, y, i, j, q, 1.0, -0.5, old.get(i, j), t.digits)
            expect("zhemm in panels " + side + uplo, c, i, j, want, size)


def both(name, letters, sizes, ms, scalar_at, last, beta=1.0):
    """Returns the last matrix after our call and after the reference's."""
    t, results = ms[0].t, []
    for library in (here, ctypes.CDLL(REFERENCE)):
        copies, args = [type(m.data)(*m.data) for m in ms], []
        for k, (m, data) in enumerate(zip(ms, copies)):
            if k in scalar_at:
                args.append(t.pass_scalar(1.0))
            args += [data, *integers(32, m.lead)]
        if last == "beta":
            args.insert(-2, t.pass_scalar(beta))
        getattr(library, name + "_")(*[ctypes.c_char_p(c.encode()) for c in letters], *integers(32, *sizes),
                                     *args, *[ctypes.c_size_t(1) for _ in letters])
        results.append(list(copies[-1]))
    return results


def check_refused(name, letters, sizes, shapes, last, row):
    """Checks a scheme that can compute the first blocks but not those with `row` of the first
    operand: blocks already written are restored, and the other BLAS computes the whole call."""
    global checks
    t = Type(name[0])
    ms = [Matrix(t, r, c, part="") for r, c in shapes]
    for m in ms:
        m.data[:] = [float(rng.randint(1, 9)) for _ in m.data]
    square = shapes[0][0] == shapes[0][1]
    ms[0].data[ms[0].at(row, row - 2 if square else 0)] = 2.0 ** 300
    ms[0].data[ms[0].at(row, row - 1 if square else 1)] = 2.0 ** -300
    got, want = both(name, letters, sizes, ms, (0,), last, 2.0)
    checks += 1
    if got != want:
        say(f"{name} {letters}: differs from the reference where a product is refused")


def check_special(name, letters, sizes, shapes, last, scalar_at):
    """Compares NaN and infinities with the reference's; sums of small integers are exact
    otherwise."""
    global checks
    t = Type(name[0])
    for special in (float("inf"), float("-inf"), float("nan")):
        for where in range(len(shapes) - (name == "zhemm")):   # a complex beta makes more NaN of infinities
            for place in range(4):
                ms = [Matrix(t, r, c) for r, c in shapes]
                for m in ms:
                    m.data[:] = [float(rng.randint(1, 9)) for _ in m.data]
                    if m.rows == m.cols and name[1:] == "trsm":    # solved without rounding
                        for i in range(m.rows):
                            m.data[m.at(i, i)] = 1.0
                            for j in range(m.cols):
                                if i != j:
                                    m.data[m.at(i, j)] = float(rng.randint(-1, 1) or 1) if abs(i - j) > 33 else 1.0
                x = ms[where]
                i, j = rng.randrange(x.rows), rng.randrange(x.cols)
                x.data[x.at(i, j) + (place % t.parts)] = special
                results = both(name, letters, sizes, ms, scalar_at, last)
                checks += 1
                for e, (got, want) in enumerate(zip(*results)):
                    if not (got == want or (got != got and want != want)):
                        say(f"{name} {letters} with {special} in operand {where} ({i},{j}): {got} wanted {want} at {e}")
                        break


def main():
    turn = 0
    if CONTRACT == "refused":
        check_refused("dsyrk", "UN", (300, 9), ((300, 9), (300, 300)), "beta", 140)
        check_refused("dsyr2k", "UN", (300, 9), ((300, 9), (300, 9), (300, 300)), "beta", 140)
        check_refused("zher2k", "UN", (300, 9), ((300, 9), (300, 9), (300, 300)), "beta", 140)
        check_refused("dtrmm", "LLNN", (300, 5), ((300, 300), (300, 5)), "", 299)
        check_refused("dtrsm", "LLNU", (100, 5), ((100, 100), (100, 5)), "", 70)
        check_refused("zhemm", "LL", (1030, 2), ((1030, 1030), (1030, 2), (1030, 2)), "beta", 1029)
        print(checks, "checks,", failures, "failed")
        return failures != 0

    def each(check, t, *rest):      # the ways take turns
        nonlocal turn
        turn += 1
        ways = WAYS[:2] if check is check_trsm else WAYS    # no BLAS behind solves blocks of dtrsm_64_
        check(t, ways[turn % len(ways)], *rest)

    for letter in "sdcz" if CONTRACT == "correct" else "dz":
        t = Type(letter)
        gamma = 0.75 - 1.5j if t.complex else 1.5
        for uplo in "UL":
            for side in "LR":
                for beta in (-0.5, 0.0):
                    each(check_symm, t, side, uplo, False, 40, 5, gamma, beta)
                    if t.complex:
                        each(check_symm, t, side, uplo, True, 40, 5, 1.25, beta)
                for trans in "NTC":
                    each(check_trmm, t, side, uplo, trans, "NU"[trans == "T"], 140, 3, -1.25)
                    if REFERENCE:
                        each(check_trsm, t, side, uplo, trans, 70, 3, 0.5)
            for trans in ("NT" if t.complex else "NTC"):
                each(check_rank, t, "syrk", uplo, trans, 135, 7, 1.5, -0.75)
                each(check_rank, t, "syr2k", uplo, trans, 135, 7, gamma, -0.75)
            for trans in ("NC" if t.complex else ""):
                each(check_rank, t, "herk", uplo, trans, 135, 7, 1.5, -0.75)
                each(check_rank, t, "her2k", uplo, trans, 135, 7, 1.5, 0.0)
                each(check_rank, t, "her2k", uplo, trans, 135, 7, gamma, -0.75)
            for trans in "NTC":
                each(check_rank, t, "gemmt", uplo, trans, 135, 7, 1.5, 0.0)
    if CONTRACT == "correct":
        check_panels("U", "L")
        check_panels("L", "R")
    if CONTRACT == "correct" and REFERENCE:
        for uplo in "UL":
            check_special("dsymm", "L" + uplo, (9, 4), ((9, 9), (9, 4), (9, 4)), "beta", (0,))
            check_special("zhemm", "R" + uplo, (4, 9), ((9, 9), (4, 9), (4, 9)), "beta", (0,))
            check_special("dsyrk", uplo + "T", (9, 4), ((4, 9), (9, 9)), "beta", (0,))
            check_special("dsyr2k", uplo + "T", (9, 4), ((4, 9), (4, 9), (9, 9)), "beta", (0,))
            for trans in "NT":
                check_special("dtrmm", "L" + uplo + trans + "N", (9, 4), ((9, 9), (9, 4)), "", (0,))
                check_special("ztrmm", "R" + uplo + trans + "U", (4, 9), ((9, 9), (4, 9)), "", (0,))
                check_special("dtrsm", "L" + uplo + trans + "U", (40, 3), ((40, 40), (40, 3)), "", (0,))
    print(checks, "checks,", failures, "failed")
    return failures != 0


sys.exit(main())
