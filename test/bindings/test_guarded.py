# SPDX-License-Identifier: BSD-3-Clause
"""Calls every function of the package that computes arrays at least three times, for every format
of operands and results. All arrays, also those that the package makes, end at an inaccessible
page: an access beyond an array's end crashes and shows the line. Memory before an array is
compared with its former contents. Later calls must give the bytes of the first call on a new
context, or refuse with the same text."""
import ctypes
import faulthandler
import itertools
import mmap
import unittest
from contextlib import contextmanager
from unittest import mock

import numpy

import limber
from limber import interval, ops

libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
PAGE, FRONT, BEFORE = mmap.PAGESIZE, 64, b"\xA5"
_empty = numpy.empty
_fronts = []        # bytes before the arrays that this call has allocated


def guarded(shape, dtype, byte):
    """Returns an array whose last byte is the last accessible one."""
    dtype = numpy.dtype(dtype)
    size = dtype.itemsize * int(numpy.prod(shape, dtype=int))
    room = -(-(size + FRONT) // PAGE) * PAGE
    pages = mmap.mmap(-1, room + PAGE)
    at = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    if libc.mprotect(at + room, PAGE, 0):
        raise OSError(ctypes.get_errno(), "mprotect")
    ctypes.memset(at, BEFORE[0], room - size)
    ctypes.memset(at + room - size, byte, size)
    front = numpy.frombuffer(pages, "u1", FRONT, room - size - FRONT)
    _fronts.append(front)
    return numpy.ndarray(shape, dtype, pages, room - size)


def copied(x):
    """Copies an array to guarded memory."""
    if isinstance(x, limber.Quad):
        return limber.Quad.of_words(copied(x.words))
    x = numpy.asarray(x)
    made = guarded(x.shape, x.dtype, 0)
    made[...] = x
    return made


@contextmanager
def guards():
    """Makes the package allocate guarded arrays, filled with NaN where it need not clear them."""
    def zeros(shape, dtype=float, **options):
        """As numpy.zeros, guarded."""
        return guarded(shape, dtype, 0)

    def empty(shape, dtype=float, **options):
        """As numpy.empty, guarded and filled with the byte 0xFF."""
        is_object = numpy.dtype(dtype).hasobject
        return _empty(shape, dtype) if is_object else guarded(shape, dtype, 0xFF)

    _fronts.clear()
    with mock.patch.object(numpy, "zeros", zeros), mock.patch.object(numpy, "empty", empty):
        yield
    touched = [front for front in _fronts if (front != BEFORE[0]).any()]
    if touched:
        raise AssertionError("bytes before an array were written")


def bytes_of(made):
    """Returns all bytes of a result."""
    if isinstance(made, tuple):         # a result with a report
        made = made[0]
    words = made.words if isinstance(made, limber.Quad) else numpy.asarray(made)
    return type(made), words.dtype, words.shape, words.tobytes()


def outcome_of(call):
    """Returns a call's result, or the text of its refusal."""
    try:
        with guards():
            return bytes_of(call())
    except limber.LimberError as error:
        return type(error), str(error)


# Functions of two operands with labelled axes, and shapes of the operands.
PRODUCTS = {
    "matmul": [((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)),
               ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((2, 2), (2, 2)), ((5, 2), (2, 2)),
               ((2,), (2,)), ((5,), (2,)), ((2,), (2, 6)), ((3, 4), (4, 5))],
    "dot": [((3, 4), (4, 5)), ((4,), (4,)), ((2, 3, 4), (4, 5))],
    "tensordot": [((3, 4, 2), (4, 2, 5)), ((4, 2), (4, 2))],
    "einsum": [((3, 4), (4, 5)), ((4, 4), (4, 4))],
}
SUBSCRIPTS = "ij,jk->ik"
# The plan of a correctly rounded product of doubles, before the passes.
STATED = """plan gemm promise=correct kbits=6 budget=0 {
  %a = arg index=0 : f64[m,k]
  %b = arg index=1 : f64[k,n]
  %c = gemm %a %b : exact[m,n]
  %d = epilogue %c alpha=one beta=zero wrap=0 : f64[m,n]
  ret %d
}
"""
# Convolutions: shapes of image and filters (or gradient and filters, or image and gradient), and
# options.
CONVOLUTIONS = {}
for _axes, _size in (("conv1d", (6,)), ("conv2d", (5, 6)), ("conv3d", (3, 4, 5))):
    _window = (2,) * len(_size)
    _output = tuple(n - 1 for n in _size)
    CONVOLUTIONS[_axes] = (1, 2, *_size), (3, 2, *_window), {}
    CONVOLUTIONS[_axes + "_backward_data"] = \
        (1, 3, *_output), (3, 2, *_window), {"size": _size}
    CONVOLUTIONS[_axes + "_backward_filter"] = \
        (1, 2, *_size), (1, 3, *_output), {"window": _window}
OTHERS = {"convert", "quantize", "fixed", "run_plan", "solve", "statistics"}
# Functions that return no array that the package has made.
WITHOUT = {"explore", "plan", "inspect", "prepare", "default_context", "finfo", "formats",
           "schemes", "spacing", "units", "unit", "retention", "unit_retention", "reveal",
           "get_include", "get_cmake_dir"}
RESULTS = [None] + limber.formats()


def of_pair(format, result, cases):
    """Returns all cases if the result is not rounded to another format, or is binary128 or
    double-double; else only the first case."""
    return cases if result in (None, format, "dd", "f128") else cases[:1]


class Guarded(unittest.TestCase):
    """Calls whose arrays end at inaccessible pages."""
    @classmethod
    def setUpClass(cls):
        faulthandler.enable()
        cls.random = numpy.random.default_rng(7)
        cls.kept, cls.first = limber.Context(threads=1), limber.Context(threads=1)

    @classmethod
    def tearDownClass(cls):
        cls.kept.close()
        cls.first.close()

    def operand(self, format, shape):
        """Makes small integers in a format.  Formats that cannot represent them saturate."""
        x = self.random.integers(1, 3, shape).astype("f8")
        if format == "e2m1":
            return copied(self.first.convert(x, format))
        return copied(self.first.convert(x, format, saturate=True))

    def calls_agree(self, where, call):
        """Compares `call` on a context with cached calls with a context without any."""
        self.first._repeats.clear()
        want = outcome_of(lambda: call(self.first))
        for turn in range(3 if len(want) == 4 else 1):
            self.assertEqual(outcome_of(lambda: call(self.kept)), want, (where, turn))
        return want

    def test_every_function_is_here(self):
        functions = {name for name in limber.__all__
                     if callable(getattr(limber, name)) and
                     not isinstance(getattr(limber, name), type)}
        self.assertEqual(functions, {*PRODUCTS, *CONVOLUTIONS, *OTHERS, *WITHOUT})

    def test_products(self):
        """Products in every form, for all formats of operands and results."""
        served = 0
        for format, result in itertools.product(limber.formats(), RESULTS):
            options = {"format": None if format == "f128" else format, "dtype": result}
            for name, forms in PRODUCTS.items():
                for one, other in of_pair(format, result, forms):
                    a, b = self.operand(format, one), self.operand(format, other)
                    labels = (SUBSCRIPTS,) if name == "einsum" else ()

                    def call(context, **more):
                        """The function under test on a context."""
                        return getattr(context, name)(*labels, a, b, **options, **more)

                    want = self.calls_agree((name, format, result, one, other), call)
                    if result and len(want) == 4 and want[0] is numpy.ndarray:
                        out = guarded(want[2], want[1], 0)
                        given = self.calls_agree((name, format, result, one, other, "out"),
                                                 lambda context: call(context, out=out))
                        self.assertEqual(given, want)
                    served += len(want) == 4
        self.assertGreater(served, 1000)
        self.assertGreater(len(self.kept._repeats), 100)

    def test_convolutions(self):
        """Convolutions and their gradients, for all formats of operands and results."""
        served = 0
        for format, result in itertools.product(limber.formats(), RESULTS):
            for name, (one, other, more) in of_pair(format, result, list(CONVOLUTIONS.items())):
                a, b = self.operand(format, one), self.operand(format, other)
                want = self.calls_agree((name, format, result), lambda context: getattr(
                    context, name)(a, b, dtype=result, format=None if format == "f128" else format,
                                   **more))
                served += len(want) == 4
        self.assertGreater(served, 500)

    def test_conversions(self):
        """Conversions and quantisation between all formats, with every option."""
        for format, result in itertools.product(limber.formats(), limber.formats()):
            holds = None if format == "f128" else format
            x = self.operand(format, (3, 5))
            self.calls_agree(("convert", format, result),
                             lambda context: context.convert(x, result, holds=holds))
            self.calls_agree(("quantize", format, result),
                             lambda context: context.quantize(x, result, holds=holds))
        x = copied(self.random.standard_normal((3, 5)))
        for options in ({"limits": False}, {"flips": 0.5, "seed": 3},
                        {"rounding": "stochastic", "seed": 3}, {"subnormals": False}):
            self.calls_agree(options, lambda context: context.quantize(x, "bf16", **options))
        self.calls_agree("fixed", lambda context: context.fixed(x, 4, 4))

    def test_systems(self):
        """Linear systems in all formats."""
        for format, result in itertools.product(limber.formats(), RESULTS):
            a = self.operand(format, (3, 3))
            b = self.operand(format, (3, 2))
            options = {"dtype": result, "format": None if format == "f128" else format}
            self.calls_agree((format, result), lambda context: context.solve(a, b, **options))
        z = copied(numpy.eye(3) * (1 + 1j))
        self.calls_agree("complex", lambda context: context.solve(z, z[0]))

    def test_plans(self):
        """Products by a plan's text."""
        for one, other in PRODUCTS["matmul"]:
            a, b = self.operand("f64", one), self.operand("f64", other)
            self.calls_agree((one, other), lambda context: context.run_plan(STATED, a, b))

    def test_statistics(self):
        """Statistics of simulated units."""
        a, b = self.operand("f16", (3, 4)), self.operand("f16", (4, 5))
        for result in RESULTS:
            self.calls_agree(result, lambda context: context.statistics(
                a, b, "h100-f16", dtype=result)[:1])

    def test_interval(self):
        for one, other in itertools.product("efd", "efd"):
            a, b = (copied(self.random.uniform(-1, 1, size).astype(kind))
                    for size, kind in (((3, 4), one), ((4, 5), other)))
            for x in (a, interval.from_midrad(a, 0.25)):
                for bound in ("inf", "sup"):
                    self.calls_agree((one, other, bound), lambda context: getattr(
                        interval.matmul(x, b, context=context), bound))

    def test_operators(self):
        """Element-wise functions and reductions."""
        named = set(ops.__all__)
        reductions = {"sum", "mean", "max", "variance", "softmax", "layer_norm", "rms_norm"}
        for one, other in itertools.product("efd", "efd"):
            x = copied(self.random.uniform(0.1, 0.9, (3, 4, 5)).astype(one))
            for name in sorted(named - reductions - {"add_n"}):
                numbers = (-1, 1) if name in ("clamp", "hardtanh") else ()

                def call(context):
                    """The function under test on a context."""
                    try:
                        return getattr(ops, name)(x, *numbers, dtype=other, context=context)
                    except TypeError:       # a function of two parameters
                        return getattr(ops, name)(x, 1, 2, dtype=other, context=context)

                self.calls_agree((name, one, other), call)
            for name in sorted(reductions):
                for axis in (None, 0, 1, -1):
                    self.calls_agree((name, one, other, axis), lambda context: getattr(ops, name)(
                        x, axis, dtype=other, context=context))
            self.calls_agree(("add_n", one, other),
                             lambda context: ops.add_n([x, x], dtype=other, context=context))


if __name__ == "__main__":
    unittest.main()
