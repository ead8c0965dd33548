# SPDX-License-Identifier: BSD-3-Clause
"""Arrays in the form that the library takes: elements of a format, and new arrays for results."""
import ctypes
import math
import struct
from ctypes import byref
from typing import Dict

from ._library import Format, Matrix, lib
from ._memory import as_array, dense, gathered, memory_of, of_buffer
from ._types import (COMPLEX, FORMATS, HELD_BY, SMALL, kind_of_format, numpy, small_type,
                     type_of)
from .errors import BadArgument

_CODES = {"f16": "e", "f32": "f", "f64": "d", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
          "u8": "B"}
_BITS = {1: "B", 2: "H", 4: "f", 8: "d"}    # NumPy types of the bits of formats without a type
_formats: Dict[str, Format] = {}


def format_named(name, what="format"):
    """The C structure of the format with this name."""
    if not isinstance(name, str) or "\0" in name:
        raise BadArgument(f"{what} = {name!r} is no format")
    if name not in _formats:
        made = Format()
        if lib.limber_format_named(str(name).encode(), byref(made)):
            raise BadArgument(f"{what} = {name!r} is no format")
        _formats[name] = made
    return _formats[name]


def canonical(name, what="format"):
    """The canonical name of a format: "f32" for "float32".  None stays None."""
    if name is None:
        return None
    text = ctypes.create_string_buffer(64)
    return lib.limber_format_name(format_named(name, what), text, len(text)).decode()


def carrier(name):
    """The kind that stores the numbers of a format without a type of its own, or their parts."""
    return "float64" if format_named(name).size > 4 else "float32"


def _long_words(x, what):
    """Converts long doubles exactly to words of binary128."""
    digits = numpy.finfo(numpy.longdouble).nmant
    parts = numpy.ascontiguousarray(x).reshape(-1).view("u8").reshape(-1, 2)
    if digits == 112:
        return parts.reshape(x.shape + (2,))
    if digits != 63:
        raise BadArgument(f"{what}: longdouble of {digits} bits is no format")
    # sign and exponent; the other bits are padding
    significand, top = parts[:, 0], parts[:, 1] & 0xFFFF
    leading = significand >> 63
    exponent = top & 0x7FFF
    fraction = significand & numpy.uint64(2 ** 63 - 1)
    strange = (exponent != 0) & (leading == 0)          # invalid encodings of x87: NaN
    top = top + ((exponent == 0) & (leading == 1))      # x87 may encode the smallest exponent as 0
    words = numpy.empty(parts.shape, "u8")
    words[:, 0] = fraction << 49
    words[:, 1] = numpy.where(strange, numpy.uint64(0x7FFF8 << 44), top << 48 | fraction >> 15)
    return words.reshape(x.shape + (2,))


def _held(memory, what):
    """A copy in a wider kind that represents all values, in native byte order."""
    if numpy is None:
        raise BadArgument(f"{what}: elements of type {memory.kind}" +
                          " in the other byte order" * memory.swapped + " need NumPy")
    try:
        kind = numpy.dtype(small_type(memory.kind) or memory.kind)
    except TypeError:
        raise BadArgument(f"{what}: elements of type {memory.kind} need ml_dtypes") from None
    raw = as_array(memory.data, memory.shape, memory.strides, memory.itemsize)
    x = raw.view(kind.newbyteorder() if memory.swapped else kind)
    if memory.kind == "longdouble":
        return _long_words(x.astype(kind), what)
    if memory.kind == "uint64" and x.size and int(x.max()) >= 2 ** 63:
        raise BadArgument(f"{what}: uint64 with numbers from 2^63 on, which no format holds")
    return x.astype(HELD_BY.get(memory.kind, kind))


class View:
    """The memory of an array, held until release(); shape and strides are those of elements.

    A copy is made where strides are negative or no multiples of an element, the address is not
    aligned, bytes are in the other order, or elements are of no format but another type holds them
    all; what is to be written is refused then, and so is what lies on a GPU.

    device: the number of the CUDA device whose memory it is, or None.  `gpu` allows that."""

    def __init__(self, source, what, name=None, writable=False, gpu=False):
        mask = getattr(source, "mask", None)        # a method of pandas' tables
        if mask is not None and not callable(mask):
            raise BadArgument(f"{what}: masks are not looked at; fill the array first")
        self.source, self.what, self.copied = source, what, False
        self._memory = memory_of(source, what, writable)
        self.device = self._memory.device
        try:
            if self.device is not None and not gpu:
                raise BadArgument(f"{what}: lies in the memory of CUDA device {self.device}, "
                                  "which only products of tensors there read")
            self._understand(name, writable)
            if not self._served():
                if writable:
                    raise BadArgument(f"{what}: strides are negative or no multiples of an "
                                      "element, or the address is not aligned")
                self._copy()
        except BaseException:
            self.release()
            raise

    def _understand(self, name, writable):
        """Finds the format, size and shape of the elements, and copies those of other formats."""
        memory = self._memory
        self.typed = memory.kind in SMALL       # by a type that NumPy lacks
        hold = memory.kind in HELD_BY if name is None else False
        words = memory.kind == "longdouble" and name in (None, "f128")
        if memory.swapped or hold or words:
            self.stays()
            if writable:
                raise BadArgument(f"{self.what}: elements of type {memory.kind}" +
                                  " in the other byte order" * memory.swapped +
                                  " are no format of results")
            memory = self._replace(_held(memory, self.what))
        self.name, self.pairs = ("f128", False) if words else self._meaning(memory, name)
        self.format = format_named(self.name)
        self.size = self.format.size * (2 if self.pairs else 1)
        self.data, self.shape, self.bytes = memory.data, memory.shape, memory.strides
        if memory.itemsize != self.size:
            self._join(memory)
        self.count = math.prod(self.shape)

    def _meaning(self, memory, name):
        """The format of the elements, and whether they are pairs."""
        kind = memory.kind
        if name is None:
            if kind in FORMATS or kind in COMPLEX:
                return FORMATS.get(kind) or COMPLEX[kind], kind in COMPLEX
            raise BadArgument(f"{self.what}: elements of type {kind!r} are no format; format= "
                              "names one for arrays that hold its bits")
        form = format_named(name)
        bits = kind[:3] in ("int", "uin", "voi") and (name[0] not in "iu" or name in ("i4", "i2"))
        carried = (form.carried or name == "dd") and kind == carrier(name)
        if not (bits or carried or kind == kind_of_format(name)):
            raise BadArgument(f"{self.what}: elements of type {kind!r} do not hold {name}")
        return name, False

    def _join(self, memory):
        """Makes the last axis, which has the parts of an element, part of the elements."""
        if not (self.shape and self.shape[-1] * memory.itemsize == self.size):
            raise BadArgument(f"{self.what}: elements of {memory.itemsize} bytes do not hold "
                              f"{self.name}, which has {self.size}")
        if self.bytes[-1] != memory.itemsize:
            self.stays()
            self._replace(gathered(self.data, self.shape, self.bytes, memory.itemsize))
            self.data, self.bytes = self._memory.data, dense(self.shape, memory.itemsize)
        self.shape, self.bytes = self.shape[:-1], self.bytes[:-1]

    def stays(self):
        """Refuses an array that would need a copy on the host."""
        if self.device is not None:
            raise BadArgument(f"{self.what}: lies on a GPU, and would have to be copied: elements "
                              "need a format of Limber's, and rows or columns an even step")

    def _replace(self, made):
        """Replaces the memory by a copy."""
        memory = of_buffer(made, self.what)
        self.release()
        self._memory, self.copied = memory, True
        return memory

    def _served(self):
        """Whether the library takes these strides and this address."""
        return self.data % min(self.size, 8) == 0 and all(
            step >= 0 and step % self.size == 0
            for step, extent in zip(self.bytes, self.shape) if extent > 1) or self.count == 0

    def _copy(self):
        self.gather(self.shape, self.bytes)

    def gather(self, shape, strides):
        """Replaces the array by a copy with this shape and byte strides."""
        self.stays()
        self.data = self._replace(gathered(self.data, shape, strides, self.size)).data
        self.shape, self.bytes = tuple(shape), dense(shape, self.size)
        self.count = math.prod(shape)

    def is_dense(self):
        """Whether elements are in C order without gaps."""
        return self.count == 0 or all(
            extent <= 1 or step == wish for extent, step, wish in
            zip(self.shape, self.bytes, dense(self.shape, self.size)))

    def dense(self):
        """Makes a contiguous copy in C order, unless the array is contiguous already."""
        if not self.is_dense():
            self._copy()

    def array(self):
        """A NumPy array of the elements without a copy, valid while this View is held."""
        self.stays()
        raw = as_array(self.data, self.shape, self.bytes, self.size)
        return raw.view(type_of(kind_of_format(self.name, self.pairs)))

    def matrix(self):
        """The last two axes as a limber_matrix."""
        rows, cols = self.shape[-2:]
        row, col = self.bytes[-2] // self.size, self.bytes[-1] // self.size
        if rows <= 1 or self.count == 0:
            row = max(cols, 1)
        if cols <= 1 or self.count == 0:
            col = 1
        return Matrix(self.data if self.count else None, self.format, row, col)

    def release(self):
        if self._memory is not None:
            self._memory.release()
            self._memory = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()


def new_array(shape, name, pairs=False, typed=False):
    """An array of zeros for results: NumPy's, or a memoryview of one's own where NumPy is absent.
    Formats without a type of NumPy's come in ml_dtypes' types where `typed` asks for them, else as
    bits (or in their carrier), dd as pairs."""
    form = format_named(name)
    code = _CODES.get(name) or ("I" if form.size == 4 and not form.carried else
                                _BITS.get(form.size))
    shape = tuple(shape)
    if name in ("dd", "f128"):
        shape += (2,)
        code = "d" if name == "dd" else "Q"
    if numpy is not None:
        kind = kind_of_format(name, pairs)
        if pairs and kind is None:
            raise BadArgument(f"out: complex numbers of {name} have no type in NumPy")
        return numpy.zeros(shape, type_of(kind) if kind and (pairs or typed) else code)
    if pairs:
        raise BadArgument("out: complex results need NumPy, or an array given as out")
    return memoryview(bytearray(math.prod(shape) * struct.calcsize(code))).cast(code, shape)
