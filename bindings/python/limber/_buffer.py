# SPDX-License-Identifier: BSD-3-Clause
"""Matrices in anything that has Python's buffer protocol: NumPy arrays, memoryviews, arrays."""
import ctypes
import math
import struct
from ctypes import POINTER, byref, c_char_p, c_int, c_ssize_t, c_void_p, py_object, pythonapi

from ._library import Format, Matrix, lib
from .errors import BadArgument

try:
    import numpy
except ImportError:
    numpy = None


class _Buffer(ctypes.Structure):    # Py_buffer
    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t),
                ("itemsize", c_ssize_t), ("readonly", c_int), ("ndim", c_int),
                ("format", c_char_p), ("shape", POINTER(c_ssize_t)),
                ("strides", POINTER(c_ssize_t)), ("suboffsets", POINTER(c_ssize_t)),
                ("internal", c_void_p)]


_STRIDED, _WRITABLE = 0x1C, 0x1     # PyBUF_RECORDS_RO: strides and format
pythonapi.PyObject_GetBuffer.argtypes = [py_object, POINTER(_Buffer), c_int]
pythonapi.PyBuffer_Release.argtypes = [POINTER(_Buffer)]
pythonapi.PyBuffer_Release.restype = None

_FLOATS = {"e": "f16", "f": "f32", "d": "f64"}
_CODES = {"f16": "e", "f32": "f", "f64": "d", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
          "u8": "B"}
_BITS = {1: "B", 2: "H", 4: "f", 8: "d"}    # of formats that have no type of their own
_formats = {}


def format_named(name):
    """The C structure of a format's name."""
    if name not in _formats:
        made = Format()
        if lib.limber_format_named(str(name).encode(), byref(made)):
            raise BadArgument(f"format = {name!r} is unknown")
        _formats[name] = made
    return _formats[name]


def _type_of(code, itemsize, what):
    """The format and whether elements are pairs, from a buffer's format."""
    code = (code or "B").lstrip("@=")
    if code[:1] == "<":
        code = code[1:]
    pairs = code[:1] == "Z"
    letter = code[1:] if pairs else code
    if letter in _FLOATS:
        return _FLOATS[letter], pairs
    if letter in tuple("bhilq") and not pairs:
        return f"i{8 * itemsize}", False
    if letter == "B" and not pairs:
        return "u8", False
    raise BadArgument(f"{what}: elements of type {code!r} are no format; format= names one for "
                      "arrays that hold its bits")


class View:
    """The memory of an array, held until release(); shape and strides are those of elements.

    A copy is made where strides are negative or no multiples of an element, or the address is not
    aligned, unless it is to be written."""

    def __init__(self, source, what, name=None, writable=False):
        if isinstance(source, (list, tuple)) and numpy is not None and not writable:
            source = numpy.asarray(source)
        if hasattr(source, "mask"):
            raise BadArgument(f"{what}: masks are not looked at; fill the array first")
        self.source, self.what = source, what
        self._raw, self.copied = None, False
        self._take(source, writable)
        try:
            self._understand(name)
            if not self._served():
                if writable:
                    raise BadArgument(f"{what}: strides are negative or no multiples of an "
                                      "element, or the address is not aligned")
                self._copy()
        except BaseException:
            self.release()
            raise

    def _take(self, source, writable):
        raw = _Buffer()
        try:
            pythonapi.PyObject_GetBuffer(source, byref(raw),
                                         _STRIDED | (_WRITABLE if writable else 0))
        except (BufferError, TypeError, ValueError) as error:
            raise BadArgument(f"{self.what}: {error}") from None
        self._raw = raw

    def _understand(self, name):
        raw = self._raw
        self.data = raw.buf
        self.shape = tuple(raw.shape[:raw.ndim])
        strides = tuple(raw.strides[:raw.ndim])
        code = (raw.format or b"B").decode()
        if name is None:
            self.name, self.pairs = _type_of(code, raw.itemsize, self.what)
        else:
            self.name, self.pairs = name, False
        self.format = format_named(self.name)
        self.size = self.format.size * (2 if self.pairs else 1)
        if name is not None and raw.itemsize != self.size:      # pieces along the last axis
            if not (self.shape and self.shape[-1] * raw.itemsize == self.size):
                raise BadArgument(f"{self.what}: elements of {raw.itemsize} bytes do not hold "
                                  f"{name}, which has {self.size}")
            self.whole = strides[-1] == raw.itemsize
            self.shape, strides = self.shape[:-1], strides[:-1]
        else:
            self.whole = True
        self.bytes = strides
        self.count = 1
        for extent in self.shape:
            self.count *= extent

    def _served(self):
        return self.whole and self.data % min(self.size, 8) == 0 and all(
            step >= 0 and step % self.size == 0
            for step, extent in zip(self.bytes, self.shape) if extent > 1) or self.count == 0

    def _copy(self):
        copy = bytearray(memoryview(self.source).tobytes())     # the buffer keeps it
        self.release()
        self._take(copy, False)
        self.data, self.copied = self._raw.buf, True
        self.bytes = dense(self.shape, self.size)

    def dense(self):
        """A copy with no gaps, in C's order, unless it is that already."""
        if self.count and any(extent > 1 and step != wish for extent, step, wish in
                              zip(self.shape, self.bytes, dense(self.shape, self.size))):
            self._copy()

    def matrix(self):
        """The last two axes, as Limber's matrix."""
        rows, cols = self.shape[-2:]
        row, col = self.bytes[-2] // self.size, self.bytes[-1] // self.size
        if rows <= 1 or self.count == 0:
            row = max(cols, 1)
        if cols <= 1 or self.count == 0:
            col = 1
        return Matrix(self.data if self.count else None, self.format, row, col)

    def release(self):
        if self._raw is not None:
            pythonapi.PyBuffer_Release(byref(self._raw))
            self._raw = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()


def dense(shape, size):
    """Strides in bytes of an array without gaps, in C's order."""
    strides = []
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))


def new_array(shape, name, pairs=False):
    """An array of zeros for results: NumPy's, or a memoryview of one's own where NumPy is absent.
    Formats without a type of their own come as bits (or in their carrier), dd as pairs."""
    code = _CODES.get(name) or _BITS.get(format_named(name).size)
    shape = tuple(shape)
    if name in ("dd", "f128"):
        shape += (2,)
        code = "d" if name == "dd" else "Q"
    if numpy is not None:
        kind = {"f": numpy.complex64, "d": numpy.complex128}.get(code) if pairs else code
        if kind is None:
            raise BadArgument(f"out: complex numbers of {name} have no type in NumPy")
        return numpy.zeros(shape, kind)
    if pairs:
        raise BadArgument("out: complex results need NumPy, or an array given as out")
    return memoryview(bytearray(math.prod(shape) * struct.calcsize(code))).cast(code, shape)
