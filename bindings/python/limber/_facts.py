# SPDX-License-Identifier: BSD-3-Clause
"""Facts about formats and schemes, and the library's structures as tuples."""
import ctypes
import itertools
import math
from ctypes import byref
from typing import Dict, List, NamedTuple

from . import _library as C
from ._buffer import format_named
from ._library import lib
from ._typing import DType
from .errors import BadArgument, check, integer


class FormatFacts(NamedTuple):
    """What a format can hold, as limber_format_facts has it."""
    significant_bits: int
    largest_exponent: int
    normal_exponent: int
    smallest_exponent: int
    epsilon: float
    roundoff: float
    largest: float
    normal: float
    smallest: float
    overflow: float
    underflow: float
    decimal_digits: float
    digits_kept: int
    digits_needed: int
    has_infinity: bool
    has_nan: bool
    has_negative_zero: bool
    finite_values: float
    exact_integers: float
    lowest: float


def _plain(value):
    """A field of a structure as a Python value."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return tuple(value) if isinstance(value, ctypes.Array) else value


def tuple_of(kind, made, **other):
    """A named tuple of this kind from one of the library's structures; `other` has fields that are
    not copied as they are."""
    values = [other.pop(name) if name in other else _plain(getattr(made, name))
              for name in kind._fields]
    return kind(*values)


def rows_of(row_at):
    """The rows of one of the library's tables, up to the first NULL."""
    return itertools.takewhile(bool, map(row_at, itertools.count()))


_FORMATS = tuple(name.decode() for name in rows_of(lib.limber_format_at))


def formats() -> List[str]:
    """The names of formats.  Those of the form "(1,e,m)" are not listed."""
    return list(_FORMATS)


def _format_of(name):
    """The limber_format that an argument names."""
    from ._arguments import format_of_dtype     # imports this module

    format, pairs, _ = format_of_dtype(name, "name")
    if pairs:
        raise BadArgument(f"name = {name!r}: complex numbers are pairs of another format's")
    return format_named(format)


def finfo(name: DType) -> FormatFacts:
    """What a format can hold, as numpy.finfo has it of NumPy's types: a FormatFacts, for example
    limber.finfo("bf16").epsilon.  Fields are those of limber_format_facts in limber/format.h.

    name    a format's, or a type of NumPy's, ml_dtypes' or PyTorch's"""
    facts = C.FormatFacts()
    check(lib.limber_format_describe(_format_of(name), byref(facts)))
    return FormatFacts(*(bool(getattr(facts, field)) if field.startswith("has_") else
                         getattr(facts, field) for field in FormatFacts._fields))


def spacing(name: DType, exponent: int) -> float:
    """The distance of a format's neighbours in [2^exponent, 2^(exponent+1)); 0 where it is below
    all floats (f128)."""
    found = ctypes.c_int()
    exponent = integer(exponent, "exponent")
    check(lib.limber_format_spacing(_format_of(name), exponent, byref(found)))
    try:
        return math.ldexp(1.0, found.value)
    except OverflowError:
        raise BadArgument(f"exponent = {exponent}: numbers of {name} are 2^{found.value} apart, "
                          "which no float holds") from None


SCHEMES = {scheme.contents.name.decode(): scheme.contents.about.decode()
           for scheme in rows_of(lib.limber_scheme_at)}


def schemes() -> Dict[str, str]:
    """The schemes: {name: a line about it}."""
    return dict(SCHEMES)
