# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of binary128, which neither Python nor NumPy has."""
import ctypes
import math
import numbers
import operator
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from ._buffer import View, new_array
from ._library import lib
from .errors import BadArgument, check

_BIAS, _FRACTION, _TOP = 16383, 112, 0x7FFF
_SIGN, _INF = 1 << 127, _TOP << _FRACTION


def _round(numerator, denominator):
    """The bits of a positive fraction, rounded to nearest-even."""
    e = numerator.bit_length() - denominator.bit_length()
    if (numerator << max(-e, 0)) < (denominator << max(e, 0)):
        e -= 1                                      # 2^e <= x < 2^(e+1)
    e = max(e, 1 - _BIAS)
    shift = _FRACTION - e
    numerator, denominator = numerator << max(shift, 0), denominator << max(-shift, 0)
    q, rest = divmod(numerator, denominator)
    q += 2 * rest > denominator or (2 * rest == denominator and q & 1)
    return min(((e + _BIAS - 1) << _FRACTION) + q, _INF)    # q's leading bit counts the exponent on


def _decimal(text):
    """A decimal string as (negative, Fraction or "inf" or "nan")."""
    try:
        x = Decimal(text.strip())
    except InvalidOperation:
        raise BadArgument(f"{text!r} is not a number") from None
    if x.is_nan() or x.is_infinite():
        return x.is_signed(), "nan" if x.is_nan() else "inf"
    if x and x.adjusted() > 5000:                   # far beyond the range: no need of all digits
        return x.is_signed(), "inf"
    return x.is_signed(), Fraction(0 if x.adjusted() < -5100 else x.copy_abs())


def _float(x):
    """A double as (negative, Fraction or "inf" or "nan")."""
    kind = "nan" if math.isnan(x) else "inf" if math.isinf(x) else Fraction(abs(x))
    return math.copysign(1, x) < 0, kind


def _real(x):
    """Any other number likewise, exactly: what tells its ratio (floats, NumPy's long doubles,
    gmpy2's numbers), mpmath's and SymPy's floats by their parts, else what a double holds."""
    parts = getattr(x, "_mpf_", None)
    if parts and (parts[1] or not parts[2]):        # else infinite or NaN
        negative, digits, e, _ = parts
        digits, e = int(digits), int(e)
        size = e + digits.bit_length()
        if digits and size > 17000:                 # far beyond the range, as of decimals
            return bool(negative), "inf"
        return bool(negative), Fraction(digits) * Fraction(2) ** e if size > -17000 else Fraction(0)
    try:
        if hasattr(x, "as_integer_ratio") and not isinstance(x, float):
            try:
                ratio = Fraction(*map(int, x.as_integer_ratio()))
            except (OverflowError, ValueError):     # infinite or NaN
                return _float(float(x))
            return (ratio < 0 if ratio else math.copysign(1, float(x)) < 0), abs(ratio)
        value = float(x)
        exact = parts or value == x or value != value
    except (TypeError, ValueError, OverflowError) as error:
        raise BadArgument(f"{x!r} is not a number: {error}") from None
    if not exact:
        raise BadArgument(f"{x!r} is not what a double holds: give a Fraction or a decimal string")
    return _float(value)


def encode(x):
    """The 128 bits of a number, rounded once to nearest-even: a string of decimal digits, an int, a
    Fraction, a Decimal, a float, a long double of NumPy, a float of mpmath or gmpy2."""
    if isinstance(x, (str, Decimal)):
        negative, x = _decimal(str(x))
    elif isinstance(x, numbers.Integral):
        x = operator.index(x)
        negative, x = x < 0, Fraction(abs(x))
    elif isinstance(x, numbers.Rational):
        x = Fraction(int(x.numerator), int(x.denominator))
        negative, x = x < 0, abs(x)
    else:
        negative, x = _real(x)
    if isinstance(x, str):
        bits = _INF | (1 << (_FRACTION - 1)) * (x == "nan")
    else:
        bits = _round(x.numerator, x.denominator) if x else 0
    return bits | _SIGN * negative


def decode(bits):
    """The number as a Fraction; a float where it is -0, infinite or NaN."""
    field, fraction = bits >> _FRACTION & _TOP, bits & ((1 << _FRACTION) - 1)
    sign = -1 if bits & _SIGN else 1
    if field == _TOP:
        return math.nan if fraction else sign * math.inf
    if field == 0 and fraction == 0 and sign < 0:
        return -0.0
    scale = max(field, 1) - _BIAS - _FRACTION
    return sign * (fraction + ((field > 0) << _FRACTION)) * Fraction(2) ** scale


def to_string(x, digits=36):
    """A decoded number in decimal, rounded to nearest-even; 36 digits tell every binary128."""
    if isinstance(x, float) or x == 0:
        return repr(float(x))
    sign, x = "-" if x < 0 else "", abs(x)
    ten = (x.numerator.bit_length() - x.denominator.bit_length()) * 30103 // 100000 - 1
    while x >= Fraction(10) ** (ten + 1):
        ten += 1
    n = round(x / Fraction(10) ** (ten - digits + 1))
    if n == 10 ** digits:
        n, ten = n // 10, ten + 1
    text = str(n)
    return f"{sign}{text[0]}.{text[1:] or '0'}e{ten:+d}"


def _flatten(values, shape):
    """The numbers of nested lists in order; `shape` receives the extents."""
    if isinstance(values, (list, tuple)):
        shape.append(len(values))
        inner, all_of = None, []
        for value in values:
            this = []
            all_of += _flatten(value, this)
            if inner is not None and this != inner:
                raise BadArgument("the rows are of unequal lengths")
            inner = this
        shape += inner or []
        return all_of
    return [values]


class Quad:
    """An array of binary128.  `words` is its memory: pairs of 64-bit words, the low one first, in a
    NumPy array (..., 2), or a memoryview where NumPy is absent."""

    def __init__(self, values):
        """From nested lists of ints, Fractions, Decimals, decimal strings and floats, long doubles
        and those of mpmath among them, or an array; each is rounded once, to nearest-even."""
        if not isinstance(values, (list, tuple)) and hasattr(values, "ndim"):
            values = values.tolist()        # exact for integers and floats
        shape = []
        flat = _flatten(values, shape)
        memory = b"".join(encode(x).to_bytes(16, "little") for x in flat)
        self.words = new_array(shape, "f128")
        memoryview(self.words).cast("B")[:] = memory

    @classmethod
    def of_words(cls, words):
        """An array around memory that holds binary128 already; nothing is copied."""
        made = cls.__new__(cls)
        made.words = words
        return made

    @classmethod
    def zeros(cls, shape):
        return cls.of_words(new_array(shape, "f128"))

    @classmethod
    def from_pairs(cls, hi, lo=None):
        """hi + lo of two arrays of doubles (lo None: zeros), rounded once to nearest-even."""
        with View(hi, "hi") as high:
            if high.name != "f64" or high.pairs:
                raise BadArgument("hi: expected doubles")
            high.dense()
            pairs = new_array(high.shape, "dd")
            flat = memoryview(pairs).cast("B").cast("d") if high.count else None
            made = cls.zeros(high.shape)
            if not high.count:
                return made
            flat[0::2] = _doubles(high)
            if lo is not None:
                with View(lo, "lo") as low:
                    if low.name != "f64" or low.pairs or low.shape != high.shape:
                        raise BadArgument("lo: expected doubles, as many as of hi")
                    low.dense()
                    flat[1::2] = _doubles(low)
        _convert(made.words, "f128", pairs, "dd")
        return made

    def to_pairs(self):
        """Two arrays of doubles: hi, the nearest one, and lo, the nearest to what is left."""
        pairs = new_array(self.shape, "dd")
        hi, lo = new_array(self.shape, "f64"), new_array(self.shape, "f64")
        if math.prod(self.shape):
            _convert(pairs, "dd", self.words, "f128")
            flat = memoryview(pairs).cast("B").cast("d")
            memoryview(hi).cast("B").cast("d")[:] = flat[0::2]
            memoryview(lo).cast("B").cast("d")[:] = flat[1::2]
        return hi, lo

    @property
    def shape(self):
        return tuple(self.words.shape[:-1])

    @property
    def T(self):
        """The transpose; the same memory (NumPy)."""
        axes = range(self.words.ndim - 1)
        return Quad.of_words(self.words.transpose(*reversed(axes), self.words.ndim - 1))

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, where):
        """A part of the array, of the same memory (NumPy)."""
        where = where if isinstance(where, tuple) else (where,)
        if Ellipsis not in where:
            where += (Ellipsis,)
        return Quad.of_words(self.words[where + (slice(None),)])

    def item(self):
        """The one number: a Fraction; a float where it is -0, infinite or NaN."""
        if math.prod(self.shape) != 1:
            raise BadArgument(f"an array of shape {self.shape} is not one number")
        return _numbers(self)[0]

    def __float__(self):
        return float(self.item())

    def to_fractions(self):
        """Nested lists of Fractions; floats where a number is -0, infinite or NaN."""
        return _nest(_numbers(self), self.shape)

    def to_strings(self, digits=36):
        return _nest([to_string(x, digits) for x in _numbers(self)], self.shape)

    def __matmul__(self, other):
        from . import matmul
        return matmul(self, other)

    def __rmatmul__(self, other):
        from . import matmul
        return matmul(other, self)

    __array_ufunc__ = None      # NumPy's arrays leave @ to this class

    def __repr__(self):
        return f"Quad({self.to_strings()!r})"


def _numbers(quad):
    memory = memoryview(quad.words).tobytes()
    return [decode(int.from_bytes(memory[at:at + 16], "little"))
            for at in range(0, len(memory), 16)]


def _nest(flat, shape):
    for extent in reversed(shape[1:]):
        flat = [flat[at:at + extent] for at in range(0, len(flat), extent)] if extent else []
    return flat if shape else flat[0]


def _doubles(view):
    return memoryview(ctypes.string_at(view.data, 8 * view.count)).cast("d")


def _convert(to, to_name, source, from_name):
    with View(to, "to", to_name, writable=True) as t, View(source, "from", from_name) as f:
        f.dense()
        check(lib.limber_convert(t.data, t.format, f.data, f.format, f.count, 0))
