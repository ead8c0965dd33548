# SPDX-License-Identifier: BSD-3-Clause
"""The Python package, against fractions.  Usage: test_python.py LAYOUT-PROGRAM [unittest's]"""
import array
import math
import os
import random
import subprocess
import sys
import tempfile
import threading
import unittest
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from fractions import Fraction

if os.environ.get("LIMBER_TEST_NO_NUMPY"):
    sys.modules["numpy"] = None     # an import of it fails
try:
    import numpy
except ImportError:
    numpy = None

import limber
from limber import _library

LAYOUT = sys.argv.pop(1)
random.seed(20)


def product(a, b):
    """Exact, of nested lists."""
    return [[sum(Fraction(x) * Fraction(y) for x, y in zip(row, column)) for column in zip(*b)]
            for row in a]


def draw(rows, cols, spread=30):
    return [[random.uniform(-1, 1) * 2.0 ** random.randint(-spread, spread)
             for _ in range(cols)] for _ in range(rows)]


def buffer(rows, code="d"):
    """A memoryview of two axes."""
    flat = array.array(code, [x for row in rows for x in row])
    return memoryview(flat).cast("B").cast(code, (len(rows), len(rows[0])))


def rounded(rows):
    return [[float(x) for x in row] for row in rows]    # Fraction to float rounds to nearest-even


class Background(unittest.TestCase):
    def test_matmul_begins_without_its_kernel(self):
        a, b = draw(4, 5, 300), draw(5, 6, 300)
        with limber.Context(cache_dir="", background=True) as ctx:
            for _ in range(3):
                c = ctx.matmul(buffer(a), buffer(b))
                self.assertEqual(memoryview(c).tolist(), rounded(product(a, b)))


class Layout(unittest.TestCase):
    def test_structures_are_those_of_the_c_compiler(self):
        text = subprocess.run([LAYOUT], capture_output=True, text=True, check=True).stdout
        expected = {tuple(line.split()) for line in text.splitlines()}
        found = set()
        for name, kind in _library.STRUCTURES.items():
            found.add((name, "-", "0", str(_library.ctypes.sizeof(kind))))
            for field, *_ in kind._fields_:
                place = getattr(kind, field)
                found.add((name, field, str(place.offset), str(place.size)))
        self.assertEqual(found, expected)

    def test_every_status_has_its_exception(self):
        for status in limber.Status:
            self.assertEqual(_library.lib.limber_status_name(status).decode(), status.name)


class Finding(unittest.TestCase):
    def test_versions_agree(self):
        version = _library.lib.limber_version().decode()
        self.assertEqual(limber.__version__, version)

    def refused(self, library):
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
    """Without NumPy's help."""

    def setUp(self):
        self.ctx = limber.Context(threads=2)

    def tearDown(self):
        self.ctx.close()

    def test_correct_is_the_fraction_rounded_once(self):
        a, b = draw(5, 17), draw(17, 4)
        c = self.ctx.matmul(buffer(a), buffer(b))
        self.assertEqual(memoryview(c).tolist(), rounded(product(a, b)))

    def test_alpha_beta_out(self):
        a, b, c = draw(3, 6), draw(6, 2), draw(3, 2)
        out = buffer(c)
        self.assertIs(self.ctx.matmul(buffer(a), buffer(b), out=out, alpha=0.3, beta=-2), out)
        ab = product(a, b)
        self.assertEqual(out.tolist(), [[float(Fraction(0.3) * x - 2 * Fraction(y))
                                         for x, y in zip(*rows)] for rows in zip(ab, c)])

    def test_reproducible_sums(self):
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
        self.assertRaisesRegex(limber.BadArgument, "fp17", limber.finfo, "fp17")
        self.assertRaises(limber.BadArgument, limber.spacing, "f16", 99)

    def test_integers(self):
        a = [[random.randint(-128, 127) for _ in range(40)] for _ in range(3)]
        b = [[random.randint(-128, 127)] for _ in range(40)]
        c = self.ctx.matmul(buffer(a, "b"), buffer(b, "b"))
        self.assertEqual(memoryview(c).format.lstrip("@"), "i")
        self.assertEqual(memoryview(c).tolist(), [[int(x) for x in row] for row in product(a, b)])

    def test_range_leaves_out(self):
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
            "alpha": lambda: self.ctx.matmul(a, b, alpha="x"),
            "beta is complex": lambda: self.ctx.matmul(a, b, beta=1j),
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
            "overlaps": lambda: self.ctx.matmul(square, square, out=square),
            "side": lambda: self.ctx.prepare(a, side="top"),
            "backend": lambda: limber.Context(backend="none"),
        }.items():
            square = buffer(draw(2, 2))
            with self.subTest(word), self.assertRaises(limber.BadArgument) as caught:
                call()
            self.assertIn(word, str(caught.exception))

    def test_a_closed_context_is_refused(self):
        ctx = limber.Context()
        ctx.close()
        ctx.close()
        with self.assertRaises(limber.BadArgument):
            ctx.matmul(buffer(draw(2, 2)), buffer(draw(2, 2)))

    def test_prepared_operands(self):
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

    def test_a_context_outlives_its_operands(self):
        ctx = limber.Context()
        operand = ctx.prepare(buffer(draw(4, 4)))
        ctx.close()
        operand.check()
        operand.close()

    def test_log_and_report(self):
        lines = []
        with limber.Context(log=lines.append) as ctx:
            _, report = ctx.matmul(buffer(draw(3, 3)), buffer(draw(3, 3)), report=True)
        self.assertIn(report.scheme, limber.schemes())
        self.assertEqual(report.bound, 0)
        self.assertTrue(any(report.scheme in line and "m=3" in line for line in lines), lines)

    def test_plan_and_inspect(self):
        a = buffer([[1.0, 2.0, 0.0], [0.25, -4.0, 3.0]])
        self.assertIn("plan gemm", self.ctx.plan(a, buffer(draw(3, 2))))
        seen = self.ctx.inspect(a)
        self.assertEqual((seen.lines, seen.length, seen.negative, seen.emin, seen.emax, seen.spread),
                         (2, 3, 1, -2, 2, 4))
        self.assertEqual((seen.tiles[0][0].emin, seen.tiles[0][0].emax), (-2, 2))

    def test_options(self):
        with limber.Context(cache_dir="", whole=True, kernels="prebuilt") as ctx:
            ctx.matmul(buffer(draw(3, 3)), buffer(draw(3, 3)))
        with self.assertRaises(TypeError):
            limber._library.Config(whole=True)

    def test_cache(self):
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
        a = buffer([[0.1] * 4])
        c = self.ctx.matmul(a, buffer([[1.0]] * 4),
                            contract="simulate=in=f16 mul=f32:rn acc=f32:rn")
        self.assertEqual(memoryview(c).tolist()[0][0], 4 * 0.0999755859375)    # 0.1 in binary16

    def test_convolution(self):
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
                          ("steps: line 1: 'sine' is neither", dict(epilogue="%1 = sine %x")),
                          (r"inputs\['b'\]: shape \(5, 1\) is none of",
                           dict(epilogue="%1 = add %x %b", inputs={"b": buffer(draw(5, 1))}))):
            with self.assertRaisesRegex(limber.BadArgument, text):
                self.ctx.matmul(buffer(a), buffer(b), **how)

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
                with self.assertRaisesRegex(limber.BadArgument, "prepared_b"):
                    self.ctx.conv2d_backward_data(dy, kept, (7, 6), layout="NHWC")

    def test_threads_share_a_context(self):
        a, b = draw(30, 40), draw(40, 20)
        expected, wrong = rounded(product(a, b)), []

        def work():
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
        for _ in range(5):
            ctx, started = limber.Context(), threading.Event()

            def work():
                try:
                    while True:
                        if memoryview(ctx.matmul(buffer(a), buffer(b))).tolist() != expected:
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
    def nearest(self, x):
        """x rounded to 113 bits, by another way than the package's: Python's own rounding."""
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

    def test_numbers_are_rounded_once(self):
        values = [Fraction(1, 3), 10 ** 40 + 1, -(2 ** 113 + 1), 2 ** 113 + 3, Fraction(7, 10 ** 60)]
        values += [Fraction(random.randint(1, 10 ** 50), random.randint(1, 10 ** 50))
                   for _ in range(50)]
        self.assertEqual(limber.Quad(values).to_fractions(), [self.nearest(x) for x in values])

    def test_any_kind_of_number_is_taken_exactly(self):
        """Whatever a number comes as, in every binade and at both ends: its own digits, rounded once."""
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
        one, rest = numpy.longdouble(1), numpy.longdouble(2) ** -60
        for x in (one + rest, (one + rest) * numpy.longdouble(2) ** 5000, -rest / 3, numpy.float32(0.1),
                  numpy.longdouble("-0.0"), numpy.longdouble("-inf"), numpy.int64(-2 ** 63)):
            want = float(x) if not numpy.isfinite(x) else Fraction(*map(int, x.as_integer_ratio())) \
                if hasattr(x, "as_integer_ratio") else int(x)
            self.assertEqual(limber.Quad([x]).item(), want)
            self.assertEqual(limber.Quad(numpy.array([x])).to_fractions(), [want])
        self.assertTrue(math.isnan(limber.Quad([numpy.longdouble("nan")]).item()))

    def test_numbers_of_mpmath(self):
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
        a = [[Fraction(random.randint(-10 ** 30, 10 ** 30), 7 ** 20) for _ in range(6)]
             for _ in range(3)]
        b = draw(6, 2)
        qa = limber.Quad(a)
        with limber.Context() as ctx:
            c = ctx.matmul(qa, buffer(b), alpha=Fraction(1, 3), report=False)
        third = limber.Quad([Fraction(1, 3)]).to_fractions()[0]
        exact = product(qa.to_fractions(), b)
        self.assertEqual(c.to_fractions(), [[self.nearest(third * x) for x in row] for row in exact])

    def test_double_doubles(self):
        x = [[1 / 3, 1 / 3 * 2.0 ** -54], [-0.7, 1e-18]]
        dd = memoryview(array.array("d", sum(x, []))).cast("B").cast("d", (1, 2, 2))
        ones = memoryview(array.array("d", [1, 0, 1, 0])).cast("B").cast("d", (2, 1, 2))
        with limber.Context() as ctx:
            hi, lo = memoryview(ctx.matmul(dd, ones, format="dd")).tolist()[0][0]
            one = ctx.matmul(dd, ones, format="dd", dtype="f128").to_fractions()[0][0]
        exact = sum(Fraction(v) for pair in x for v in pair)
        self.assertEqual((hi, lo), (float(exact), float(exact - Fraction(float(exact)))))
        self.assertEqual(one, self.nearest(exact))


@unittest.skipUnless(numpy, "NumPy is absent")
class Ops(unittest.TestCase):
    """limber.ops: the arithmetic is tested in C; here what becomes of arrays and options."""

    @classmethod
    def setUpClass(cls):
        from limber import ops
        cls.ops = ops

    def test_functions_of_numpy(self):
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
        self.assertIn("gelu_tanh", self.ops.__all__)
        self.assertEqual(len(self.ops.__all__), 43 + 8)     # functions and reductions
        for name in self.ops.__all__:
            self.assertTrue(getattr(self.ops, name).__doc__)

    def test_places(self):
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

    def test_options(self):
        x = numpy.array([1.0])
        up = self.ops.exp(x, dtype=numpy.float16, rounding="up")
        down = self.ops.exp(x, dtype=numpy.float16, rounding="down")
        self.assertTrue(float(down[0]) < math.e < float(up[0]) < 2.7200)
        self.assertEqual(self.ops.isinf(numpy.array([-math.inf, 1, math.nan])).tolist(), [-1, 0, 0])
        self.assertEqual(self.ops.isnan(numpy.array([1, math.nan])).dtype, numpy.int8)

    def test_small_types(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is absent")
        x = numpy.linspace(-4, 4, 33)
        for kind in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"):
            kind = getattr(ml_dtypes, kind)
            y = self.ops.cast(x, dtype=kind, nan_to_zero=True)
            self.assertTrue((y == x.astype(kind)).all())
            if kind is not ml_dtypes.float4_e2m1fn:
                self.assertTrue((self.ops.exp(y) == numpy.exp(y.astype(float)).astype(kind)).all())

    def test_refused(self):
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
class Arrays(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.random = numpy.random.default_rng(3)
        cls.ctx = limber.Context()

    @classmethod
    def tearDownClass(cls):
        cls.ctx.close()

    def same(self, c, a, b):
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

    def test_nothing_is_copied(self):
        a = numpy.zeros((5, 8))[::2, ::2]
        with limber._core._view(a, "a", None) as view:
            self.assertFalse(view.copied)
            self.assertEqual(view.data, a.ctypes.data)
            self.assertEqual((view.matrix().row_stride, view.matrix().col_stride), (16, 2))

    def test_types(self):
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
        for kind in (numpy.longdouble, ">f8", "u2", "U3", "?"):
            with self.assertRaises(limber.BadArgument):
                self.ctx.matmul(numpy.zeros((2, 2), kind), a[:2, :2])

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

    def test_vectors_and_stacks(self):
        a, b = self.random.integers(-9, 9, (3, 1, 4, 6)).astype("d"), \
            self.random.integers(-9, 9, (2, 6, 5)).astype("d")
        self.assertTrue((self.ctx.matmul(a, b) == a @ b).all())
        self.assertTrue((self.ctx.matmul(a, b[0]) == a @ b[0]).all())
        self.assertTrue((self.ctx.matmul(a[0, 0, 0], b) == a[0, 0, 0] @ b).all())
        self.assertTrue((self.ctx.matmul(a, b[0, :, 0]) == a @ b[0, :, 0]).all())
        self.assertEqual(self.ctx.matmul(b[0, :, 0], b[0, :, 1]), b[0, :, 0] @ b[0, :, 1])
        self.assertEqual(self.ctx.matmul(a[:, :, :0], b).shape, (3, 2, 0, 5))
        self.assertTrue((self.ctx.matmul(a[0, 0][:, :0], b[0, :0]) == 0).all())

    def test_complex(self):
        a = self.random.integers(-9, 9, (4, 6)) + 1j * self.random.integers(-9, 9, (4, 6))
        b = self.random.integers(-9, 9, (6, 3)) - 1j
        self.assertTrue((self.ctx.matmul(a, b, alpha=1 - 2j) == (1 - 2j) * (a @ b)).all())
        self.assertTrue((self.ctx.matmul(a, b, conj_b=True) == a @ b.conj()).all())
        self.assertTrue((self.ctx.matmul(a.real, b) == a.real @ b).all())
        self.assertEqual(self.ctx.matmul(a.astype("F"), b.astype("F")).dtype, "F")
        stack = numpy.stack([a, 2 * a])
        self.assertTrue((self.ctx.matmul(stack, b) == stack @ b).all())

    def test_quads_are_arrays(self):
        q = limber.Quad([[1, 2], [3, 4]])
        self.assertEqual((q @ q).to_fractions(), [[7, 10], [15, 22]])
        self.assertEqual((q.T @ q).to_fractions(), [[10, 14], [14, 20]])
        self.assertEqual((numpy.eye(2) @ q).to_fractions(), [[1, 2], [3, 4]])
        self.assertEqual((q[0].to_fractions(), q[:, 1].to_fractions()), ([1, 2], [2, 4]))
        self.assertEqual((q[1, 0].item(), float(q[1, 1])), (3, 4.0))
        doubles = self.random.standard_normal((3, 4))
        self.assertEqual(limber.Quad(doubles).to_pairs()[0].tolist(), doubles.tolist())


if __name__ == "__main__":
    unittest.main()
