# SPDX-License-Identifier: BSD-3-Clause
"""Tests the Python package with exact fractions.

usage: test_python.py LAYOUT-PROGRAM [options of unittest]"""
import array
import ctypes
import inspect
import itertools
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from fractions import Fraction

if os.environ.get("LIMBER_TEST_NO_NUMPY"):
    sys.modules["numpy"] = None     # makes `import numpy` fail
try:
    import numpy
except ImportError:
    numpy = None
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import tell_skips

import limber
from limber import _library, _product

if numpy:
    from limber import interval

_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

LAYOUT = sys.argv.pop(1)
random.seed(20)


def product(a, b):
    """Multiplies nested lists exactly."""
    return [[sum(Fraction(x) * Fraction(y) for x, y in zip(row, column)) for column in zip(*b)]
            for row in a]


def draw(rows, cols, spread=30):
    """Draws a matrix of doubles with exponents from about -spread to spread."""
    return [[random.uniform(-1, 1) * 2.0 ** random.randint(-spread, spread)
             for _ in range(cols)] for _ in range(rows)]


def buffer(rows, code="d"):
    """Returns nested lists as a memoryview with two axes."""
    flat = array.array(code, [x for row in rows for x in row])
    return memoryview(flat).cast("B").cast(code, (len(rows), len(rows[0])))


def rounded(rows):
    """Rounds fractions to doubles."""
    return [[float(x) for x in row] for row in rows]    # Fraction to float rounds to nearest-even


class Background(unittest.TestCase):
    """A context with background compilation computes before its kernel is compiled."""
    def test_matmul_begins_without_its_kernel(self):
        a, b = draw(4, 5, 300), draw(5, 6, 300)
        with limber.Context(cache_dir="", background=True, contract="correct") as ctx:
            for _ in range(3):
                c = ctx.matmul(buffer(a), buffer(b))
                self.assertEqual(memoryview(c).tolist(), rounded(product(a, b)))


class Layout(unittest.TestCase):
    """The structures of _library.py are those of the C headers."""
    def test_structures_are_those_of_the_c_compiler(self):
        text = subprocess.run([LAYOUT, "all"], capture_output=True, text=True, check=True).stdout
        expected = {tuple(line.split()) for line in text.splitlines()}
        found = set()
        for name, kind in _library.STRUCTURES.items():
            found.add((name, "-", "0", str(_library.ctypes.sizeof(kind))))
            for field, *_ in kind._fields_:
                place = getattr(kind, field)
                found.add((name, field, str(place.offset), str(place.size)))
        self.assertEqual(found, expected)

    def test_every_status_has_its_exception(self):
        """The enumeration Status has the library's names."""
        for status in limber.Status:
            self.assertEqual(_library.lib.limber_status_name(status).decode(), status.name)


class Hints(unittest.TestCase):
    """Tests the annotations that type checkers read."""

    def test_fields_are_those_of_the_structures(self):
        lib, without = _library, {"size", "part", "part_room", "part_size", "tile", "tile_rows",
                                  "tile_cols", "compare", "swamped_only"}
        for kind, made in ((limber.Report, lib.Report), (limber.Part, lib.Part),
                           (limber.Inspection, lib.Inspection), (limber.Tile, lib.Tile),
                           (limber.FormatFacts, lib.FormatFacts),
                           (limber.Statistics, lib.Statistics),
                           (limber.Distribution, lib.Distribution),
                           (limber._reports.CacheInfo, lib.CacheInfo),
                           (limber._reports.CacheEntry, lib.CacheEntry)):
            fields = [{"from": "found"}.get(name, name) for name, *_ in made._fields_
                      if name not in without]
            self.assertEqual(list(kind._fields), fields + ["tiles"] * (kind is limber.Inspection))
            self.assertEqual(list(kind.__annotations__), list(kind._fields))

    def functions(self):
        """Yields all public functions with their names."""
        modules = [limber]
        if numpy:
            from limber import ops
            modules.append(ops)
        for module in modules:
            for name in module.__all__:
                what = getattr(module, name)
                if inspect.isfunction(what):
                    yield name, what
                elif inspect.isclass(what) and not issubclass(what, (tuple, Exception, int)):
                    for member, of in inspect.getmembers(what):
                        of = of.fget if isinstance(of, property) else of
                        public = member[:1] != "_" or (member[:2] == "__" and member in vars(what))
                        if public and (inspect.isfunction(of) or inspect.ismethod(of)):
                            yield f"{name}.{member}", of

    def test_everything_public_has_hints(self):
        seen = 0
        for name, what in self.functions():
            signature, seen = inspect.signature(what), seen + 1
            if name.startswith("Operand.__init__"):     # made by Context.prepare
                continue
            empty = [p.name for p in signature.parameters.values()
                     if p.annotation is p.empty and p.name not in ("self", "cls", "_")]
            self.assertEqual((empty, signature.return_annotation is signature.empty), ([], False), name)
        self.assertGreater(seen, 60)

    def test_the_package_says_that_it_has_hints(self):
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(limber.__file__), "py.typed")))


class Interpreter(unittest.TestCase):
    """The library must release Python's global lock while it computes."""

    def test_others_run_meanwhile(self):
        steps, over, lib = [0], threading.Event(), _library.lib
        source, target = (ctypes.c_double * 100000)(), (ctypes.c_double * 100000)()
        f64 = limber._buffer.format_named("f64")

        def count():
            """Counts as long as it gets the interpreter's lock."""
            while not over.is_set():
                steps[0] += 1
                time.sleep(0)       # releases the lock; nothing else makes a thread do so

        before, other = sys.getswitchinterval(), threading.Thread(target=count)
        try:
            sys.setswitchinterval(3600)
            other.start()
            for _ in range(1000):
                start = steps[0]
                lib.limber_convert(target, f64, source, f64, len(source), 0)
                if steps[0] > start:
                    break
            else:
                self.fail("no other thread ran during 1000 calls")
        finally:
            over.set()
            sys.setswitchinterval(before)
            other.join()

    def test_two_calls_at_once(self):
        """Each call waits inside the library until the other call is inside, too."""
        both, wrong = threading.Barrier(2), []

        def log(line):
            """Called inside the library; waits until the other call is there, too."""
            try:
                both.wait(60)
            except threading.BrokenBarrierError:
                wrong.append(line)

        a = buffer(draw(5, 5))
        with limber.Context(log=log) as ctx:
            threads = [threading.Thread(target=ctx.matmul, args=(a, a)) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertFalse(wrong)


class Finding(unittest.TestCase):
    """The package finds its library, and refuses a wrong one."""
    def test_versions_agree(self):
        version = _library.lib.limber_version().decode()
        self.assertEqual(limber.__version__, version)

    def refused(self, library):
        """Imports the package with another library, which must fail; returns the output."""
        answer = subprocess.run([sys.executable, "-c", "import limber"], capture_output=True,
                                text=True, env={**os.environ, "LIMBER_LIBRARY": library})
        self.assertNotEqual(answer.returncode, 0)
        return answer.stderr

    def test_what_was_tried_is_told(self):
        text = self.refused("/nonexistent/liblimber.so.0")
        self.assertIn("ImportError", text)
        self.assertIn("LIMBER_LIBRARY: /nonexistent/liblimber.so.0: there is no such file", text)

    def test_another_library_is_refused(self):
        self.assertIn("not Limber", self.refused("libm.so.6"))


class Buffers(unittest.TestCase):
    """Tests with buffers, without NumPy."""

    def setUp(self):
        self.ctx = limber.Context(threads=2, contract="correct")

    def tearDown(self):
        self.ctx.close()

    def test_correct_is_the_fraction_rounded_once(self):
        a, b = draw(5, 17), draw(17, 4)
        c = self.ctx.matmul(buffer(a), buffer(b))
        self.assertEqual(memoryview(c).tolist(), rounded(product(a, b)))

    def test_the_contract_is_native_unless_said(self):
        a, b = buffer(draw(40, 300)), buffer(draw(300, 30))
        every = [{"contract": word} for word in (None, "native", "correct")]
        with limber.Context() as plain, limber.Context(contract="correct") as correct:
            none, native, exact = (plain.matmul(a, b, **how).tobytes() for how in every)
            self.assertEqual(none, native)
            self.assertNotEqual(native, exact)
            self.assertEqual([correct.matmul(a, b, **how).tobytes() for how in every],
                             [exact, native, exact])
            self.assertIn("promise=native", plain.plan(a, b))
            self.assertIn("promise=correct", correct.plan(a, b))
            report = plain.matmul(a, b, scheme="ozaki1-i8", slices=3, report=True)[1]
            self.assertEqual((report.scheme, report.bound > 0), ("ozaki1-i8", True))
        self.assertRaisesRegex(limber.BadArgument, "contract = 'right'", limber.Context,
                               contract="right")

    def test_alpha_beta_out(self):
        """alpha, beta and out, compared with fractions."""
        a, b, c = draw(3, 6), draw(6, 2), draw(3, 2)
        out = buffer(c)
        self.assertIs(self.ctx.matmul(buffer(a), buffer(b), out=out, alpha=0.3, beta=-2), out)
        ab = product(a, b)
        self.assertEqual(out.tolist(), [[float(Fraction(0.3) * x - 2 * Fraction(y))
                                         for x, y in zip(*rows)] for rows in zip(ab, c)])

    def test_reproducible_sums(self):
        """Rows have the same bits alone and in a matrix."""
        a, b = draw(3, 300), draw(300, 4)
        c, report = self.ctx.matmul(buffer(a), buffer(b), contract="reproducible", report=True)
        self.assertEqual((report.order, report.scheme), (1, "native"))
        parts = [self.ctx.matmul(buffer([row]), buffer(b), contract="reproducible").tolist()[0]
                 for row in a]
        self.assertEqual(memoryview(c).tolist(), parts)
        with self.assertRaisesRegex(limber.BadArgument, "a: i8 has no reproducible sums"):
            self.ctx.matmul(buffer([[1]], "b"), buffer([[1]], "b"), contract="reproducible")

    def test_formats_tell_what_they_hold(self):
        f64 = limber.finfo("f64")
        self.assertEqual((f64.epsilon, f64.largest, f64.normal, f64.significant_bits),
                         (sys.float_info.epsilon, sys.float_info.max, sys.float_info.min,
                          sys.float_info.mant_dig))
        self.assertEqual(limber.finfo("e4m3").largest, 448)
        self.assertIs(limber.finfo("e4m3").has_infinity, False)
        self.assertEqual(limber.spacing("f16", 10), 1)
        self.assertEqual(limber.finfo("i8").lowest, -128)
        self.assertRaisesRegex(limber.BadArgument, "fp17", limber.finfo, "fp17")
        self.assertRaises(limber.BadArgument, limber.spacing, "f16", 99)
        self.assertRaisesRegex(limber.BadArgument, "no float holds", limber.spacing, "f128", 16383)
        self.assertRaisesRegex(limber.BadArgument, "complex", limber.finfo, "complex64")

    def test_integers_become_what_holds_their_results(self):
        if numpy is None:
            return
        for kind in "u1 i2 i4 i8".split():
            x = numpy.array([0, 1, 17, 200, 100], kind)
            got = limber.quantize(x, "e4m3")
            self.assertEqual((got.dtype, got.tolist()), (x.dtype, [0, 1, 16, 192, 96]))
        for kind, number, to in (("u1", 255, "e4m3"), ("i4", 500, "e4m3"), ("i4", 10**6, "e5m2"),
                                 ("i8", 2**63 - 1, "bf16")):
            out = numpy.full(2, 7, kind)
            with self.assertRaisesRegex(limber.BadArgument, f"^a: rounded to {to}, it holds numbe"):
                limber.quantize(numpy.array([1, number], kind), to, out=out)
            self.assertEqual(out.tolist(), [7, 7])
        self.assertEqual(limber.quantize(numpy.array([-2**63, 3]), "bf16").tolist(), [-2**63, 3])
        a, b = [[4, 1], [1, 3]], [1, 2]
        self.assertEqual(limber.solve(a, b).tolist(), numpy.linalg.solve(a, b).tolist())

    def test_tables_and_what_is_no_array(self):
        """Objects like those of pandas, which have a method `mask` and of the array protocols only
        __array__."""
        if numpy is None:
            return

        class Table:
            """A table that NumPy reads by __array__, as pandas' tables are."""
            def __init__(self, values):
                self.values = numpy.array(values)

            def mask(self, where):
                raise NotImplementedError

            def __array__(self, dtype=None, copy=None):
                return self.values.astype(dtype or self.values.dtype)

        table = Table([[1.0, 2], [3, 4]])
        self.assertEqual(limber.matmul(table, table).tolist(), [[7, 10], [15, 22]])
        self.assertEqual(limber.quantize(Table([1.001]), "f16").tolist(), [1.0009765625])
        self.assertRaisesRegex(limber.BadArgument, "^out: gives copies", limber.matmul,
                               table, table, out=table)
        masked = numpy.ma.masked_array([[1.0, 2], [3, 4]], [[0, 1], [0, 0]])
        self.assertRaisesRegex(limber.BadArgument, "^a: masks", limber.matmul, masked, table)

        class Sparse:
            """A sparse matrix like SciPy's, which has toarray()."""
            def toarray(self):
                raise NotImplementedError

        self.assertRaisesRegex(limber.BadArgument, r"^b: Sparse shows no array: .*toarray\(\)",
                               limber.matmul, table, Sparse())
        self.assertRaisesRegex(limber.BadArgument, "^a: object shows no array: [^;]*$",
                               limber.matmul, object(), table)
        self.assertRaisesRegex(limber.BadArgument, "'clongdouble'", limber.matmul,
                               numpy.ones((1, 1), numpy.clongdouble), table)

    def test_integers_beside_complex_numbers(self):
        if numpy is None:
            return
        z = numpy.array([[1 + 2j, 3]], "complex64")
        for kind in "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8":
            x = numpy.array([[1, 0], [1, 1]], kind)
            for _ in range(2):          # the second time as a call like one before
                self.assertEqual(limber.matmul(z, x).tolist(), [[4 + 2j, 3]])
        x = numpy.array([[2**53, -2**53], [0, 1]])
        self.assertEqual(limber.matmul(z, x).tolist(),
                         [[2**53 + 2**54 * 1j, 3 - 2**53 - 2**54 * 1j]])
        x[0, 0] += 1
        self.assertRaisesRegex(limber.BadArgument, r"^b: has integers beyond 2\^53", limber.matmul,
                               z, x)

    def test_sums_of_floats_in_integer_results(self):
        if numpy is None:
            return
        one, x = numpy.ones((1, 1)), numpy.array([[-.03], [.9], [2.5], [3.5], [-1.5]])
        for contract in ("native", "correct"):
            got = limber.matmul(x, one, dtype="i32", contract=contract)
            self.assertEqual(got.ravel().tolist(), [0, 1, 2, 4, -2])
        for contract in ("native", "correct", "bits=20", "exact"):
            for bad in (1e10, numpy.nan, -numpy.inf):
                out = numpy.full((1, 1), 7, "i4")
                with self.assertRaisesRegex(limber.OutOfRange, "do not fit i32"):
                    limber.matmul(numpy.array([[bad]]), one, out=out, contract=contract)
                self.assertEqual(out[0, 0], 7)

    def test_quads_become_long_doubles(self):
        if numpy is None:
            return
        kind, about = numpy.longdouble, numpy.finfo(numpy.longdouble)
        random = numpy.random.default_rng(3)
        x = random.standard_normal(500).astype(kind)
        x = numpy.concatenate([numpy.ldexp(x, random.integers(about.minexp, about.maxexp, 500)),
                               [0, about.tiny, about.max, about.smallest_subnormal, numpy.inf]])
        self.assertTrue((numpy.asarray(limber.Quad(x), kind) == x).all())
        high, low = random.standard_normal((2, 500))
        both = limber.Quad(high) + limber.Quad(low * 2.0**-30)
        self.assertTrue((numpy.asarray(both, kind) == high.astype(kind) + low * 2.0**-30).all())
        self.assertEqual(kind(limber.Quad(1) / 3), kind(1) / 3)
        self.assertEqual(numpy.asarray(limber.Quad([[1, 2]])).shape, (1, 2))

    def test_solve(self):
        """solve: one and several right sides, complex systems, refusals."""
        if numpy is None:
            return
        n = 30
        a = numpy.array([[1 / (i + j + 1) for j in range(n)] for i in range(n)]) + numpy.eye(n)
        truth = numpy.arange(-15, 15.0)
        x, report = limber.solve(a, limber.matmul(a, truth, dtype="f128"), dtype="f64", report=True)
        numpy.testing.assert_allclose(x, truth, rtol=0, atol=1e-28)
        self.assertTrue(report.steps > 1 and 1 < report.condition < 1e3)
        both = limber.solve(a.T, numpy.stack([a.T @ truth, a.T @ a.T @ truth], 1))
        self.assertEqual((both.shape, both.dtype), ((n, 2), numpy.float64))
        numpy.testing.assert_allclose(both[:, 0], truth, rtol=1e-12, atol=1e-12)
        wide = limber.solve(numpy.array([[3.0]]), numpy.array([1.0]), dtype="f128")
        self.assertIn("3." + "3" * 30, str(wide[0]))
        self.assertRaisesRegex(limber.NoScheme, "singular", limber.solve, a * 0, truth)
        self.assertRaisesRegex(limber.BadArgument, "no square matrix", limber.solve, a[:3], truth)
        self.assertRaisesRegex(limber.BadArgument, "does not meet", limber.solve, a, truth[:3])
        turned = a * (1 + 2j) + 1j * a.T
        points = truth * (3 - 1j)
        x, report = limber.solve(turned, turned @ points, report=True)
        numpy.testing.assert_allclose(x, points, rtol=0, atol=1e-12)
        self.assertEqual((x.dtype, report.method >= 0), (numpy.complex128, True))
        single = limber.solve(turned.astype("F"), (turned @ points).astype("F"))
        self.assertEqual(single.dtype, numpy.complex64)
        both = limber.solve(a, numpy.array([truth, 1j * truth]).T)      # real a, complex b
        self.assertEqual((both.shape, both.dtype), ((n, 2), numpy.complex128))
        out = numpy.empty(n, "D")
        self.assertIs(limber.solve(turned, turned @ points, out=out), out)
        numpy.testing.assert_array_equal(out, x)
        self.assertRaisesRegex(limber.BadArgument, "complex64 or", limber.solve, turned, points,
                               dtype="f64")

    def test_formats_have_other_names(self):
        self.assertEqual(limber.finfo("float8_e4m3fn"), limber.finfo("e4m3"))
        if numpy is None:
            return
        self.assertEqual(limber.finfo(numpy.float16), limber.finfo("f16"))
        self.assertEqual(limber.spacing(numpy.dtype("float32"), 0), 2.0 ** -23)
        a = numpy.ones((3, 4), "float32")
        double, half = (limber.matmul(a, a.T, dtype=name) for name in ("double", "fp16"))
        self.assertEqual((double.dtype, half.dtype), (numpy.float64, numpy.float16))
        bits = numpy.full((2, 2), 0x3f80, "uint16")     # ones
        made = limber.matmul(bits, bits, format="bfloat16")
        self.assertEqual(made.tolist(), [[0x4000, 0x4000], [0x4000, 0x4000]])
        self.assertRaisesRegex(limber.BadArgument, "int3", limber.matmul, bits, bits, format="int3")

    def test_integers(self):
        """Products of bytes are exact, in 32-bit integers."""
        a = [[random.randint(-128, 127) for _ in range(40)] for _ in range(3)]
        b = [[random.randint(-128, 127)] for _ in range(40)]
        c = self.ctx.matmul(buffer(a, "b"), buffer(b, "b"))
        self.assertEqual(memoryview(c).format.lstrip("@"), "i")
        self.assertEqual(memoryview(c).tolist(), [[int(x) for x in row] for row in product(a, b)])

    def test_rounding(self):
        a, b = buffer([[1.0, 2.0**-60]]), buffer([[1.0], [1.0]])
        for mode, want in ("up", 1 + 2.0**-52), ("down", 1.0), ("zero", 1.0), ("away", 1.0):
            self.assertEqual(self.ctx.matmul(a, b, rounding=mode).tolist(), [[want]])
            self.assertEqual(self.ctx.matmul(a, b, contract=f"correct,round={mode}").tolist(),
                             [[want]])
        with self.assertRaisesRegex(limber.BadArgument, "rounding = 'odd' is none of"):
            self.ctx.matmul(a, b, rounding="odd")
        with self.assertRaisesRegex(limber.BadArgument, "round is none of"):
            self.ctx.matmul(a, b, contract="correct,round=odd")
        for wrong in "native", "exact":
            with self.assertRaisesRegex(limber.BadArgument, "has no rounding"):
                self.ctx.matmul(a, b, contract=wrong, rounding="up")
        with self.assertRaisesRegex(limber.BadArgument, "contract.rounding"):
            self.ctx.matmul(a, b, rounding="up", dtype="i64")
        with self.assertRaisesRegex(limber.BadArgument, "correct,round=MODE"):
            self.ctx.matmul(a, b, contract="correct,round")

    def test_modulus(self):
        """Products modulo a number, compared with Python's integers."""
        draw_one = lambda: random.randint(-1 << 62, 1 << 62)
        a = [[draw_one() for _ in range(40)] for _ in range(3)]
        b = [[draw_one() for _ in range(2)] for _ in range(40)]
        sums = [[sum(a[i][k] * b[k][j] for k in range(40)) for j in range(2)] for i in range(3)]
        for p in (2, 3, 256, 257, 65521, (1 << 31) - 1, (1 << 61) - 1, (1 << 63) - 25):
            want = [[x % p for x in row] for row in sums]
            c = self.ctx.matmul(buffer(a, "q"), buffer(b, "q"), modulus=p)
            self.assertEqual(memoryview(c).tolist(), want)
            c = self.ctx.matmul(buffer(a, "q"), buffer(b, "q"), contract=f"mod={p},symmetric")
            self.assertEqual(memoryview(c).tolist(),
                             [[x - p if x > p // 2 else x for x in row] for row in want])
        for wrong in (0, 1, 1 << 63, -3, 2.5, "7"):
            with self.assertRaisesRegex(limber.BadArgument, "modulus = "):
                self.ctx.matmul(buffer(a, "q"), buffer(b, "q"), modulus=wrong)
        for wrong in ("mod=", "mod=1", "mod=x", "mod=7,", "mod=7,both", "mod"):
            with self.assertRaisesRegex(limber.BadArgument, "contract = "):
                self.ctx.matmul(buffer(a, "q"), buffer(b, "q"), contract=wrong)
        for wrong in ("mod=" + 5000 * "9", "mod=\u0667"):
            with self.assertRaisesRegex(limber.BadArgument, "contract = "):
                self.ctx.matmul(buffer(a, "q"), buffer(b, "q"), contract=wrong)
        one = buffer([[1.0]])
        for scalar in (2 ** 53 + 1, -2 ** 70 - 3):     # doubles do not hold them
            for words, want in (("mod=129", scalar % 129),
                                ("mod=129,symmetric", (scalar + 64) % 129 - 64)):
                c = self.ctx.matmul(one, one, contract=words, alpha=scalar)
                self.assertEqual(memoryview(c).tolist(), [[want]])
        with self.assertRaisesRegex(limber.BadArgument, "posit16 does not hold"):
            self.ctx.matmul(one, one, modulus=2049, dtype="posit16")
        with self.assertRaisesRegex(limber.BadArgument, "has no modulus"):
            self.ctx.matmul(buffer(a, "q"), buffer(b, "q"), contract="correct", modulus=7)
        with self.assertRaisesRegex(limber.OutOfRange, "a: an element is no integer"):
            self.ctx.matmul(buffer([[0.5]]), buffer([[1.0]]), modulus=7)

    def test_products_by_labels(self):
        """einsum and tensordot without NumPy."""
        a = memoryview(array.array("d", range(24))).cast("B").cast("d", (2, 3, 4))
        b = memoryview(array.array("d", range(12))).cast("B").cast("d", (4, 3))
        at = lambda i, j, k: 12 * i + 4 * j + k
        c = memoryview(self.ctx.einsum("ijk,kl->lij", a, b))
        self.assertEqual(c.tolist(), [[[float(sum(at(i, j, k) * (3 * k + l) for k in range(4)))
                                        for j in range(3)] for i in range(2)] for l in range(3)])
        c = memoryview(self.ctx.tensordot(a, b, ((2, 1), (0, 1))))
        self.assertEqual(c.tolist(), [float(sum(at(i, j, k) * (3 * k + j) for j in range(3)
                                                for k in range(4))) for i in range(2)])
        self.assertEqual(memoryview(self.ctx.matmul(a, b)).shape, (2, 3, 3))

    def test_range_leaves_out(self):
        """A result that does not fit raises OutOfRange and leaves out unchanged."""
        out = buffer([[5]], "b")
        with self.assertRaises(limber.OutOfRange) as caught:
            self.ctx.matmul(buffer([[100]], "b"), buffer([[2]], "b"), contract="exact", out=out)
        self.assertIsInstance(caught.exception, OverflowError)
        self.assertEqual(caught.exception.status, limber.Status.RANGE)
        self.assertEqual(out.tolist(), [[5]])

    def test_wrong_arguments_are_named(self):
        a, b = buffer(draw(2, 3)), buffer(draw(3, 2))
        readonly = memoryview(bytes(32)).cast("d", (2, 2))
        for word, call in {
            "a has 3 columns": lambda: self.ctx.matmul(a, a),
            "contract = 'bits'": lambda: self.ctx.matmul(a, b, contract="bits"),
            "contract.scheme": lambda: self.ctx.matmul(a, b, scheme="none"),
            "fast needs": lambda: self.ctx.matmul(a, b, contract="fast"),
            "slices needs one, such as scheme=": lambda: self.ctx.matmul(a, b, slices=3),
            "alpha": lambda: self.ctx.matmul(a, b, alpha="x"),
            "beta is complex": lambda: self.ctx.matmul(a, b, beta=1j),
            "beta: it scales": lambda: self.ctx.matmul(a, b, beta=1),
            "out: shape": lambda: self.ctx.matmul(a, b, out=buffer(draw(3, 2))),
            "out:": lambda: self.ctx.matmul(a, b, out=readonly),
            "a: ": lambda: self.ctx.matmul("text", b),
            "format = ('f64',)": lambda: self.ctx.matmul(a, b, format=("f64",)),
            "contract = 3": lambda: self.ctx.matmul(a, b, contract=3),
            "None is not a number": lambda: limber.Quad([None]),
            "unequal lengths": lambda: limber.Quad([[1, 2], [3]]),
            "do not hold bf16": lambda: self.ctx.matmul(a, b, format="bf16"),
            "format = 'f17'": lambda: self.ctx.matmul(a, b, format="f17"),
            "dtype = 'f17'": lambda: self.ctx.matmul(a, b, dtype="f17"),
            "side": lambda: self.ctx.prepare(a, side="top"),
            "backend": lambda: limber.Context(backend="none"),
        }.items():
            square = buffer(draw(2, 2))
            with self.subTest(word), self.assertRaises(limber.BadArgument) as caught:
                call()
            self.assertIn(word, str(caught.exception))

    @unittest.skipUnless(numpy, "operands are NumPy's")
    def test_values_of_the_wrong_kind_are_named(self):
        """Each parameter of every function in turn gets a value of the wrong kind."""
        a, x, w = numpy.ones((3, 3)), numpy.ones((1, 1, 5, 5), "f"), numpy.ones((1, 1, 3, 3), "f")
        calls = {
            "matmul": (a, a), "dot": (a, a), "tensordot": (a, a), "einsum": ("ij,jk->ik", a, a),
            "convert": (a, "f32"), "quantize": (a, "bf16"), "fixed": (a, 4, 2),
            "statistics": (a, a, "h100-bf16"), "explore": (a, a, ("bf16",), (0,)), "plan": (a, a), "inspect": (a,),
            "prepare": (a,), "solve": (numpy.eye(3), a[0]), "conv2d": (x, w),
            "conv2d_backward_data": (w, w, (5, 5)), "conv2d_backward_filter": (x, w, (3, 3)),
            "finfo": ("f32",), "spacing": ("f32", 1), "unit": ("h100-bf16",),
            "retention": (10, 10, 100), "unit_retention": ("h100-bf16", 64),
            "reveal": (numpy.matmul, 8, "f64"), "Context": (),
        }
        for name, given in calls.items():
            function = getattr(limber, name)
            function(*given)
            for place, parameter in enumerate(inspect.signature(function).parameters.values()):
                if parameter.kind in _MANY or parameter.name in ("function", "log"):
                    continue
                for wrong in ("x", 1.5, 2 ** 80, -1, [], object(), {}, (1, 2, 3), "f32\0"):
                    left, by_name = list(given), {}
                    if place < len(given):
                        left[place] = wrong
                    else:
                        by_name[parameter.name] = wrong
                    with self.subTest(f"{name}({parameter.name}={wrong!r})"):
                        try:
                            function(*left, **by_name)
                        except limber.NoScheme:
                            pass        # formats of integers are given by names
                        except limber.LimberError as error:
                            self.assertRegex(str(error), rf"\b{parameter.name}\b")

    def test_a_closed_context_is_refused(self):
        ctx = limber.Context()
        ctx.close()
        ctx.close()
        with self.assertRaises(limber.BadArgument):
            ctx.matmul(buffer(draw(2, 2)), buffer(draw(2, 2)))

    def test_prepared_operands(self):
        """A prepared operand gives the same products, and notices changes."""
        a, b = draw(6, 5), draw(5, 3)
        held = buffer(a)
        with self.ctx.prepare(held, check_changes=True) as operand:
            for _ in range(2):
                c = self.ctx.matmul(operand, buffer(b))
                self.assertEqual(memoryview(c).tolist(), rounded(product(a, b)))
            operand.check()
            held[0, 0] = 7.0
            with self.assertRaises(limber.BadArgument):
                self.ctx.matmul(operand, buffer(b))
        with self.assertRaises(limber.BadArgument):
            self.ctx.matmul(operand, buffer(b))

    @unittest.skipUnless(numpy, "lists are NumPy's")
    def test_what_makes_its_memory_anew_is_prepared(self):
        class Made:
            """An object that makes its array anew at each request."""
            def __array__(self, dtype=None, copy=None):
                return numpy.array([[1.5, 2], [0, 4]])

        for x in ([[1.5, 2], [0, 4]], Made()):
            with self.ctx.prepare(x, check_changes=True) as operand:
                self.assertEqual(self.ctx.matmul(operand, [[2.0], [4]]).tolist(), [[11], [16]])
        with self.ctx.prepare_filters([[[[2.0]]]]) as w:
            self.assertEqual(self.ctx.conv2d([[[[3.0]]]], w).tolist(), [[[[6]]]])

    def test_a_context_outlives_its_operands(self):
        ctx = limber.Context()
        operand = ctx.prepare(buffer(draw(4, 4)))
        ctx.close()
        operand.check()
        operand.close()

    def test_log_and_report(self):
        """The log has a line for the call, and the report names its scheme."""
        lines = []
        with limber.Context(log=lines.append, contract="correct") as ctx:
            _, report = ctx.matmul(buffer(draw(3, 3)), buffer(draw(3, 3)), report=True)
        self.assertIn(report.scheme, limber.schemes())
        self.assertEqual(report.bound, 0)
        self.assertTrue(any(report.scheme in line and "m=3" in line for line in lines), lines)

    def test_plan_and_inspect(self):
        """The text of a plan, and the masks of an operand."""
        a = buffer([[1.0, 2.0, 0.0], [0.25, -4.0, 3.0]])
        self.assertIn("plan gemm", self.ctx.plan(a, buffer(draw(3, 2))))
        seen = self.ctx.inspect(a)
        self.assertEqual((seen.lines, seen.length, seen.negative, seen.emin, seen.emax, seen.spread),
                         (2, 3, 1, -2, 2, 4))
        self.assertEqual((seen.tiles[0][0].emin, seen.tiles[0][0].emax), (-2, 2))

    def test_run_plan(self):
        """A plan's text computes what it states, stacks too; what does not fit is named, and the
        result is as it was."""
        stated = """plan gemm promise=correct kbits=6 budget=0 {
  %a = arg index=0 : f64[m,k]
  %b = arg index=1 : f64[k,n]
  %c = gemm %a %b : exact[m,n]
  %d = epilogue %c alpha=one beta=zero wrap=0 : f64[m,n]
  ret %d
}
"""
        a, b = buffer(draw(5, 7)), buffer(draw(7, 4))
        made, report = self.ctx.run_plan(stated, a, b, report=True)
        self.assertEqual(memoryview(made).tolist(),
                         memoryview(self.ctx.matmul(a, b, contract="correct")).tolist())
        self.assertIn(report.scheme, limber.schemes())
        out = buffer([[7.0] * 4 for _ in range(5)])
        for options, why in [({"alpha": 2}, "alpha: the plan has alpha=one"),
                             ({"beta": 2}, "beta: the plan has beta=zero"),
                             ({"plan": "plan gemm {"}, "plan: ")]:
            with self.assertRaisesRegex(limber.BadArgument, why):
                self.ctx.run_plan(options.pop("plan", stated), a, b, out=out, **options)
        self.assertEqual(memoryview(out).tolist(), [[7.0] * 4] * 5)

    @unittest.skipUnless(numpy, "NumPy is absent")
    def test_run_plan_of_arrays(self):
        random = numpy.random.default_rng(47)
        a, b = random.standard_normal((3, 20, 30)), random.standard_normal((3, 30, 10))
        text = self.ctx.plan(a[0], b[0], contract="fast", scheme="ozaki1-i8", slices=3)
        at = text.rindex("plan gemm")
        text = text[at:text.index("\n}\n", at) + 3]            # the finished one
        due = [self.ctx.matmul(x, y, contract="fast", scheme="ozaki1-i8", slices=3)
               for x, y in zip(a, b)]
        numpy.testing.assert_array_equal(self.ctx.run_plan(text, a, b), due)
        with self.assertRaisesRegex(limber.BadArgument, "a: is f32, the plan's %a is f64"):
            self.ctx.run_plan(text, a.astype("f4"), b)
        x, y = a[0] + 1j * a[1], b[0] - 1j * b[2]
        numpy.testing.assert_array_equal(
            self.ctx.run_plan(text, x, y, conj_b=True),
            self.ctx.matmul(x, y, contract="fast", scheme="ozaki1-i8", slices=3, conj_b=True))
        steps, bias = "%1 = add %x %bias\n%2 = relu %1", {"bias": random.standard_normal(10)}
        numpy.testing.assert_array_equal(
            self.ctx.run_plan(text, a, b, epilogue=steps, inputs=bias),
            numpy.maximum(due + bias["bias"], 0))

    def test_options(self):
        """Options of contexts reach the library."""
        with limber.Context(cache_dir="", whole=True, kernels="prebuilt") as ctx:
            ctx.matmul(buffer(draw(3, 3)), buffer(draw(3, 3)))
        with self.assertRaises(TypeError):
            limber._library.Config(whole=True)

    def test_cache(self):
        """Kernels on disk are listed and removed."""
        with tempfile.TemporaryDirectory() as folder, \
                limber.Context(cache_dir=os.path.join(folder, "cache"), kernels="specialised") as ctx:
            ctx.matmul(buffer(draw(3, 3)), buffer(draw(3, 3)), dtype="dd")   # small doubles need no kernel
            info, entries = ctx.cache_info(), ctx.cache_entries(verify=True)
            self.assertEqual(info.directory, os.path.join(folder, "cache"))
            self.assertEqual(info.entries, len(entries))
            self.assertGreaterEqual(info.entries, 1)
            self.assertTrue(all(entry.good for entry in entries))
            self.assertEqual(ctx.cache_clear(), len(entries))
            self.assertEqual(ctx.cache_info().entries, 0)

    def test_simulated_units(self):
        """A unit described by words rounds its operands as stated."""
        a = buffer([[0.1] * 4])
        c = self.ctx.matmul(a, buffer([[1.0]] * 4),
                            contract="simulate=in=f16 mul=f32:rn acc=f32:rn")
        self.assertEqual(memoryview(c).tolist()[0][0], 4 * 0.0999755859375)    # 0.1 in binary16

    def test_convolution(self):
        """A convolution with padding and strides, compared with its definition."""
        x = [float(random.randint(-9, 9)) for _ in range(2 * 3 * 5 * 6)]
        w = [float(random.randint(-9, 9)) for _ in range(4 * 3 * 3 * 2)]
        four = lambda flat, shape: memoryview(array.array("d", flat)).cast("B").cast("d", shape)
        y = self.ctx.conv2d(four(x, (2, 3, 5, 6)), four(w, (4, 3, 3, 2)), pad=(1, 0), stride=(2, 1))
        y = memoryview(y)
        self.assertEqual(y.shape, (2, 4, 3, 5))
        for n, o, i, j in ((0, 0, 0, 0), (1, 3, 2, 4), (0, 2, 1, 3), (1, 1, 0, 2)):
            total = sum(x[((n * 3 + c) * 5 + u) * 6 + j + s] * w[((o * 3 + c) * 3 + r) * 2 + s]
                        for c in range(3) for r in range(3) for s in range(2)
                        for u in [2 * i - 1 + r] if 0 <= u < 5)
            self.assertEqual(y[n, o, i, j], total)

    def test_backward_convolutions_are_adjoint(self):
        four = lambda flat, shape: memoryview(array.array("d", flat)).cast("B").cast("d", shape)
        draw_four = lambda shape: [float(random.randint(-9, 9))
                                   for _ in range(shape[0] * shape[1] * shape[2] * shape[3])]
        dot = lambda a, b: sum(p * q for p, q in zip(a, b))
        flat = lambda y: list(memoryview(y).cast("B").cast("d"))
        for layout in ("NCHW", "NHWC"):
            last = lambda s: s if layout == "NCHW" else (s[0], s[2], s[3], s[1])
            sx, sw, sy = last((2, 4, 7, 6)), last((6, 2, 3, 2)), last((2, 6, 3, 4))
            x, w, dy = draw_four(sx), draw_four(sw), draw_four(sy)
            how = dict(stride=2, pad=(0, 0, 1, 1), groups=2, layout=layout)
            y = self.ctx.conv2d(four(x, sx), four(w, sw), **how)
            dx = self.ctx.conv2d_backward_data(four(dy, sy), four(w, sw), (7, 6), **how)
            dw = self.ctx.conv2d_backward_filter(four(x, sx), four(dy, sy), (3, 2), **how)
            self.assertEqual([memoryview(t).shape for t in (y, dx, dw)], [sy, sx, sw])
            self.assertEqual(dot(flat(y), dy), dot(flat(dx), x))
            self.assertEqual(dot(flat(y), dy), dot(flat(dw), w))
            with self.assertRaisesRegex(limber.BadArgument, "dy: shape"):
                self.ctx.conv2d_backward_filter(four(x, sx), four(dy, sy), (5, 2), **how)

    def test_convolutions_of_one_and_three_dimensions(self):
        stored = lambda flat, shape: memoryview(array.array("d", flat)).cast("B").cast("d", shape)
        draw_all = lambda shape: [float(random.randint(-9, 9)) for _ in range(math.prod(shape))]
        dot = lambda a, b: sum(p * q for p, q in zip(a, b))
        flat = lambda y: list(memoryview(y).cast("B").cast("d"))
        for layout in ("NCW", "NWC", "NCDHW", "NDHWC"):
            n, first = len(layout) - 2, layout[1] == "C"
            last = lambda s: s if first else (s[0], *s[2:], s[1])
            image, window, result = (6, 5, 7)[:n], (2, 3, 3)[:n], (3, 3, 3)[:n]
            sx, sw, sy = (last(s) for s in ((2, 4, *image), (6, 2, *window), (2, 6, *result)))
            x, w, dy = map(draw_all, (sx, sw, sy))
            how = dict(stride=2, pad=(0, 1) if n == 1 else (0, 1, 1, 1, 0, 0), groups=2,
                       layout=layout)
            convolve, to_data, to_filter = (
                getattr(self.ctx, f"conv{n}d{d}") for d in ("", "_backward_data",
                                                            "_backward_filter"))
            y = convolve(stored(x, sx), stored(w, sw), **how)
            dx = to_data(stored(dy, sy), stored(w, sw), image, **how)
            dw = to_filter(stored(x, sx), stored(dy, sy), window, **how)
            self.assertEqual([memoryview(t).shape for t in (y, dx, dw)], [sy, sx, sw])
            self.assertEqual(dot(flat(y), dy), dot(flat(dx), x))
            self.assertEqual(dot(flat(y), dy), dot(flat(dw), w))
        with self.assertRaisesRegex(limber.BadArgument, "layout = 'NCHW"):
            self.ctx.conv1d(stored(x, sx), stored(w, sw), layout="NCHWD")
        with self.assertRaisesRegex(limber.BadArgument, "w has 3 axes, x 5"):
            self.ctx.conv3d(stored(x, sx), stored(w[:8], (2, 2, 2)))
        for option in ("stride", "pad", "dilation"):
            with self.assertRaisesRegex(limber.BadArgument, option + " = .* does not fit 64 bits"):
                self.ctx.conv2d(stored([1.0] * 16, (1, 1, 4, 4)), stored([1.0] * 9, (1, 1, 3, 3)),
                                **{option: 2 ** 64 + 1})
        with self.assertRaisesRegex(limber.BadArgument, "stride = .*1 or 3 whole numbers"):
            self.ctx.conv3d(stored(x, sx), stored(w, sw), stride=(1, 1), groups=2,
                            layout=layout)

    def test_epilogues(self):
        """Epilogues with inputs of every shape, compared with fractions."""
        a, b = draw(4, 5, 1), draw(5, 6, 1)
        rows, cols, all = draw(4, 1, 1), draw(1, 6, 1), draw(4, 6, 1)
        steps = "%1 = add %x %cols\n%2 = mul %1 %rows ; scaled\n%3 = max %2 %all\n%4 = sub %3 %s"
        c = self.ctx.matmul(buffer(a), buffer(b), epilogue=steps,
                            inputs={"cols": buffer(cols), "rows": buffer(rows), "all": buffer(all),
                                    "s": 0.5})
        exact = product(a, b)
        self.assertEqual(memoryview(c).tolist(),
                         [[max(float(exact[i][j] + Fraction(cols[0][j])) * rows[i][0],
                               all[i][j]) - 0.5 for j in range(6)] for i in range(4)])
        dense = lambda flat, shape: memoryview(array.array("d", flat)).cast("B").cast("d", shape)
        y = self.ctx.conv2d(dense(range(36), (1, 1, 6, 6)), dense([1.0] * 8, (2, 1, 2, 2)),
                            epilogue="%1 = sub %x %b\n%2 = neg %1",
                            inputs={"b": dense([0.0, 1.0], (2,))})
        flat = memoryview(y).cast("B").cast("d")
        self.assertEqual([p - q for p, q in zip(flat[:25], flat[25:])], [-1.0] * 25)
        for text, how in (("there is no epilogue", dict(inputs={"b": 1})),
                          ("epilogue: holds a NUL", dict(epilogue="%1 = relu %x\0%1 = neg %x")),
                          ("nan_to_zero: there is no epilogue", dict(nan_to_zero=True)),
                          ("e2m1 has no NaN", dict(epilogue="%1 = relu %x", dtype="e2m1")),
                          ("steps: line 1, column 6: 'sine' is neither", dict(epilogue="%1 = sine %x")),
                          (r"inputs\['b'\]: shape \(5, 1\) is none of",
                           dict(epilogue="%1 = add %x %b", inputs={"b": buffer(draw(5, 1))}))):
            with self.assertRaisesRegex(limber.BadArgument, text):
                self.ctx.matmul(buffer(a), buffer(b), **how)
        if numpy is not None:
            one = numpy.broadcast_to(numpy.float64(3), (4, 6))      # no strides
            c = self.ctx.matmul(buffer(a), buffer(b), epilogue="%1 = sub %x %one",
                                inputs={"one": one})
            plain = self.ctx.matmul(buffer(a), buffer(b))
            self.assertTrue((numpy.asarray(c) == numpy.asarray(plain) - 3).all())
        small = self.ctx.matmul(buffer(a), buffer(b), epilogue="%1 = div 0 %x", dtype="e2m1",
                                nan_to_zero=True)
        self.assertEqual(memoryview(small).format, "B")

    def test_filters_are_prepared(self):
        stored = lambda flat, shape: memoryview(array.array("d", flat)).cast("B").cast("d", shape)
        x, w = ([random.uniform(-1, 1) for _ in range(n)] for n in (2 * 7 * 6 * 4, 5 * 3 * 2 * 4))
        x, w = stored(x, (2, 7, 6, 4)), stored(w, (5, 3, 2, 4))
        for contract in ("native", "correct"):
            want = self.ctx.conv2d(x, w, layout="NHWC", contract=contract)
            with self.ctx.prepare_filters(w, layout="NHWC", check_changes=True) as kept:
                for _ in range(2):
                    got = self.ctx.conv2d(x, kept, layout="NHWC", contract=contract)
                    self.assertEqual(memoryview(got).tolist(), memoryview(want).tolist())
                dy = stored([1.0] * (2 * 5 * 5 * 5), (2, 5, 5, 5))
                with self.assertRaisesRegex(limber.BadArgument, "for forward convolutions, not"):
                    self.ctx.conv2d_backward_data(dy, kept, (7, 6), layout="NHWC")

    def test_filters_are_prepared_for_backward_data(self):
        stored = lambda flat, shape: memoryview(array.array("d", flat)).cast("B").cast("d", shape)
        dy, w = ([random.uniform(-1, 1) for _ in range(n)] for n in (4 * 4 * 5, 5 * 3 * 3 * 4))
        dy, w = stored(dy, (1, 4, 4, 5)), stored(w, (5, 3, 3, 4))
        how = {"layout": "NHWC", "stride": 2, "pad": 1}
        for contract in ("native", "correct"):
            want = self.ctx.conv2d_backward_data(dy, w, (8, 8), contract=contract, **how)
            with self.ctx.prepare_filters(w, backward=True, **how) as kept:
                for _ in range(2):
                    got = self.ctx.conv2d_backward_data(dy, kept, (8, 8), contract=contract, **how)
                    self.assertEqual(memoryview(got).tolist(), memoryview(want).tolist())
                with self.assertRaisesRegex(limber.BadArgument, r"another conv\.stride"):
                    self.ctx.conv2d_backward_data(dy, kept, (4, 4), layout="NHWC", pad=1)
                with self.assertRaisesRegex(limber.BadArgument, "for backward data, not"):
                    self.ctx.conv2d(stored([0.0] * 256, (1, 8, 8, 4)), kept, **how)
        with self.assertRaisesRegex(limber.BadArgument, "stride"):
            self.ctx.prepare_filters(w, backward=True, stride=(1, 2, 3))

    def test_filters_of_groups_are_prepared(self):
        stored = lambda flat, shape: memoryview(array.array("d", flat)).cast("B").cast("d", shape)
        x, w = ([random.uniform(-1, 1) for _ in range(n)] for n in (2 * 6 * 5 * 5, 9 * 2 * 3 * 3))
        x, w = stored(x, (2, 6, 5, 5)), stored(w, (9, 2, 3, 3))
        want = self.ctx.conv2d(x, w, groups=3, contract="correct")
        with self.ctx.prepare_filters(w, groups=3) as kept:
            got = self.ctx.conv2d(x, kept, groups=3, contract="correct")
            self.assertEqual(memoryview(got).tolist(), memoryview(want).tolist())
        with self.ctx.prepare_filters(w) as kept:
            with self.assertRaisesRegex(limber.BadArgument, "1 groups, not 3"):
                self.ctx.conv2d(x, kept, groups=3, contract="correct")

    def test_threads_share_a_context(self):
        a, b = draw(30, 40), draw(40, 20)
        expected, wrong = rounded(product(a, b)), []

        def work():
            """Multiplies, and notes wrong products."""
            for _ in range(5):
                c = self.ctx.matmul(buffer(a), buffer(b))
                if memoryview(c).tolist() != expected:
                    wrong.append(c)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertFalse(wrong)

    def test_closing_while_others_compute(self):
        a, b = draw(30, 40), draw(40, 20)
        expected, wrong = rounded(product(a, b)), []
        for turn in range(6):
            ctx, started = limber.Context(contract="correct"), threading.Event()
            x, y = buffer(a), buffer(b)
            if numpy and turn % 2:      # repeated calls on NumPy's arrays are kept
                x, y = numpy.array(x), numpy.array(y)

            def work():
                """Multiplies until the context is closed."""
                try:
                    while True:
                        if memoryview(ctx.matmul(x, y)).tolist() != expected:
                            wrong.append("a product")
                        started.set()
                except limber.BadArgument as error:
                    if "the context is closed" not in str(error):
                        wrong.append(error)

            threads = [threading.Thread(target=work) for _ in range(3)]
            for t in threads:
                t.start()
            started.wait(60)
            ctx.close()
            for t in threads:
                t.join()
        self.assertFalse(wrong)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_a_forked_child_computes(self):
        a, b = draw(30, 40), draw(40, 20)
        expected = rounded(product(a, b))
        self.ctx.matmul(buffer(a), buffer(b))
        child = os.fork()
        if child == 0:
            good = memoryview(self.ctx.matmul(buffer(a), buffer(b))).tolist() == expected
            os._exit(0 if good else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


class Quads(unittest.TestCase):
    """Tests limber.Quad, arrays of binary128."""
    def nearest(self, x):
        """Rounds x to 113 bits with Python's round(), independently of the package."""
        x = Fraction(x)
        if x == 0:
            return x
        e = math.floor(math.log2(abs(x.numerator)) - math.log2(x.denominator))
        while abs(x) >= Fraction(2) ** (e + 1):
            e += 1
        while abs(x) < Fraction(2) ** e:
            e -= 1
        unit = Fraction(2) ** (max(e, -16382) - 112)
        return round(x / unit) * unit

    def test_shapes_and_whole_powers(self):
        """Shapes, conversion to int, and whole powers."""
        third = 1 / limber.Quad([[3, -3], [1, 7]])
        self.assertEqual((third.ndim, third.size, limber.Quad(1).ndim, limber.Quad(1).size),
                         (2, 4, 0, 1))
        self.assertEqual(third.reshape(4).to_fractions(), sum(third.to_fractions(), []))
        self.assertEqual(third.reshape((1, 4)).shape, (1, 4))
        self.assertRaises(ValueError, third.reshape, 3)
        self.assertEqual([int(limber.Quad(x)) for x in ("7.9", -2.5, 10**30)], [7, -2, 10**30])
        for power in 2, 3, -1, -5, 64, 0:
            wanted = [[Fraction(x) ** power for x in row] for row in third.to_fractions()]
            self.assertEqual((third ** power).to_fractions(),
                             limber.Quad(wanted).to_fractions(), power)
        special = limber.Quad(["inf", "-inf", "-0", "nan", 0, "1e4000", "1e-4000"])
        for power, wanted in ((2, "inf inf 0.0 nan 0.0 inf 0.0"),
                              (3, "inf -inf -0.0 nan 0.0 inf 0.0"),
                              (-1, "0.0 -0.0 -inf nan inf 0 0"),
                              (-3, "0.0 -0.0 -inf nan inf 0.0 inf")):
            for got, want in zip((special ** power).to_strings(), wanted.split()):
                if want != "0":
                    self.assertEqual(got, want, power)
        self.assertEqual((special ** 0).to_fractions(), [1] * 7)
        for power in 65, 0.5, special:
            self.assertRaisesRegex(limber.BadArgument, "^power", lambda: special ** power)
        if numpy is not None:
            self.assertEqual((third.reshape(-1, 1).shape, numpy.square(third).shape),
                             ((4, 1), (2, 2)))
            self.assertEqual(numpy.power(third, 2).to_fractions(), (third ** 2).to_fractions())

    def test_what_lists_its_rows(self):
        """Matrices of mpmath have tolist() and are not arrays."""
        class Rows:
            """A matrix that only lists its rows."""
            def tolist(self):
                return [[Fraction(1, 3), 2], [3, 4]]

        self.assertEqual(limber.Quad(Rows()).to_fractions()[1], [3, 4])
        self.assertEqual((limber.Quad(1) + Rows()).to_fractions()[0][1], 3)

    def test_numbers_are_rounded_once(self):
        values = [Fraction(1, 3), 10 ** 40 + 1, -(2 ** 113 + 1), 2 ** 113 + 3, Fraction(7, 10 ** 60)]
        values += [Fraction(random.randint(1, 10 ** 50), random.randint(1, 10 ** 50))
                   for _ in range(50)]
        self.assertEqual(limber.Quad(values).to_fractions(), [self.nearest(x) for x in values])

    def test_any_kind_of_number_is_taken_exactly(self):
        """Numbers of any type, in every binade and at both ends of the range, are read exactly and
        rounded once."""
        class Ratio:                            # as NumPy's long doubles, gmpy2's numbers
            def __init__(self, x):
                self.x = x

            def __float__(self):
                return float(self.x)

            def as_integer_ratio(self):
                return self.x.numerator, self.x.denominator

        class Parts:                            # as mpmath's and SymPy's floats
            def __init__(self, x):
                e = self.log2(x.denominator)
                self._mpf_ = (int(x < 0), abs(x.numerator), -e, x.numerator.bit_length())
                self.x = x

            @staticmethod
            def log2(power):
                return power.bit_length() - 1

            def __float__(self):
                return float(self.x)

        def decimal(x):                         # a dyadic number has all its digits
            with localcontext() as c:
                c.prec, c.Emax, c.Emin = 40000, MAX_EMAX, MIN_EMIN
                return Decimal(x.numerator) / Decimal(x.denominator)

        sys.set_int_max_str_digits(0)
        for e in list(range(-16510, 16384, 601)) + list(range(-16496, -16480)) + [16383, -1074, 1023]:
            x = random.choice([-1, 1]) * random.getrandbits(140) * Fraction(2) ** (e - 140)
            if x == 0:
                continue
            kinds = [x, Ratio(x), Parts(x), decimal(x), str(decimal(x))]
            if x.denominator == 1:
                kinds.append(int(x))
            if float(Fraction(x)) == x if abs(e) < 1000 else False:
                kinds.append(float(x))
            want = self.nearest(x)
            for kind in kinds:
                self.assertEqual(limber.Quad([kind]).item(), want, (type(kind), e))
        self.assertEqual(limber.Quad([Parts(Fraction(2) ** 17001)]).item(), math.inf)
        self.assertEqual(limber.Quad([Parts(Fraction(1, 2 ** 17001))]).item(), 0)

    def test_what_a_double_does_not_hold_is_refused(self):
        class Opaque:
            """A number of which only a double can be had."""
            def __init__(self, x):
                self.x = x

            def __float__(self):
                return float(self.x)

            def __eq__(self, other):
                return self.x == other

        self.assertEqual(limber.Quad([Opaque(Fraction(1, 2))]).item(), Fraction(1, 2))
        with self.assertRaises(limber.BadArgument):
            limber.Quad([Opaque(Fraction(1, 3))])

    @unittest.skipUnless(numpy, "NumPy")
    def test_long_doubles(self):
        """NumPy's long doubles and other scalars become Quads exactly."""
        one, rest = numpy.longdouble(1), numpy.longdouble(2) ** -60
        for x in (one + rest, (one + rest) * numpy.longdouble(2) ** 5000, -rest / 3, numpy.float32(0.1),
                  numpy.longdouble("-0.0"), numpy.longdouble("-inf"), numpy.int64(-2 ** 63)):
            want = float(x) if not numpy.isfinite(x) else Fraction(*map(int, x.as_integer_ratio())) \
                if hasattr(x, "as_integer_ratio") else int(x)
            self.assertEqual(limber.Quad([x]).item(), want)
            self.assertEqual(limber.Quad(numpy.array([x])).to_fractions(), [want])
        self.assertTrue(math.isnan(limber.Quad([numpy.longdouble("nan")]).item()))

    def test_numbers_of_mpmath(self):
        """Numbers of mpmath are rounded once."""
        try:
            import mpmath
        except ImportError:
            self.skipTest("no mpmath")
        with mpmath.workprec(130):
            third = mpmath.mpf(1) / 3
            sign, digits, e, _ = third._mpf_
            self.assertEqual(limber.Quad([third, -third]).to_fractions(),
                             [self.nearest(s * int(digits) * Fraction(2) ** e) for s in (1, -1)])
            ends = [mpmath.inf, -mpmath.inf, mpmath.mpf(0), mpmath.mpf("1e99999"), mpmath.mpf("1e-99999")]
            self.assertEqual(limber.Quad(ends).to_fractions(), [math.inf, -math.inf, 0, math.inf, 0])
            self.assertTrue(math.isnan(limber.Quad([mpmath.nan]).item()))

    def test_arithmetic_is_rounded_once(self):
        """Checks each operation against fractions, over the whole range and near midpoints."""
        tiny, most = Fraction(2) ** -16494, (2 ** 113 - 1) * Fraction(2) ** 16271
        x = [random.choice([-1, 1]) * random.getrandbits(113) * Fraction(2) ** random.randint(-16494, 16271)
             for _ in range(60)]
        x += [random.getrandbits(113) * Fraction(2) ** random.randint(-230, 4) for _ in range(300)]
        x += [1 + Fraction(2) ** -112, Fraction(1), Fraction(2) ** -113, tiny, 3 * tiny, most, -most]
        y = random.sample(x, len(x))
        a, b = limber.Quad(x), limber.Quad(y)
        self.assertEqual(a.to_fractions(), x)

        def expect(exact):
            """The exact value rounded to the format; beyond its largest number, infinity."""
            rounded = self.nearest(exact)
            return rounded if abs(rounded) <= most else math.inf if rounded > 0 else -math.inf

        for found, exact in ((a + b, lambda p, q: p + q), (a - b, lambda p, q: p - q),
                             (a * b, lambda p, q: p * q),
                             (a / b, lambda p, q: p / q if q else q)):
            for p, q, value in zip(x, y, found.to_fractions()):
                if q or exact(p, 1) == p:
                    self.assertEqual(value, expect(exact(p, q)), (p, q))
        for p, root in zip(x, abs(a).sqrt().to_fractions()):
            if p:       # the midpoints to both neighbours enclose it
                near = [Fraction(r) for r in (limber.Quad(root) * limber.Quad(
                    [1 - Fraction(2) ** -113, 1 + Fraction(2) ** -112])).to_fractions()]
                self.assertTrue(((near[0] + root) / 2) ** 2 <= abs(p) <= ((near[1] + root) / 2) ** 2)
        for p, q, *order in zip(x, y, a < b, a == b, a >= b):
            self.assertEqual(order, [p < q, p == q, p >= q])

    def test_arithmetic_of_special_numbers(self):
        """Infinities, NaN and signed zeros behave as with doubles."""
        def shown(x):
            """A number in a form that tells 0 from -0, and equals itself for NaN."""
            return "nan" if math.isnan(x) else (x == 0 and math.copysign(1, x), float(x))

        values = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]
        for x in values:
            p = limber.Quad(x)
            for y in values:
                q = limber.Quad(y)
                divided = math.nan if y == 0 and (x == 0 or x != x) else \
                    math.copysign(math.inf, math.copysign(1, x) * math.copysign(1, y)) if y == 0 \
                    else x / y
                for found, wanted in ((p + q, x + y), (p - q, x - y), (p * q, x * y), (p / q, divided)):
                    self.assertEqual(shown(found.item()), shown(wanted), (x, y))
                self.assertEqual((p == q, p != q, p < q, p <= q, p > q, p >= q),
                                 (x == y, x != y, x < y, x <= y, x > y, x >= y), (x, y))
            self.assertEqual((shown((-p).item()), shown(abs(p).item()), bool(p)),
                             (shown(-x), shown(abs(x)), bool(x)))
            root = math.sqrt(x) if x >= 0 else math.nan
            self.assertEqual(shown(p.sqrt().item()), shown(root))

    def test_operands_of_arithmetic(self):
        """Operands of other types, broadcasting and comparisons."""
        q = limber.Quad([[1, 2], [3, 4]])
        third = limber.Quad(Fraction(1, 3)).item()
        self.assertEqual((q * Fraction(1, 3)).to_fractions()[0][0], third)
        self.assertEqual((1 / (q + 2)).to_fractions()[0][0], third)
        self.assertEqual((q - [1, 2]).to_fractions(), [[0, 0], [2, 2]])
        self.assertEqual((Decimal("0.5") + q - 2.5).to_fractions(), [[-1, 0], [1, 2]])
        self.assertEqual((limber.Quad([[1], [10]]) * limber.Quad([1, 2, 3])).to_fractions(),
                         [[1, 2, 3], [10, 20, 30]])
        self.assertEqual([list(row) for row in q > 2], [[False, False], [True, True]])
        self.assertTrue(limber.Quad("0.1") != 0.1)
        for third in Fraction(1, 3), -Fraction(1, 3), Decimal("0.1"), 2 ** 200 + 1:     # not rounded first
            x = limber.Quad(third).item()
            self.assertEqual([[x == third, x < third, x > third], [x == x, x < x, x > x]],
                             [[p == q, p < q, p > q] for p in [limber.Quad(third)]
                              for q in (third, x)])
        self.assertEqual(list(limber.Quad([1, Fraction(1, 3)]) == [1, Fraction(1, 3)]), [True, False])
        self.assertFalse(limber.Quad(1) == None)        # noqa: no number
        self.assertEqual((limber.Quad(2 ** 70 + 1) - 2 ** 70).item(), 1)
        for text, call in (("shapes .* do not match", lambda: q + [1, 2, 3]),
                           ("neither true nor false", lambda: bool(q)),
                           ("1j", lambda: q + 1j)):
            with self.assertRaisesRegex(limber.BadArgument, text):
                call()
        with self.assertRaises(TypeError):
            q + "1"
        with self.assertRaises(TypeError):
            hash(q)

    def test_sums_are_rounded_once(self):
        x = [random.choice([-1, 1]) * random.getrandbits(113) * Fraction(2) ** random.randint(-300, 300)
             for _ in range(60)]
        x[7], x[8:10] = -x[6], [Fraction(2) ** -16494, Fraction(2) ** 16383]
        q = limber.Quad([[x[i:i + 5] for i in range(j, j + 15, 5)] for j in range(0, 60, 15)])
        at = {(i, j, k): x[15 * i + 5 * j + k] for i in range(4) for j in range(3) for k in range(5)}
        for axis in (None, 0, 1, -1, (0, 2), (1, -3), (0, 1, 2), ()):
            over = {0, 1, 2} if axis is None else {v % 3 for v in (axis if isinstance(axis, tuple) else [axis])}
            groups = {}
            for place, value in at.items():
                groups.setdefault(tuple(p for a, p in enumerate(place) if a not in over), []).append(value)
            for mean, found in ((False, q.sum(axis=axis)), (True, q.mean(axis=axis))):
                flat = found.to_fractions()
                while found.shape and flat and isinstance(flat[0], list):
                    flat = [v for row in flat for v in row]
                want = [self.nearest(sum(g) / (len(g) if mean else 1)) for _, g in sorted(groups.items())]
                self.assertEqual(flat if found.shape else [flat], want, (axis, mean))
            kept = q.sum(axis=axis, keepdims=True)
            self.assertEqual(kept.shape, tuple(1 if a in over else e for a, e in enumerate((4, 3, 5))))
        for values, want in (([0.0, -0.0], 0.0), ([-0.0, -0.0], -0.0), ([], 0.0), ([1, -1], 0.0),
                             ([math.inf, 1], math.inf), ([-math.inf, 1], -math.inf),
                             ([math.inf, -math.inf], math.nan), ([1, math.nan], math.nan)):
            if not values and not numpy:        # memoryviews have no empty axes
                continue
            found = float(limber.Quad(values).sum())
            self.assertEqual(repr(found), repr(want), values)
        self.assertTrue(not numpy or math.isnan(float(limber.Quad([]).mean())))
        with self.assertRaisesRegex(limber.BadArgument, "axis = 3"):
            q.sum(axis=3)
        with self.assertRaisesRegex(limber.BadArgument, "sums of Quads are Quads"):
            q.sum(dtype="f8")

    @unittest.skipUnless(numpy, "NumPy")
    def test_functions_of_numpy_take_quads(self):
        """NumPy's functions work like the operators: with both orders of operands, and into `out`.
        Other functions are refused by name."""
        a = numpy.array([[1.5, -2, 0.25], [3, 0.5, -7]])
        p, q = limber.Quad(a), limber.Quad(a[::-1] + 2.0 ** -40) / 3
        for name, by in (("add", lambda x, y: x + y), ("subtract", lambda x, y: x - y),
                         ("multiply", lambda x, y: x * y), ("divide", lambda x, y: x / y),
                         ("less", lambda x, y: x < y), ("less_equal", lambda x, y: x <= y),
                         ("greater", lambda x, y: x > y), ("greater_equal", lambda x, y: x >= y),
                         ("equal", lambda x, y: x == y), ("not_equal", lambda x, y: x != y)):
            f, want = getattr(numpy, name), by(p, q)
            for x, y in ((p, q), (a, q), (a.tolist(), q)):
                self.assertEqual(bool(numpy.all(f(x, y) == want)), True, name)
            self.assertTrue(numpy.all(f(q, a) == by(q, p)), name)
            out = limber.Quad.zeros(p.shape) if isinstance(want, limber.Quad) else numpy.zeros(p.shape, bool)
            self.assertIs(f(a, q, out=out), out)
            self.assertTrue(numpy.all(out == want), name)
        third = Fraction(1, 3)
        self.assertEqual([bool(numpy.less(third, limber.Quad(third))), bool(limber.Quad(third) > third)],
                         [third < limber.Quad(third).item()] * 2)
        for name, want in (("negative", -q), ("absolute", abs(q)), ("positive", q), ("sqrt", abs(q).sqrt()),
                           ("square", q * q)):
            found = getattr(numpy, name)(abs(q) if name == "sqrt" else q)
            self.assertTrue((found == want).all(), name)
        self.assertEqual((numpy.sum(q).item(), numpy.mean(q, axis=0).to_fractions()),
                         (q.sum().item(), q.mean(axis=0).to_fractions()))
        self.assertEqual(numpy.add.reduce(q).to_fractions(), q.sum(axis=0).to_fractions())
        self.assertTrue(((a @ limber.Quad(a.T)) == numpy.matmul(limber.Quad(a), a.T)).all())
        odd = limber.Quad([1, -0.0, math.inf, -math.inf, math.nan])
        for name in "isnan", "isinf", "isfinite":
            self.assertEqual(getattr(numpy, name)(odd).tolist(), getattr(
                numpy, name)([1, -0.0, math.inf, -math.inf, math.nan]).tolist(), name)
        self.assertEqual(numpy.signbit(odd)[:4].tolist(), [False, True, False, True])
        for text, call in ((r"numpy.exp of Quads is not served", lambda: numpy.exp(q)),
                           (r"numpy.multiply of Quads is not served, nor is its reduce",
                            lambda: numpy.multiply.reduce(q)),
                           (r"numpy.add of Quads: where", lambda: numpy.add(q, q, where=a > 0))):
            with self.assertRaisesRegex(TypeError, text):
                call()
        with self.assertRaisesRegex(limber.BadArgument, "out: is no array"):
            numpy.add(q, q, out=numpy.zeros((2, 3)))

    @unittest.skipUnless(numpy, "NumPy")
    def test_arrays_become_quads_exactly(self):
        x = numpy.array([[1.5, -2.0 ** -1074], [math.inf, 1e308]])
        for array in (x, x.T, x[:, ::-1], x.astype(">f8"), x.astype("g")):
            self.assertEqual(limber.Quad(array).to_fractions(), limber.Quad(array.tolist()).to_fractions())
        for kind in "bhiqBHILe?":
            array = numpy.arange(100, 128).astype(kind)
            self.assertEqual(limber.Quad(array).to_fractions(), [int(v) if kind != "e" else Fraction(float(v)) for v in array])
        for ends in ([2 ** 64 - 1], [2 ** 63]):
            self.assertEqual(limber.Quad(numpy.array(ends, "u8")).to_fractions(), ends)
        self.assertEqual(limber.Quad(numpy.array([Fraction(1, 2)])).to_fractions(), [Fraction(1, 2)])
        q = limber.Quad(x)
        self.assertEqual((numpy.float64(2) * q).to_fractions()[0], [3, -Fraction(2) ** -1073])
        self.assertEqual((x + q - x).to_fractions()[0], x[0].tolist())
        self.assertEqual((numpy.longdouble(1) / limber.Quad(3)).item(), limber.Quad(Fraction(1, 3)).item())
        self.assertEqual((q == x).tolist(), [[True, True], [True, True]])
        copy = limber.Quad(q)
        q.words[...] = 0
        self.assertEqual(copy[0, 0].item(), 1.5)
        with self.assertRaisesRegex(limber.BadArgument, "values: complex"):
            limber.Quad(x + 0j)
        if ml_dtypes:
            small = numpy.arange(-4, 4).astype(ml_dtypes.bfloat16)
            self.assertEqual(limber.Quad(small).to_fractions(), list(range(-4, 4)))

    def test_ends_of_the_range(self):
        least = Fraction(2) ** -16494
        most = (2 ** 113 - 1) * Fraction(2) ** (16383 - 112)
        values = [least, least / 2, least * Fraction(3, 2), most, most + Fraction(2) ** 16270,
                  most + Fraction(2) ** 16269, (2 ** 112 - Fraction(1, 2)) * least]
        self.assertEqual(limber.Quad(values).to_fractions(),
                         [least, 0, 2 * least, most, math.inf, most, 2 ** 112 * least])
        strings = limber.Quad(["1e5000", "-1e99999999999", "1e-99999999999", "-inf", "-0", "nan"])
        self.assertEqual(strings.to_fractions()[:4], [math.inf, -math.inf, 0, -math.inf])
        self.assertEqual(math.copysign(1, strings.to_fractions()[4]), -1)
        self.assertTrue(math.isnan(strings.to_fractions()[5]))

    def test_decimal_strings(self):
        """Decimal strings are rounded once, and printed digits identify a number."""
        sys.set_int_max_str_digits(0)     # of a failure's text
        texts = ["0.1", "-3.14159265358979323846264338327950288", "1e-4940", "12345678901234567890e20"]
        q = limber.Quad(texts)
        self.assertEqual(q.to_fractions(), [self.nearest(Fraction(t)) for t in texts])
        self.assertEqual(limber.Quad(q.to_strings()).to_fractions(), q.to_fractions())
        self.assertEqual(limber.Quad(["0.1"]).to_strings(5), ["1.0000e-1"])
        self.assertEqual(limber.Quad([Fraction(99999, 10)]).to_strings(3), ["1.00e+4"])
        with self.assertRaises(limber.BadArgument):
            limber.Quad(["1.5x"])

    def test_pairs(self):
        """Pairs of doubles to and from Quads."""
        hi = [random.uniform(-1, 1) * 2.0 ** random.randint(-80, 80) for _ in range(300)]
        lo = [x * 2.0 ** -random.randint(53, 140) * random.uniform(-1, 1) for x in hi]
        q = limber.Quad.from_pairs(array.array("d", hi), array.array("d", lo))
        self.assertEqual(q.to_fractions(),
                         [self.nearest(Fraction(x) + Fraction(y)) for x, y in zip(hi, lo)])
        high, low = q.to_pairs()
        for x, h, l in zip(q.to_fractions(), memoryview(high).tolist(), memoryview(low).tolist()):
            self.assertEqual((h, l), (float(x), float(x - Fraction(float(x)))))
        self.assertEqual(limber.Quad.from_pairs(array.array("d", hi)).to_fractions(),
                         [Fraction(x) for x in hi])

    def test_products(self):
        """Products of Quads and of doubles are rounded once."""
        a = [[Fraction(random.randint(-10 ** 30, 10 ** 30), 7 ** 20) for _ in range(6)]
             for _ in range(3)]
        b = draw(6, 2)
        qa = limber.Quad(a)
        with limber.Context(contract="correct") as ctx:
            c = ctx.matmul(qa, buffer(b), alpha=Fraction(1, 3), report=False)
        third = limber.Quad([Fraction(1, 3)]).to_fractions()[0]
        exact = product(qa.to_fractions(), b)
        self.assertEqual(c.to_fractions(), [[self.nearest(third * x) for x in row] for row in exact])

    def test_double_doubles(self):
        """Products of pairs of doubles (dd)."""
        x = [[1 / 3, 1 / 3 * 2.0 ** -54], [-0.7, 1e-18]]
        dd = memoryview(array.array("d", sum(x, []))).cast("B").cast("d", (1, 2, 2))
        ones = memoryview(array.array("d", [1, 0, 1, 0])).cast("B").cast("d", (2, 1, 2))
        with limber.Context(contract="correct") as ctx:
            hi, lo = memoryview(ctx.matmul(dd, ones, format="dd")).tolist()[0][0]
            one = ctx.matmul(dd, ones, format="dd", dtype="f128").to_fractions()[0][0]
        exact = sum(Fraction(v) for pair in x for v in pair)
        self.assertEqual((hi, lo), (float(exact), float(exact - Fraction(float(exact)))))
        self.assertEqual(one, self.nearest(exact))


@unittest.skipUnless(numpy, "NumPy is absent")
class Ops(unittest.TestCase):
    """Tests arrays and options of limber.ops.  The arithmetic is tested in C."""

    @classmethod
    def setUpClass(cls):
        from limber import ops
        cls.ops = ops

    def test_functions_of_numpy(self):
        """Functions that NumPy has, too, rounded once from binary64 to float16."""
        x = numpy.linspace(-9, 9, 1001).astype(numpy.float16).reshape(7, 11, 13)
        wide = x.astype(numpy.float64)
        for name, of in (("exp", numpy.exp), ("tanh", numpy.tanh), ("sin", numpy.sin),
                         ("floor", numpy.floor), ("square", numpy.square), ("abs", numpy.abs),
                         ("arctan", numpy.arctan), ("expm1", numpy.expm1)):
            f = getattr(self.ops, {"arctan": "atan"}.get(name, name))
            y = f(x)
            self.assertEqual((y.shape, y.dtype), (x.shape, x.dtype))
            self.assertTrue((y == of(wide).astype(numpy.float16)).all(), name)
            single = f(x, dtype=numpy.float32)
            self.assertTrue(numpy.allclose(single, of(wide), rtol=2 ** -23, atol=0), name)

    def test_all_are_there(self):
        """The module has every function of the library, with a docstring."""
        self.assertIn("gelu_tanh", self.ops.__all__)
        self.assertEqual(len(self.ops.__all__), 43 + 8)     # functions and reductions
        for name in self.ops.__all__:
            self.assertTrue(getattr(self.ops, name).__doc__)

    def test_places(self):
        """Strided, empty and scalar arrays, results in place, and a context."""
        x = numpy.arange(24, dtype=numpy.float32).reshape(4, 6)
        self.assertTrue((self.ops.neg(x[:, ::2]) == -x[:, ::2]).all())
        self.assertTrue((self.ops.neg(x.T) == -x.T).all())
        self.assertEqual(self.ops.exp(numpy.float64(0)).shape, ())
        self.assertEqual(self.ops.exp(numpy.empty((0, 3))).shape, (0, 3))
        y = x.copy()
        self.assertIs(self.ops.clamp(y, 3, 5, out=y), y)
        self.assertTrue((y == x.clip(3, 5)).all())
        with limber.Context(threads=2) as ctx:
            self.assertTrue((self.ops.leaky_relu(-x, 0.5, context=ctx) == -x / 2).all())

    def test_reductions(self):
        """Sums are exact and rounded once; other reductions are near NumPy's."""
        ops, half = self.ops, numpy.float16
        x = numpy.random.default_rng(3).uniform(-1, 1, (3, 40, 5)).astype(half)
        exact = lambda v: half(float(sum(map(Fraction, v.astype(float).tolist()))))
        self.assertEqual(ops.sum(x), exact(x.ravel()))
        y = ops.sum(x, axis=1)
        self.assertEqual((y.shape, y.dtype), ((3, 5), half))
        self.assertTrue(all(y[i, j] == exact(x[i, :, j]) for i in range(3) for j in range(5)))
        self.assertTrue((ops.max(x, -1) == x.max(-1)).all())
        wide = x.astype(float)
        near = lambda a, b: numpy.allclose(a.astype(float), b, rtol=2e-3, atol=1e-3)
        self.assertTrue(near(ops.mean(x, 0), wide.mean(0)))
        self.assertTrue(near(ops.variance(x, 1, correction=1), wide.var(1, ddof=1)))
        self.assertTrue(near(ops.softmax(x, 1).sum(1), numpy.ones((3, 5))))
        w = numpy.full(5, 2, half)
        normal = (wide - wide.mean(-1)[..., None]) / wide.std(-1)[..., None]
        self.assertTrue(near(ops.layer_norm(x, scale=w, shift=w, epsilon=0, carry="f32"),
                             2 * normal + 2))
        self.assertTrue(near(ops.rms_norm(x, epsilon=0),
                             wide / numpy.sqrt((wide ** 2).mean(-1))[..., None]))
        self.assertTrue((ops.add_n([x, x], dtype=numpy.float32) == 2 * x).all())
        total, lost = ops.sum(numpy.ones(5000, half), carry="storage", swallowed=True)
        self.assertEqual((total, lost), (2048, 5000 - 2048))
        out = numpy.empty((), numpy.float64)
        self.assertIs(ops.sum(x, out=out), out)
        for text, call in (
                ("axis = 3: x has 3 axes", lambda: ops.sum(x, 3)),
                ("carry = 'f16' is none of", lambda: ops.sum(x, carry="f16")),
                ("correction = 2", lambda: ops.variance(x, correction=2)),
                ("scale: is float16", lambda: ops.rms_norm(x, scale=w[:2])),
                ("arrays: there is none", lambda: ops.add_n([])),
                ("arrays: their shapes", lambda: ops.add_n([x, x[0]])),
                ("out: its shape is", lambda: ops.sum(x, 0, out=out))):
            with self.assertRaisesRegex(limber.BadArgument, text):
                call()

    def test_no_copies(self):
        """The library reads and writes the arrays' own memory."""
        seen, ops = [], self.ops

        class Watch:
            """Stands for the library, and records the structures passed to its functions."""
            def __getattr__(self, name):
                function = getattr(limber._library.lib, name)

                def call(handle, given):
                    seen.append(given._obj)
                    return function(handle, given)
                return call

        kinds = [numpy.float16, numpy.float32, numpy.float64]
        if ml_dtypes:
            kinds += [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
        for kind in kinds:
            x, y = numpy.ones((2, 3, 40), kind), numpy.full((2, 3, 40), 2, kind)
            out = numpy.empty((2, 3, 40), kind)
            with unittest.mock.patch.object(ops, "lib", Watch()):
                seen.clear()
                ops.exp(x, out=out)
                ops.softmax(x, out=out)
                ops.sum(x, 1)
                total = ops.add_n([x, y, x], out=out)
            self.assertEqual([(c.src, c.dst) for c in seen[:2]],
                             2 * [(x.ctypes.data, out.ctypes.data)])
            self.assertEqual(seen[2].src, x.ctypes.data)
            self.assertEqual([seen[3].arrays[i] for i in range(3)],
                             [x.ctypes.data, y.ctypes.data, x.ctypes.data])
            self.assertIs(total, out)
            self.assertTrue((out.astype(float) == 4).all())
            self.assertIs(ops.add_n([x, y], out=x), x)
            self.assertTrue((x.astype(float) == 3).all())

    def test_add_n_rounds_once(self):
        x = [numpy.full(3, v, numpy.float16) for v in (2048, 1, 1, 1, -0.5)]
        self.assertEqual(self.ops.add_n(x).tolist(), 3 * [2050])
        self.assertEqual(self.ops.add_n(x, carry="storage", swallowed=True)[1], 3 * 4)

    def test_options(self):
        """Directions of rounding, and the types of isnan and isinf."""
        x = numpy.array([1.0])
        up = self.ops.exp(x, dtype=numpy.float16, rounding="up")
        down = self.ops.exp(x, dtype=numpy.float16, rounding="down")
        self.assertTrue(float(down[0]) < math.e < float(up[0]) < 2.7200)
        self.assertEqual(self.ops.isinf(numpy.array([-math.inf, 1, math.nan])).tolist(), [-1, 0, 0])
        self.assertEqual(self.ops.isnan(numpy.array([1, math.nan])).dtype, numpy.int8)

    def test_formats_by_name(self):
        """`dtype` has the meaning that it has in other functions of the package."""
        x = numpy.linspace(0.5, 4, 15).astype("f4").reshape(3, 5)
        names = set(limber.formats()) - {"f128", "dd"} | {"bfloat16", "half", "f8", "(1,5,4)"}
        if ml_dtypes is None:
            names.remove("bfloat16")
        for name in sorted(names):
            want = limber.convert(x, name)
            got = self.ops.cast(x, dtype=name, nan_to_zero=True)
            self.assertEqual((got.dtype, got.tobytes()), (want.dtype, want.tobytes()), name)
            out = numpy.zeros_like(want)
            self.assertIs(self.ops.cast(x, out=out, dtype=name, nan_to_zero=True), out)
            self.assertEqual(out.tobytes(), want.tobytes(), name)
        for name in "bf16", "tf32", "e5m2":
            for got, want in ((self.ops.sum(x, 1, dtype=name), x.sum(1)),
                              (self.ops.add_n([x, x], dtype=name), 2 * x),
                              (self.ops.max(x, dtype=name), x.max())):
                self.assertEqual(got.tobytes(), limber.convert(want, name).tobytes(), name)
        for name, text in (("f128", "dtype: elements of type f128"), (">f2", "dtype: .*>f2"),
                           ("complex64", "dtype: .*complex64"), ("odd", "dtype = 'odd'")):
            with self.assertRaisesRegex(limber.BadArgument, text):
                self.ops.cast(x, dtype=name)
        with self.assertRaisesRegex(limber.BadArgument, "out: elements are of type uint8"):
            self.ops.cast(x, dtype="bf16", out=numpy.zeros(x.shape, "u1"))

    def test_small_types(self):
        """Types of ml_dtypes, as operands and as results."""
        if ml_dtypes is None:
            self.skipTest("ml_dtypes is absent")
        x = numpy.linspace(-4, 4, 33)
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"):
            kind = getattr(ml_dtypes, name, None)
            if kind is None:        # of an older version
                continue
            y = self.ops.cast(x, dtype=kind, nan_to_zero=True)
            self.assertTrue((y == x.astype(kind)).all())
            if kind(0).itemsize == 1 and name != "float4_e2m1fn":
                codes = numpy.arange(256, dtype=numpy.uint8).view(kind)
                with numpy.errstate(all="ignore"):
                    want = numpy.tanh(codes.astype(float)).astype(kind)
                got = self.ops.tanh(codes)
                self.assertTrue(((got == want) | (numpy.isnan(got.astype(float)) &
                                                  numpy.isnan(want.astype(float)))).all())
            if name != "float4_e2m1fn":
                self.assertTrue((self.ops.exp(y) == numpy.exp(y.astype(float)).astype(kind)).all())

    def test_refused(self):
        """Wrong arguments are refused by name."""
        x = numpy.ones(3, numpy.float16)
        for text, call in (
                ("exp is not defined on i64", lambda: self.ops.exp(numpy.arange(3))),
                ("x: elements of type complex128", lambda: self.ops.exp(numpy.ones(2) + 1j)),
                ("x: elements of type >f2", lambda: self.ops.exp(x.astype(">f2"))),
                ("p = 2 is not at most q = 1", lambda: self.ops.clamp(x, 2, 1)),
                ("rounding = 'even' is none of", lambda: self.ops.exp(x, rounding="even")),
                ("compute = 'f16' is none of", lambda: self.ops.exp(x, compute="f16")),
                ("out: its shape is", lambda: self.ops.exp(x, out=x[:2])),
                ("out: elements are of type", lambda: self.ops.exp(x, out=x, dtype="f4")),
                ("out: it is not contiguous", lambda: self.ops.exp(x, out=numpy.ones(6, "e")[::2])),
                ("dst and src overlap", lambda: (lambda r: self.ops.exp(r[1:4], out=r[:3]))(
                    numpy.ones(5)))):
            with self.assertRaisesRegex(limber.BadArgument, text):
                call()


@unittest.skipUnless(numpy, "NumPy is absent")
class Conversions(unittest.TestCase):
    """Tests convert, quantize and fixed."""
    def test_rounding(self):
        """Directions of rounding, with the signs of zeros."""
        x = numpy.array([[1 + 2.0 ** -9, -1 - 3 * 2.0 ** -9], [2.0 ** -140, -0.0]])
        down, up = [[1, -1 - 2.0 ** -7], [0, -0.0]], [[1 + 2.0 ** -7, -1], [2.0 ** -133, -0.0]]
        for rounding, want in (("down", down), ("up", up), ("zero", [[1, -1], [0, -0.0]]),
                               ("nearest", [[1, -1 - 2.0 ** -7], [0, -0.0]]),
                               ("odd", [[1 + 2.0 ** -7, -1 - 2.0 ** -7], [2.0 ** -133, -0.0]])):
            bits = limber.convert(x, "bf16", rounding=rounding)
            self.assertEqual(bits.dtype, "u2")
            got = (bits.astype("u4") << 16).view("f4")
            self.assertEqual(got.tolist(), want, rounding)
            self.assertEqual(numpy.signbit(got).tolist(), numpy.signbit(x).tolist())
            self.assertTrue((limber.quantize(x, "bf16", rounding=rounding) == want).all())
            self.assertEqual(limber.convert(bits, "f64", holds="bf16").tolist(), want)
        half = numpy.array([1 + 2.0 ** -8, -1 - 2.0 ** -8])
        self.assertEqual(limber.quantize(half, "bf16").tolist(), [1, -1])
        self.assertEqual(limber.quantize(half, "bf16", rounding="away").tolist(),
                         [1 + 2.0 ** -7, -1 - 2.0 ** -7])

    def test_stochastic_rounding(self):
        """Stochastic rounding follows section 8 of docs/simulation.md, computed here with the
        library's random numbers."""
        random_of = limber._library.lib.limber_unit_random
        random_of.restype, random_of.argtypes = ctypes.c_uint32, [
            ctypes.c_uint64, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint32]
        for kind, to in ("f4", "(1,5,4)"), ("f8", "(1,5,4)"), ("f8", "f16"), ("f8", "f32"), \
                ("f8", "bf16"), ("f8", "tf32"):
            self.follows_the_rule(random_of, kind, to)
        ends = numpy.array([-0.0, 0.0, math.inf, 1e30, -1e-30, 448, 17.5], "f")
        for ends in ends, ends * 1.0000000001:
            self.has_ends(ends)

    def follows_the_rule(self, random_of, kind, to):
        """Compares each number's stochastic rounding with the documented rule."""
        x = numpy.random.default_rng(8).standard_normal((40, 50)).astype(kind)
        x[0, :8] = [0.0, -0.0, 2e-5, -3e-5, 1e-300 if kind == "f8" else 1e-30, 1, -1.5, 7e-5]
        x[1:4] *= 2.0 ** -14 if to in ("f16", "(1,5,4)") else 2.0 ** -126     # subnormal results
        low, high = (limber.quantize(x, to, rounding=r) for r in ("zero", "odd"))
        high = numpy.where(low == x, x, numpy.where(
            x > 0, limber.quantize(x, to, rounding="up"),
            limber.quantize(x, to, rounding="down")))
        for bits in 16, 3:
            got = limber.quantize(x, to, rounding="stochastic", seed=9, random_bits=bits)
            part = numpy.zeros(x.shape)
            numpy.divide(x - low, high - low, out=part, where=high != low)
            r = numpy.array([random_of(9, i, 0, 3, 0) >> (32 - bits) for i in range(x.size)])
            away = numpy.floor(part * 2 ** bits) + r.reshape(x.shape) >= 2 ** bits
            self.assertTrue((got == numpy.where(away, high, low)).all(), to)
            self.assertTrue(0.3 < (away & (low != high)).mean() < 0.7)

    def test_stochastic_rounding_of_doubles(self):
        """Numbers that binary32 holds are rounded alike whether or not others in the array need
        doubles.  The probability of a neighbour is proportional to the distance from the other.
        Overflow is as for binary32."""
        x = numpy.random.default_rng(2).standard_normal(4000).astype("f").astype("d")
        x *= 2.0 ** numpy.random.default_rng(3).integers(-30, 30, 4000)
        mixed = numpy.append(x, 1 / 3)
        for to in ("e4m3", "e5m2", "bf16", "f16", "tf32", "(1,5,4)", "e2m1", "(1,8,20)", "e4m3fnuz",
                   "e3m2"):
            for saturate in True, False:
                alone, among = (limber.convert(y, to, rounding="stochastic", seed=4, random_bits=16,
                                               saturate=saturate) for y in (x, mixed))
                self.assertEqual(alone.tobytes(), among[:-1].tobytes(), (to, saturate))
        count = 100000
        for to, ulp in ("f32", 2.0 ** -23), ("f16", 2.0 ** -10), ("e4m3", 2.0 ** -3):
            for part in 0.25, 0.7, 2.0 ** -9 + 2.0 ** -20:
                for sign in 1, -1:
                    at = numpy.full(count, sign * (1 + part * ulp))
                    got = limber.quantize(at, to, rounding="stochastic", seed=77, random_bits=16)
                    up = got == sign * (1 + ulp)
                    self.assertTrue((up | (got == sign)).all())
                    deviation = math.sqrt(part * (1 - part) / count)
                    self.assertTrue(abs(up.mean() - part) < 4 * deviation + 2.0 ** -16, (to, part))
        for to in "i8", "e4m3fnuz":     # no units have these
            got = limber.quantize(numpy.full(count, 16.75), to, rounding="stochastic", seed=5)
            low = limber.quantize(numpy.array([16.75]), to, rounding="zero")[0]
            high = limber.quantize(numpy.array([16.75]), to, rounding="up")[0]
            self.assertTrue(((got == low) | (got == high)).all())
            self.assertTrue(abs(got.mean() - 16.75) < 0.02 * (high - low), to)
        self.assertEqual(limber.convert([1e9, -128.5], "i8", rounding="stochastic", seed=5).tolist(),
                         [127, -128])
        most = float(numpy.finfo("f").max)
        beyond = numpy.array([most * (1 + 2.0 ** -25), 2.0 ** 128, 1e300, math.inf, math.nan,
                              2.0 ** -149 / 3, 1e-310])
        seen = set()
        for seed in range(12):
            for sign in 1, -1:
                got = sign * limber.convert(sign * beyond, "f32", rounding="stochastic", seed=seed)
                self.assertEqual(got[1:4].tolist(), [math.inf] * 3)
                self.assertTrue(numpy.isnan(got[4]))
                self.assertIn(got[5], (0, 2.0 ** -149))
                self.assertEqual(got[6], 0)
                seen |= {got[0], got[5]}
                kept = sign * limber.convert(sign * beyond, "f32", rounding="stochastic", seed=seed,
                                             saturate=True)
                self.assertEqual(kept[:3].tolist(), [most] * 3)
        self.assertEqual(seen, {float(most), math.inf, 0, 2.0 ** -149})

    def has_ends(self, ends):
        """Checks quantize at infinities, NaN and the largest numbers."""
        got = limber.quantize(ends, "e4m3", rounding="stochastic", seed=1, saturate=True)
        self.assertEqual(got[:4].tolist() + got[5:6].tolist(), [0, 0, 448, 448, 448])
        self.assertEqual(numpy.signbit(got).tolist(), numpy.signbit(ends).tolist())
        self.assertIn(got[6], (16, 18))
        self.assertEqual(limber.convert(numpy.empty((0, 3)), "bf16", rounding="stochastic",
                                        seed=0).shape, (0, 3))

    def test_ties_of_qpytorch(self):
        """Compares with QPyTorch's rounding to nearest, written from its source: adds half a unit to
        the bits of a float and truncates.  Subnormal numbers are first shifted by an addition."""
        def qpytorch(x, exponent, fraction):
            """Rounds as QPyTorch's float_quantize, including its way to round subnormal numbers."""
            cut = numpy.uint32(2 ** (23 - fraction) - 1)
            half, least = numpy.uint32(2 ** (22 - fraction)), 2 - 2 ** (exponent - 1)
            shift = numpy.copysign(numpy.float32(2.0 ** least), x)
            normal = ((x.view("u4") + half) & ~cut).view("f4")
            small = (((x + shift).view("u4") + half) & ~cut).view("f4") - shift
            return numpy.where(abs(x) < 2.0 ** least, small, normal)

        random = numpy.random.default_rng(5)
        for exponent, fraction in (5, 2), (4, 3), (5, 10), (8, 7):
            name = f"(1,{exponent},{fraction})"
            ties = random.integers(-2 ** (fraction + 3), 2 ** (fraction + 3), 20000) * \
                2.0 ** random.integers(-2 ** (exponent - 1) - fraction, 2, 20000)
            x = numpy.concatenate([ties, random.standard_normal(20000)]).astype("f4")
            x = x[abs(x) <= limber.finfo(name).largest]
            want = qpytorch(x, exponent, fraction)
            got = limber.quantize(x, name, rounding="away")
            self.assertTrue((got == want).all(), name)
            self.assertTrue((limber.quantize(x, name) != want).any(), name)

    def test_significands_alone(self):
        """Without a range of exponents, a number is rounded to its leading bits.  Compares with exact
        fractions."""
        x = numpy.ldexp(numpy.random.default_rng(3).standard_normal(500),
                        numpy.arange(-1000, 1000, 4))
        for rounding, rule in (("nearest", lambda v: round(v)), ("zero", math.trunc),
                               ("up", math.ceil), ("down", math.floor)):
            got = limber.quantize(x, "e4m3", rounding=rounding, limits=False)
            for value, result in zip(x.tolist(), got.tolist()):
                unit = Fraction(2) ** (math.frexp(value)[1] - 4)
                self.assertEqual(Fraction(result), rule(Fraction(value) / unit) * unit)
        got = limber.quantize(numpy.array([math.inf, -0.0, math.nan, 5e-324]), "bf16", limits=False)
        self.assertEqual([math.isinf(got[0]), numpy.signbit(got[1]), math.isnan(got[2]), got[3]],
                         [True, True, True, 5e-324])
        self.assertRaisesRegex(limber.BadArgument, "saturate", limber.quantize, x, "e4m3",
                               limits=False, saturate=True)
        for format in "i8", "e8m0", "posit16":
            self.assertRaisesRegex(limber.BadArgument, f"limits: {format} is no", limber.quantize,
                                   x, format, limits=False)
        for kind in "f4", "f8":
            most = numpy.array([numpy.finfo(kind).max], kind)
            self.assertRaisesRegex(limber.BadArgument, "lacks", limber.quantize, most, "bf16",
                                   limits=False)

    def test_posits(self):
        """Doubles are rounded once to the nearest posit.  Compares with exact fractions, also near
        midpoints, where a conversion through binary32 would round twice."""
        drawn = numpy.random.default_rng(6)
        for bits in 8, 16, 32:
            name = f"posit{bits}"
            codes = drawn.integers(1, 2 ** (bits - 1) - 1, 300, dtype="i8")
            one = limber.convert(codes.astype(f"u{bits // 8}"), "f64", holds=name)
            more = limber.convert((codes + 1).astype(f"u{bits // 8}"), "f64", holds=name)
            # where both neighbours have all their exponent bits, the midpoint is that of the
            # numbers
            near = (one >= 2.0 ** -10) & (one < 2.0 ** 10)
            one, more, codes = one[near][:60], more[near][:60], codes[near][:60]
            if bits == 8:       # few of these have fraction bits at all
                close = more / one < 1.5
                one, more, codes = one[close], more[close], codes[close]
            middle = (one + more) / 2
            for x, low in ((middle, codes + codes % 2),
                           (middle * (1 - 2.0 ** -50), codes), (middle * (1 + 2.0 ** -50), codes + 1)):
                self.assertEqual(limber.convert(x, name).tolist(), low.tolist(), name)
                held = limber.convert(low.astype(f"u{bits // 8}"), "f64", holds=name)
                self.assertEqual(limber.quantize(x, name).tolist(), held.tolist(), name)
                self.assertEqual(limber.quantize(-x, name).tolist(), (-held).tolist(), name)
        self.assertEqual(limber.convert(numpy.array([1.5]), "posit32").dtype, "u4")

    def test_bits_flip(self):
        """flips changes at most one bit of an element, with the stated probability."""
        x = numpy.random.default_rng(3).standard_normal(4000)
        plain = limber.quantize(x, "bf16")
        self.assertEqual(limber.quantize(x, "bf16", flips=0.0).tolist(), plain.tolist())
        all = limber.quantize(x, "bf16", flips=1, seed=5)
        bits = [limber.convert(a, "bf16").view("u2").astype(int) for a in (plain, all)]
        apart = bits[0] ^ bits[1]
        self.assertTrue(((apart & (apart - 1)) == 0).all() and (apart > 0).all())
        self.assertEqual(set(apart.tolist()), {1 << i for i in range(7)})
        some = limber.quantize(x, "bf16", flips=0.1, seed=5)
        self.assertTrue(0.07 < (some != plain).mean() < 0.13)
        self.assertTrue((some == limber.quantize(x, "bf16", flips=0.1, seed=5)).all())
        for how, why in (dict(flips=2, seed=1), "flips = 2"), (dict(flips=0.5), "seed"), \
                (dict(flips="a", seed=1), "flips"), (dict(flips=0.5, seed=1.5), "seed = 1.5"):
            self.assertRaisesRegex(limber.BadArgument, why, limber.quantize, x, "bf16", **how)

    def test_fixed_point(self):
        """Fixed-point numbers in every rounding; what is too large ends at the range's ends."""
        x = numpy.array([0.3, -0.3, 2.5, -2.5, 3.5, 7.9, -9.0, 1e300, -math.inf, 0.125, -0.125])
        for rounding, want in (
                ("nearest", [0.25, -0.25, 2.5, -2.5, 3.5, 7.75, -8, 7.75, -8, 0, 0]),
                ("away", [0.25, -0.25, 2.5, -2.5, 3.5, 7.75, -8, 7.75, -8, 0.25, -0.25]),
                ("ties_zero", [0.25, -0.25, 2.5, -2.5, 3.5, 7.75, -8, 7.75, -8, 0, 0]),
                ("up", [0.5, -0.25, 2.5, -2.5, 3.5, 7.75, -8, 7.75, -8, 0.25, 0]),
                ("down", [0.25, -0.5, 2.5, -2.5, 3.5, 7.75, -8, 7.75, -8, 0, -0.25]),
                ("odd", [0.25, -0.25, 2.5, -2.5, 3.5, 7.75, -8, 7.75, -8, 0.25, -0.25])):
            self.assertEqual(limber.fixed(x, 4, 2, rounding).tolist(), want, rounding)
        many = limber.fixed(numpy.full(20000, 0.3), 4, 2, "stochastic", seed=1)
        self.assertEqual(set(many.tolist()), {0.25, 0.5})
        self.assertTrue(abs(many.mean() - 0.3) < 0.005)
        for arguments, why in (((4, -1), "fraction_bits"), ((0, 0), "together"),
                               ((4, 2, "odder"), "rounding"), ((4, 2, "stochastic"), "seed")):
            self.assertRaisesRegex(limber.BadArgument, why, limber.fixed, x, *arguments)
        self.assertRaisesRegex(limber.BadArgument, "NaN", limber.fixed, x * math.nan, 4, 2)
        self.assertRaisesRegex(limber.BadArgument, "type int", limber.fixed, [1, 2], 4, 2)
        self.assertEqual(limber.fixed(x[:2].astype("f"), 4, 2).dtype, numpy.float32)

    def test_formats_of_all_kinds(self):
        """Conversions between floats, integers, pairs, Quads and complex numbers."""
        q = limber.Quad([Fraction(1, 3), 2])
        self.assertEqual(limber.convert(q, "f64").tolist(), [1 / 3, 2])
        self.assertIsInstance(limber.convert([1.5], "f128"), limber.Quad)
        hi, lo = limber.convert(q, "dd")[0]
        self.assertEqual((hi, lo), (1 / 3, float(Fraction(1, 3) - Fraction(1 / 3))))
        self.assertEqual(limber.convert([300.0, -3.5, 2.5], numpy.int8).tolist(), [127, -4, 2])
        self.assertEqual(limber.convert([1 + 1e-9j], "complex64").dtype, "F")
        for to in "i8", "u8", "i16", "i32", "i64", "i4", "posit8", "posit16", "e8m0", "dd", "f128":
            x, y = (limber.convert([-3.0, 0, 2, 1e30], to, saturate=s) for s in (True, False))
            self.assertEqual(str(x), str(y), to)        # these stop at their ends in any case
        self.assertEqual(limber.convert([1e6, math.inf], "f16", saturate=True).tolist(),
                         [65504, math.inf])
        self.assertEqual(limber.convert([1e6], "f16").tolist(), [math.inf])
        out = numpy.zeros((2, 2), "f")
        self.assertIs(limber.convert(numpy.eye(2)[::-1], "f32", out=out), out)
        self.assertEqual(out.tolist(), [[0, 1], [1, 0]])
        self.assertEqual(limber.convert([math.nan, 9], "e2m1", nan_to_zero=True).tolist(), [0, 7])
        integers = array.array("b", [3, -4, 0, 7, -8])
        for name in "i8", "i16", "i32", "i64":        # from integers, which have no NaN
            self.assertEqual(limber.convert(integers, name).tolist(), integers.tolist())
        wide = limber.quantize(numpy.array([100, 301, -301], "i2"), "e5m2")
        self.assertEqual((wide.dtype, wide.tolist()), (numpy.int16, [96, 320, -320]))
        if ml_dtypes:
            self.assertEqual(limber.convert([1.5], ml_dtypes.bfloat16).dtype, ml_dtypes.bfloat16)
            x = numpy.arange(5).astype(ml_dtypes.bfloat16)
            self.assertEqual(limber.quantize(x, "e4m3").dtype, x.dtype)

    def test_ties_and_equal_chances(self):
        """Rounds numbers between any two neighbours of each format, and compares with fractions."""
        for name, least, top in (("e4m3", Fraction(1, 64), 448), ("e5m2", Fraction(1, 2 ** 14), 57344),
                                 ("bf16", Fraction(1, 2 ** 126), None), ("e2m1", 1, 6),
                                 ("(1,5,4)", Fraction(1, 2 ** 14), 63488)):
            grid = [Fraction(0), least, 2 * least, 3 * least, least / 2, least / 4 * 3] + [
                Fraction(v) for v in (1, 1.5, 2, 3, 4, 6)] + [Fraction(top or 2 ** 100)]
            spread = [[v * (1 + Fraction(k, 64)) for k in range(-20, 21)] for v in grid[1:]]
            x = numpy.array([float(s * v) for row in spread for v in row for s in (1, -1)] + [0.0, -0.0])
            low, up, down, near = (limber.quantize(x, name, rounding=r)
                                   for r in ("zero", "up", "down", "nearest"))
            far = numpy.where(x > 0, up, down)
            got = limber.quantize(x, name, rounding="ties_zero")
            for v, z, o, n, g in zip(*(y.tolist() for y in (x, low, far, near, got))):
                tie = math.isfinite(o) and z != o and 2 * Fraction(v) == Fraction(z) + Fraction(o)
                end = not math.isfinite(o) and abs(Fraction(v)) == top + self.unit(name, top) / 2
                self.assertTrue(g == (z if tie or end else n) or g != g and n != n, (name, v, z, o, g))
            real = ~numpy.isnan(near)       # NaN has a clear sign
            self.assertTrue((numpy.signbit(got) == numpy.signbit(x))[real].all())
            got = limber.quantize(x, name, rounding="stochastic_equal", seed=3)
            inside = (low != far) & numpy.isfinite(far)
            self.assertTrue(((got == low) | (got == far))[numpy.isfinite(far)].all(), name)
            chance = (got == far)[inside].mean()
            self.assertTrue(0.4 < chance < 0.6, (name, chance))
            again = limber.quantize(x, name, rounding="stochastic_equal", seed=3)
            self.assertTrue((numpy.isnan(got) & numpy.isnan(again) | (got == again)).all())
            kept = limber.quantize(x, name, subnormals=False)
            gone = abs(near) < float(least)
            self.assertTrue((gone & (near != 0)).any())
            self.assertTrue((kept[gone] == 0).all())
            self.assertTrue((numpy.signbit(kept) == numpy.signbit(x))[real].all())
            self.assertTrue((numpy.nan_to_num(kept[~gone]) == numpy.nan_to_num(near[~gone])).all())
            self.assertEqual(limber.quantize(1e-3 * x[-2:], name, subnormals=False).tolist(), [0, 0])
        # the probability does not depend on the number's place
        for at in 2.0 ** -20, 1 - 2.0 ** -20:
            got = limber.quantize(numpy.full(20000, 1 + at / 16), "(1,5,4)",
                                  rounding="stochastic_equal", seed=5)
            self.assertTrue(0.47 < (got > 1).mean() < 0.53)
        self.assertEqual(limber.convert([2.5, 3.5, -2.5, 3.6], "i8", rounding="ties_zero").tolist(), [2, 3, -2, 4])
        self.assertEqual(limber.convert([1e9, 1 / 3], "e4m3", rounding="stochastic_equal", seed=1,
                                        saturate=True).tolist()[0],
                         limber.convert([448.0], "e4m3").tolist()[0])
        self.assertEqual(limber.convert([2.0 ** -1074], "f64", subnormals=False).tolist(), [0])
        tiny = limber.Quad([Fraction(2) ** -16400, -Fraction(2) ** -16382])
        self.assertEqual(limber.convert(tiny, "f128", subnormals=False).to_fractions(),
                         [0, -Fraction(2) ** -16382])

    @staticmethod
    def unit(name, top):
        """Returns the distance between neighbours at the end of a format."""
        return Fraction(top) - Fraction(float(limber.quantize(
            numpy.array([top * (1 - 2.0 ** -20)]), name, rounding="zero")[0]))

    def test_refused(self):
        """Wrong arguments are refused by name."""
        x = numpy.ones((2, 4))
        for text, call in (
                ("a: numbers that no double holds", lambda: limber.convert(
                    limber.Quad(Fraction(1, 3)), "f32", rounding="ties_zero")),
                ("seed: goes", lambda: limber.convert(x, "bf16", rounding="stochastic_equal")),
                ("rounding = 'even' is none", lambda: limber.convert(x, "f32", rounding="even")),
                ("seed: goes", lambda: limber.convert(x, "f32", rounding="stochastic")),
                ("seed: goes", lambda: limber.convert(x, "f32", seed=1)),
                ("a: numbers that no double holds", lambda: limber.convert(
                    limber.Quad(Fraction(1, 3)), "f64", rounding="stochastic", seed=1)),
                ("bits", lambda: limber.convert(x, "e5m2", rounding="stochastic", seed=1,
                                                random_bits=17)),
                ("a: holds NaN, and e2m1", lambda: limber.convert(x * math.nan, "e2m1")),
                ("a: holds NaN, and i32", lambda: limber.convert(x * math.nan, "i32")),
                ("a: rounded to bf16, it holds", lambda: limber.quantize(
                    numpy.array([65504], "e"), "bf16")),
                ("format = None", lambda: limber.convert(x, None)),
                ("dtype = 'f17' is no format", lambda: limber.convert(x, "f17")),
                ("out: shape", lambda: limber.convert(x, "f32", out=numpy.ones(8, "f"))),
                ("out: has gaps", lambda: limber.convert(x, "f32", out=numpy.ones((4, 2), "f").T))):
            with self.subTest(text), self.assertRaisesRegex(limber.BadArgument, text):
                call()


class Charts(unittest.TestCase):
    """Checks the layout with the widths of DejaVu Sans: 7.3 of 12 for a letter."""

    def test_words_are_apart(self):
        from limber.chart import chart
        names = ["dnn_n8", "multiplier_n15", "ising_n10", "a", "b", "an even longer one"] * 3
        keys = {"groups of sixteen, at most": range(18), "short": range(18)}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "chart.svg")
            for count in 1, 3, 8, 18:
                chart(path, "Title", "across", "up", names[:count], {
                    key: [i + 1.0 for i in values[:count]] for key, values in keys.items()})
                with open(path) as f:
                    text = f.read()
                width, height = map(int, re.search(r'viewBox="0 0 (\d+) (\d+)"', text).groups())
                ends = {}
                for x, y, word in re.findall(
                        r'<text x="([\d.]+)" y="(\d+)" text-anchor="middle">([^<]*)<', text):
                    x, half = float(x), 7.3 * len(word) / 2
                    self.assertLess(ends.get(y, -math.inf), x - half, (count, word))
                    ends[y] = x + half
                    self.assertLessEqual(int(y), height)
                for x, word in re.findall(r'<text x="(\d+)" y="\d+">([^<]*)<', text):
                    self.assertLess(int(x) + 7.3 * len(word), width, word)

    def test_colours_are_those_of_reports(self):
        from limber.chart import COLOURS, PAGE, TEXT
        page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/cli/page.c")
        with open(page) as f:
            light, dark = (re.findall("#[0-9a-f]{6}", part) for part in re.search(
                r"light_colours = (.*?)dark_colours = (.*?);", f.read(), re.S).groups())
        self.assertEqual(light, [*PAGE, TEXT, *COLOURS])
        self.assertEqual(dark, [*PAGE.values(), COLOURS[TEXT], *COLOURS.values()])

    def test_curves_on_each_other_are_one(self):
        from limber.chart import chart
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "chart.svg")
            chart(path, "Title", "across", "up", ["a", "b"],
                  {"s": [1, 200], "t": [50, None], "u": [1.001, 200], "v": [1, None]}, lines=True)
            with open(path) as f:
                text = f.read()
            self.assertEqual(re.findall(r'<text x="\d+" y="\d+">([^<]*)<', text),
                             ["s and u", "t", "v"])
            chart(path, "Title", "across", "up", ["a"], {c: [2] for c in "pqrstu"}, lines=True)
            with open(path) as f:
                self.assertIn(">p and q and r and 3 more<", f.read())

    def test_bars_start_at_the_base(self):
        from limber.chart import chart
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "chart.svg")
            chart(path, "Title", "across", "up", ["a", "b"], {"s": [4, None], "t": [0.5, 1]},
                  base=1)
            with open(path) as f:
                text = f.read()
        bars = {name: (float(x), float(y), float(w), float(h)) for x, y, w, h, name in re.findall(
            r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"'
            r'[^>]*><title>([^<]*)', text)}
        self.assertEqual(set(bars), {"s: 4", "t: 0.5", "t: 1"})
        up, down = bars["s: 4"], bars["t: 0.5"]
        self.assertAlmostEqual(up[1] + up[3], down[1], delta=0.2)   # both end at the base
        self.assertAlmostEqual(up[3], 2 * down[3], delta=0.2)       # 4 is two octaves, 0.5 one
        self.assertGreaterEqual(down[0] + 0.2, up[0] + up[2])       # the bars do not overlap
        self.assertEqual(bars["t: 1"][3], 0)


@unittest.skipUnless(numpy, "NumPy is absent")
class Units(unittest.TestCase):
    """Tests limber.units, retention, statistics and explore."""
    def test_words(self):
        """Each preset equals the unit that its words describe."""
        every = limber.units()
        self.assertIn("h100-e4m3", every)
        for name, preset in every.items():
            self.assertEqual(limber.unit(name), limber.unit(preset.words))
        self.assertRaisesRegex(limber.BadArgument, "acc", limber.unit, "in=f16")

    @unittest.skipUnless(numpy, "NumPy is absent")
    def test_tf32(self):
        """Tests operands that a unit truncates, and that libraries round before."""
        random = numpy.random.default_rng(8)
        a, b = (random.standard_normal((20, 20)).astype("f4") for _ in range(2))
        exact = a.astype("f8") @ b.astype("f8")
        names = [name for name in limber.units() if name.endswith("-tf32-rounded")]
        self.assertEqual(len(names), 4)
        for name in names:
            cut = name[:-len("-rounded")]
            made, due, plain = (limber.matmul(a, b, contract="simulate=" + unit)
                                for unit in (name, cut + " in=tf32", cut))
            self.assertEqual(made.tobytes(), due.tobytes(), name)
            rounded = [limber.quantize(x, "tf32") for x in (a, b)]
            due = limber.matmul(*rounded, contract="simulate=" + cut)
            self.assertEqual(made.tobytes(), due.tobytes(), name)
            self.assertLess(2 * abs(made - exact).mean(), abs(plain - exact).mean())

    def test_retention(self):
        """The model of retained variance grows with the accumulator's bits."""
        self.assertTrue(0 < limber.retention(8, 8, 2 ** 16) < limber.retention(12, 8, 2 ** 16) <= 1)
        self.assertNotEqual(limber.retention(8, 5, 64, groups=64),
                            limber.retention(8, 5, 64, groups=32))
        self.assertNotEqual(limber.retention(8, 2, 256, groups=4),
                            limber.retention(8, 2, 256, groups=4, by_number=True))
        self.assertEqual(limber.unit_retention("in=e5m2 mul=e5m2 acc=(1,5,8)", 4096),
                         limber.retention(8, 2, 4096))
        self.assertTrue(math.isnan(limber.retention(99, 8, 10)))

    def test_statistics(self):
        """Counts of swamped additions, where adding 1 to 2048 changes nothing."""
        a, b = numpy.ones((2, 5000), "f"), numpy.ones((5000, 3), "f")
        c, s = limber.statistics(a, b, "in=f16 mul=f16 acc=f16")
        self.assertEqual((c == 2048).all(), True)       # where adding 1 changes nothing
        self.assertEqual((s.products, s.nonzero, s.swamped), (30000, 30000, 6 * (5000 - 2048)))
        self.assertEqual((s.a.count, s.a.mean, s.a.exponents[160], s.b.count, s.result.largest),
                         (10000, 1, 10000, 15000, 2048))
        self.assertEqual(s.distance, 5000 - 2048)
        c, report, s = limber.statistics(a, b, "h100-fp16", compare=False, report=True)
        self.assertEqual((report.scheme, s.swamped, math.isnan(s.distance)), ("simulate", 0, True))
        with self.assertRaisesRegex(limber.BadArgument, "in"):
            limber.statistics(a, b, "acc=f16")

    def test_explore(self):
        """Each trial of a sweep has the error and counts of its unit alone."""
        random = numpy.random.default_rng(5)
        a, b = (random.standard_normal(shape).astype("f") for shape in ((9, 200), (200, 7)))
        trials = limber.explore(a, b, formats=["e5m2", "bf16", "f16"], groups=[0, 32],
                                roundings=["rn", "rs"], operands="e5m2", products=["exact"])
        self.assertEqual(len(trials), 12)
        exact = numpy.asarray(a, "d") @ b
        for trial in trials:
            c, s = limber.statistics(a, b, trial.unit, dtype="f32")
            self.assertAlmostEqual(trial.error, numpy.linalg.norm(c - exact) / numpy.linalg.norm(exact))
            self.assertEqual((trial.swamped, trial.retention), (s.swamped / s.nonzero, s.retention))
            self.assertEqual(trial.frontier, not any(
                (x.bits, x.error) != (trial.bits, trial.error) and x.bits <= trial.bits and
                x.error <= trial.error for x in trials))
        self.assertEqual({(trial.format, trial.bits) for trial in trials},
                         {("e5m2", 8), ("bf16", 16), ("f16", 16)})
        self.assertRaisesRegex(limber.BadArgument, "neither exact", limber.explore, a, b,
                               products=["half"])


@unittest.skipUnless(numpy, "NumPy is absent")
class Overlapping(unittest.TestCase):
    """`out` overlaps the operands' elements: as NumPy does, the result is computed in a copy."""

    def test_as_numpy(self):
        """Operands and results that overlap in memory, compared with NumPy."""
        rng = numpy.random.default_rng(12)
        draw = lambda *shape: rng.integers(-9, 9, shape).astype("d")
        for _ in range(2):      # the second round uses what the first one has cached
            for make in (lambda x: (x[:4, :4], x[:4, :4], x[:4, :4]),
                         lambda x: (x[:4, :4], x[4:8, :4], x[1:5, 1:5]),
                         lambda x: (x[4:8, :4], x[:4, :4], x[1:5, 1:5]),
                         lambda x: (x[:4, :4], x[4:8, :4], x[:4, :4].T),
                         lambda x: (x[:4, ::2], x[:4, 1::2].T, x[4:, 4:]),
                         lambda x: (x[3::-1, :4], x[4:8, :4], x[:4, :4]),
                         lambda x: (x[:4, :4], x[4:8, :4], x[4:8, 4:])):
                x = draw(8, 8)
                a, b, out = make(x)
                want = a @ b
                again = x.copy()
                self.assertIs(limber.matmul(a, b, out=out), out)
                self.assertEqual(out.tolist(), want.tolist())
                a, b, out = make(again)
                want = 2 * (a @ b) + 3 * out
                limber.matmul(a, b, alpha=2, beta=3, out=out)
                self.assertEqual(out.tolist(), want.tolist())
        stack = draw(5, 4, 4)
        want = stack @ stack
        limber.matmul(stack, stack, out=stack)
        self.assertEqual(stack.tolist(), want.tolist())
        quads = limber.Quad([[Fraction(1, 3), 2], [3, 4]])
        want = (quads @ quads).to_fractions()
        limber.matmul(quads, quads, out=quads)
        self.assertEqual(quads.to_fractions(), want)

    def test_blocks_of_one_array(self):
        """Factorisations multiply blocks of one array.  A result that shares no element with the
        operands is written in place, any other through a copy; it is right in both cases."""
        drawn = numpy.random.default_rng(12)
        in_place = 0
        for turn in range(300):
            array = drawn.integers(-3, 4, (9, 10)).astype("f8")
            array = array.T if turn % 3 == 0 else array
            m, n, k = drawn.integers(1, 5, 3)

            def block(high, wide):
                """A random part of an array."""
                i, j = drawn.integers(0, 9 - high + 1), drawn.integers(0, 9 - wide + 1)
                return array[i:i + high, j:j + wide]

            a, b, c = block(m, k), block(k, n), block(m, n)
            apart = not (numpy.shares_memory(a, c) or numpy.shares_memory(b, c))
            want = c - a @ b
            with unittest.mock.patch.object(_product, "_Aside", wraps=_product._Aside) as aside:
                limber.matmul(a, b, out=c, alpha=-1, beta=1)
            self.assertEqual(c.tolist(), want.tolist())
            self.assertTrue(apart or aside.called)
            meet = numpy.may_share_memory(a, c) or numpy.may_share_memory(b, c)
            in_place += meet and not aside.called
        self.assertGreater(in_place, 15)

    def test_other_shapes_like_ones_before(self):
        """The second product of matrices of one type takes a fast path, whatever its shape."""
        drawn = numpy.random.default_rng(13)

        def array(kind, m, n):
            """A random matrix in a random layout."""
            made = drawn.integers(-4, 5, (2 * m, 2 * n)).astype(kind)
            cut = [made[:m, :n], made[::2, ::2], made[::2, :n]][drawn.integers(3)]
            return cut if drawn.integers(2) else numpy.ascontiguousarray(cut.T).T

        for turn in range(400):
            kind = ("f8", "f4", "f2")[turn % 3]
            m, n, k = drawn.integers(0 if turn % 50 == 49 else 1, 7, 3)
            a, b, c = array(kind, m, k), array(kind, k, n), array(kind, m, n)
            if turn % 7 == 0:
                self.assertEqual(limber.matmul(a, b).tolist(), (a @ b).tolist())
            want = (2 * (a @ b) + 3 * c).tolist()
            limber.matmul(a, b, alpha=2, beta=3, out=c)
            self.assertEqual(c.tolist(), want)
        for wrong in (a, b[:, :1], numpy.zeros((3, 9), kind)), (a, numpy.zeros((9, 2), kind), c):
            self.assertRaises(limber.BadArgument, limber.matmul, *wrong[:2], alpha=2, beta=3,
                              out=wrong[2])

    def test_apart_like_one_before(self):
        """Tests overlap after a call without overlap, with the same types and shapes."""
        x, y = (numpy.arange(16.0).reshape(4, 4) for _ in range(2))
        for out in numpy.empty((4, 4)), x:
            want = x @ y
            self.assertEqual(limber.matmul(x, y, out=out).tolist(), want.tolist())

    def test_refused(self):
        """A read-only result that overlaps is refused."""
        frozen = numpy.ones((4, 4))
        frozen.flags.writeable = False
        with self.assertRaisesRegex(limber.BadArgument, "out"):
            limber.matmul(frozen, frozen, out=frozen)


@unittest.skipUnless(numpy, "NumPy is absent")
class Arrays(unittest.TestCase):
    """Tests NumPy arrays: strides, types, stacks and cached calls."""
    @classmethod
    def setUpClass(cls):
        cls.random = numpy.random.default_rng(3)
        cls.ctx = limber.Context(contract="correct")

    @classmethod
    def tearDownClass(cls):
        cls.ctx.close()

    def same(self, c, a, b):
        """Checks that c is the exact product of a and b, rounded once."""
        self.assertEqual(c.tolist(), rounded(product(a.tolist(), b.tolist())))

    def test_strides_are_passed_on(self):
        big = self.random.standard_normal((12, 20))
        b = self.random.standard_normal((4, 5))
        for a in (big[::3, 1::5], big[1:4, :4], big.T[5:9:2, 8:], big[:4, :4].T, big[::-3, 3::-1],
                  numpy.broadcast_to(big[0, :4], (3, 4))):
            self.same(self.ctx.matmul(a, b), a, b)
        out = numpy.full((8, 30), 7.0)
        given = out[::2, 3:28:5]
        a = big[::3, 1::5]
        self.ctx.matmul(a, b, out=given)
        self.same(given, a, b)
        self.assertEqual((out == 7).sum(), out.size - given.size)
        with self.assertRaises(limber.BadArgument):
            self.ctx.matmul(a, b, out=out[::-2, :5])

    def test_calls_like_one_before(self):
        """Later calls with the same types, shapes and strides use what an earlier call has cached.
        They must have the bits of a first call."""
        draw = self.random.standard_normal
        places = {
            "dense": lambda *s: draw(s), "apart": lambda *s: draw((2 * s[0], 3 * s[1]))[::2, ::3],
            "turned": lambda *s: draw(s[::-1]).T, "back": lambda *s: draw(s)[::-1],
            "odd": lambda *s: numpy.frombuffer(bytes(1) + draw(s).tobytes(), "u1")[1:]
            .view("f8").reshape(s),
            "stack": lambda *s: draw((3,) + s), "list": lambda *s: draw(s).tolist(),
            "alike": lambda *s: numpy.asfortranarray(draw(s))}
        types = {"f8": {}, "f4": {}, ">f8": {}, "f2": {}, "i4": {}, "?": {}, "g": {},
                 "u2": {"format": "bf16", "dtype": "f4"}, "c16": {"conj_a": True},
                 "d": {"dtype": "f128"}}
        kept = 0

        def operand(at, code, *shape):
            """A random operand of a type, in one of the places."""
            x = places[at](*shape)
            return x if code in ("f8", "d") else (100 * numpy.asarray(x)).astype(code)

        for at, (code, options) in itertools.product(places, types.items()):
            with limber.Context() as ctx:
                for turn in range(3):
                    a, b = operand(at, code, 4, 6), operand(at, code, 6, 5)
                    with limber.Context() as other:
                        want = other.matmul(a, b, **options)
                    got = ctx.matmul(a, b, **options)
                    if isinstance(got, limber.Quad):
                        self.assertEqual(got.words.tobytes(), want.words.tobytes(), (at, code))
                        continue
                    self.assertEqual((got.dtype, got.tobytes()), (want.dtype, want.tobytes()),
                                     (at, code, turn))
                    out = numpy.zeros_like(got)
                    self.assertIs(ctx.matmul(a, b, out=out, **options), out)
                    self.assertEqual(out.tobytes(), got.tobytes(), (at, code, turn))
                kept += len(ctx._repeats)
        self.assertGreater(kept, 50)
        a, b = draw((4, 4)), draw((4, 4))
        for contract, scheme in (("native", None), ("correct", None), ("bits=40", "ozaki2"),
                                 ("simulate=h100-bf16", None), ("correct", "ozaki2")):
            with limber.Context() as other:
                want = other.matmul(a, b, contract=contract, scheme=scheme).tobytes()
            for _ in range(3):
                self.assertEqual(self.ctx.matmul(a, b, contract=contract,
                                                 scheme=scheme).tobytes(), want)

    def test_convolutions_like_one_before(self):
        """Later convolutions use what an earlier one has cached.  They must have the bits of a first
        call, in all directions, axes and layouts."""
        draw = self.random.standard_normal
        places = {
            "dense": lambda x: x, "turned": lambda x: x.T.copy().T, "list": lambda x: x.tolist(),
            "apart": lambda x: numpy.repeat(x, 2, -1)[..., ::2],
            "odd": lambda x: numpy.frombuffer(bytes(1) + x.tobytes(), "u1")[1:].view(x.dtype)
            .reshape(x.shape)}
        sides = {1: (9,), 2: (7, 6), 3: (4, 5, 6)}
        kept = 0
        for at, code, (axes, size), layout, groups in itertools.product(
                places, ("f8", "f4", "i4", "u2"), sides.items(), ("NCHW", "NHWC"), (1, 2)):
            if (at, code) == ("list", "u2"):        # lists hold numbers, not bits
                continue
            options = {"stride": (1,) * axes, "pad": 1, "dilation": 1, "groups": groups,
                       "layout": layout, **({"format": "bf16", "dtype": "f4"} if code == "u2" else
                                            {"contract": "exact"} if code == "i4" else {})}

            def tensor(n, c, size):
                """A random tensor of images or filters."""
                x = 9 * draw((n, c, *size))
                x = (x.astype("f4").view("u4") >> 16 if code == "u2" else x).astype(code)
                x = numpy.moveaxis(x, 1, -1).copy() if layout == "NHWC" else x
                return places[at](x)

            with limber.Context(threads=1) as ctx, limber.Context(threads=1) as other:
                for _ in range(3):
                    x, w, dy = (tensor(2, 4, size), tensor(6, 4 // groups, (3,) * axes),
                                tensor(2, 6, size))
                    for name, operands, more in [
                            ("conv2d", (x, w), {}),
                            ("conv2d_backward_data", (dy, w), {"size": size}),
                            ("conv2d_backward_filter", (x, dy), {"window": (3,) * axes})]:
                        want = getattr(other, name)(*operands, **options, **more)
                        other._repeats.clear()
                        got = getattr(ctx, name)(*operands, **options, **more)
                        where = at, code, axes, layout, groups, name
                        self.assertEqual((got.dtype, got.shape, got.tobytes()),
                                         (want.dtype, want.shape, want.tobytes()), where)
                        out = got.copy()
                        call = getattr(ctx, name)
                        self.assertIs(call(*operands, **options, **more, out=out), out)
                        self.assertEqual(out.tobytes(), want.tobytes(), where)
                kept += len(ctx._repeats)
        self.assertEqual(kept, 4 * 3 * 2 * 2 * 3 * 2)   # the arrays that are used in place

    def test_a_kept_convolution_notices_what_differs(self):
        x, w = self.random.standard_normal((1, 2, 5, 6)), self.random.standard_normal((3, 2, 3, 3))
        with limber.Context(contract="correct") as ctx:
            calls = [{}, {"pad": 1}, {"pad": (1, 0)}, {"pad": (1, 0, 1, 0)}, {"stride": 2},
                     {"stride": (1, 2)}, {"dilation": (2, 1)}, {"contract": "native"},
                     {"contract": "simulate=h100-bf16"}, {"alpha": 2}, {"alpha": -1},
                     {"alpha": 0.5, "beta": 0}, {"scheme": "accumulator"}, {"dtype": "f4"},
                     {"epilogue": "%1 = relu %x"}, {"pad": [1, 1]}, {"stride": True}]
            wants = []
            for options in calls:
                with limber.Context(contract="correct") as other:
                    wants.append(other.conv2d(x, w, **options))
            for _ in range(3):
                for options, want in zip(calls, wants):
                    numpy.full(want.shape, 7, want.dtype)       # memory that the next array may get
                    got = ctx.conv2d(x, w, **options)
                    self.assertEqual((got.shape, got.tobytes()), (want.shape, want.tobytes()),
                                     options)
            self.assertGreater(len(ctx._repeats), 10)
            for options, words in [({"stride": 1.0}, "stride"), ({"pad": (1.0, 1)}, "pad"),
                                   ({"groups": 1.0}, "groups"), ({"stride": (1, 1, 1)}, "stride"),
                                   ({"layout": "NCWH"}, "layout")]:
                with self.assertRaisesRegex(limber.BadArgument, words):
                    ctx.conv2d(x, w, **options)
            out = numpy.zeros((1, 3, 3, 4))
            for _ in range(2):
                self.assertEqual(ctx.conv2d(x, w, out=out).tobytes(), wants[0].tobytes())
            with self.assertRaisesRegex(limber.BadArgument, "out: shape"):
                ctx.conv2d(x, w, out=numpy.zeros((1, 3, 4, 4)))
            with self.assertRaisesRegex(limber.BadArgument, "beta: it scales"):
                ctx.conv2d(x, w, beta=0.5)
            out.flags.writeable = False
            with self.assertRaisesRegex(limber.BadArgument, "out: .*read-only"):
                ctx.conv2d(x, w, out=out)
            self.assertEqual(ctx.conv2d(memoryview(x), w).tobytes(), wants[0].tobytes())
            with ctx.prepare_filters(w) as filters:
                for _ in range(2):
                    self.assertEqual(ctx.conv2d(x, filters).tobytes(), wants[0].tobytes())
            ctx.close()
            with self.assertRaisesRegex(limber.BadArgument, "closed"):
                ctx.conv2d(x, w)

    def test_a_kept_call_notices_what_differs(self):
        a, b = self.random.standard_normal((2, 4, 4))
        with limber.Context(contract="correct") as ctx:
            for _ in range(2):
                self.same(ctx.matmul(a, b), a, b)
            self.same(ctx.matmul(a, b, alpha=2) / 2, a, b)
            out = numpy.zeros((4, 4))
            for _ in range(2):
                ctx.matmul(a, b, out=out)
            out.flags.writeable = False
            with self.assertRaisesRegex(limber.BadArgument, "out: .*read-only"):
                ctx.matmul(a, b, out=out)
            shifted = numpy.frombuffer(bytes(1) + a.tobytes(), "u1")[1:].view(a.dtype).reshape(4, 4)
            self.assertEqual(shifted.ctypes.data % 8 != 0, True)
            self.same(ctx.matmul(shifted, b), a, b)
            a.flags.writeable = False
            self.same(ctx.matmul(a, b), a, b)
            self.same(ctx.matmul(a, memoryview(b)), a, b)
            masked = numpy.ma.array(b, mask=b > 0)
            with self.assertRaisesRegex(limber.BadArgument, "b: masks"):
                ctx.matmul(a, masked)
            one = ctx.matmul(a[0], b[0]), ctx.matmul(a[0], b[0])
            self.assertEqual([type(x) for x in one], [numpy.float64] * 2)
            with self.assertRaises(limber.OutOfRange):      # a failure after a success
                x = numpy.ones((2, 2), "i8")
                for y in x, x, 2 ** 62 * x:
                    ctx.matmul(y, y, contract="exact")
            self.assertEqual(ctx.matmul(a, b, dtype=["f64"][0]).dtype, a.dtype)
            for _ in range(2):
                with self.assertRaises(limber.BadArgument):
                    ctx.matmul(a, b, dtype=["f64"])
            ctx.close()
            with self.assertRaisesRegex(limber.BadArgument, "closed"):
                ctx.matmul(a, b)

    def test_a_residual_of_one_column_is_the_result(self):
        a, b = self.random.integers(-9, 9, (3, 2)) / 4, self.random.integers(-9, 9, (2, 1)) / 4
        for shape in (3, 1), (1, 3):
            x, y = (a, b) if shape[1] == 1 else (b.T, a.T)
            out = self.random.integers(-9, 9, shape) / 4      # nothing is rounded
            want = out + self.ctx.matmul(x, y)
            self.ctx.matmul(x, y, out=out, epilogue="%1 = add %x %c", inputs={"c": out})
            self.assertEqual(out.tobytes(), want.tobytes(), shape)
        with self.assertRaisesRegex(limber.BadArgument, "inputs.'c'.: 'text' is no array"):
            self.ctx.matmul(a, b, epilogue="%1 = add %x %c", inputs={"c": "text"})

    def test_kept_calls_have_their_scalars(self):
        draw = self.random.standard_normal
        big = draw((9, 9))
        scalars = [1, -1, 2, 0.5, 3.0, 0, 0.0, -0.0, "0.1", Fraction(1, 3), True]
        for code in "f8", "f4", "c16", "i8":
            x, y, z = ((10 * big).astype(code)[:, i:i + 5] for i in range(3))
            x, y = x[:4], y[:5].T
            with limber.Context() as ctx:
                for alpha, beta in itertools.product(scalars, scalars):
                    numbers = [s for s in (alpha, beta) if s not in (0, 1, -1, 2, 3)]
                    if numbers and (code == "i8" or code == "c16" and str in map(type, numbers)):
                        continue
                    outs = []
                    for context in ctx, ctx, limber.Context():
                        outs.append(z[:4, :5].copy())
                        context.matmul(x, y, out=outs[-1], alpha=alpha, beta=beta)
                    for out in outs[:2]:
                        self.assertEqual(out.tobytes(), outs[2].tobytes(), (code, alpha, beta))
                    if beta:
                        with self.assertRaisesRegex(limber.BadArgument, "beta: it scales"):
                            ctx.matmul(x, y, alpha=alpha, beta=beta)
                        continue
                    fresh = []
                    for context in ctx, ctx, ctx, limber.Context():
                        numpy.full(outs[0].shape, 7, code)
                        fresh.append(context.matmul(x, y, alpha=alpha, beta=beta).tobytes())
                    self.assertEqual(set(fresh), {fresh[3]}, (code, alpha, beta))
                self.assertGreater(len(ctx._repeats), 5)
        a, b = numpy.zeros((1, 1)), numpy.ones((1, 1))
        signs = []
        for alpha in 0.0, -0.0, 0, -0.0:
            out = numpy.full((1, 1), -0.0)
            self.ctx.matmul(b, b, out=out, alpha=alpha, beta=1)
            signs.append(numpy.signbit(out[0, 0]))
        self.assertEqual(signs, [False, True, False, True])

    def test_threads_share_a_kept_call(self):
        pairs = [self.random.standard_normal((2, 16, 16)) for _ in range(4)]
        wants = [self.ctx.matmul(a, b).tobytes() for a, b in pairs]
        wrong = []

        def work(i):
            """Multiplies pair i, and notes wrong products."""
            for _ in range(300):
                if self.ctx.matmul(*pairs[i]).tobytes() != wants[i]:
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertFalse(wrong)

    def test_nothing_is_copied(self):
        a = numpy.zeros((5, 8))[::2, ::2]
        with limber._arguments.view_of(a, "a", None) as view:
            self.assertFalse(view.copied)
            self.assertEqual(view.data, a.ctypes.data)
            self.assertEqual((view.matrix().row_stride, view.matrix().col_stride), (16, 2))

    def test_types(self):
        """Types of results for each type of operands."""
        for kind in "e", "f", "d":
            a = self.random.integers(-9, 9, (3, 6)).astype(kind)
            c = self.ctx.matmul(a, a.T)
            self.assertEqual(c.dtype, a.dtype)
            self.same(c, a, a.T)
        for kind, wide in (("b", "i4"), ("h", "i8"), ("i", "i8"), ("q", "i8"), ("B", "i4")):
            a = self.random.integers(0, 99, (3, 6)).astype(kind)
            c = self.ctx.matmul(a, a.T)
            self.assertEqual(c.dtype, wide)
            self.same(c, a, a.T)
        a = self.random.standard_normal((3, 4)).astype("f")
        self.assertEqual(self.ctx.matmul(a, a.T, dtype=numpy.float64).dtype, "d")
        self.assertEqual(self.ctx.matmul(a, a.T.astype("d")).dtype, "d")
        self.assertEqual(self.ctx.matmul([[1.0, 2.0]], a[:2].T[:2]).shape, (1, 2))
        with self.assertRaises(limber.BadArgument):
            self.ctx.matmul(numpy.ma.array(a), a.T)
        self.assertEqual(limber._results.result_format("bf16", "f16"), "f32")
        self.assertEqual(limber._results.result_format("e4m3", "bf16"), "bf16")
        self.assertEqual(limber._results.result_format("i64", "f32"), "f64")

    def test_types_that_another_holds(self):
        for kind, wide in (("u2", "i8"), ("u4", "i8"), ("u8", "i8"), ("?", "i4"), (">i2", "i8"),
                           (">u4", "i8"), (">f4", "f4"), (">f8", "f8"), (">c8", "c8")):
            a = (self.random.random((6, 8)) * 2 ** 15).astype(kind)[::2, 1::2]
            c = self.ctx.matmul(a, a.T)
            self.assertEqual(c.dtype, wide, kind)
            plain = a.astype(a.dtype.newbyteorder("=")).astype(wide if c.dtype.kind == "i" else a.dtype)
            self.assertTrue((c == self.ctx.matmul(plain, plain.T)).all(), kind)
        a = numpy.array([[2 ** 31 + 5, 1], [0, 2 ** 16]], "u4")
        self.assertEqual(self.ctx.matmul(a, a.astype("i8")).tolist(),
                         product(a.tolist(), a.tolist()))
        self.assertEqual(self.ctx.matmul(numpy.array([[2 ** 63 - 1, 5]], "u8"), [[1], [0]]).tolist(),
                         [[2 ** 63 - 1]])
        readonly = self.random.random((3, 3))
        readonly.flags.writeable = False
        self.same(self.ctx.matmul(readonly, readonly), readonly, readonly)

    def test_what_cannot_be_served_is_named(self):
        """Types and arrays that the library does not take are refused by name."""
        one, a = numpy.eye(2), numpy.zeros((2, 2))
        for text, call in (
                ("a: uint64 with numbers from 2\\^63 on",
                 lambda: self.ctx.matmul(numpy.full((2, 2), 2 ** 63, "u8"), one)),
                ("b: elements of type <U3", lambda: self.ctx.matmul(one, numpy.zeros((2, 2), "U3"))),
                ("a: elements of type object",
                 lambda: self.ctx.matmul([[Fraction(1, 3)]], [[1.0]])),
                ("a: elements of type datetime64", lambda: self.ctx.matmul(a.astype("M8[s]"), one)),
                ("b: elements of type 'clongdouble'", lambda: self.ctx.matmul(one, one.astype("G"))),
                ("a: elements of type 'float32' do not hold f16",
                 lambda: self.ctx.matmul(one.astype("f4"), one, format=("f16", None))),
                ("b: elements of type 'float16' do not hold bf16",
                 lambda: self.ctx.matmul(one.astype("u2"), one.astype("e"), format="bf16")),
                ("a: elements of type 'int64' do not hold i32",
                 lambda: self.ctx.matmul(one.astype("i8"), one, format=("i32", None))),
                ("out: elements of type uint16", lambda: self.ctx.matmul(one, one, out=a.astype("u2"))),
                ("out: elements of type float64 in the other byte order",
                 lambda: self.ctx.matmul(one, one, out=a.astype(">f8"))),
                ("out: elements of type longdouble",
                 lambda: self.ctx.matmul(one, one, out=a.astype("g"))),
                ("dtype = 'longdouble' is no", lambda: self.ctx.matmul(one, one, dtype="longdouble")),
                ("out: is no array", lambda: self.ctx.matmul(one[0], one[0], out=one[0, 0])),
                ("out: is no array", lambda: self.ctx.matmul(one, one, out=[[0, 0], [0, 0]])),
                ("result = 'torch' is none", lambda: self.ctx.matmul(one, one, result="torch")),
                ("a: masks", lambda: self.ctx.matmul(numpy.ma.array(a), one))):
            with self.subTest(text), self.assertRaisesRegex(limber.BadArgument, text):
                call()

    def test_long_doubles_are_binary128(self):
        x = numpy.array([[1, 3], [-7, 2]], "g") / numpy.longdouble(3) ** 40
        x[0, 0] = numpy.finfo("g").smallest_subnormal * 5
        x[1, 0] = -numpy.finfo("g").max
        q = self.ctx.matmul(x.T, numpy.eye(2))
        self.assertIsInstance(q, limber.Quad)
        self.assertEqual(q.to_fractions(), limber.Quad(x.T.tolist()).to_fractions())
        ends = numpy.array([["inf", "-inf", "nan", "-0"]], "g")
        inf, minus, nan, zero = self.ctx.matmul(ends.T, [[1.0]]).to_fractions()
        self.assertEqual((inf, minus, zero), ([math.inf], [-math.inf], [0]))
        self.assertTrue(math.isnan(nan[0]))

    def test_conversions_of_ml_dtypes(self):
        """Compares with ml_dtypes: converts every bit pattern, the midpoints between numbers, and
        numbers near these."""
        if ml_dtypes is None:
            self.skipTest("ml_dtypes is absent")
        codes = numpy.arange(256).astype("u1")
        for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
                     "float8_e8m0fnu", "float4_e2m1fn", "int4", "int2"):
            kind = getattr(ml_dtypes, name, None)
            if kind is None:        # of an older version
                continue
            few = codes[:{"float4_e2m1fn": 16, "int4": 16, "int2": 4}.get(name, 256)]
            want = few.view(kind).astype("d")
            got = limber.convert(few.view(kind), "f64")
            numpy.testing.assert_array_equal(got, want, name)
            if name[:3] == "int":   # there conversions keep the low bits
                continue
            ends = numpy.unique(want[numpy.isfinite(want)])
            x = numpy.concatenate([ends, (ends[1:] + ends[:-1]) / 2, [ends[-1] * 1.75]])
            x = x.astype("f") # from doubles ml_dtypes rounds twice
            x = numpy.concatenate([x, numpy.nextafter(x, -x), numpy.nextafter(x, 2 * x)])
            x = x[x >= 2.0 ** -126] if name == "float8_e8m0fnu" else x
            with numpy.errstate(all="ignore"):
                want = x.astype(kind)
            got = limber.convert(x, kind)
            numpy.testing.assert_array_equal(got.view("u1") & 0x7f if name == "float8_e4m3fn" else
                                             got.view("u1"),
                                             want.view("u1") & 0x7f if name == "float8_e4m3fn" else
                                             want.view("u1"), name)

    def test_bits_of_formats_without_types(self):
        few = numpy.arange(16).astype("u1").reshape(4, 4)
        signed = (few.astype(int) + 8) % 16 - 8
        self.assertEqual(self.ctx.matmul(few, few, format="i4").tolist(),
                         (signed @ signed).tolist())
        posits = numpy.array([[0x40, 0x48], [0xc0, 0x00]], "u1")    # 1, 2; -1, 0
        square = self.ctx.matmul(posits, posits, format="posit8")
        self.assertEqual(square.tolist(), [[0xc0, 0x48], [0xc0, 0xb8]])     # -1, 2; -1, -2
        self.assertEqual(limber.convert(square, "f64", holds="posit8").tolist(),
                         [[-1, 2], [-1, -2]])
        for contract in ("native", "reproducible", "bits=8"):       # small integers: all the same
            numpy.testing.assert_array_equal(
                self.ctx.matmul(posits, posits, format="posit8", contract=contract), square)
        self.assertEqual(                                           # upper bits are zeros
            self.ctx.matmul(few, few, format="i4", dtype="i4", contract="native").tolist(),
            (signed @ signed % 16).tolist())
        self.assertRaises(limber.OutOfRange, self.ctx.matmul, few, few, format="i4", dtype="i4",
                          contract="exact")

    def test_types_of_ml_dtypes(self):
        if ml_dtypes is None:
            self.skipTest("ml_dtypes is absent")
        codes = numpy.arange(256).astype("u1")
        for kind, own in (("bfloat16", "bfloat16"), ("float8_e4m3fn", "float8_e4m3fn"),
                          ("float8_e5m2", "float8_e5m2"), ("float8_e3m4", "float16"),
                          ("float8_e4m3", "float16"), ("float8_e4m3b11fnuz", "float16"),
                          ("float8_e4m3fnuz", "float8_e4m3fnuz"),
                          ("float8_e5m2fnuz", "float8_e5m2fnuz"),
                          ("float8_e8m0fnu", "float32"), ("float4_e2m1fn", "float4_e2m1fn"),
                          ("int4", "int32"), ("uint4", "int32"), ("int2", "int32")):
            few = codes[:{"int2": 4, "int4": 16, "uint4": 16, "float4_e2m1fn": 16}.get(kind, 256)]
            kind = getattr(ml_dtypes, kind, None)
            if kind is None:        # of an older version
                continue
            x = few.view(kind) if numpy.dtype(kind).itemsize == 1 else few.astype(kind)
            x = numpy.stack([x, x[::-1]])[:, ::2].T     # neither order is C's
            with limber._buffer.View(x, "x") as view:
                self.assertEqual((view.array().astype("d") == x.astype("d")).sum(),
                                 (x == x).sum(), kind)
            x = numpy.where(numpy.isfinite(x.astype("d")), x, numpy.zeros(1, kind))
            exact = product(x.astype("d").tolist(), [[0, 1], [1, 0]])
            c = self.ctx.matmul(x, numpy.array([[0, 1], [1, 0]], "b"), dtype="f64" if own[0] == "f"
                                else "i32")
            self.assertEqual(c.tolist(), exact, kind)
            self.assertEqual(self.ctx.matmul(x[:2], x[:2]).dtype, own)
        a = self.random.standard_normal((3, 4)).astype(ml_dtypes.bfloat16)
        bits = self.ctx.matmul(a.view("u2"), a.T.view("u2"), format="bf16")
        self.assertTrue((self.ctx.matmul(a, a.T).view("u2") == bits).all())
        self.assertEqual(self.ctx.matmul(a, a.T.astype("f")).dtype, "f")
        out = numpy.zeros((3, 3), ml_dtypes.bfloat16)
        self.assertIs(self.ctx.matmul(a, a.T, out=out), out)
        self.assertTrue((out.view("u2") == bits).all())
        self.assertEqual(self.ctx.matmul(a.astype("f"), a.T, dtype=ml_dtypes.float8_e5m2).dtype,
                         ml_dtypes.float8_e5m2)
        self.assertEqual(self.ctx.conv2d(a.reshape(1, 1, 3, 4), a[:2, :2].reshape(1, 1, 2, 2)).dtype,
                         a.dtype)
        with self.ctx.prepare(a) as kept:
            self.assertTrue((self.ctx.matmul(kept, a.T) == out).all())
        if hasattr(ml_dtypes, "bcomplex32"):
            z = numpy.array([[1 + 2j, 3j]]).astype(ml_dtypes.bcomplex32)
            c = self.ctx.matmul(z, z.T)
            self.assertEqual((c.dtype, complex(c[0, 0])), (z.dtype, (1 + 2j) ** 2 - 9))

    def test_bits_of_bfloat16(self):
        a = (self.random.standard_normal((4, 6)).astype("f").view("u4") >> 16).astype("u2")
        wide = (a.astype("u4") << 16).view("f")
        c = self.ctx.matmul(a, a.T, format="bf16", dtype="f32")
        exact = product(wide.tolist(), wide.T.tolist())
        self.assertEqual(c.tolist(), [[float(numpy.float32(float(x))) for x in row] for row in exact])
        bits = self.ctx.matmul(a, a.T, format="bf16")
        self.assertEqual(bits.dtype, "u2")
        back = (bits.astype("u4") << 16).view("f")
        self.assertLess(abs(back / c - 1).max(), 2.0 ** -8)
        out = numpy.zeros((4, 4), "u2")
        self.ctx.matmul(a, a.T, format="bf16", out=out)
        self.assertTrue((out == bits).all())

    def test_dlpack(self):
        """Tests tensors of other libraries: a class that has only __dlpack__."""
        class Tensor:
            """A tensor that has only __dlpack__."""
            def __init__(self, array):
                self.array, self.device = array, (1, 0)

            def __dlpack_device__(self):
                return self.device

            def __dlpack__(self, stream=None):      # of the first protocol
                return self.array.__dlpack__(stream=stream)

        a = self.random.standard_normal((6, 8))[::2, ::2]
        with limber._buffer.View(Tensor(a), "a") as view:
            self.assertEqual((view.data, view.copied), (a.ctypes.data, False))
        self.same(self.ctx.matmul(Tensor(a), Tensor(a.T)), a, a.T)
        out = numpy.zeros((3, 3))
        self.ctx.matmul(a, a.T, out=Tensor(out))
        self.same(out, a, a.T)
        small = self.ctx.matmul(a, a.T, dtype="bf16", result="dlpack")
        bits = self.ctx.matmul(a, a.T, dtype="bf16")
        self.assertTrue((small.array == bits).all())
        self.assertTrue((self.ctx.matmul(small, numpy.eye(3), dtype="f64") ==
                         (bits.astype("u4") << 16).view("f4")).all())
        plain = self.ctx.matmul(a, a.T, result="dlpack")
        if hasattr(numpy, "from_dlpack"):
            self.assertTrue((numpy.from_dlpack(plain) == out).all())
        self.assertEqual(self.ctx.matmul(Tensor(numpy.arange(4, dtype="u2").reshape(2, 2)),
                                         [[1], [1]]).tolist(), [[1], [5]])
        class Both(Tensor):     # a type that DLPack lacks and NumPy has: __array__ serves
            def __dlpack__(self, stream=None):
                raise TypeError("no")

            def __array__(self, dtype=None, copy=None):
                return self.array

        self.assertEqual(self.ctx.matmul(Both(a > 0), [[1]] * 4).tolist(),
                         (a > 0).sum(1).reshape(3, 1).tolist())
        with self.assertRaisesRegex(limber.BadArgument, "out: no"):
            self.ctx.matmul(a, a.T, out=Both(out))
        class Frozen(bytes):    # read-only by its buffer, writable by DLPack, as JAX's arrays are
            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, stream=None):
                return out.__dlpack__()

        before = out.copy()
        with self.assertRaisesRegex(limber.BadArgument, "out: is read-only"):
            self.ctx.matmul(a, 2 * a.T, out=Frozen())
        self.assertTrue((out == before).all())
        class Away(Tensor):     # claims to be on a GPU; its memory must not be read
            def __dlpack__(self, stream=None):
                return self.array.__dlpack__()

        away = Away(a)
        away.device = (2, 0)
        for text, call in (
                ("out: is not given, and operands lie on a GPU", lambda: self.ctx.matmul(away, a.T)),
                ("b: lies in host memory", lambda: self.ctx.matmul(away, a.T, out=out)),
                ("values: lies in the memory of CUDA device 0", lambda: limber.Quad(away)),
                ("result = 'dlpack': f128 has no type", lambda: self.ctx.matmul(
                    a, a.T, dtype="f128", result="dlpack")),
                ("result = 'dlpack': e2m1 has no type", lambda: self.ctx.matmul(
                    a, a.T, dtype="e2m1", result="dlpack"))):
            with self.assertRaisesRegex(limber.BadArgument, text):
                call()

    def test_arrays_of_jax(self):
        """Arrays of JAX are read in place, and refused as results."""
        try:
            import jax
            from jax import numpy as jnp
        except ImportError:
            self.skipTest("no JAX")
        jax.config.update("jax_enable_x64", True)
        a = jnp.asarray(self.random.standard_normal((3, 4)))
        self.same(self.ctx.matmul(a, a.T), numpy.asarray(a), numpy.asarray(a).T)
        with limber._buffer.View(a, "a") as view:
            self.assertFalse(view.copied)
        self.assertEqual(self.ctx.matmul(jnp.ones((2, 3), jnp.bfloat16),
                                         jnp.ones((3, 1), jnp.bfloat16)).tolist(), [[3], [3]])
        with self.ctx.prepare(a, side="right") as b:
            self.same(self.ctx.matmul(a.T, b), numpy.asarray(a).T, numpy.asarray(a))
        for kind in (jnp.float64, jnp.bfloat16):
            out = jnp.zeros((3, 3), kind)
            with self.assertRaisesRegex(limber.BadArgument, "out: is read-only"):
                self.ctx.matmul(a, a.T, out=out)
            self.assertEqual(float(out.sum()), 0)
        with self.assertRaisesRegex(limber.BadArgument, "a: .*traced"):
            jax.jit(self.ctx.matmul)(a, a.T)
        made = jax.jit(lambda x, y: jax.pure_callback(
            lambda x, y: self.ctx.matmul(x, y), jax.ShapeDtypeStruct((3, 3), x.dtype), x, y))
        self.same(numpy.asarray(made(a, a.T)), numpy.asarray(a), numpy.asarray(a).T)

    def test_arrays_by_interface(self):
        """Objects with __array_interface__ or __array__."""
        class Shown:
            """An array that has only __array_interface__."""
            def __init__(self, array):
                self.array = array
                self.__array_interface__ = array.__array_interface__

        class Converted:
            """An array that has only __array__."""
            def __init__(self, array):
                self.array = array

            def __array__(self, dtype=None, copy=None):
                return self.array

        a = self.random.standard_normal((3, 4))
        with limber._buffer.View(Shown(a), "a") as view:
            self.assertEqual((view.data, view.copied), (a.ctypes.data, False))
        self.same(self.ctx.matmul(Shown(a), Converted(a.T)), a, a.T)
        out = numpy.zeros((3, 3))
        self.ctx.matmul(a, a.T, out=Shown(out))
        self.same(out, a, a.T)
        with self.assertRaisesRegex(limber.BadArgument, "out: gives copies"):
            self.ctx.matmul(a, a.T, out=Converted(out))

    def test_vectors_and_stacks(self):
        """Shapes of products of vectors and broadcast stacks are NumPy's."""
        a, b = self.random.integers(-9, 9, (3, 1, 4, 6)).astype("d"), \
            self.random.integers(-9, 9, (2, 6, 5)).astype("d")
        self.assertTrue((self.ctx.matmul(a, b) == a @ b).all())
        self.assertTrue((self.ctx.matmul(a, b[0]) == a @ b[0]).all())
        self.assertTrue((self.ctx.matmul(a[0, 0, 0], b) == a[0, 0, 0] @ b).all())
        self.assertTrue((self.ctx.matmul(a, b[0, :, 0]) == a @ b[0, :, 0]).all())
        self.assertEqual(self.ctx.matmul(b[0, :, 0], b[0, :, 1]), b[0, :, 0] @ b[0, :, 1])
        self.assertEqual(self.ctx.matmul(a[:, :, :0], b).shape, (3, 2, 0, 5))
        self.assertTrue((self.ctx.matmul(a[0, 0][:, :0], b[0, :0]) == 0).all())

    def test_products_are_those_of_numpy(self):
        """Compares shapes, broadcasting, strides and sums with NumPy, on integers."""
        draw = random.Random(5)

        def tensor(shape):
            """Makes integers in a random layout: axes in any order, gaps, negative strides."""
            order = draw.sample(range(len(shape)), len(shape))
            gaps = [draw.choice([1, 1, 2]) for _ in shape]
            big = self.random.integers(-9, 9, [shape[i] * gaps[i] for i in order])
            x = numpy.asarray(big).astype("d").transpose([order.index(i) for i in range(len(shape))])
            x = x[(...,) + tuple(slice(None, None, gap) for gap in gaps)]
            return x[::-1] if shape and draw.random() < 0.2 else x

        def check(name, what, a, b):
            """Compares a call with NumPy's: the result, and with out, alpha and beta."""
            want = getattr(numpy, name)(*what[:1], a, b) if name == "einsum" else \
                getattr(numpy, name)(a, b, *what)
            call = getattr(self.ctx, name)
            got = lambda **how: call(*what, a, b, **how) if name == "einsum" else \
                call(a, b, *what, **how)
            about = (name, what, a.shape, a.strides, b.shape, b.strides)
            self.assertEqual(got().shape, want.shape, about)
            self.assertTrue((got() == want).all(), about)
            out = tensor(want.shape)
            if want.size and min(out.strides, default=1) > 0:
                sum = 2 * want + out
                self.assertIs(got(out=out, alpha=2, beta=1), out)
                self.assertTrue((out == sum).all(), about)

        for _ in range(150):
            m, k, n = (draw.choice([0, 1, 2, 3, 5]) for _ in range(3))
            stack = [draw.choice([1, 2, 3]) for _ in range(2)]
            a, b = ([draw.choice([1, extent]) for extent in stack][draw.randint(0, 2):] for _ in "ab")
            a, b = tensor(a + [m, k]), tensor(b + [k, n])
            check("matmul", (), a, b)
            check("matmul", (), tensor([k]), b)
            check("matmul", (), a, tensor([k]))
            check("dot", (), a, b)
        check("dot", (), tensor([k]), tensor([k]))
        check("dot", (), numpy.array(3.0), b)
        for _ in range(100):
            both = [draw.randint(1, 3) for _ in range(draw.randint(0, 3))]
            a, b = (both + [draw.randint(1, 4) for _ in range(draw.randint(0, 2))] for _ in "ab")
            orders = [draw.sample(range(len(x)), len(x)) for x in (a, b)]
            axes = [[order.index(i) - draw.choice([0, len(order)]) for i in range(len(both))]
                    for order in orders]
            check("tensordot", (axes,), *(tensor([x[i] for i in order])
                                          for x, order in zip((a, b), orders)))
        check("tensordot", (1,), tensor([2, 3]), tensor([3, 2]))
        check("tensordot", (), tensor([4, 2, 3]), tensor([2, 3, 5]))
        for _ in range(200):
            extents = {label: draw.randint(1, 3) for label in "abcdeXY"}
            left, right = ("".join(draw.choices("abcde", k=draw.randint(0, 4))) for _ in "ab")
            labels = sorted(set(left + right))
            order = "".join(draw.sample(labels, draw.randint(0, len(labels))))
            text = f"{left},{right}" + draw.choice(["", "->" + order])
            check("einsum", (text,), *(tensor([extents[x] for x in term]) for term in (left, right)))
            text = f"{left}..., ...{right}" + draw.choice(["", f"->{order}..."])
            check("einsum", (text,), tensor([extents[x] for x in left + "XY"]),
                  tensor([1, extents["Y"]] + [extents[x] for x in right]))

    def test_products_of_labels_are_refused(self):
        a, b = numpy.ones((2, 3)), numpy.ones((3, 4))
        for text, call in (
                ("stacks of a", lambda: self.ctx.matmul(numpy.ones((2, 2, 3)), numpy.ones((3, 3, 2)))),
                ("b: expected at least one axis", lambda: self.ctx.matmul(a, 3.0)),
                ("axes: axis 0 of a has 2 elements, axis 1 of b 4",
                 lambda: self.ctx.tensordot(a, b, ([0], [1]))),
                ("axes = 3: a has 2 axes", lambda: self.ctx.tensordot(a, b, 3)),
                ("axes = .*: expected as many", lambda: self.ctx.tensordot(a, b, ([0], [0, 1]))),
                ("axes: there is no axis 2", lambda: self.ctx.tensordot(a, b, (2, 0))),
                ("axes = 1.5: expected", lambda: self.ctx.tensordot(a, b, 1.5)),
                ("a has 3 elements along axis 1|axes: axis 1 of a has 3",
                 lambda: self.ctx.dot(a, b.T)),
                ("axes 'j' of a and b have 3 and 4", lambda: self.ctx.einsum("ij,jk", a, b.T)),
                ("a: axes 'i' have 2 and 3", lambda: self.ctx.einsum("ii,jk", a, b)),
                ("'ijk' does not name 2 axes", lambda: self.ctx.einsum("ijk,jk", a, b)),
                ("'i!' does not name", lambda: self.ctx.einsum("i!,jk", a, b)),
                ("the result's occur once", lambda: self.ctx.einsum("ij,jk->il", a, b)),
                ("the result lacks", lambda: self.ctx.einsum("...j,jk->k", a, b)),
                ("expected those of two", lambda: self.ctx.einsum("ij->i", a, b)),
                ("einsum: two operands are served, 3",
                 lambda: self.ctx.einsum("ij,jk,kl", a, b, b.T))):
            with self.subTest(text), self.assertRaisesRegex(limber.BadArgument, text):
                call()
        with self.assertRaises(TypeError):
            self.ctx.dot(a, b, contracts="native")

    def test_a_stack_is_one_call(self):
        lines = []
        a, b = self.random.standard_normal((5, 7, 4, 6)), self.random.standard_normal((7, 6, 3))
        with limber.Context(log=lines.append) as ctx:
            for left, right in ((a, a.swapaxes(-1, -2)), (a, b), (a, b[0]), (a[:, :1], b),
                                (a[0, 0], b), (a[::2, ::3], b[::3])):
                lines.clear()
                c = ctx.matmul(left, right)
                self.assertTrue(numpy.allclose(c, left @ right))
                self.assertEqual(len(lines), 1, lines)
            lines.clear()
            self.assertEqual(ctx.matmul(a, b[0]).shape, (5, 7, 4, 3))
            self.assertIn("m=140", lines[0])        # the stack is one matrix of 5 x 7 x 4 rows
            with ctx.prepare(b[0], side="right") as kept:
                self.assertTrue((ctx.matmul(a, kept) == ctx.matmul(a, b[0])).all())

    def test_pairs_of_types_again_and_again(self):
        """Multiplies each pair of types, in several forms, repeatedly with other numbers."""
        forms = [((4, 6), (6, 3)), ((6,), (6, 3)), ((4, 6), (6,)), ((2, 4, 6), (2, 6, 3)),
                 ((2, 4, 6), (6, 3)), ((1, 1), (1, 1))]
        kinds = "?", "b", "B", "h", "H", "i", "I", "q", "e", "f", "d", "F", "D", ">d", ">i", ">F"
        ctx = limber.Context(kernels="prebuilt")    # kernels have no influence: none is compiled
        self.addCleanup(ctx.close)
        for left, right in itertools.product(kinds, kinds):
            wide = "D" if left[-1] in "FD" or right[-1] in "FD" else "d"
            for one, other in forms:
                for contract in "native", "correct":
                    for _ in range(3):
                        a, b = (self.random.integers(0, 2, shape).astype(kind)
                                for shape, kind in ((one, left), (other, right)))
                        if wide == "D":
                            a, b = (x * x.dtype.type(1j) if x.dtype.kind == "c" else x
                                    for x in (a, b))
                        got = ctx.matmul(a, b, contract=contract)
                        self.assertTrue((got == a.astype(wide) @ b.astype(wide)).all(),
                                        (left, right, one, other, contract))

    def test_stacks_of_one_go_through_epilogues(self):
        x = self.random.integers(-9, 9, (1, 4, 5)).astype("f")
        for stack in (1,), (1, 1):
            a, skip = x.reshape(stack + (4, 5)), x[0, :, :4].reshape(stack + (4, 4))
            for b in a.swapaxes(-1, -2), x[0].T:
                got = self.ctx.matmul(a, b, epilogue="%1 = add %x %skip", inputs={"skip": skip})
                self.assertTrue((got == a @ b + skip).all())

    def test_stacks_go_through_epilogues(self):
        a, b = (self.random.integers(-9, 9, shape).astype("d") for shape in ((5, 2, 3), (3, 4)))
        rows, columns, all = (self.random.integers(-9, 9, shape).astype("d")
                              for shape in ((2, 1), (4,), (5, 2, 4)))
        c = self.ctx.matmul(a, b, epilogue="%1 = add %x %r\n%2 = mul %1 %c\n%3 = sub %2 %all",
                            inputs={"r": rows, "c": columns, "all": all})
        self.assertTrue((c == (a @ b + rows) * columns - all).all())
        self.assertTrue((self.ctx.tensordot(a, b, 1, epilogue="%1 = neg %x") == -(a @ b)).all())

    def test_complex(self):
        """Complex products, conjugates, and one real operand."""
        a = self.random.integers(-9, 9, (4, 6)) + 1j * self.random.integers(-9, 9, (4, 6))
        b = self.random.integers(-9, 9, (6, 3)) - 1j
        self.assertTrue((self.ctx.matmul(a, b, alpha=1 - 2j) == (1 - 2j) * (a @ b)).all())
        self.assertTrue((self.ctx.matmul(a, b, conj_b=True) == a @ b.conj()).all())
        self.assertTrue((self.ctx.matmul(a.real, b) == a.real @ b).all())
        self.assertEqual(self.ctx.matmul(a.astype("F"), b.astype("F")).dtype, "F")
        for kind in "bhiBefd?Hq":
            for wide in 2 * "FD":           # the second time as a call like one before
                real = self.random.integers(0, 2, (4, 6)).astype(kind)
                c = self.ctx.matmul(real, b.astype(wide))
                self.assertEqual(c.dtype, "D" if kind in "idHq" else wide, (kind, wide))
                self.assertTrue((c == real.astype("d") @ b).all(), (kind, wide))
                self.assertTrue((self.ctx.matmul(b.astype(wide).T, real.T) == c.T).all())
        with self.assertRaisesRegex(limber.BadArgument, "a: has integers beyond"):
            self.ctx.matmul(numpy.full((4, 6), 2**60), b)
        stack = numpy.stack([a, 2 * a])
        self.assertTrue((self.ctx.matmul(stack, b) == stack @ b).all())

    def test_quads_are_arrays(self):
        """Quads support @, transposition and indexing."""
        q = limber.Quad([[1, 2], [3, 4]])
        self.assertEqual((q @ q).to_fractions(), [[7, 10], [15, 22]])
        self.assertEqual((q.T @ q).to_fractions(), [[10, 14], [14, 20]])
        self.assertEqual((numpy.eye(2) @ q).to_fractions(), [[1, 2], [3, 4]])
        self.assertEqual((q[0].to_fractions(), q[:, 1].to_fractions()), ([1, 2], [2, 4]))
        self.assertEqual((q[1, 0].item(), float(q[1, 1])), (3, 4.0))
        doubles = self.random.standard_normal((3, 4))
        self.assertEqual(limber.Quad(doubles).to_pairs()[0].tolist(), doubles.tolist())


@unittest.skipUnless(numpy, "needs NumPy")
class Intervals(unittest.TestCase):
    def setUp(self):
        self.random = numpy.random.default_rng(3)

    def test_points(self):
        a = self.random.uniform(-1, 1, (7, 9))
        b = self.random.uniform(-1, 1, (9, 5))
        for x, y in ((a, b), (a, b[:, 0]), (a.T.copy().T, b[:, ::2]),
                     (a.astype("f4"), b.astype("f4"))):
            c = interval.matmul(x, y)
            near = limber.matmul(x, y, contract="correct")
            self.assertEqual(c.shape, near.shape)
            self.assertEqual(c.inf.dtype, near.dtype)
            numpy.testing.assert_array_equal(
                numpy.where(c.inf == c.sup, c.sup, numpy.nextafter(c.inf, numpy.inf,
                                                                   dtype=c.inf.dtype)), c.sup)
            self.assertTrue(((c.inf == near) | (c.sup == near)).all())
        exact = interval.matmul(numpy.array([[1, 2], [3, 4]]), numpy.array([[5, 6], [7, 8]]))
        self.assertEqual(exact.inf.tolist(), [[19, 22], [43, 50]])
        self.assertIs((exact.inf == exact.sup).all(), numpy.True_)

    def test_intervals(self):
        a = interval.from_midrad(self.random.uniform(-1, 1, (6, 8)), 1e-3)
        b = interval.Interval(self.random.uniform(-1, 0, (8, 4)), self.random.uniform(0, 1, (8, 4)))
        c = a @ b
        for _ in range(20):
            x = self.random.uniform(a.inf, a.sup)
            y = self.random.uniform(b.inf, b.sup)
            self.assertIn(limber.matmul(x, y, contract="correct"), c)
        self.assertNotIn(c.sup + 1, c)
        self.assertIn(a.mid, a)
        self.assertTrue((a.mid - a.inf <= a.rad).all() and (a.sup - a.mid <= a.rad).all())
        self.assertEqual((numpy.ones((2, 6)) @ a).shape, (2, 8))
        whole = interval.Interval([[-numpy.inf, 1.0]], [[numpy.inf, 1.0]]) @ numpy.ones((2, 1))
        self.assertEqual((whole.inf.item(), whole.sup.item()), (-numpy.inf, numpy.inf))
        empty = interval.matmul(numpy.empty((2, 0)), numpy.empty((0, 3)))
        self.assertEqual((empty.shape, empty.sup.any()), ((2, 3), False))

    def test_midrad(self):
        x = interval.from_midrad([1.0, -1.0], 2.0**-60)
        self.assertEqual(x.inf.tolist(), [1 - 2.0**-53, -1 - 2.0**-52])
        self.assertEqual(x.sup.tolist(), [1 + 2.0**-52, -1 + 2.0**-53])

    def test_bad_input(self):
        one = numpy.ones((2, 2))
        for call, text in (
                (lambda: interval.Interval([1.0], [0.5]), "inf: is above sup"),
                (lambda: interval.Interval([numpy.nan]), "inf: is above sup, or NaN"),
                (lambda: interval.Interval([1.0], [1.0, 2.0]), "sup: shape"),
                (lambda: interval.Interval([1j]), "inf: complex128"),
                (lambda: interval.Interval([2**53 + 1]), "inf: has integers"),
                (lambda: interval.from_midrad([1.0], [-1.0]), "rad: is negative"),
                (lambda: interval.from_midrad([numpy.nan], [1.0]), "mid: is NaN"),
                (lambda: interval.matmul(one, numpy.ones((3, 2))), "b: shape"),
                (lambda: interval.matmul(one[0], one), "a, b: shapes"),
                (lambda: interval.matmul(one, [[numpy.inf], [1.0]]), "b: element .* not finite")):
            with self.assertRaisesRegex(limber.BadArgument, text):
                call()


if __name__ == "__main__":
    tell_skips.main()
