# SPDX-License-Identifier: BSD-3-Clause
"""Steps on a result before it is stored: limber_epilogue."""
import array
import ctypes
import math
from numbers import Real

from . import _library as C
from ._buffer import View
from .errors import BadArgument

_SCALAR, _ROW, _COLUMN, _MATRIX = range(4)      # limber_input_shape


def _view(held, value, name):
    """A View of an epilogue's input."""
    what = f"inputs[{name!r}]"
    if isinstance(value, str):
        raise BadArgument(f"{what}: {value!r} is no array, but text")
    if isinstance(value, Real) and not hasattr(value, "dtype"):
        number = memoryview(array.array("d", [value])).cast("B").cast("d", ())
        return held.enter_context(View(number, what))
    value = value if isinstance(value, (tuple, list)) else (value, None)
    if len(value) != 2 or not (value[1] is None or isinstance(value[1], str)):
        value = (value, None)           # a nested list
    return held.enter_context(View(value[0], what, value[1]))


def _of_product(view, stack, m, n):
    """The shape of an input, by NumPy's broadcasting against the result's last two axes."""
    shape = view.shape
    if shape == ():
        return _SCALAR, {}
    if shape == (m, n) and view.bytes == (0, 0) and (m > 1 or n > 1):   # one number, broadcast
        return _SCALAR, {}
    if shape == (m, n):         # may be the result itself, even if it has one row or column
        return _MATRIX, {"row_stride": view.bytes[0] // view.size,
                         "col_stride": view.bytes[1] // view.size}
    if shape == (n,) or shape == (1, n):
        return _COLUMN, {}
    if shape == (m, 1):
        return _ROW, {}
    if stack and shape == stack + (m, n):
        view.dense()
        step = m * n if math.prod(stack) > 1 else 0     # a stack of one is no batch
        return _MATRIX, {"row_stride": n, "col_stride": 1, "step": step}
    raise BadArgument(f"{view.what}: shape {shape} is none of (), ({n},), ({m}, 1), ({m}, {n})" +
                      (f", {stack + (m, n)}" if stack else ""))


def _of_tensor(view, shape, channels):
    """The shape of an input of a convolution: a scalar, one number per channel, or the result's."""
    if view.shape == ():
        return _SCALAR, {}
    if view.shape == (channels,):
        return _ROW, {}
    if view.shape == shape:
        view.dense()
        return _MATRIX, {}
    raise BadArgument(f"{view.what}: shape {view.shape} is none of (), ({channels},), {shape}")


def _dense_lines(view):
    """A contiguous copy of a one-axis input, since the library takes no stride for it."""
    if len([e for e in view.shape if e > 1]) == 1:
        view.dense()


def epilogue(held, steps, inputs, nan_to_zero, product=None, tensor=None):
    """A limber_epilogue, or None; what it points to lives as long as `held`.

    product     (stack, m, n) of a matmul's result
    tensor      (shape, channels) of a convolution's"""
    if steps is None:
        if inputs:
            raise BadArgument("inputs: there is no epilogue that reads them")
        if nan_to_zero:
            raise BadArgument("nan_to_zero: there is no epilogue whose NaN it would store as 0")
        return None
    if "\0" in str(steps):
        raise BadArgument("epilogue: holds a NUL character")
    made = []
    for name, value in (inputs or {}).items():
        view = _view(held, value, name)
        if view.pairs:
            raise BadArgument(f"{view.what}: is complex")
        kind, places = (_of_product(view, *product) if product else _of_tensor(view, *tensor))
        if kind in (_ROW, _COLUMN):
            _dense_lines(view)
        made.append(C.EpilogueInput(name=str(name).encode(), shape=kind, format=view.format,
                                    data=view.data, **places))
    rows = (C.EpilogueInput * len(made))(*made)
    wish = C.Epilogue(steps=str(steps).encode(), inputs=rows if made else None,
                      input_count=len(made), nan_to_zero=int(bool(nan_to_zero)))
    held.callback(lambda *_: None, rows, wish)
    return ctypes.pointer(wish)
