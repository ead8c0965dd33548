# SPDX-License-Identifier: BSD-3-Clause
"""Converts what callers pass: contracts, formats and types by name, scalars, sides."""
import ctypes
import difflib
import os
from ctypes import byref, c_int64, c_void_p
from fractions import Fraction

from . import _library as C
from ._binary128 import encode
from ._buffer import View, canonical, format_named
from ._facts import SCHEMES, formats, rows_of
from ._handles import Operand
from ._library import lib
from ._types import COMPLEX, FORMATS, numpy
from .errors import BadArgument, check, integer
from .quad import Quad

_PROMISES = {"native": 0, "bits": 1, "correct": 2, "exact": 3, "fast": 4, "simulate": 5,
             "reproducible": 6, "mod": 3, "correct,round": 2}
_VALUED = ("bits", "mod", "simulate", "correct,round")
ROUNDINGS = {"nearest": 0, "zero": 1, "up": 2, "down": 3, "away": 4}


def unit_of(words, what):
    """A limber_unit from words: a preset's name, and changes to it."""
    made = C.Unit()
    if not isinstance(words, str) or "\0" in words:
        raise BadArgument(f"{what} = {words!r}: no words of a unit")
    if lib.limber_unit_parse(words.encode(), byref(made)):
        names = [row.contents.name.decode() for row in rows_of(lib.limber_unit_preset_at)]
        text = lib.limber_error_text().decode(errors="replace")
        raise BadArgument(f"{what} = {words!r}: {text}" + near(words.partition(" ")[0], names))
    return made


def near(word, names):
    """Known names that resemble the word, as the end of a message."""
    found = difflib.get_close_matches(word, names)
    return "; near: " + ", ".join(found) if found else ""


def contract_of(text, scheme, slices, background=False):
    """A limber_contract. text None means native, as in C and on the command line, unless slices are
    given."""
    slices = integer(slices, "slices", 0)
    text = ("fast" if slices else "native") if text is None else text
    word, _, value = str(text).partition("=")
    if word not in _PROMISES or (word in _VALUED) != bool(value):
        raise BadArgument(f"contract = {text!r} is none of native, reproducible, bits=N, correct, "
                          "correct,round=MODE, exact, mod=N, fast, simulate=UNIT")
    if word == "fast" and not scheme:
        raise BadArgument(f"scheme = None: {'slices' if slices else 'fast'} needs one, such as "
                          "scheme='ozaki1-i8'")
    for part in str(scheme).split("+") if scheme is not None else ():
        if part not in SCHEMES:
            raise BadArgument(f"contract.scheme = {scheme!r} is unknown" + near(part, SCHEMES))
    made = C.Contract(promise=_PROMISES[word], slices=slices, on_miss=int(background),
                      scheme=str(scheme).encode() if scheme else None)
    if word == "bits":
        if not value.isdecimal() or len(value) > 6:
            raise BadArgument(f"contract = {text!r}: bits is no number")
        made.bits = int(value)
    if word == "mod":
        number, comma, kind = value.partition(",")
        digits = number.isascii() and number.isdecimal() and len(number) < 20
        if not digits or not 2 <= int(number) < 1 << 63 or (comma and kind != "symmetric"):
            raise BadArgument(f"contract = {text!r} is not mod=N or mod=N,symmetric, N from 2 to "
                              "2^63 - 1")
        made.modulus, made.residues = int(number), int(bool(comma))
    if word == "correct,round":
        if value not in ROUNDINGS:
            raise BadArgument(f"contract = {text!r}: round is none of {', '.join(ROUNDINGS)}")
        made.rounding = ROUNDINGS[value]
    if word == "simulate":
        made.unit = ctypes.pointer(unit_of(value, "contract"))
    return made


def address(scalar):
    """The address of the memory that scalar_of made; the caller keeps that memory alive."""
    return None if scalar is None else ctypes.cast(ctypes.c_char_p(scalar), c_void_p)


def path_of(text, what):
    """A file's name as bytes; None stays None."""
    try:
        return None if text is None else os.fsencode(text)
    except TypeError:
        raise BadArgument(f"{what} = {text!r} is no text") from None


def pair_of(format):
    """The format names of two operands, from one name, a pair or None."""
    if format is None or isinstance(format, str):
        return format, format
    if not isinstance(format, (list, tuple)) or len(format) != 2:
        raise BadArgument(f"format = {format!r} is neither a name nor a pair of names")
    return tuple(format)


def format_of_dtype(dtype, what="dtype"):
    """(the format's name, whether numbers are complex, whether a type was given) of a dtype, which
    may be a name, or a type of NumPy's, ml_dtypes' or PyTorch's."""
    if dtype is None or (isinstance(dtype, str) and (dtype in formats() or dtype[:1] == "(")):
        return dtype, False, False
    kind = str(dtype).rpartition(".")[2]
    if kind not in FORMATS and kind not in COMPLEX:
        try:
            kind = numpy.dtype(dtype).name
        except (AttributeError, TypeError):
            return canonical(dtype, what), False, False
    if kind not in FORMATS and kind not in COMPLEX:
        raise BadArgument(f"{what} = {dtype!r} is no format of results")
    return FORMATS.get(kind) or COMPLEX[kind], kind in COMPLEX, True


def view_of(x, what, name, writable=False, gpu=False):
    """A View of an argument; those of a Quad's elements are f128."""
    name = canonical(name)
    if isinstance(x, Quad):
        if name not in (None, "f128"):
            raise BadArgument(f"{what}: a Quad is in f128, not {name}")
        x, name = x.words, "f128"
    return View(x, what, name, writable, gpu)


def check_matrix(view):
    """Requires a matrix of real numbers."""
    if len(view.shape) != 2 or view.pairs:
        raise BadArgument(f"{view.what}: expected two axes of real numbers")


def operand_view(held, x, what, name, gpu=False):
    """The View of an operand of a product, or of the array that a prepared one was made from."""
    if isinstance(x, Operand):
        view = view_of(x.x, what, name or x._view.name if not isinstance(x.x, Quad) else None)
        return held.enter_context(view)
    return held.enter_context(view_of(x, what, name, gpu=gpu))


def prepared_of(held, x):
    """The library's object of a prepared operand, in use until `held` is closed; None for an
    array."""
    if not isinstance(x, Operand):
        return None
    return held.enter_context(x._handle.use())


def is_left(side):
    """Whether a side is "left"; refuses all but "left" and "right"."""
    if side not in ("left", "right"):
        raise BadArgument(f"side = {side!r} is neither 'left' nor 'right'")
    return side == "left"


def _one_scalar(x, c, what):
    """Memory with one number in C's format (for integers in i64)."""
    room = (ctypes.c_char * 16)()
    try:
        if c.name[0] in "iu":
            return bytes(c_int64(_integer(x, what)))
        if c.name in ("f128", "dd"):
            bits, name = encode(x).to_bytes(16, "little"), "f128"
        else:
            value = float(Fraction(x) if isinstance(x, str) else x)
            bits, name = bytes(ctypes.c_double(value)), "f64"
    except (TypeError, ValueError, OverflowError) as error:
        raise BadArgument(f"{what} = {x!r}: {error}") from None
    check(lib.limber_convert(room, c.format, bits, format_named(name), 1, 0))
    return room.raw[:c.format.size]


def _integer(x, what):
    """A number as an int of 64 bits."""
    value = int(x)
    if value != x or not -2**63 <= value < 2**63:
        raise BadArgument(f"{what} = {x!r} is no 64-bit integer, which a result of integers needs")
    return value


def scalar_of(x, neutral, c, what):
    """alpha or beta as memory with a number of the result's format; None where it is `neutral` (1
    for alpha, 0 for beta), and has no effect."""
    if isinstance(x, Quad):
        x = x.item()
    if not isinstance(x, str) and x == neutral:
        return None
    if c.pairs:
        x = complex(x)
        return _one_scalar(x.real, c, what) + _one_scalar(x.imag, c, what)
    if isinstance(x, complex):
        raise BadArgument(f"{what} is complex, the result is real")
    return _one_scalar(x, c, what)
