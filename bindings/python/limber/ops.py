# SPDX-License-Identifier: BSD-3-Clause
"""Elementwise functions of NumPy arrays, and of the types of ml_dtypes, correctly rounded.

    import limber.ops
    y = limber.ops.gelu(x)                              # x's type: float16, bfloat16, float8_...
    y = limber.ops.exp(x, dtype=ml_dtypes.bfloat16)     # rounded once to another type
    y = limber.ops.clamp(x, -1, 1, out=x)

Every function of limber/ops.h is here under its name (`limber operators` lists them).  Options:

    out         an array of x's shape for the result, contiguous; it may be x
    dtype       the result's type, of NumPy's or ml_dtypes', or a format's name ("bf16"), whose
                elements are bits where NumPy lacks the type and x is of none of ml_dtypes';
                without it x's, of isnan and isinf int8
    rounding    "nearest", "zero", "up", "down", "away" (ties away from zero) or "odd"
    compute     "exact"; "f32": to binary32 first
    nan_to_zero True: types without NaN get 0 for it
    context     a limber.Context, whose threads work

Contiguous arrays are read and written where they lie; others are copied first.  Arrays lie in the
host's memory: tensors on a GPU are refused (limber_apply of the C interface takes them).

Reductions go along one axis, or (axis=None) over all elements:

    limber.ops.sum(x, axis=-1, carry="exact")   mean, max, variance; softmax, layer_norm, rms_norm
    limber.ops.add_n([x, y, z])                 the sum of arrays, element by element

    carry       how sums are carried: "exact", "f32", "compensated", or "storage", in x's type
    swallowed   True: returns (result, additions of what is not zero that changed nothing), of sums
                and means carried in "f32" and "storage"
    out, dtype, rounding, nan_to_zero, context as above; nan_to_zero also allows sums carried in a
                type without NaN"""
import inspect
import math
from ctypes import byref, c_char_p, c_int, c_uint64, c_void_p, pointer
from typing import TYPE_CHECKING, Any, Callable, Iterable, Optional

import numpy

from . import _library as C
from ._arguments import format_of_dtype
from ._buffer import format_named, new_array
from ._convert import ROUNDINGS
from ._core import Context
from ._library import lib
from ._memory import gpu_of
from ._types import FORMATS, SMALL, kind_of_format
from .errors import BadArgument, check

_COMPUTE = ["exact", "f32"]
_REDUCTIONS = ["sum", "mean", "max", "variance", "softmax", "layer_norm", "rms_norm"]
_CARRIES = ["exact", "f32", "compensated", "storage"]
__all__ = []


def _format(dtype, what):
    """The limber_format of a NumPy type."""
    dtype = numpy.dtype(dtype)
    if dtype.name not in FORMATS or not dtype.isnative:
        raise BadArgument(f"{what}: elements of type {dtype} are no format")
    return format_named(FORMATS[dtype.name])


def _result(shape, plain, out, dtype, typed):
    """The result's array and format. plain: the type if nothing names one; typed: formats that
    NumPy lacks use ml_dtypes types, as the operand does, else bits."""
    if out is not None and not isinstance(out, numpy.ndarray):
        raise BadArgument(f"out: a {type(out).__name__} is no array of NumPy's")
    if dtype is None:
        out = numpy.empty(shape, plain) if out is None else out
        to = _format(out.dtype, "out")
    else:
        to, out = _named_result(shape, out, dtype, typed)
    if out.shape != shape:
        raise BadArgument(f"out: its shape is {out.shape}, not {shape}")
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise BadArgument("out: it is not contiguous and writable")
    return out, to


def _is_swapped(dtype):
    """Whether a type has the other byte order than the machine's."""
    try:
        return not numpy.dtype(dtype).isnative
    except TypeError:       # ml_dtypes is absent
        return False


def _named_result(shape, out, dtype, typed):
    """The format of a dtype, and an array for it."""
    name, pairs, is_type = format_of_dtype(dtype)
    if pairs or name in ("f128", "dd") or (is_type and _is_swapped(dtype)):
        raise BadArgument(f"dtype: elements of type {dtype} are no format of results here")
    if out is None:
        out = new_array(shape, name, typed=is_type or typed)
    elif out.dtype.name != kind_of_format(name) and out.dtype != new_array((), name).dtype:
        raise BadArgument(f"out: elements are of type {out.dtype}, not {dtype}")
    return format_named(name), out


def _index(value, words, what):
    """The place of a word in a list of those allowed."""
    if value not in words:
        raise BadArgument(f"{what} = {value!r} is none of {', '.join(words)}")
    return words.index(value)


def _dense(x, what):
    """A contiguous host array."""
    device = gpu_of(x)
    if device is not None:
        raise BadArgument(f"{what}: lies in the memory of CUDA device {device}, which only "
                          "products of tensors there read")
    # reshape, since ascontiguousarray gives a scalar an axis
    return numpy.ascontiguousarray(x).reshape(numpy.shape(x))


def _apply(index, name, x, parameters, out, dtype, rounding, compute, nan_to_zero, context):
    """Applies an element-wise function, given by its place in the library's table."""
    from . import default_context

    x = _dense(x, "x")
    read = _format(x.dtype, "x")
    plain = numpy.int8 if name in ("isnan", "isinf") else x.dtype
    out, to = _result(x.shape, plain, out, dtype, x.dtype.name in SMALL)
    call = C.Elementwise(function=index, rounding=_index(rounding, ROUNDINGS, "rounding"),
                         compute=_index(compute, _COMPUTE, "compute"),
                         nan_to_zero=int(bool(nan_to_zero)), to=to,
                         src=x.ctypes.data, dst=out.ctypes.data, count=x.size)
    setattr(call, "from", read)
    call.p, call.q = (tuple(parameters) + (0, 0))[:2]
    context = default_context() if context is None else context
    with context._handle.use() as handle:
        check(lib.limber_apply(handle, byref(call)))
    return out


def _make(index):
    """A Python function, with signature and docstring, for a row of the library's table of element-
    wise functions; None after the last row."""
    meaning, count = c_char_p(), c_int()
    name = lib.limber_function_at(index, byref(meaning), byref(count))
    if name is None:
        return None
    name = name.decode()
    first = {0: [], 1: [("p", 0.01)], 2: [("p", inspect.Parameter.empty),
                                         ("q", inspect.Parameter.empty)]}[count.value]
    plain, after = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    signature = inspect.Signature(
        [inspect.Parameter("x", plain, annotation=Any)] +
        [inspect.Parameter(n, plain, default=d, annotation=float) for n, d in first] +
        [inspect.Parameter(n, after, default=d, annotation=kind) for n, d, kind in
         [("out", None, Any), ("dtype", None, Any), ("rounding", "nearest", str),
          ("compute", "exact", str), ("nan_to_zero", False, bool),
          ("context", None, Optional[Context])]], return_annotation=Any)

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


if TYPE_CHECKING:
    def __getattr__(name: str) -> Callable[..., Any]: ...    # every function of limber/ops.h


def _fill():
    """Defines a function of this module for each row of the library's table."""
    index = 0
    while (function := _make(index)) is not None:
        globals()[function.__name__] = function
        __all__.append(function.__name__)
        index += 1


_fill()


# ---- reductions ----------------------------------------------------------------------------------

def _weights(w, x, count, what):
    """Scale or shift of a normalisation in the type of x, or None."""
    if w is None:
        return None
    w = _dense(w, what)
    if w.shape != (count,) or w.dtype != x.dtype:
        raise BadArgument(f"{what}: is {w.dtype}{list(w.shape)}, not {x.dtype}[{count}]")
    return w


def _run(call, read, lost, context):
    """Runs a reduction from one array to another."""
    from . import default_context

    setattr(call, "from", read)
    if lost is not None:
        call.swallowed = lost
    context = default_context() if context is None else context
    with context._handle.use() as handle:
        check(lib.limber_reduce(handle, byref(call)))


def _reduce(name, x, axis, carry, out, dtype, rounding, context, swallowed=False, correction=0,
            epsilon=0, scale=None, shift=None, nan_to_zero=False):
    """Makes any reduction; the functions below say what its arguments mean."""
    given = numpy.shape(x)
    x = _dense(x, "x").reshape(given)
    same = _REDUCTIONS.index(name) >= _REDUCTIONS.index("softmax")
    if swallowed and carry not in ("f32", "storage"):
        raise BadArgument(f"swallowed: additions carried {carry!r} are not counted; those in 'f32' "
                          "and 'storage' are")
    if axis is None:
        outer, count, inner, kept = 1, x.size, 1, ()
    else:
        if not isinstance(axis, (int, numpy.integer)):
            raise BadArgument(f"axis = {axis!r} is no number of an axis, nor None for all elements")
        if not -x.ndim <= axis < x.ndim:
            raise BadArgument(f"axis = {axis}: x has {x.ndim} axes")
        axis %= x.ndim
        outer, count = math.prod(given[:axis]), given[axis]
        inner, kept = math.prod(given[axis + 1:]), given[:axis] + given[axis + 1:]
    read, lost = _format(x.dtype, "x"), c_uint64()
    made, to = _result(given if same else kept, x.dtype, out, dtype, x.dtype.name in SMALL)
    scale, shift = _weights(scale, x, count, "scale"), _weights(shift, x, count, "shift")
    call = C.ReduceCall(reduction=_REDUCTIONS.index(name), carry=_index(carry, _CARRIES, "carry"),
                        rounding=_index(rounding, ROUNDINGS, "rounding"), correction=correction,
                        to=to, epsilon=epsilon, outer=outer, count=count,
                        inner=inner, src=x.ctypes.data, dst=made.ctypes.data,
                        scale=None if scale is None else scale.ctypes.data,
                        shift=None if shift is None else shift.ctypes.data,
                        nan_to_zero=int(bool(nan_to_zero)))
    _run(call, read, pointer(lost) if swallowed else None, context)
    made = made if same or made.shape or out is not None else made[()]
    return (made, lost.value) if swallowed else made


def sum(x: Any, axis: Optional[int] = None, *, carry: str = "exact", out: Any = None,
        dtype: Any = None, rounding: str = "nearest", swallowed: bool = False,
        nan_to_zero: bool = False, context: Optional[Context] = None) -> Any:
    """The sum along an axis; carried exactly it is the exact one, rounded once."""
    return _reduce("sum", x, axis, carry, out, dtype, rounding, context, swallowed,
                   nan_to_zero=nan_to_zero)


def mean(x: Any, axis: Optional[int] = None, *, carry: str = "exact", out: Any = None,
         dtype: Any = None, rounding: str = "nearest", swallowed: bool = False,
         nan_to_zero: bool = False, context: Optional[Context] = None) -> Any:
    """The mean along an axis; carried exactly it is the exact one, rounded once."""
    return _reduce("mean", x, axis, carry, out, dtype, rounding, context, swallowed,
                   nan_to_zero=nan_to_zero)


def max(x: Any, axis: Optional[int] = None, *, out: Any = None, dtype: Any = None,
        rounding: str = "nearest", nan_to_zero: bool = False,
        context: Optional[Context] = None) -> Any:
    """The largest element along an axis; NaN where there is one."""
    return _reduce("max", x, axis, "exact", out, dtype, rounding, context,
                   nan_to_zero=nan_to_zero)


def variance(x: Any, axis: Optional[int] = None, *, correction: int = 0, carry: str = "exact",
             out: Any = None, dtype: Any = None, rounding: str = "nearest",
             nan_to_zero: bool = False, context: Optional[Context] = None) -> Any:
    """The sum of (x - mean)^2 along an axis, divided by its length less correction, 0 or 1."""
    return _reduce("variance", x, axis, carry, out, dtype, rounding, context,
                   correction=correction, nan_to_zero=nan_to_zero)


def softmax(x: Any, axis: Optional[int] = -1, *, carry: str = "exact", out: Any = None,
            dtype: Any = None, rounding: str = "nearest", nan_to_zero: bool = False,
            context: Optional[Context] = None) -> Any:
    """e^(x - max) divided by the sum of these along an axis."""
    return _reduce("softmax", x, axis, carry, out, dtype, rounding, context,
                   nan_to_zero=nan_to_zero)


def layer_norm(x: Any, axis: Optional[int] = -1, *, scale: Any = None, shift: Any = None,
               epsilon: float = 1e-05, carry: str = "exact", out: Any = None, dtype: Any = None,
               rounding: str = "nearest", nan_to_zero: bool = False,
               context: Optional[Context] = None) -> Any:
    """(x - mean) / sqrt(variance + epsilon) scale + shift along an axis; scale and shift have one
    element of x's type for each of the axis."""
    return _reduce("layer_norm", x, axis, carry, out, dtype, rounding, context, epsilon=epsilon,
                   scale=scale, shift=shift, nan_to_zero=nan_to_zero)


def rms_norm(x: Any, axis: Optional[int] = -1, *, scale: Any = None, shift: Any = None,
             epsilon: float = 1e-05, carry: str = "exact", out: Any = None, dtype: Any = None,
             rounding: str = "nearest", nan_to_zero: bool = False,
             context: Optional[Context] = None) -> Any:
    """x / sqrt(mean of x^2 + epsilon) scale + shift along an axis; as layer_norm."""
    return _reduce("rms_norm", x, axis, carry, out, dtype, rounding, context, epsilon=epsilon,
                   scale=scale, shift=shift, nan_to_zero=nan_to_zero)


def add_n(arrays: Iterable[Any], *, carry: str = "exact", out: Any = None, dtype: Any = None,
          rounding: str = "nearest", swallowed: bool = False,
          nan_to_zero: bool = False, context: Optional[Context] = None) -> Any:
    """The sum of arrays of one shape and type, element by element."""
    arrays = [_dense(x, "arrays") for x in arrays]
    if not arrays:
        raise BadArgument("arrays: there is none")
    if len({x.dtype for x in arrays}) > 1 or len({x.shape for x in arrays}) > 1:
        raise BadArgument("arrays: their shapes or types differ")
    like, lost = arrays[0].dtype, c_uint64()
    made, to = _result(arrays[0].shape, like, out, dtype, like.name in SMALL)
    call = C.ReduceCall(carry=_index(carry, _CARRIES, "carry"),
                        rounding=_index(rounding, ROUNDINGS, "rounding"),
                        to=to, outer=1, count=len(arrays),
                        inner=made.size, dst=made.ctypes.data,
                        arrays=(c_void_p * len(arrays))(*[x.ctypes.data for x in arrays]),
                        nan_to_zero=int(bool(nan_to_zero)))
    _run(call, _format(like, "arrays"), pointer(lost) if swallowed else None, context)
    made = made if made.shape or out is not None else made[()]
    return (made, lost.value) if swallowed else made


__all__ += _REDUCTIONS + ["add_n"]
