# SPDX-License-Identifier: BSD-3-Clause
"""limber.numpy: every loop and type against NumPy's own, bit for bit, in all ways that arrays can
lie; warnings, threads, fork, and what installing and removing leave behind.  The environment names
the library.  `whole` as the argument: more sizes and all instruction sets."""
import contextlib
import ctypes
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import unittest
import warnings
from fractions import Fraction

import numpy as np

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import tell_skips

import limber.numpy
from limber import _loops

WHOLE = "whole" in sys.argv[1:]
INTEGERS = "bBhHiIlLqQ"
TYPES = "?" + INTEGERS + "e"
UFUNCS = [name for name in ("matmul", "vecdot", "matvec", "vecmat") if hasattr(np, name)]
# the last numbers of 15 and of 31 bits, and the first of more; equal ones, whose sums grow
EDGES = [[-1 << 15, (1 << 15) - 1, (1 << 15) - 2], [1 << 15, -1 - (1 << 15)],
         [-1 << 31, (1 << 31) - 1, (1 << 31) - 2], [1 << 31, -1 - (1 << 31), 1], [1 << 13]]
random = np.random.default_rng(int(os.environ.get("LIMBER_SEED", "1")))


@contextlib.contextmanager
def installed(**options):
    """Replaces NumPy's loops while the block runs."""
    limber.numpy.install(**options)
    try:
        yield
    finally:
        limber.numpy.remove()


def numbers(letter, shape, kind=0):
    """Random elements.  kind 0: of all values; 1: few bits; 2: zeros, ends of the range, NaN; 3 and
    more: those of EDGES."""
    if letter == "?":
        return random.random(shape) < (0.5, 0.05, 1)[kind]
    if kind > 2:
        return random.choice(EDGES[kind - 3], shape).astype(letter)
    if letter in "eg":
        a = random.standard_normal(shape) * (1, 0.001, 300)[kind]
        a = a.astype(letter)
        if kind == 2 and a.size:
            flat = a.reshape(-1)    # a view, as a was just made
            flat[random.integers(0, a.size, a.size // 9 + 1)] = 0
            flat[random.integers(0, a.size, 2)] = [np.inf, -np.inf]
            flat[random.integers(0, a.size, 1)] = np.nan
        return a
    ends = np.iinfo(letter)
    if kind == 1:
        return random.integers(max(ends.min, -128), min(ends.max, 127), shape).astype(letter)
    a = random.integers(ends.min, ends.max, shape, dtype=np.dtype(letter), endpoint=True)
    if kind == 2:
        choice = np.array([ends.min, ends.max, 0, 1], letter)
        a = choice[random.integers(0, 4, shape)]
    return a


def result(compute):
    """Returns bytes, type and shape of a case's result, and its warnings or its error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            c = compute()
        except Exception as error:      # the same is to be raised
            return type(error), str(error)
    if isinstance(c, np.ma.MaskedArray):
        c = c.filled(0)
    c = np.asarray(c)
    if c.dtype.char == "g":     # without the bytes that are no part of the numbers
        digits = np.ascontiguousarray(c).reshape(-1).view("u1").reshape(-1, c.itemsize)[:, :10]
        return c.dtype, c.shape, digits.tobytes(), sorted(str(w.message) for w in caught)
    return c.dtype, c.shape, c.tobytes(), sorted(str(w.message) for w in caught)


class Case(unittest.TestCase):
    """A test that compares Limber's loops with NumPy's."""
    def compare(self, cases, uses=("all",), **options):
        """Runs (name, function) with NumPy's loops and with Limber's, by each set of
        instructions."""
        cases = list(cases)
        wanted = [result(compute) for _, compute in cases]
        for use in uses:
            with installed(**options):
                _loops._library.limber_numpy_use(use.encode())
                got = [result(compute) for _, compute in cases]
                _loops._library.limber_numpy_use(b"all")
            self.same_results([f"{use}: {name}" for name, _ in cases], wanted, got)

    def same_results(self, names, wanted, got):
        """Fails with the name of the first case whose bytes, type, shape or warnings differ."""
        for name, a, b in zip(names, wanted, got):
            if a != b:
                self.fail(f"{name}: {a[:2]} {a[3:]} became {b[:2]} {b[3:]}, bytes {a[2:][:32]} "
                          f"became {b[2:][:32]}")

    def setUp(self):
        self.assertFalse(limber.numpy.installed())

    def tearDown(self):
        self.assertFalse(limber.numpy.installed())


def sets():
    """Names of instruction sets that this CPU has."""
    limber.numpy.install()
    limber.numpy.remove()
    use = _loops._library.limber_numpy_use
    names = {use(name).decode() for name in (b"plain", b"avx2", b"all")}
    use(b"all")
    return sorted(names)


SIZES = [1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 64, 100]


def shapes(letter):
    """Extents m, k, n: squares, thin and long ones, and random ones."""
    for n in (range(1, 101) if WHOLE else SIZES):
        yield n, n, n
    for m, k, n in ((1, 300, 1), (1, 40, 70), (70, 40, 1), (3, 200, 90), (90, 200, 3), (40, 1, 40),
                    (2, 700, 2), (33, 300, 29), (5, 600, 129), (400, 5, 270)):
        yield m, k, n
    for _ in range(150 if WHOLE else 12):
        yield tuple(int(x) for x in random.integers(1, 90, 3))
    if letter in "be" or WHOLE:
        yield 420, 260, 300     # several blocks in each direction


class Values(Case):
    """The values of products of every type."""
    def cases(self, letter):
        """Products of many sizes: yields a name and a function for each."""
        for m, k, n in shapes(letter):
            for kind in range(3 + len(EDGES) if letter in "ilLqQ" else 3):
                a, b = numbers(letter, (m, k), kind), numbers(letter, (k, n), kind)
                yield f"{letter} {m} {k} {n} kind {kind}", lambda a=a, b=b: np.matmul(a, b)
                if k * m * n > 40**3:
                    continue
                at, bt = np.asfortranarray(a), np.asfortranarray(b)
                yield f"{letter} {m} {k} {n} kind {kind} Fortran", lambda a=at, b=bt: a @ b
                x, y = numbers(letter, k, kind), numbers(letter, m, kind)
                yield f"{letter} {m} {k} vector", lambda a=a, x=x: a @ x
                yield f"{letter} {m} {k} vector, Fortran", lambda a=at, x=x: a @ x
                yield f"{letter} {m} {k} from the left", lambda a=a, y=y: y @ a
                yield f"{letter} {k} dot", lambda x=x, a=a: a[0] @ x

    def test_values(self):
        """Limber's loops have NumPy's results for every type and set of instructions."""
        for letter in TYPES:
            with self.subTest(letter=letter):
                self.compare(self.cases(letter), sets() if WHOLE or letter in "?bile" else ["all"])

    def test_other_ufuncs(self):
        """matvec, vecmat and vecdot have NumPy's results."""
        def cases():
            for letter in TYPES:
                for m, k in ((1, 1), (3, 700), (40, 40), (64, 129), (5, 16), (200, 3)):
                    a, x = numbers(letter, (m, k)), numbers(letter, k)
                    y, stack = numbers(letter, m), numbers(letter, (7, m, k))
                    if "vecdot" in UFUNCS:
                        yield f"vecdot {letter}", lambda a=a, x=x: np.vecdot(a, x)
                        yield f"vecdot {letter} axis", lambda a=a, y=y: np.vecdot(a.T, y)
                        yield f"vecdot {letter}", lambda a=a, s=stack: np.vecdot(s, a)
                    if "matvec" in UFUNCS:
                        yield f"matvec {letter}", lambda a=a, x=x: np.matvec(a, x)
                        yield f"matvec {letter}", lambda s=stack, x=x: np.matvec(s, x)
                        yield f"vecmat {letter}", lambda a=a, y=y: np.vecmat(y, a)
                        yield f"vecmat {letter}", lambda s=stack, y=y: np.vecmat(y, s)
        self.compare(cases())

    def test_large(self):
        """Products that Limber's own kernels compute."""
        def cases():
            for letter, n in ("b", 420), ("B", 420), ("l", 830), ("h", 830):
                a, b = numbers(letter, (n, n), 1), numbers(letter, (n, n), 1)
                yield f"{letter} {n}", lambda a=a, b=b: a @ b
                yield f"{letter} {n} Fortran", lambda a=a, b=b: a.T @ b
                if letter == "b":
                    out = np.zeros((2 * n, n), letter)
                    yield f"{letter} {n} out", lambda a=a, b=b, o=out: np.matmul(a, b, out=o[::2])
        self.compare(list(cases())[:None if WHOLE else 6])


class Layouts(Case):
    """Products of arrays with any strides."""
    def cases(self, letter):
        """Products of arrays with unusual layouts: yields a name and a function for each."""
        m, k, n = 37, 43, 29
        a, b = numbers(letter, (m, k)), numbers(letter, (k, n))
        wide = numbers(letter, (2 * m, 3 * k))
        long = numbers(letter, (2 * k, 2 * n))
        yield "steps", lambda: wide[::2, ::3] @ long[::2, ::2]
        yield "backward", lambda: wide[::-2, ::-3] @ b[::-1, ::-1]
        yield "backward vector", lambda: a @ long[::-2, 3]
        yield "broadcast rows", lambda: np.broadcast_to(a[0], (m, k)) @ b
        yield "broadcast columns", lambda: a @ np.broadcast_to(b[:, :1], (k, n))
        yield "broadcast element", lambda: np.broadcast_to(a[0, 0], (m, k)) @ b
        swapped = a.astype(a.dtype.newbyteorder())
        yield "byte order", lambda: swapped @ b
        yield "both byte orders", lambda: swapped @ b.astype(b.dtype.newbyteorder())
        raw = np.zeros(a.nbytes + 1, "u1")
        odd = raw[1:].view(a.dtype).reshape(a.shape)
        odd[...] = a
        yield "unaligned", lambda: odd @ b
        stack, other = numbers(letter, (3, 1, m, k)), numbers(letter, (5, k, n))
        yield "stacks", lambda: stack @ other
        yield "stack and matrix", lambda: stack @ b
        yield "matrix and stack", lambda: a @ other
        yield "stack and vector", lambda: stack @ b[:, 0]
        yield "strided stack", lambda: numbers_of(stack)[::-2] @ other[::2][:1]
        yield "axes", lambda: np.matmul(a, b, axes=[(0, 1), (0, 1), (1, 0)])
        yield "other axes", lambda: np.matmul(stack, other, axes=[(-2, -1), (-2, -1), (0, 1)])
        for name, out in (("C", np.zeros((m, n), letter)),
                          ("Fortran", np.zeros((n, m), letter).T),
                          ("steps", np.zeros((2 * m, 3 * n), letter)[::2, ::-3]),
                          ("byte order", np.zeros((m, n), np.dtype(letter).newbyteorder()))):
            yield f"out {name}", lambda o=out: np.matmul(a, b, out=o)
        yield "out of another type", lambda: np.matmul(a, b, out=np.zeros((m, n), "d"),
                                                      casting="unsafe")
        square = numbers(letter, (41, 41))
        for name, out in ("itself", slice(None)), ("a part", slice(1, None)):
            def overlap(out=out):
                """A product whose result overlaps its operands."""
                copy = np.concatenate([square, square])
                np.matmul(copy[:41], copy[41 - (out.start or 0):][:41], out=copy[out][:41])
                return copy
            yield f"overlap {name}", overlap
        def onto():
            """A product that overwrites an operand."""
            copy = square.copy()
            np.matmul(copy, copy.T, out=copy)
            return copy
        yield "out = a", onto
        yield "empty rows", lambda: a[:0] @ b
        yield "empty columns", lambda: a @ b[:, :0]
        yield "empty sums", lambda: a[:, :0] @ b[:0]
        yield "empty stack", lambda: stack[:0] @ other[:0]
        yield "wrong extents", lambda: a @ a
        yield "matrix", lambda: np.asmatrix(a) @ np.asmatrix(b)
        yield "power", lambda: np.linalg.matrix_power(square, 5)
        mask = random.random((m, k)) < 0.2
        yield "masked", lambda: np.ma.masked_array(a, mask) @ np.ma.masked_array(b)
        yield "einsum", lambda: np.einsum("ij,jk->ik", a, b, optimize=True)

    def test_layouts(self):
        """Operands and results of all layouts."""
        for letter in TYPES:
            with self.subTest(letter=letter):
                self.compare(self.cases(letter))

    def test_types(self):
        """All pairs of types, also those that Limber leaves to NumPy."""
        def cases():
            """Products of two types."""
            for x in TYPES + "fd":
                for y in TYPES + "fd":
                    a, b = numbers_in(x, (21, 24)), numbers_in(y, (24, 30))
                    yield f"{x} {y}", lambda a=a, b=b: a @ b
            a, b = numbers("b", (30, 30)), numbers("b", (30, 30))
            yield "dtype", lambda: np.matmul(a, b, dtype="l")
            yield "dtype e", lambda: np.matmul(a, b, dtype="e", casting="unsafe")
            yield "object", lambda: (a.astype(object) @ b.astype(object)).astype("l")
        self.compare(cases())

    def test_true_bytes(self):
        """Truth values of which any byte but 0 is true."""
        a = random.integers(0, 4, (70, 70)).astype("u1").view("?")
        b = random.integers(0, 3, (70, 70)).astype("u1").view("?")
        sparse = a.copy()
        sparse.view("u1")[random.random((70, 70)) < 0.9] = 0
        last = np.zeros((5, 300), "?")
        last.view("u1")[:, 250] = [1, 2, 4, 0, 6]
        self.compare([("bytes", lambda: a @ b), ("sparse", lambda: sparse @ b),
                      ("thin", lambda: sparse[:20] @ sparse[:, :20].copy()),
                      ("vector", lambda: last @ last[0])])


def numbers_of(stack):
    """A stack of twice as many matrices."""
    return np.concatenate([stack, stack])


def numbers_in(letter, shape):
    """Random numbers of any type, Limber's or not."""
    return (numbers(letter, shape, 1) if letter in TYPES else
            random.standard_normal(shape).astype(letter))


class Halves(Case):
    """Products of float16."""
    def all_ways(self, a, b):
        """Yields a product of a and b through each function and layout."""
        yield "plain", lambda: a @ b
        yield "Fortran", lambda: np.asfortranarray(a) @ np.asfortranarray(b)
        yield "vector", lambda: a @ b[:, 0].copy()
        yield "from the left", lambda: a[0] @ b
        yield "few rows", lambda: a[:2] @ b
        yield "dot", lambda: a[0] @ b[:, 0].copy()

    def test_special_values(self):
        """NaN of all kinds, infinities, and zeros of both signs, with their warnings."""
        def cases():
            """Products of arrays with special values."""
            for _ in range(20 if WHOLE else 4):
                for m, k, n in ((33, 40, 50), (64, 300, 70), (7, 600, 9)):
                    a, b = (random.integers(0, 1 << 16, shape).astype("u2").view("e")
                            for shape in ((m, k), (k, n)))
                    yield from self.all_ways(a, b)
                    for values in ([0x7c00, 0, 1], [0xfc00, 0x3c00], [0x7c01, 0x3c00], [0x8000],
                                   [0x7e00, 0xfe01, 0x3c00], [0x7bff, 0xfbff]):
                        c = numbers("e", (m, k))
                        at = random.random((m, k)) < 0.02
                        c[at] = random.choice(np.array(values, "u2").view("e"), at.sum())
                        yield from self.all_ways(c, numbers("e", (k, n)))
                        yield from self.all_ways(c, np.abs(numbers("e", (k, n))))
        self.compare(cases())

    def test_exceptions(self):
        """Overflow, underflow and invalid operations raise, warn or call back as NumPy's settings
        say."""
        big, tiny = np.full((40, 40), 300, "e"), np.full((40, 40), 6e-8, "e")
        just = np.full((40, 40), np.sqrt(65504 / 40), "e")
        near = np.zeros((40, 40), "e")      # rounds up to the smallest normal number
        near[:, 0], near[:, 1] = 2**-7, 2**-12
        close = np.zeros((40, 40), "e")
        close[0], close[1] = 2**-7, -2**-14
        one = np.ones((40, 40), "e")
        sets = {"big": (big, big), "tiny": (tiny, tiny), "just": (just, just),
                "near": (near, close), "fine": (one, one), "subnormal": (tiny, one),
                "inf": (one * np.inf, one), "invalid": (one * np.inf, one * 0)}
        for mode in ("warn", "raise", "ignore"):
            for kind in ("over", "under", "invalid", "all"):
                def cases():
                    """Products that overflow, underflow or are invalid, in each mode of errors."""
                    for name, (a, b) in sets.items():
                        for way, compute in self.all_ways(a, b):
                            def under(compute=compute):
                                """The product while NumPy treats errors of this kind in this
                                way."""
                                with np.errstate(**{kind: mode}):
                                    return compute()
                            yield f"{name} {way} {kind}={mode}", under
                self.compare(cases())
        with installed(), np.errstate(over="raise"), self.assertRaises(FloatingPointError):
            big @ big

    def test_order_of_sums(self):
        """Sums in order in binary32, rounded once, written without NumPy's product."""
        a, b = numbers("e", (20, 333), 2), numbers("e", (333, 24), 0)
        a[~np.isfinite(a)] = 1
        sums = np.zeros((20, 24), "f")
        for p in range(333):
            sums = sums + a[:, p:p + 1].astype("f") * b[p].astype("f")
        with installed():
            self.assertTrue((a @ b == sums.astype("e")).all())


def exact_longdouble(x):
    """A Fraction, rounded to the nearest long double."""
    if x == 0:
        return np.longdouble(0)
    digits, least = np.finfo("g").nmant + 1, int(np.finfo("g").minexp) - np.finfo("g").nmant
    magnitude = abs(x)
    e = magnitude.numerator.bit_length() - magnitude.denominator.bit_length() - digits
    while magnitude >= Fraction(2)**(e + digits):
        e += 1
    while magnitude < Fraction(2)**(e + digits - 1):
        e -= 1
    e = max(e, least)
    units = round(magnitude / Fraction(2)**e)     # ties to even
    high, low = divmod(units, 1 << 32)
    value = np.ldexp(np.longdouble(high), 32) + np.longdouble(low)      # exact
    with np.errstate(all="ignore"):
        value = np.ldexp(np.ldexp(value, e // 2), e - e // 2) if e > -16000 else \
            np.ldexp(value, e)
    return -value if x < 0 else value


def fraction(x):
    """A long double as a Fraction."""
    mantissa, e = np.frexp(x)
    units = int(np.ldexp(mantissa, 64).astype("u8") if mantissa >= 0 else
                -int(np.ldexp(-mantissa, 64).astype("u8")))
    return Fraction(units) * Fraction(2)**(int(e) - 64)


@unittest.skipUnless(np.finfo("g").nmant == 63, "long doubles have other digits")
class LongDoubles(Case):
    """Products of long doubles are exact sums, rounded once."""
    def check(self, a, b):
        """Compares each element with the rounded exact sum."""
        with installed(longdouble=True):
            before = limber.numpy.calls()[0]
            c = a @ b
            self.assertGreater(limber.numpy.calls()[0], before)
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                wanted = exact_longdouble(sum((fraction(x) * fraction(y)
                                               for x, y in zip(a[i], b[:, j])), Fraction(0)))
                self.assertEqual(wanted, c[i, j], (i, j))

    def random(self, shape):
        """Random long doubles with more bits than doubles have."""
        a = random.standard_normal(shape).astype("g")
        return a + random.standard_normal(shape).astype("g") * np.longdouble(2)**-53

    def test_rounded_once(self):
        """Each element is the exact value, rounded once."""
        for m, k, n in ((1, 1, 1), (3, 5, 2), (1, 30, 4), (12, 9, 7), (2, 200, 2)):
            self.check(self.random((m, k)), self.random((k, n)))
        wide = self.random((6, 20)) * np.longdouble(2)**random.integers(-60, 60, (6, 20))
        self.check(wide, self.random((20, 6)))
        self.check(self.random((9, 8))[::2, ::-1], self.random((5, 8)).T)

    def test_ties(self):
        """Sums exactly between two long doubles, and slightly above or below."""
        one = np.longdouble(1)
        for little in (0, one * 2.0**-200, -one * 2.0**-200):
            for odd in (0, 1):
                a = np.array([[one * 2.0**63 + odd, one / 2, little],
                              [-one * 2.0**63 - odd, -one / 2, -little]])
                self.check(a, np.ones((3, 1), "g"))
        least = np.finfo("g").smallest_subnormal
        for times in (0.5, 1.5, 2.5, 0.75):
            self.check(np.array([[one * times]]), np.array([[least]]))
        largest = np.finfo("g").max
        for share in (-1, 0, 1):
            half = np.ldexp(one, 16384 - 65)
            a = np.array([[largest, half, np.longdouble(share)]])
            with installed(longdouble=True), np.errstate(over="ignore"):
                c = a @ np.ones((3, 1), "g")
            self.assertEqual(c[0, 0], largest if share < 0 else np.inf)

    def test_special_values(self):
        """Infinities, NaN, overflow, signs of zeros, and empty arrays."""
        a, b = np.ones((4, 4), "g"), np.ones((4, 4), "g")
        a[0, 0], a[1, 1], a[2, 2] = np.inf, np.nan, -np.inf
        b[0, 2] = 0
        zero = np.zeros((3, 3), "g")
        self.compare([("special", lambda: np.isnan(a @ b)), ("inf", lambda: np.isinf(a @ b)),
                      ("overflow", lambda: (a[3:] * np.finfo("g").max) @ b > 1),
                      ("zeros", lambda: np.signbit(zero @ -zero)),
                      ("empty", lambda: a[:, :0] @ b[:0]),
                      ("stack", lambda: np.ones((3, 4, 4), "g") @ np.ones((4, 4), "g")),
                      ("vectors", lambda: np.ones((5, 4), "g") @ np.ones(4, "g"))],
                     longdouble=True)
        with installed(longdouble=True), np.errstate(over="raise"), \
                self.assertRaises(FloatingPointError):
            (b * np.finfo("g").max) @ b

    def test_not_by_default(self):
        """Long doubles keep NumPy's loops unless they are asked for."""
        a = self.random((20, 20))
        self.compare([("longdouble", lambda: a @ a)])


class Functions(Case):
    """NumPy functions that multiply internally give the same results."""
    def test_functions(self):
        """dot, inner and functions that call them have NumPy's values and types."""
        def cases():
            """Calls of NumPy's functions."""
            for letter in TYPES:
                a, b = numbers(letter, (30, 40)), numbers(letter, (40, 50))
                x, stack = numbers(letter, 40), numbers(letter, (3, 40, 5))
                yield "dot", lambda a=a, b=b: np.dot(a, b)
                yield "dot vector", lambda a=a, x=x: np.dot(a, x)
                yield "dot vectors", lambda x=x: np.dot(x, x)
                yield "dot stack", lambda a=a, s=stack: np.dot(a, s)
                yield "dot stack first", lambda b=b, s=stack: np.dot(np.moveaxis(s, 1, 2), b)
                yield "dot number", lambda a=a: np.dot(a, a[0, 0])
                yield "dot out", lambda a=a, b=b: np.dot(a, b, out=np.empty((30, 50), a.dtype))
                yield "dot bad out", lambda a=a, b=b: np.dot(a, b, out=np.empty((30, 50), "D"))
                yield "dot keywords", lambda a=a, b=b: np.dot(a=a, b=b, out=None)
                yield "dot wrong", lambda a=a: np.dot(a, a)
                yield "dot lists", lambda: np.dot([[1, 2]], [3, 4])
                yield "dot empty", lambda a=a: np.dot(a[:, :0], a[:0])
                yield "inner", lambda a=a, b=b: np.inner(a, b.T)
                yield "inner vector", lambda a=a, x=x: np.inner(a, x)
                yield "tensordot", lambda a=a, s=stack: np.tensordot(a, s, ([1], [1]))
                yield "tensordot of two axes", lambda s=stack: np.tensordot(s, s, 2)
                yield "multi_dot", lambda a=a, b=b: np.linalg.multi_dot([a, b, b.T])
                yield "method", lambda a=a, b=b: a.dot(b)
                yield "vdot", lambda x=x: np.vdot(x, x)
        cases = list(cases())
        # warnings are left out: an overflow is named after the function that computes
        wanted = [result(compute) for _, compute in cases]
        with installed(dot=True):
            before = limber.numpy.calls()[0]
            np.dot(np.ones((40, 40), int), np.ones((40, 40), int))
            np.tensordot(np.ones((40, 40), int), np.ones((40, 40), int), 1)
            np.linalg.multi_dot([np.ones((40, 40), int)] * 3)
            np.inner(np.ones((40, 40), int), np.ones((40, 40), int))
            self.assertEqual(limber.numpy.calls()[0], before + 5)
            got = [result(compute) for _, compute in cases]
        self.same_results([name for name, _ in cases], [x[:3] for x in wanted],
                          [x[:3] for x in got])
        self.assertNotIn("limber", np.dot.__class__.__module__ + str(np.inner))

    def test_names(self):
        """Options dot and inner also replace these functions, until removal."""
        dot, inner = np.dot, np.inner
        with installed(dot=True):
            self.assertIsNot(np.dot, dot)
            self.assertEqual((np.dot.__name__, np.inner.__name__), ("dot", "inner"))
            self.assertIn("Dot product", np.dot.__doc__)
        self.assertIs(np.dot, dot)
        self.assertIs(np.inner, inner)
        with installed():
            self.assertIs(np.dot, dot)


class Installing(Case):
    """Installing and removing the loops."""
    def product(self):
        """Whether Limber computes a product."""
        a = np.ones((40, 40), int)
        before = limber.numpy.calls()[0]
        self.assertTrue((a @ a == 40).all())
        return limber.numpy.calls()[0] > before

    def test_install_and_remove(self):
        """install and remove may be called in any order and repeatedly."""
        self.assertFalse(self.product())
        limber.numpy.install()
        self.assertTrue(limber.numpy.installed() and self.product())
        limber.numpy.install()      # nothing more happens
        limber.numpy.install(longdouble=True)
        self.assertTrue(self.product())
        self.assertEqual(len(_loops._replaced), 13 * len(UFUNCS))
        limber.numpy.remove()
        self.assertFalse(limber.numpy.installed() or self.product())
        limber.numpy.remove()

    def test_small_products_stay(self):
        """Small products go to NumPy's loops."""
        a = np.ones((3, 3), int)
        with installed():
            before = limber.numpy.calls()
            a @ a
            after = limber.numpy.calls()
        self.assertEqual((after[0] - before[0], after[1] - before[1]), (0, 1))

    def test_unknown_version(self):
        """Versions of NumPy that are not supported are refused."""
        version = np.__version__
        for other in ("1.23.5", "2.99.0", "3.0.0rc1"):
            np.__version__ = other
            try:
                with self.assertRaisesRegex(RuntimeError, f"NumPy {re.escape(other)} is none of"):
                    limber.numpy.install()
            finally:
                np.__version__ = version
            self.assertFalse(limber.numpy.installed() or self.product())

    def test_failing_install(self):
        """A ufunc that is none, or whose loop computes something else: NumPy is as it was."""
        had = hasattr(np, "vecdot")
        before = getattr(np, "vecdot", None)
        np.vecdot = lambda a, b: a
        try:
            with self.assertRaisesRegex(RuntimeError, "numpy.vecdot is another"):
                limber.numpy.install()
        finally:
            if had:
                np.vecdot = before
            else:
                del np.vecdot
        self.assertFalse(limber.numpy.installed() or self.product())
        matmul = np.matmul
        np.matmul = np.add
        try:
            with self.assertRaisesRegex(RuntimeError, "numpy.matmul is another"):
                limber.numpy.install()
        finally:
            np.matmul = matmul
        self.assertFalse(limber.numpy.installed() or self.product())
        self.assertEqual(int(np.add(2, 3)), 5)

    def test_another_copy(self):
        """Loops that another copy of Limber has replaced since stay, and are named."""
        with installed():
            pass
        with tempfile.TemporaryDirectory() as folder:
            file = shutil.copy(_loops._library._name, folder)
            spec = importlib.util.spec_from_file_location("other_loops", _loops.__file__)
            other = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(other)
            try:
                other.load(file)
            except OSError:     # it finds liblimber beside its own folder
                self.skipTest("the library cannot be copied")
            limber.numpy.install()
            other.install(False, False)
            with self.assertRaisesRegex(RuntimeError, "by somebody else since.*numpy.matmul b"):
                limber.numpy.remove()
            self.assertGreater(self.computed(other), 0)
            other.remove()
            limber.numpy.install()
            limber.numpy.remove()
            self.assertFalse(self.product())

    def computed(self, other):
        """How many calls Limber computed for a product of integers."""
        before = other.calls()[0]
        a = np.ones((40, 40), int)
        self.assertTrue((a @ a == 40).all())
        return other.calls()[0] - before

    def test_no_library(self):
        """A missing library is named."""
        spec = importlib.util.spec_from_file_location("other_loops", _loops.__file__)
        other = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(other)
        with self.assertRaisesRegex(RuntimeError, "there is no /none"):
            other.load("/none")


class Threads(Case):
    """Loops that are replaced while threads compute."""
    def test_threads(self):
        """Threads multiply while loops are replaced and put back."""
        wrong, stop = [], threading.Event()
        work = [(numbers(t, (50, 60), 1), numbers(t, (60, 40), 1)) for t in "?bile"]
        work = [(a, b, a @ b) for a, b in work]

        def multiply():
            """Multiplies until told to stop."""
            while not stop.is_set():
                for a, b, c in work:
                    if not (np.matmul(a, b) == c).all():
                        wrong.append(a.dtype)

        threads = [threading.Thread(target=multiply) for _ in range(3)]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        for thread in threads:
            thread.start()
        for _ in range(100 if WHOLE else 10):
            limber.numpy.install()
            limber.numpy.remove()
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
        self.assertEqual(wrong, [])

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_fork(self):
        """Children of a fork compute, whether or not the parent has computed before."""
        small, large = numbers("l", (60, 60)), numbers("b", (420, 420), 1)
        half = numbers("e", (60, 60))
        wanted = [small @ small, large @ large, half @ half]
        with installed(longdouble=True), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)     # fork beside threads
            for first in (False, True):     # whether the parent computed before
                if first:
                    large @ large
                child = os.fork()
                if child == 0:
                    got = [small @ small, large @ large, half @ half]
                    ok = all((x == y).all() for x, y in zip(wanted, got))
                    one = np.ones((3, 3), "g")
                    os._exit(0 if ok and (one @ one == 3).all() else 1)
                self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_without_the_lock(self):
        """A product lets other threads of Python run."""
        a = numbers("l", (300, 300))
        count, done = [0], threading.Event()

        def tick():
            """Counts as long as it gets the interpreter's lock."""
            while not done.is_set():
                count[0] += 1
                time.sleep(0)

        interval = sys.getswitchinterval()
        with installed():
            thread = threading.Thread(target=tick)
            thread.start()
            sys.setswitchinterval(1000)     # no thread is forced to release the lock
            try:
                for _ in range(1000):
                    before = count[0]
                    a @ a
                    if count[0] > before:
                        break
                self.assertGreater(count[0], before)
            finally:
                done.set()
                sys.setswitchinterval(interval)
                thread.join()


if __name__ == "__main__":
    ctypes.pythonapi    # CPython
    tell_skips.main(argv=[sys.argv[0], *(x for x in sys.argv[1:] if x != "whole")])
