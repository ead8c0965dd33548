# SPDX-License-Identifier: BSD-3-Clause
"""Converts elements from one format to another with a single rounding."""
import ctypes
from contextlib import ExitStack
from ctypes import byref

from . import _library as C
from . import _significand
from ._arguments import format_of_dtype, view_of
from ._buffer import canonical, format_named
from ._facts import finfo
from ._library import lib
from ._results import Result
from ._types import numpy
from .errors import BadArgument, check

ROUNDINGS = ("nearest", "zero", "up", "down", "away", "odd")
# roundings that the library's conversion lacks: they are put together here from others, or left to
# a simulated unit
_HERE = ("ties_zero", "stochastic", "stochastic_equal")
_CAST, _ISNAN, _SATURATE = 0, 41, 4     # limber_function, LIMBER_FORMAT_SATURATE
_FLOAT = format_named("f32").kind       # LIMBER_KIND_FLOAT


def _apply(ctx, function, to, dst, source, src, count, rounding="nearest"):
    """Applies an element-wise function of the library, NaN becoming 0 where the target has none."""
    call = C.Elementwise(function=function, rounding=ROUNDINGS.index(rounding), nan_to_zero=1,
                         to=to, src=src, dst=dst, count=count)
    setattr(call, "from", source)
    check(lib.limber_apply(ctx, byref(call)))


def _cast(ctx, name, view, rounding="nearest"):
    """A view's elements in a format, in new memory."""
    room = ctypes.create_string_buffer(max(_parts(view) * format_named(name).size, 1))
    _apply(ctx, _CAST, format_named(name), ctypes.addressof(room), view.format, view.data,
           _parts(view), rounding)
    return room


def _parts(view):
    """How many numbers a view has; a complex element is two."""
    return view.count * (2 if view.pairs else 1)


_INTEGERS = "iu"       # first letters of integer formats


def _exactly(ctx, name, view, why):
    """A view's elements in a format that represents all of them."""
    up, down = (_cast(ctx, name, view, rounding) for rounding in ("up", "down"))
    if up.raw != down.raw:
        raise BadArgument(f"{view.what}: {why}")
    return up


def _refuse_beyond(ctx, name, view, why):
    """Refuses numbers that an integer format saturates, and NaN, which would become 0."""
    end = finfo(name).largest + 1
    least = -end if name[0] == "i" else 0
    doubles = memoryview(_cast(ctx, "f64", view, "zero")).cast("B").cast("d")
    if numpy is not None:
        x = numpy.frombuffer(doubles)
        fits = ((x >= least) & (x < end)).all()
    else:
        fits = all(least <= x < end for x in doubles)
    if not fits:
        raise BadArgument(f"{view.what}: {why}")


def _refuse_nan(ctx, view, name):
    """Refuses NaN where the target format has none."""
    if finfo(name).has_nan or not finfo(view.name).has_nan:
        return
    found = ctypes.create_string_buffer(max(_parts(view), 1))
    _apply(ctx, _ISNAN, format_named("i8"), ctypes.addressof(found), view.format, view.data,
           _parts(view))
    if any(found.raw):
        raise BadArgument(f"{view.what}: holds NaN, and {name} has none; nan_to_zero=True gives 0")


def _array(room, count, code="f8"):
    """A NumPy view of memory."""
    if numpy is None:
        raise BadArgument("rounding and subnormals: this takes NumPy")
    return numpy.frombuffer(room, code, count)


class _Neighbours:
    """Elements as doubles, and their neighbours in a format: `low` toward zero, `high` away from
    zero (beyond the largest number, what the format would have next)."""

    def __init__(self, ctx, view, name):
        count, f64 = _parts(view), format_named("f64")
        self.low_bits = _cast(ctx, name, view, "zero")
        up, down = (_cast(ctx, name, view, rounding) for rounding in ("up", "down"))

        def doubles(room):
            """The numbers of the format `name` in memory, as doubles."""
            made = ctypes.create_string_buffer(8 * count)
            _apply(ctx, _CAST, f64, ctypes.addressof(made), format_named(name),
                   ctypes.addressof(room), count)
            return _array(made, count)

        self.x = _array(_exactly(ctx, "f64", view, "numbers that no double holds"), count)
        self.low = doubles(self.low_bits)
        self.high = numpy.where(self.x > 0, doubles(up), doubles(down))
        beyond = numpy.isfinite(self.low) & ~numpy.isfinite(self.high)
        if beyond.any():
            facts = finfo(name)
            step = 2.0 ** (facts.largest_exponent - facts.significant_bits + 1)
            self.high[beyond] = numpy.copysign(facts.largest + step, self.x[beyond])

    def between(self):
        """Which elements are strictly between two neighbours and within the format's range."""
        return (self.low != self.x) & (abs(self.x) < abs(self.high))


def _put(result, chosen, bits):
    """Copies the chosen elements of `bits` into a result."""
    size, count = result.view.format.size, chosen.size
    place = (ctypes.c_char * (size * count)).from_address(result.view.data)
    numpy.frombuffer(place, f"V{size}")[chosen] = numpy.frombuffer(bits, f"V{size}", count)[chosen]


def _ties_to_zero(ctx, view, result):
    """After rounding to nearest, replaces ties by the neighbour toward zero."""
    at = _Neighbours(ctx, view, result.name)
    _put(result, at.between() & (abs(at.x) - abs(at.low) == abs(at.high) - abs(at.x)), at.low_bits)


def _flush(ctx, result):
    """Replaces subnormal results by zeros of their sign."""
    view, facts = result.view, finfo(result.name)
    room = _cast(ctx, "f64", view)
    x = _array(room, _parts(view))
    with numpy.errstate(all="ignore"):
        small = (abs(x) < facts.normal) & ~numpy.isnan(x)
    if result.name == "f128":       # doubles cannot hold its smallest numbers
        words = numpy.frombuffer((ctypes.c_char * (16 * x.size)).from_address(view.data), "u8")
        small = (words[1::2] >> 48 & 0x7FFF) == 0
        words[0::2][small] = 0
        words[1::2][small] &= numpy.uint64(1 << 63)
        return
    zeros = ctypes.create_string_buffer(numpy.copysign(0.0, x).tobytes())
    bits = ctypes.create_string_buffer(x.size * view.format.size)
    _apply(ctx, _CAST, view.format, ctypes.addressof(bits), format_named("f64"),
           ctypes.addressof(zeros), x.size)
    _put(result, small, bits)


def _unit(name, seed, random_bits, saturate):
    """Description of a simulated unit whose only inexact step is the last rounding, from
    binary32."""
    return (f"in=f32 acc=f32 out={name}:rs{':sat' * bool(saturate)} start=c bits={random_bits} "
            f"seed={seed}").encode()


def _by_unit(ctx, x, name, count, text):
    """Rounds numbers of binary32 to a format by a simulated unit; returns the format's elements."""
    unit, single, to = C.Unit(), format_named("f32"), format_named(name)
    check(lib.limber_unit_parse(text, byref(unit)))
    one, room = ctypes.c_float(1), ctypes.create_string_buffer(max(count * to.size, 1))
    # -0 keeps the signs of zeros
    zeros = ctypes.create_string_buffer(bytes(ctypes.c_float(-0.0)) * count)
    _apply(ctx, _CAST, to, ctypes.addressof(room), single, ctypes.addressof(zeros), count)
    scalar = ctypes.create_string_buffer(16)
    _apply(ctx, _CAST, to, ctypes.addressof(scalar), single, ctypes.addressof(one), 1)
    contract = C.Contract(promise=5, unit=ctypes.pointer(unit))
    problem = C.Problem(m=count, n=1, k=1, a=C.Matrix(ctypes.addressof(x), single, 1, 1),
                        b=C.Matrix(ctypes.addressof(one), single, 1, 1),
                        c=C.Output(ctypes.addressof(room), to, 1, 1),
                        beta=ctypes.addressof(scalar), contract=ctypes.pointer(contract))
    check(lib.limber_run(ctx, byref(problem), None))
    return room


def _choose(ctx, view, name, seed, random_bits, equal):
    """Rounds to a neighbour, as doubles, as a simulated unit would.  The unit rounds, for each
    element, a number at the same fraction (in steps of 2^-random_bits) between 1 and the next
    number of bfloat16.  Numbers beyond the range are left as they are."""
    at = _Neighbours(ctx, view, name)
    inside = at.between()
    x, low, high = (numpy.where(inside, abs(y), other)
                    for y, other in ((at.x, 0), (at.low, 0), (at.high, 1)))
    part = 1.0 * inside
    if not equal:
        part = numpy.floor(numpy.ldexp((x - low) / (high - low), random_bits))
    like = (1 + numpy.ldexp(part, -7 - random_bits)).astype("f4").tobytes()
    rounded = _by_unit(ctx, ctypes.create_string_buffer(like), "bf16", part.size,
                       _unit("bf16", seed, random_bits, False))
    away = _array(rounded, part.size, "u2") != 0x3F80
    chosen = numpy.where(inside, numpy.where(away, at.high, at.low), at.x)
    return ctypes.create_string_buffer(chosen.tobytes(), max(chosen.nbytes, 1))


def _stochastically(ctx, view, made, to, seed, random_bits, equal=False):
    """Rounds stochastically by a simulated unit if it takes the format and numbers (binary32), else
    chooses the neighbour here by the same random bits. `equal`: both neighbours are equally
    likely."""
    name, count = made.name, _parts(view)
    text = _unit(name, seed, random_bits, to.flags & _SATURATE)
    if not equal and lib.limber_unit_parse(text, byref(C.Unit())) == 0:
        x, other = (_cast(ctx, "f32", view, rounding) for rounding in ("up", "down"))
        if x.raw == other.raw:
            ctypes.memmove(made.view.data, _by_unit(ctx, x, name, count, text), count * to.size)
            return
    x = _choose(ctx, view, name, seed, random_bits, equal)
    if not to.flags & _SATURATE and finfo(name).has_nan and not finfo(name).has_infinity:
        chosen = _array(x, count)
        chosen[abs(chosen) > finfo(name).largest] = numpy.nan       # NaN of one sign, as from units
    _apply(ctx, _CAST, to, made.view.data, format_named("f64"), ctypes.addressof(x), count)


def check_rounding(rounding, seed):
    """Refuses unknown roundings, and stochastic ones without a seed."""
    if rounding not in ROUNDINGS + _HERE:
        raise BadArgument(f"rounding = {rounding!r} is none of {', '.join(ROUNDINGS + _HERE)}")
    if (seed is None) == rounding.startswith("stochastic"):
        raise BadArgument("seed: goes with stochastic rounding, and that with a seed")


def _check(format, rounding, seed):
    """Refuses bad arguments of convert and quantize."""
    if format is None:
        raise BadArgument("format = None is no format")
    check_rounding(rounding, seed)


def _round(context, held, view, made, rounding, saturate, seed, random_bits, nan_to_zero,
           subnormals):
    """Rounds a view's elements into a result."""
    to = made.view
    if not to.is_dense():
        raise BadArgument("out: has gaps or another order")
    ctx = held.enter_context(context._handle.use())
    if view.count == 0:
        return
    if not nan_to_zero:
        _refuse_nan(ctx, view, made.name)
    target = C.Format.from_buffer_copy(to.format)
    # other formats always saturate
    target.flags |= _SATURATE * (bool(saturate) and to.format.kind == _FLOAT)
    if rounding.startswith("stochastic"):
        equal = rounding == "stochastic_equal"
        _stochastically(ctx, view, made, target, seed, 1 if equal else random_bits, equal)
    else:
        _apply(ctx, _CAST, target, to.data, view.format, view.data, _parts(view),
               "nearest" if rounding == "ties_zero" else rounding)
        if rounding == "ties_zero":
            _ties_to_zero(ctx, view, made)
    if not subnormals and made.name[0] not in _INTEGERS and made.name != "dd":
        _flush(ctx, made)


def convert(context, a, format, holds, out, result, **how):
    """Implements Context.convert."""
    _check(format, how["rounding"], how["seed"])
    with ExitStack() as held:
        view = held.enter_context(view_of(a, "a", canonical(holds, "holds")))
        view.dense()
        made = Result(held, view.shape, [view], (None, None), format, out, result)
        _round(context, held, view, made, **how)
        return made.returned_value()


def quantize(context, a, format, holds, out, result, limits, flips, **how):
    """Implements Context.quantize."""
    if not limits or flips:
        return _beyond(context, a, format, holds, out, result, limits, flips, how)
    _check(format, how["rounding"], how["seed"])
    with ExitStack() as held:
        view = held.enter_context(view_of(a, "a", canonical(holds, "holds")))
        view.dense()
        rounded = Result(held, view.shape, [view], (None, None), format, None, "numpy")
        made = Result(held, view.shape, [view], (holds, holds), view.name, out, result)
        if not made.view.is_dense():
            raise BadArgument("out: has gaps or another order")
        _round(context, held, view, rounded, **how)
        through, to = rounded.view, made.view
        through.what = "a"
        ctx = held.enter_context(context._handle.use())
        why = f"rounded to {rounded.name}, it holds numbers that {made.name} lacks"
        if view.count and made.name[0] in _INTEGERS and rounded.name[0] not in _INTEGERS:
            _refuse_beyond(ctx, made.name, through, why)
        exact = _exactly(ctx, made.name, through, why)
        ctypes.memmove(to.data, exact, to.count * to.size)
        return made.returned_value()


def has_significands(name):
    """Whether the format is a float whose normal numbers all have the same number of significant
    bits."""
    return format_named(name).kind == _FLOAT and finfo(name).significant_bits > 1


def _beyond(context, a, format, holds, out, result, limits, flips, how):
    """quantize with limits=False or flips: rounds significands only, or flips bits after
    rounding."""
    if out is not None or holds is not None or result != "numpy":
        raise BadArgument("out, holds, result: do not go with limits and flips")
    if not limits and how["saturate"]:
        raise BadArgument("saturate: there are no limits to saturate at")
    name = canonical(format_of_dtype(format)[0])
    if name is None:
        raise BadArgument("format = None is no format")
    if not has_significands(name):
        raise BadArgument(f"{'flips' if flips else 'limits'}: {name} is no format of significands "
                          "and exponents")
    rounding_seed = how["seed"]
    if flips and not how["rounding"].startswith("stochastic"):
        how["seed"] = None

    def plain(x):
        """quantize with limits and without flips."""
        return quantize(context, x, format, None, None, "numpy", True, 0, **how)

    made = plain(a) if limits else _significand.without_range(a, plain)
    return _significand.flip_bits(made, name, flips, rounding_seed, limits) if flips else made
