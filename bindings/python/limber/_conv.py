# SPDX-License-Identifier: BSD-3-Clause
"""Convolutions: their geometry, and the library call."""
import ctypes
from contextlib import ExitStack
from ctypes import byref, c_int64

from . import _library as C
from . import _repeat
from ._arguments import address, operand_view, pair_of, prepared_of, scalar_of, view_of
from ._epilogue import epilogue as epilogue_of
from ._library import lib
from ._reports import report_of
from ._results import Result
from .errors import BadArgument, check

# values of limber_operation, and the names of the tensors that each reads (two) and writes
FORWARD, DATA, FILTER = 1, 2, 3
_TENSORS = {FORWARD: ("x", "w", "y"), DATA: ("dy", "w", "x"), FILTER: ("x", "dy", "w")}


LAYOUTS = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}


def layout_of(name, axes):
    """"NCHW" (channels second) or "NHWC" (channels last), from a layout's name for this number of
    axes."""
    for words in (LAYOUTS[4], LAYOUTS[axes]):
        if name in words:
            return LAYOUTS[4][words.index(name)]
    raise BadArgument(f"layout = {name!r} is neither " + " nor ".join(map(repr, LAYOUTS[axes])))


def axes_of(shape, layout):
    """Splits a stored shape into images, channels, (planes,) (rows,) columns."""
    return tuple(shape) if layout == "NCHW" else (shape[0], shape[-1], *shape[1:-1])


def _stored(axes, layout):
    """The reverse of axes_of: a shape as it is stored."""
    return axes if layout == "NCHW" else (axes[0], *axes[2:], axes[1])


def _geometry(direction, first, second, size, stride, pad, dilation, groups, layout):
    """The limber_conv of a convolution of two tensors. size: rows and columns of the images or the
    window that the operation writes, which do not follow from the tensors."""
    if not isinstance(groups, int) or not 1 <= groups < 2 ** 63:
        raise BadArgument(f"groups = {groups!r} is no positive number")
    sides = len(first) - 2
    if direction != FORWARD:
        size = _numbers(size, "size" if direction == DATA else "window", (sides,))
    if direction == FORWARD:
        x, window, filters = first, second[2:], second[0]
        if second[1] * groups != x[1]:
            raise BadArgument(f"x has {x[1]} channels, w {second[1]} in each of {groups} groups")
    elif direction == DATA:
        x, window, filters = (first[0], second[1] * groups, *size), second[2:], second[0]
    else:
        x, window, filters = first, size, second[1]
    pads = _numbers(pad, "pad", (1, sides, 2 * sides))
    if len(pads) != 2 * sides:
        pads = [p for p in _each(pads, sides) for _ in range(2)]
    strides = _each(_numbers(stride, "stride", (1, sides)), sides)
    dilations = _each(_numbers(dilation, "dilation", (1, sides)), sides)
    lone = (1,) * (sides == 1)  # one-dimensional images have a single row
    made = C.Conv(x[0], x[1], *lone, *x[-min(sides, 2):], filters, *lone, *window[-2:],
                  groups=groups, layout=layout == "NHWC")
    made.stride[:] = (*lone, *strides[-2:])
    made.dilate[:] = (*lone, *dilations[-2:])
    made.pad[:] = [0] * (4 - len(pads[-4:])) + list(pads[-4:])
    if sides == 3:
        made.d, made.t = x[2], window[0]
        made.depth_stride, made.depth_dilate = strides[0], dilations[0]
        made.depth_pad[:] = pads[:2]
        for what, value in (("stride", strides[0]), ("dilation", dilations[0])):
            if value < 1:
                raise BadArgument(f"{what} = {value} is less than 1")
        if window[0] < 1:
            raise BadArgument(f"a window of {window[0]} planes")
    return made


def geometry_of_filters(axes, stride, pad, dilation, groups, layout):
    """The geometry of prepared filters; the size of images is left open."""
    none = (0,) * (len(axes) - 2)
    return _geometry(DATA, (0, 0, *none), axes, none, stride, pad, dilation, groups, layout)


def _each(numbers, sides):
    """One number for every side, if only one is given."""
    return tuple(numbers) * sides if len(numbers) == 1 else tuple(numbers)


def _numbers(x, what, lengths):
    """An argument as a tuple of 64-bit integers; `lengths` are the lengths that are allowed."""
    x = tuple(x) if hasattr(x, "__len__") else (x,)
    if len(x) not in lengths or not all(isinstance(v, int) for v in x):
        raise BadArgument(f"{what} = {x!r}: expected " +
                          " or ".join(map(str, sorted(set(lengths)))) + " whole numbers")
    for v in x:
        if not -2 ** 63 <= v < 2 ** 63:
            raise BadArgument(f"{what} = {v} does not fit 64 bits")
    return x


def _tensors(held, direction, left, right, formats):
    """Contiguous views of both operands."""
    names = _TENSORS[direction]
    views = (held.enter_context(view_of(left, names[0], formats[0])),
             operand_view(held, right, names[1], formats[1]))
    for view in views:
        if len(view.shape) not in LAYOUTS or view.pairs:
            raise BadArgument(f"{view.what}: expected three, four or five axes of real numbers")
        if len(view.shape) != len(views[0].shape):
            raise BadArgument(f"{view.what} has {len(view.shape)} axes, {views[0].what} "
                              f"{len(views[0].shape)}")
        view.dense()
    return views


def _shapes(shape, groups, sides):
    """The axes of all three tensors, with channels second."""
    od, oh, ow = c_int64(), c_int64(), c_int64()
    check(lib.limber_conv_output(byref(shape), byref(oh), byref(ow)))
    check(lib.limber_conv_output_depth(byref(shape), byref(od)))
    return {"x": (shape.n, shape.c, *(shape.d, shape.h, shape.w)[3 - sides:]),
            "w": (shape.o, shape.c // groups, *(shape.t, shape.r, shape.s)[3 - sides:]),
            "y": (shape.n, shape.o, *(od.value, oh.value, ow.value)[3 - sides:])}


def _are_whole(*sizes):
    """Whether all are integers, None, or tuples of these.  A cache key must tell 1 from 1.0 and
    True, which are equal."""
    for x in sizes:
        if x is not None and type(x) is not int and \
                not (type(x) is tuple and all(type(v) is int for v in x)):
            return False
    return True


def convolve(context, direction, left, right, size, stride, pad, dilation, groups, layout,
             contract, out, alpha, beta, scheme, report, format, dtype, slices, epilogue, inputs,
             nan_to_zero, result):
    """Makes one convolution; Context.conv2d describes the arguments."""
    key = None
    if not report and epilogue is None and inputs is None and not nan_to_zero and \
            _are_whole(size, stride, pad, dilation, groups):
        key = _repeat.key_of(left, right, (direction, size, stride, pad, dilation, groups, layout),
                             contract, out, alpha, beta, (
                                 scheme, format, dtype, slices, result, context.contract,
                                 context.background))
        like = key and _repeat.kept(context._repeats, key)
        again = like and like.run(context._handle, left, right, out)
        if again is not None:
            return again
    formats = pair_of(format)
    with ExitStack() as held:
        x, w = _tensors(held, direction, left, right, formats)
        layout = layout_of(layout, len(x.shape))
        shape = _geometry(direction, axes_of(x.shape, layout), axes_of(w.shape, layout), size,
                          stride, pad, dilation, groups, layout)
        tensors = _shapes(shape, groups, len(x.shape) - 2)
        for view in (x, w):
            wanted = tensors[view.what[-1]]
            if axes_of(view.shape, layout) != wanted:
                raise BadArgument(f"{view.what}: shape {view.shape}, expected "
                                  f"{_stored(wanted, layout)}")
        wanted = tensors[_TENSORS[direction][2]]
        extents = _stored(wanted, layout)
        made = Result(held, extents, (x, w), formats, dtype, out, result)
        y = made.view
        if not y.is_dense():
            raise BadArgument("out: has gaps or another order")
        ctx = held.enter_context(context._handle.use())
        a, b = scalar_of(alpha, 1, y, "alpha"), scalar_of(beta, 0, y, "beta")
        made.check_beta(b)
        wish = context._wish(contract, scheme, slices)
        problem = C.Problem(operation=direction, conv=ctypes.pointer(shape),
                            a=C.Matrix(x.data, x.format), b=C.Matrix(w.data, w.format),
                            c=C.Output(y.data, y.format), alpha=address(a), beta=address(b),
                            contract=ctypes.pointer(wish), prepared_b=prepared_of(held, right))
        problem.epilogue = epilogue_of(held, epilogue, inputs, nan_to_zero,
                                       tensor=(extents, wanted[direction != FILTER]))
        r = C.Report() if report else None
        check(lib.limber_run(ctx, byref(problem), r and byref(r)))
        y = made.returned_value()
        if key:
            _repeat.keep(context._repeats, key, (x, w, made.view), made, problem,
                         (wish, a, b, shape))
    return (y, report_of(r)) if report else y
