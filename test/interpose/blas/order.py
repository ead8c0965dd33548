# SPDX-License-Identifier: BSD-3-Clause
"""Every routine under `reproducible` beside loops of fused multiply-adds in the stated order.
liblimber_blas is preloaded."""
import ctypes
import random
import struct

here = ctypes.CDLL(None)
libm = ctypes.CDLL("libm.so.6")
libm.fma.restype, libm.fma.argtypes = ctypes.c_double, [ctypes.c_double] * 3
libm.fmaf.restype, libm.fmaf.argtypes = ctypes.c_float, [ctypes.c_float] * 3
rng = random.Random(7)
CHAIN = 256
checks = failures = 0


def single(x):
    """A number rounded to binary32."""
    return struct.unpack("f", struct.pack("f", x))[0]


def total(letter, a, b):
    """Sums the products a_p b_p in chains, then adds the chains' sums."""
    fma, cut = (libm.fmaf, single) if letter in "sc" else (libm.fma, float)
    out = None
    for start in range(0, len(a), CHAIN):
        s = 0.0
        for x, y in zip(a[start:start + CHAIN], b[start:start + CHAIN]):
            s = fma(x, y, s)
        out = s if out is None else cut(out + s)
    return 0.0 if out is None else out


def scaled(letter, alpha, s, beta, c):
    """alpha s + beta c, with the roundings that Limber documents."""
    r = s if alpha == 1 else alpha * s
    r = libm.fma(beta, c, r) if beta else r
    return single(r) if letter in "sc" else r


class Matrix:
    """A column-major matrix with padding between its columns."""
    def __init__(self, letter, rows, cols):
        self.letter, self.rows, self.lead = letter, rows, rows + 2
        self.parts = 2 if letter in "cz" else 1
        kind = ctypes.c_float if letter in "sc" else ctypes.c_double
        count = self.lead * cols * self.parts
        values = [rng.uniform(-1, 1) * 2.0 ** rng.randint(-9, 9) for _ in range(count)]
        self.data = (kind * count)(*values)

    def get(self, i, j, part=0):
        """An element, or its imaginary part."""
        return self.data[(i + j * self.lead) * self.parts + part]

    def copy(self):
        """A copy with data of its own."""
        other = Matrix(self.letter, self.rows, 0)
        other.data = type(self.data)(*self.data)
        return other


def call(name, letters, sizes, rest):
    """Calls a Fortran routine."""
    f = getattr(here, name + "_")
    f.restype = None
    arguments = [ctypes.c_char_p(c.encode()) for c in letters]
    arguments += [ctypes.byref(ctypes.c_int(n)) for n in sizes]
    for x in rest:
        if isinstance(x, Matrix):
            arguments += [x.data, ctypes.byref(ctypes.c_int(x.lead))]
        else:
            arguments.append((ctypes.c_float if name[0] in "sc" else ctypes.c_double)(x)
                             if not isinstance(x, ctypes.Array) else x)
            if not isinstance(x, ctypes.Array):
                arguments[-1] = ctypes.byref(arguments[-1])
    f(*arguments, *[ctypes.c_size_t(1)] * len(letters))


def expect(what, want, c, i, j, part=0):
    """Counts a check, and reports a wrong element."""
    global checks, failures
    checks += 1
    if c.get(i, j, part) != want:
        failures += 1
        if failures < 20:
            print(f"FAILED: {what} ({i},{j}): {c.get(i, j, part).hex()}, not {want.hex()}")


def gemm(letter, m, n, k, ta, tb, alpha, beta):
    """Checks xGEMM for one choice of arguments."""
    a = Matrix(letter, m, k) if ta == "N" else Matrix(letter, k, m)
    b = Matrix(letter, k, n) if tb == "N" else Matrix(letter, n, k)
    c = Matrix(letter, m, n)
    old = c.copy()
    call(letter + "gemm", [ta, tb], [m, n, k], [alpha, a, b, beta, c])
    for i in range(m):
        for j in range(n):
            s = total(letter, [a.get(i, p) if ta == "N" else a.get(p, i) for p in range(k)],
                      [b.get(p, j) if tb == "N" else b.get(j, p) for p in range(k)])
            want = scaled(letter, alpha, s, beta, old.get(i, j))
            expect(f"{letter}gemm {m} {n} {k} {ta}{tb}", want, c, i, j)


def zgemm(m, n, k):
    """Checks ZGEMM for one size."""
    a, b, c = Matrix("z", m, k), Matrix("z", k, n), Matrix("z", m, n)
    one, nothing = (ctypes.c_double * 2)(1, 0), (ctypes.c_double * 2)(0, 0)
    call("zgemm", ["N", "N"], [m, n, k], [one, a, b, nothing, c])
    for i in range(m):
        left = [a.get(i, p, part) for p in range(k) for part in (0, 1)]
        for j in range(n):
            re = [x for p in range(k) for x in (b.get(p, j), -b.get(p, j, 1))]
            im = [x for p in range(k) for x in (b.get(p, j, 1), b.get(p, j))]
            expect(f"zgemm {m} {n} {k}", total("z", left, re), c, i, j)
            expect(f"zgemm {m} {n} {k}", total("z", left, im), c, i, j, 1)


def symmetric(letter, n, k, uplo):
    """Checks syrk and syr2k of a triangle, and symm."""
    a, b = Matrix(letter, n, k), Matrix(letter, n, k)
    wide = Matrix(letter, n, k)
    for name, left, right in (("syrk", [a], [a]), ("syr2k", [a, b], [b, a])):
        c = Matrix(letter, n, n)
        old = c.copy()
        call(letter + name, [uplo, "N"], [n, k], [1.5, *left, -0.25, c])
        for i in range(n):
            for j in range(n):
                inside = i <= j if uplo == "U" else i >= j
                s = total(letter, [x.get(i, p) for x in left for p in range(k)],
                          [x.get(j, p) for x in right for p in range(k)])
                before = old.get(i, j)
                want = scaled(letter, 1.5, s, -0.25, before) if inside else before
                expect(letter + name, want, c, i, j)
    s, c = Matrix(letter, n, n), Matrix(letter, n, k)
    call(letter + "symm", ["L", uplo], [n, k], [1.0, s, wide, 0.0, c])
    for i in range(n):
        row = [s.get(min(i, p), max(i, p)) if uplo == "U" else s.get(max(i, p), min(i, p))
               for p in range(n)]
        for j in range(k):
            expect(letter + "symm", total(letter, row, [wide.get(p, j) for p in range(n)]), c, i, j)


def triangular(letter, n, wide, uplo):
    """Checks routines of triangles by blocks of 128 rows, in which zeros are terms."""
    t, b = Matrix(letter, n, n), Matrix(letter, n, wide)
    old = b.copy()
    call(letter + "trmm", ["L", uplo, "N", "N"], [n, wide], [1.0, t, b])
    for i in range(n):
        first = i // 128 * 128
        columns = range(first, n) if uplo == "U" else range(0, min(n, first + 128))
        row = [t.get(i, p) if (i <= p if uplo == "U" else i >= p) else 0.0 for p in columns]
        for j in range(wide):
            expect(letter + "trmm", total(letter, row, [old.get(p, j) for p in columns]), b, i, j)


def zsymm(m, n, side):
    """Checks zsymm: the symmetric matrix comes first in each term, whatever the side."""
    k = m if side == "L" else n
    s, b, c = Matrix("z", k, k), Matrix("z", m, n), Matrix("z", m, n)
    one, nothing = (ctypes.c_double * 2)(1, 0), (ctypes.c_double * 2)(0, 0)
    call("zsymm", [side, "U"], [m, n], [one, s, b, nothing, c])
    for i in range(m):
        for j in range(n):
            line = i if side == "L" else j
            left = [s.get(min(line, p), max(line, p), part) for p in range(k) for part in (0, 1)]
            right = [[b.get(p, j, part) if side == "L" else b.get(i, p, part) for part in (0, 1)]
                     for p in range(k)]
            re = [x for r in right for x in (r[0], -r[1])]
            im = [x for r in right for x in (r[1], r[0])]
            expect(f"zsymm {side} {m} {n}", total("z", left, re), c, i, j)
            expect(f"zsymm {side} {m} {n}", total("z", left, im), c, i, j, 1)


SIZES = ((1, 1, 1), (2, 3, 2), (5, 4, 300), (17, 9, 64), (8, 8, 256), (3, 33, 257), (20, 20, 20))
SCALARS = ((1.0, 0.0), (1.0, 1.0), (-0.75, 0.0), (2.5, -1.25))
for letter in "ds":
    for at, size in enumerate(SIZES):
        for ops in range(4):
            gemm(letter, *size, "NT"[ops & 1], "NT"[ops >> 1], *SCALARS[(at + ops) % 4])
    for uplo in "UL":
        symmetric(letter, 9, 140, uplo)
        triangular(letter, 270, 2, uplo)
for size in ((1, 1, 1), (3, 5, 2), (6, 4, 150), (2, 9, 128)):
    zgemm(*size)
for side in "LR":
    zsymm(7, 5, side)
    zsymm(3, 150, side)
print(f"{checks} checks, {failures} failed")
