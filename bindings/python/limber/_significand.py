# SPDX-License-Identifier: BSD-3-Clause
"""Roundings other than conversion to a format: to a significand without the format's range, with
flipped bits, and to fixed point."""
import numbers

from ._facts import finfo
from ._types import numpy
from .errors import BadArgument

_EXACT = 2.0 ** 52      # all doubles from here on are integers


def _doubles(a, what="a"):
    """An array as NumPy's, and its elements as doubles; only float16, float32 and float64 are
    taken."""
    if numpy is None:
        raise BadArgument("this rounding takes NumPy")
    x = numpy.asarray(a)
    if x.dtype.kind != "f" or x.dtype.itemsize > 8:
        raise BadArgument(f"{what}: elements of type {x.dtype} are none of float16, float32, "
                          "float64")
    return x, x.astype(numpy.float64)


def _in_type(made, given):
    """Doubles converted to the array's type, which must represent them."""
    with numpy.errstate(over="ignore"):
        as_given = made.astype(given.dtype)
    if not (as_given == made)[~numpy.isnan(made)].all():
        raise BadArgument(f"a: rounded it holds numbers that {given.dtype} lacks")
    return as_given


def without_range(a, round_significand):
    """Rounds every element as 2^e times a significand in [1, 2), by the given function."""
    given, x = _doubles(a)
    mantissa, exponent = numpy.frexp(x)
    finite = numpy.isfinite(x)
    kept = round_significand(numpy.where(finite, 2 * mantissa, 1.0))
    with numpy.errstate(over="ignore", invalid="ignore"):
        made = numpy.where(finite, numpy.ldexp(kept, exponent - 1), x)
    if (~numpy.isfinite(made) & finite).any():
        raise BadArgument(f"a: rounded it holds numbers that {given.dtype} lacks")
    return _in_type(made, given)


def check_seed(seed):
    """Requires a seed that is an integer from 0 on."""
    if not isinstance(seed, (int, numpy.integer)) or seed < 0:
        raise BadArgument(f"seed = {seed!r} is no integer from 0 on")


def flip_bits(x, name, probability, seed, limits):
    """Flips one fraction bit of randomly chosen elements of a format.  Zeros, infinities and NaN
    stay. limits False: exponents may be any of binary64."""
    if not isinstance(probability, numbers.Real) or not 0 <= probability <= 1:
        raise BadArgument(f"flips = {probability!r} is no probability")
    if seed is None:
        raise BadArgument("seed: goes with flips")
    check_seed(seed)
    given, wide = _doubles(x)
    facts, random = finfo(name), numpy.random.default_rng([seed, 1])
    bits = facts.significant_bits - 1
    hit = (random.random(wide.shape) < probability) & (wide != 0) & numpy.isfinite(wide)
    place = random.integers(0, max(bits, 1), wide.shape)
    _, exponent = numpy.frexp(wide)
    lowest = facts.smallest_exponent if limits else -1074
    unit = numpy.ldexp(1.0, numpy.maximum(exponent - 1 - bits, lowest))
    count = numpy.where(hit, numpy.abs(wide) / unit, 0).astype(numpy.int64)
    flipped = numpy.copysign((count ^ (numpy.int64(1) << place)) * unit, wide)
    return numpy.where(hit & (bits > 0), flipped, wide).astype(given.dtype)


def _rounded(x, rounding, random):
    """Rounds doubles to integers."""
    low = numpy.floor(x)
    if rounding == "nearest":
        return numpy.rint(x)
    if rounding in ("zero", "up", "down"):
        return {"zero": numpy.trunc, "up": numpy.ceil, "down": numpy.floor}[rounding](x)
    if rounding == "odd":
        kept = numpy.trunc(x)
        even = (kept % 2 == 0) & (kept != x)
        return numpy.where(even, kept + numpy.copysign(1.0, x), kept)
    if rounding in ("away", "ties_zero"):
        toward, part = numpy.trunc(x), numpy.abs(x - numpy.trunc(x))
        up = part >= 0.5 if rounding == "away" else part > 0.5
        return toward + numpy.where(up, numpy.copysign(1.0, x), 0)
    chance = x - low if rounding == "stochastic" else numpy.where(x == low, 0, 0.5)
    return low + (random.random(x.shape) < chance)


def fixed(a, integer_bits, fraction_bits, rounding, seed, nan_to_zero):
    """Implements Context.fixed."""
    given, x = _doubles(a)
    for name, bits in (("integer_bits", integer_bits), ("fraction_bits", fraction_bits)):
        if not isinstance(bits, int) or not 0 <= bits <= 52:
            raise BadArgument(f"{name} = {bits!r} is no number from 0 to 52")
    if not 1 <= integer_bits + fraction_bits <= 53:
        raise BadArgument(f"integer_bits and fraction_bits = {integer_bits}, {fraction_bits} are "
                          "not 1 to 53 together")
    if numpy.isnan(x).any() and not nan_to_zero:
        raise BadArgument("a: holds NaN, and fixed point has none; nan_to_zero=True gives 0")
    if seed is not None:
        check_seed(seed)
    random = numpy.random.default_rng(seed)
    with numpy.errstate(over="ignore"):
        scaled = numpy.ldexp(numpy.nan_to_num(x, nan=0.0, posinf=numpy.inf, neginf=-numpy.inf),
                             fraction_bits)
    inside = numpy.abs(scaled) < _EXACT
    count = numpy.where(inside, _rounded(numpy.where(inside, scaled, 0), rounding, random), scaled)
    end = numpy.ldexp(1.0, integer_bits + fraction_bits - 1)
    return _in_type(numpy.ldexp(numpy.clip(count, -end, end - 1), -fraction_bits), given)
