# SPDX-License-Identifier: BSD-3-Clause
"""Elementwise functions of NumPy arrays, and of the types of ml_dtypes, correctly rounded.

    import limber.ops
    y = limber.ops.gelu(x)                              # x's type: float16, bfloat16, float8_...
    y = limber.ops.exp(x, dtype=ml_dtypes.bfloat16)     # rounded once to another type
    y = limber.ops.clamp(x, -1, 1, out=x)

Every function of limber/ops.h is here under its name (`limber operators` lists them).  Options:

    out         an array of x's shape for the result, contiguous; it may be x
    dtype       the result's type: of NumPy's or ml_dtypes'; x's, of isnan and isinf int8
    rounding    "nearest", "zero", "up", "down", "away" (ties away from zero) or "odd"
    compute     "exact"; "f32": to binary32 first
    nan_to_zero True: types without NaN get 0 for it
    context     a limber.Context, whose threads work

Contiguous arrays are read and written where they lie; others are copied first."""
import inspect
from ctypes import byref, c_char_p, c_int

import numpy

from . import _library as C
from ._buffer import format_named
from ._library import lib
from .errors import BadArgument, check

_NAMES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
          "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "float6_e2m3fn": "e2m3",
          "float6_e3m2fn": "e3m2", "float4_e2m1fn": "e2m1", "int8": "i8", "int16": "i16",
          "int32": "i32", "int64": "i64", "uint8": "u8"}
_ROUNDINGS = ["nearest", "zero", "up", "down", "away", "odd"]
_COMPUTE = ["exact", "f32"]
__all__ = []


def _format(dtype, what):
    dtype = numpy.dtype(dtype)
    if dtype.name not in _NAMES or not dtype.isnative:
        raise BadArgument(f"{what}: elements of type {dtype} are no format")
    return format_named(_NAMES[dtype.name])


def _index(value, words, what):
    if value not in words:
        raise BadArgument(f"{what} = {value!r} is none of {', '.join(words)}")
    return words.index(value)


def _apply(index, name, x, parameters, out, dtype, rounding, compute, nan_to_zero, context):
    from . import default_context

    x = numpy.ascontiguousarray(x).reshape(numpy.shape(x))     # of no axes, too
    if out is None:
        test = name in ("isnan", "isinf")
        kind = dtype if dtype is not None else numpy.int8 if test else x.dtype
        out = numpy.empty(x.shape, kind)
    elif dtype is not None and out.dtype != numpy.dtype(dtype):
        raise BadArgument(f"out: elements are of type {out.dtype}, not {numpy.dtype(dtype)}")
    if out.shape != x.shape:
        raise BadArgument(f"out: its shape is {out.shape}, not {x.shape}")
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise BadArgument("out: it is not contiguous and writable")
    read = _format(x.dtype, "x")
    call = C.Elementwise(function=index, rounding=_index(rounding, _ROUNDINGS, "rounding"),
                         compute=_index(compute, _COMPUTE, "compute"),
                         nan_to_zero=int(bool(nan_to_zero)), to=_format(out.dtype, "out"),
                         src=x.ctypes.data, dst=out.ctypes.data, count=x.size)
    setattr(call, "from", read)
    call.p, call.q = (tuple(parameters) + (0, 0))[:2]
    context = default_context() if context is None else context
    with context._handle.use() as pointer:
        check(lib.limber_apply(pointer, byref(call)))
    return out


def _make(index):
    meaning, count = c_char_p(), c_int()
    name = lib.limber_function_at(index, byref(meaning), byref(count))
    if name is None:
        return None
    name = name.decode()
    first = {0: [], 1: [("p", 0.01)], 2: [("p", inspect.Parameter.empty),
                                         ("q", inspect.Parameter.empty)]}[count.value]
    plain, after = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    signature = inspect.Signature(
        [inspect.Parameter("x", plain)] +
        [inspect.Parameter(n, plain, default=d) for n, d in first] +
        [inspect.Parameter(n, after, default=d) for n, d in
         [("out", None), ("dtype", None), ("rounding", "nearest"), ("compute", "exact"),
          ("nan_to_zero", False), ("context", None)]])

    def function(*arguments, **options):
        bound = signature.bind(*arguments, **options)
        bound.apply_defaults()
        values = bound.arguments
        return _apply(index, name, values["x"], [values[n] for n, _ in first], values["out"],
                      values["dtype"], values["rounding"], values["compute"],
                      values["nan_to_zero"], values["context"])

    function.__name__ = function.__qualname__ = name
    function.__signature__ = signature
    function.__doc__ = f"{meaning.value.decode()}, for every element x.  Options: limber.ops."
    return function


def _fill():
    index = 0
    while (function := _make(index)) is not None:
        globals()[function.__name__] = function
        __all__.append(function.__name__)
        index += 1


_fill()
