# SPDX-License-Identifier: BSD-3-Clause
"""Numbers of binary128 as integers of 128 bits: conversion from and to Python's numbers, and
arithmetic by Python's exact integers."""
import math
import numbers
import operator
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from .errors import BadArgument

_FRACTION, _TOP, _LEAST = 112, 0x7FFF, -16494     # 2^_LEAST is the smallest positive number
SIGN, INF = 1 << 127, _TOP << _FRACTION
NAN = INF | 1 << (_FRACTION - 1)


def _pack(m, e):
    """The bits of m 2^e > 0, rounded to nearest-even."""
    q = max(e + m.bit_length() - _FRACTION - 1, _LEAST)
    if q <= e:
        m <<= e - q
    else:
        lost, half = m & ((1 << (q - e)) - 1), 1 << (q - e - 1)
        m >>= q - e
        m += lost > half or (lost == half and m & 1)
    return min(((q - _LEAST) << _FRACTION) + m, INF)   # a carry out of m increments the exponent


def _ratio(numerator, denominator, e=0):
    """The bits of a positive quotient times 2^e, rounded to nearest-even.  Enough quotient bits are
    computed, and a sticky bit tells whether the remainder is nonzero."""
    s = max(_FRACTION + 4 + denominator.bit_length() - numerator.bit_length(), 0)
    q, rest = divmod(numerator << s, denominator)
    return _pack(q << 1 | (rest != 0), e - s - 1)


def _decimal(text):
    """A decimal string as (negative, Fraction or "inf" or "nan")."""
    try:
        x = Decimal(text.strip())
    except InvalidOperation:
        raise BadArgument(f"{text!r} is not a number") from None
    if x.is_nan() or x.is_infinite():
        return x.is_signed(), "nan" if x.is_nan() else "inf"
    if x and x.adjusted() > 5000:                   # beyond the range: digits do not matter
        return x.is_signed(), "inf"
    return x.is_signed(), Fraction(0 if x.adjusted() < -5100 else x.copy_abs())


def _float(x):
    """A double as (negative, Fraction or "inf" or "nan")."""
    kind = "nan" if math.isnan(x) else "inf" if math.isinf(x) else Fraction(abs(x))
    return math.copysign(1, x) < 0, kind


def _real(x):
    """Any other number as (negative, Fraction or "inf" or "nan"), exactly: by as_integer_ratio
    (floats, NumPy's long doubles, gmpy2), by the parts of mpmath's and SymPy's floats, else by
    conversion to a double."""
    parts = getattr(x, "_mpf_", None)
    if parts and (parts[1] or not parts[2]):        # else infinite or NaN
        negative, digits, e, _ = parts
        digits, e = int(digits), int(e)
        size = e + digits.bit_length()
        if digits and size > 17000:                 # beyond the range
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


def _exact(x):
    """Any number as (negative, Fraction or "inf" or "nan")."""
    if isinstance(x, (str, Decimal)):
        return _decimal(str(x))
    if isinstance(x, numbers.Integral):
        x = operator.index(x)
        return x < 0, Fraction(abs(x))
    if isinstance(x, numbers.Rational):
        x = Fraction(int(x.numerator), int(x.denominator))
        return x < 0, abs(x)
    return _real(x)


def encode(x):
    """The 128 bits of a number, rounded once to nearest-even: a string of decimal digits, an int, a
    Fraction, a Decimal, a float, a long double of NumPy, a float of mpmath or gmpy2."""
    negative, x = _exact(x)
    if isinstance(x, str):
        bits = NAN if x == "nan" else INF
    else:
        bits = _ratio(x.numerator, x.denominator) if x else 0
    return bits | SIGN * negative


def excess(x):
    """The sign of the rounding error of a number's conversion."""
    negative, exact = _exact(x)
    if isinstance(exact, str):
        return 0
    rounded = abs(decode(encode(x)))
    return ((rounded > exact) - (rounded < exact)) * (-1 if negative else 1)


def _split(magnitude):
    """A finite magnitude as integers m and e with value m 2^e."""
    field, fraction = magnitude >> _FRACTION, magnitude & ((1 << _FRACTION) - 1)
    return fraction + ((field > 0) << _FRACTION), max(field, 1) + _LEAST - 1


def decode(bits):
    """The number as a Fraction; a float where it is -0, infinite or NaN."""
    magnitude, sign = bits & ~SIGN, -1 if bits & SIGN else 1
    if magnitude >= INF:
        return math.nan if magnitude > INF else sign * math.inf
    if bits == SIGN:
        return -0.0
    m, e = _split(magnitude)
    return sign * m * Fraction(2) ** e


def to_string(x, digits=36):
    """A decoded number in decimal, rounded to nearest-even; 36 digits identify every number."""
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


# ---- arithmetic on bits, rounded to nearest-even, as IEEE 754 has it ----------------------------

def add(a, b):
    """a + b."""
    x, y = a & ~SIGN, b & ~SIGN
    if max(x, y) >= INF:
        clash = x == y == INF and a != b
        return NAN if x > INF or y > INF or clash else a if x == INF else b
    (m, e), (n, f) = _split(x), _split(y)
    low = min(e, f)
    total = (-m if a & SIGN else m) << (e - low)
    total += (-n if b & SIGN else n) << (f - low)
    if not total:
        return a & b & SIGN     # -0 if both are -0, else +0
    return _pack(abs(total), low) | SIGN * (total < 0)


def subtract(a, b):
    """a - b."""
    return add(a, b ^ SIGN)


def multiply(a, b):
    """a b."""
    x, y, sign = a & ~SIGN, b & ~SIGN, (a ^ b) & SIGN
    if max(x, y) >= INF:
        return NAN if x > INF or y > INF or 0 in (x, y) else INF | sign
    (m, e), (n, f) = _split(x), _split(y)
    return sign | (_pack(m * n, e + f) if m and n else 0)


def divide(a, b):
    """a / b."""
    x, y, sign = a & ~SIGN, b & ~SIGN, (a ^ b) & SIGN
    if x > INF or y > INF or x == y and x in (0, INF):
        return NAN
    if x == INF or y == 0:
        return INF | sign
    if y == INF or x == 0:
        return sign
    (m, e), (n, f) = _split(x), _split(y)
    return sign | _ratio(m, n, e - f)


def square_root(a):
    """The square root of a."""
    if a in (0, SIGN, INF):
        return a
    if a > INF:        # negative or NaN
        return NAN
    m, e = _split(a)
    s = 2 * _FRACTION + 8 - m.bit_length()
    s += (e - s) & 1
    root = math.isqrt(m << s)
    return _pack(root << 1 | (root * root != m << s), ((e - s) >> 1) - 1)


def power(a, n):
    """a^n for an integer n; 1 for n = 0."""
    x, sign = a & ~SIGN, a & SIGN if n % 2 else 0
    if n == 0:
        return encode(1)
    if x > INF:
        return NAN
    if x in (0, INF):
        return sign | (INF if (x == INF) == (n > 0) else 0)
    m, e = _split(x)
    return sign | (_pack(m ** n, e * n) if n > 0 else _ratio(1, m ** -n, e * n))


def total(bits, count=1):
    """The sum of many numbers, divided by a count, and rounded once."""
    special, zeros, high, low = 0.0, SIGN, 0, 0     # the partial sum is high 2^low
    some = False
    for x in bits:
        magnitude = x & ~SIGN
        some = True
        zeros &= x if not magnitude else 0
        if magnitude >= INF:
            special += math.nan if magnitude > INF else math.copysign(math.inf, -(x >> 127))
            continue
        m, e = _split(magnitude)
        if m:
            if e < low:
                high, low = high << (low - e), e
            high += (-m if x & SIGN else m) << (e - low)
    if special or not count:
        return NAN if special != special or not count else INF | SIGN * (special < 0)
    if not high:
        return zeros if some else 0     # -0 only if all terms are -0
    return _ratio(abs(high), count, low) | SIGN * (high < 0)


def compare(a, b):
    """-1, 0 or 1; None if a or b is NaN."""
    x, y = a & ~SIGN, b & ~SIGN
    if x > INF or y > INF:
        return None
    x, y = -x if a & SIGN else x, -y if b & SIGN else y
    return (x > y) - (x < y)
