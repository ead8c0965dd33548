# SPDX-License-Identifier: BSD-3-Clause
"""Names of element types: kinds (names of NumPy and ml_dtypes types) and formats."""
import sys

from .errors import BadArgument

try:
    import numpy
except ImportError:
    numpy = None    # type: ignore[assignment]

# Kinds that are formats, including those that NumPy lacks; kinds of complex numbers, by the format
# of a part; and kinds whose values another kind represents exactly, so that such arrays are copied.
_SMALL = {"bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
          "float8_e4m3fnuz": "e4m3fnuz", "float8_e5m2fnuz": "e5m2fnuz", "float8_e8m0fnu": "e8m0",
          "float6_e2m3fn": "e2m3", "float6_e3m2fn": "e3m2", "float4_e2m1fn": "e2m1",
          "int4": "i4", "int2": "i2"}
_SMALL_COMPLEX = {"complex32": "f16", "bcomplex32": "bf16"}
SMALL = {*_SMALL, *_SMALL_COMPLEX}
FORMATS = {"float16": "f16", "float32": "f32", "float64": "f64", "int8": "i8", "int16": "i16",
           "int32": "i32", "int64": "i64", "uint8": "u8", **_SMALL}
COMPLEX = {"complex64": "f32", "complex128": "f64", **_SMALL_COMPLEX}
HELD_BY = {"bool": "uint8", "uint16": "int32", "uint32": "int64", "uint64": "int64",
           "int1": "int8",
           "uint1": "uint8", "uint2": "uint8", "uint4": "uint8",
           "float8_e3m4": "float16", "float8_e4m3": "float16", "float8_e4m3b11fnuz": "float16",
           "float8_e8m0fnu": "float32"}      # has no zero, and is no operand
_KIND_OF = {name: kind for kind, name in FORMATS.items()}
_COMPLEX_OF = {name: kind for kind, name in COMPLEX.items()}


def small_type(kind):
    """The ml_dtypes type with this name; None if the package is absent or lacks it."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    return getattr(ml_dtypes, kind, None)


def type_of(kind):
    """The NumPy or ml_dtypes type of a kind."""
    kind = small_type(kind) or kind
    try:
        return numpy.dtype(kind)
    except TypeError:
        raise BadArgument(f"{kind} has no type here, where ml_dtypes is absent: name another "
                          "dtype, or give out") from None


def kind_of_format(name, pairs=False):
    """The kind whose elements have a format, or None."""
    return (_COMPLEX_OF if pairs else _KIND_OF).get(name)


_LETTERS = {"?": "bool", "e": "float16", "f": "float32", "d": "float64", "g": "longdouble",
            "Zf": "complex64", "Zd": "complex128", "Zg": "clongdouble"}
_LETTERS.update({letter: "int" for letter in "bhilqn"}, **{letter: "uint" for letter in "BHILQN"})


def kind_of_code(code, itemsize):
    """The kind that a buffer's format names, or the code itself where it is none, and whether bytes
    are in the other order than the machine's."""
    order, letter = (code[0], code[1:]) if code[:1] in tuple("@=<>!") else ("@", code)
    swapped = itemsize > 1 and order in ("<" if sys.byteorder == "big" else ">!")
    kind = _LETTERS.get(letter, "void" if letter.endswith("x") else code)
    return f"{kind}{8 * itemsize}" if kind in ("int", "uint") else kind, swapped


# DLPack's type codes. Types of 4 and 6 bits are packed in DLPack, and here each element has a byte.
_DLPACK = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool",
           7: "float8_e3m4", 8: "float8_e4m3", 9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn",
           11: "float8_e4m3fnuz", 12: "float8_e5m2", 13: "float8_e5m2fnuz", 14: "float8_e8m0fnu"}
_DLPACK_CODE = {kind: code for code, kind in _DLPACK.items()}


def kind_of_dlpack(code, bits, lanes):
    """The kind of a DLPack type, or None."""
    kind = _DLPACK.get(code)
    if kind is None or lanes != 1 or bits % 8:
        return None
    return kind if kind == "bool" or "_" in kind else f"{kind}{bits}"


def dlpack_of_kind(kind):
    """The DLPack code of a kind, or None."""
    return _DLPACK_CODE.get(kind if "_" in kind else kind.rstrip("0123456789"))
