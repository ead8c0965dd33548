# SPDX-License-Identifier: BSD-3-Clause
"""Elements from one format to another, rounded once."""
import ctypes
from contextlib import ExitStack
from ctypes import byref

from . import _library as C
from ._arguments import view_of
from ._buffer import format_named
from ._facts import finfo
from ._library import lib
from ._results import Result
from .errors import BadArgument, check

ROUNDINGS = ("nearest", "zero", "up", "down", "away", "odd")
_CAST, _ISNAN, _SATURATE = 0, 41, 4     # limber_function, LIMBER_FORMAT_SATURATE


def _apply(ctx, function, to, dst, source, src, count, rounding="nearest"):
    call = C.Elementwise(function=function, rounding=ROUNDINGS.index(rounding), nan_to_zero=1,
                         to=to, src=src, dst=dst, count=count)
    setattr(call, "from", source)
    check(lib.limber_apply(ctx, byref(call)))


def _cast(ctx, name, view, rounding="nearest"):
    """The elements of a view in a format, in memory of their own."""
    room = ctypes.create_string_buffer(max(_parts(view) * format_named(name).size, 1))
    _apply(ctx, _CAST, format_named(name), ctypes.addressof(room), view.format, view.data,
           _parts(view), rounding)
    return room


def _parts(view):
    return view.count * (2 if view.pairs else 1)


def _exactly(ctx, name, view, why):
    """The elements in a format that has all of them."""
    up, down = (_cast(ctx, name, view, rounding) for rounding in ("up", "down"))
    if up.raw != down.raw:
        raise BadArgument(f"{view.what}: {why}")
    return up


def _refuse_nan(ctx, view, name):
    if finfo(name).has_nan:
        return
    found = ctypes.create_string_buffer(max(_parts(view), 1))
    _apply(ctx, _ISNAN, format_named("i8"), ctypes.addressof(found), view.format, view.data,
           _parts(view))
    if any(found.raw):
        raise BadArgument(f"{view.what}: holds NaN, and {name} has none; nan_to_zero=True gives 0")


def _stochastically(ctx, view, result, saturate, seed, random_bits):
    """By a simulated unit that loads binary32 and does nothing but its last rounding."""
    if result.name[0] in "iu" or result.name in ("f64", "f128", "dd"):
        raise BadArgument(f"rounding = 'stochastic': not to {result.name}")
    count, to = _parts(view), result.view
    x = _exactly(ctx, "f32", view, "numbers that are none of binary32 are not rounded "
                 "stochastically; simulated units load binary32")
    unit = C.Unit()
    text = f"in=f32 acc=f32 out={result.name}:rs{':sat' * saturate} start=c bits={random_bits} " \
        f"seed={seed}"
    check(lib.limber_unit_parse(text.encode(), byref(unit)))
    one, room = ctypes.c_float(1), ctypes.create_string_buffer(count * to.format.size)
    zeros = ctypes.create_string_buffer(bytes(ctypes.c_float(-0.0)) * count)    # keep zeros' signs
    _apply(ctx, _CAST, to.format, ctypes.addressof(room), format_named("f32"),
           ctypes.addressof(zeros), count)
    scalar = ctypes.create_string_buffer(16)
    _apply(ctx, _CAST, to.format, ctypes.addressof(scalar), format_named("f32"),
           ctypes.addressof(one), 1)
    contract = C.Contract(promise=5, unit=ctypes.pointer(unit))
    single = format_named("f32")
    problem = C.Problem(m=count, n=1, k=1, a=C.Matrix(ctypes.addressof(x), single, 1, 1),
                        b=C.Matrix(ctypes.addressof(one), single, 1, 1),
                        c=C.Output(ctypes.addressof(room), to.format, 1, 1),
                        beta=ctypes.addressof(scalar), contract=ctypes.pointer(contract))
    check(lib.limber_run(ctx, byref(problem), None))
    ctypes.memmove(to.data, room, len(room))


def _check(format, rounding, seed):
    if format is None:
        raise BadArgument("format = None is no format")
    if rounding != "stochastic" and rounding not in ROUNDINGS:
        raise BadArgument(f"rounding = {rounding!r} is none of {', '.join(ROUNDINGS)}, stochastic")
    if (seed is None) == (rounding == "stochastic"):
        raise BadArgument("seed: goes with rounding = 'stochastic', and that with a seed")


def _round(context, held, view, made, rounding, saturate, seed, random_bits, nan_to_zero):
    """Fills a result with a view's elements."""
    to = made.view
    if not to.is_dense():
        raise BadArgument("out: has gaps or another order")
    ctx = held.enter_context(context._handle.use())
    if view.count == 0:
        return
    if not nan_to_zero:
        _refuse_nan(ctx, view, made.name)
    if rounding == "stochastic":
        _stochastically(ctx, view, made, saturate, seed, random_bits)
        return
    target = C.Format.from_buffer_copy(to.format)
    target.flags |= _SATURATE * bool(saturate)
    _apply(ctx, _CAST, target, to.data, view.format, view.data, _parts(view), rounding)


def convert(context, a, format, holds, out, result, **how):
    """Context.convert says what the arguments are."""
    _check(format, how["rounding"], how["seed"])
    with ExitStack() as held:
        view = held.enter_context(view_of(a, "a", holds))
        view.dense()
        made = Result(held, view.shape, [view], (None, None), format, out, result)
        _round(context, held, view, made, **how)
        return made.give()


def quantize(context, a, format, holds, out, result, **how):
    """Context.quantize says what the arguments are."""
    _check(format, how["rounding"], how["seed"])
    with ExitStack() as held:
        view = held.enter_context(view_of(a, "a", holds))
        view.dense()
        rounded = Result(held, view.shape, [view], (None, None), format, None, "numpy")
        made = Result(held, view.shape, [view], (holds, holds), view.name, out, result)
        if not made.view.is_dense():
            raise BadArgument("out: has gaps or another order")
        _round(context, held, view, rounded, **how)
        through, to = rounded.view, made.view
        through.what = "a"
        ctx = held.enter_context(context._handle.use())
        exact = _exactly(ctx, made.name, through, f"rounded to {rounded.name}, it holds numbers "
                         f"that {made.name} lacks")
        ctypes.memmove(to.data, exact, to.count * to.size)
        return made.give()
