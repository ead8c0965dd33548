# SPDX-License-Identifier: BSD-3-Clause
"""Locates an array's elements through any protocol: Python's buffers, DLPack, __array__ and
__array_interface__."""
import ctypes
import itertools
import numbers
import sys
from ctypes import (POINTER, Structure, byref, c_char_p, c_int, c_int32, c_int64, c_ssize_t,
                    c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object, pythonapi)
from typing import Any, Tuple

from ._types import dlpack_of_kind, kind_of_code, kind_of_dlpack, numpy
from .errors import BadArgument


class Buffer(Structure):    # Py_buffer
    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t),
                ("itemsize", c_ssize_t), ("readonly", c_int), ("ndim", c_int),
                ("format", c_char_p), ("shape", POINTER(c_ssize_t)),
                ("strides", POINTER(c_ssize_t)), ("suboffsets", POINTER(c_ssize_t)),
                ("internal", c_void_p)]


STRIDES, WRITABLE = 0x1C, 0x1     # PyBUF_RECORDS_RO: strides and format
pythonapi.PyObject_GetBuffer.argtypes = [py_object, POINTER(Buffer), c_int]
pythonapi.PyObject_CheckBuffer.argtypes = [py_object]
pythonapi.PyBuffer_Release.argtypes = [POINTER(Buffer)]
pythonapi.PyBuffer_Release.restype = None


class _Tensor(Structure):    # DLTensor of dlpack.h
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32),
                ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("offset", c_uint64)]


# DLManagedTensorVersioned; an unversioned one begins with the DLTensor
class _Versioned(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p),
                ("deleter", c_void_p), ("flags", c_uint64), ("tensor", _Tensor)]


# DLPACK_FLAG_BITMASK_READ_ONLY; types of memory that a CPU can read
_READ_ONLY, _CPUS = 1, (1, 3)
# kDLCUDA; the legacy default stream, with which calls without a stream synchronise
_CUDA, _LEGACY = 2, 1
pythonapi.PyCapsule_IsValid.argtypes = [py_object, c_char_p]
pythonapi.PyCapsule_GetPointer.argtypes = [py_object, c_char_p]
pythonapi.PyCapsule_GetPointer.restype = c_void_p


class Memory:
    """Elements of one kind, held until release().  Strides are in bytes. device: number of the CUDA
    device that has the memory, or None."""

    def __init__(self, data, kind, itemsize, shape, strides, swapped=False, keep=None, end=None,
                 device=None):
        self.data, self.kind, self.itemsize, self.device = data, kind, itemsize, device
        self.shape, self.strides, self.swapped = tuple(shape), tuple(strides), swapped
        self._keep, self._end = keep, end

    def release(self):
        """Lets go of the object that owns the memory."""
        if self._end:
            self._end()
        self._keep = self._end = None


def dense(shape, size):
    """Byte strides of a contiguous array in C order."""
    strides = []
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))


def of_buffer(source, what, writable=False, kind=None):
    """Memory of an object with the buffer protocol; `kind` overrides the array's type."""
    raw = Buffer()
    try:
        pythonapi.PyObject_GetBuffer(source, byref(raw), STRIDES | (WRITABLE if writable else 0))
    except (BufferError, TypeError, ValueError) as error:
        raise BadArgument(f"{what}: {error}") from None
    found, swapped = kind_of_code((raw.format or b"B").decode(), raw.itemsize)
    return Memory(raw.buf, kind or found, raw.itemsize, raw.shape[:raw.ndim],
                  raw.strides[:raw.ndim], swapped,
                  end=lambda: pythonapi.PyBuffer_Release(byref(raw)))


def gpu_of(source):
    """The number of the CUDA device on which an object's memory is, or None."""
    if not hasattr(source, "__dlpack_device__"):
        return None
    kind, number = map(int, source.__dlpack_device__())
    return number if kind == _CUDA else None


class _Unshared(BadArgument):
    """An object has __dlpack__ but refuses to export a tensor."""


def _capsule(source, what):
    """For an object with __dlpack__: the capsule that keeps the tensor, the CUDA device or None,
    the tensor, and whether it is writable."""
    try:
        device = tuple(map(int, source.__dlpack_device__()))
        if device[0] not in _CPUS + (_CUDA,):
            raise BadArgument(f"{what}: lies on device {device} of DLPack, which is neither host "
                              "memory nor CUDA's")
        stream = {"stream": _LEGACY} if device[0] == _CUDA else {}
        try:
            capsule = source.__dlpack__(max_version=(1, 0), **stream)
        except TypeError:       # an older protocol
            capsule = source.__dlpack__(**stream)
    except BadArgument:
        raise
    except Exception as error:      # libraries raise their own errors
        raise _Unshared(f"{what}: {error}") from None
    return capsule, device[1] if device[0] == _CUDA else None, _tensor(capsule, what)


def _tensor(capsule, what="out"):
    """(the tensor in a capsule, whether it is writable; None if the capsule does not tell)."""
    if pythonapi.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        at = pythonapi.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        made = _Versioned.from_address(at)
        return made.tensor, not made.flags & _READ_ONLY
    if pythonapi.PyCapsule_IsValid(capsule, b"dltensor"):
        return _Tensor.from_address(pythonapi.PyCapsule_GetPointer(capsule, b"dltensor")), None
    raise BadArgument(f"{what}: __dlpack__ gave no tensor")


def _is_immutable(source):
    """Whether an object with a buffer exports it read-only, as JAX's and TensorFlow's arrays do."""
    raw = Buffer()
    if not pythonapi.PyObject_CheckBuffer(source):
        return False
    try:
        pythonapi.PyObject_GetBuffer(source, byref(raw), STRIDES | WRITABLE)
    except Exception:       # libraries raise their own errors
        return True
    pythonapi.PyBuffer_Release(byref(raw))
    return False


def of_dlpack(source, what, writable=False):
    """Memory of an object with __dlpack__, without a copy."""
    capsule, device, (tensor, may_write) = _capsule(source, what)
    if writable and (_is_immutable(source) if may_write is None else not may_write):
        raise BadArgument(f"{what}: is read-only")
    kind = kind_of_dlpack(tensor.code, tensor.bits, tensor.lanes)
    if kind is None:
        raise BadArgument(f"{what}: elements of DLPack's type ({tensor.code}, {tensor.bits} bits, "
                          f"{tensor.lanes} lanes) are no format")
    shape, size = tuple(tensor.shape[:tensor.ndim]), tensor.bits // 8
    strides = tuple(size * step for step in tensor.strides[:tensor.ndim]) if tensor.strides \
        else dense(shape, size)
    return Memory((tensor.data or 0) + tensor.offset, kind, size, shape, strides, keep=capsule,
                  device=device)


def _of_numpy(array, what, writable):
    """Memory of a NumPy array; types that NumPy lacks appear as bits."""
    if array.dtype.isbuiltin == 2:      # types of ml_dtypes
        bits = array.view(f"V{array.itemsize}")
        return of_buffer(bits, what, writable, array.dtype.name)
    if array.dtype.kind in "OSTUmM":
        raise BadArgument(f"{what}: elements of type {array.dtype} are no format")
    return of_buffer(array, what, writable)


def lasting(source, what):
    """An object that shows the same memory on every access: lists, and objects that create an array
    anew, are converted to an array first."""
    if numpy is None or isinstance(source, numpy.ndarray):
        return source
    made = isinstance(source, (list, tuple, numbers.Number, numpy.generic))
    shows = hasattr(source, "__dlpack__") or hasattr(source, "__array_interface__") or \
        pythonapi.PyObject_CheckBuffer(source)
    return _as_array(source, what, False) if made or not shows and hasattr(source, "__array__") \
        else source


def memory_of(source, what, writable=False):
    """The Memory of anything that shows one."""
    if numpy is not None:
        if isinstance(source, (list, tuple, numbers.Number, numpy.generic)):
            if writable:
                raise BadArgument(f"{what}: is no array, which would see what is written")
            source = numpy.asarray(source)
        if isinstance(source, numpy.ndarray):
            return _of_numpy(source, what, writable)
    if hasattr(source, "__dlpack__") and hasattr(source, "__dlpack_device__"):
        try:
            return of_dlpack(source, what, writable)
        except _Unshared:       # PyTorch's Booleans, which NumPy may read
            if writable or numpy is None or not hasattr(source, "__array__"):
                raise
    if pythonapi.PyObject_CheckBuffer(source):
        return of_buffer(source, what, writable)
    if numpy is not None and (hasattr(source, "__array_interface__") or
                              hasattr(source, "__array__")):
        return _of_numpy(_as_array(source, what, writable), what, writable)
    raise BadArgument(f"{what}: {type(source).__name__} shows no array: no buffer, __dlpack__, "
                      "__array_interface__ or __array__" +
                      "; its toarray() makes one" * hasattr(source, "toarray"))


def _as_array(source, what, writable):
    """What an object shows by __array__ and the like, as a NumPy array."""
    try:
        array = numpy.asarray(source)
    except Exception as error:      # __array__ is the source's own
        raise BadArgument(f"{what}: {error}") from None
    if writable and not hasattr(source, "__array_interface__"):
        raise BadArgument(f"{what}: gives copies, and would not see what is written")
    return array


class _Shown:
    """Shows memory to NumPy by __array_interface__."""

    def __init__(self, data, shape, strides, typestr):
        self.__array_interface__ = {"data": (data, False), "shape": tuple(shape),
                                    "strides": tuple(strides), "typestr": typestr, "version": 3}


_ORDER = "<" if sys.byteorder == "little" else ">"
_MOVED_AS = {1: "|u1", 2: _ORDER + "u2", 4: _ORDER + "u4", 8: _ORDER + "u8", 16: _ORDER + "c16"}


def as_array(data, shape, strides, size):
    """A NumPy array of raw elements in place; it does not keep them alive."""
    typestr = _MOVED_AS.get(size, f"|V{size}")
    if 0 in shape:
        return numpy.zeros(shape, typestr)
    return numpy.asarray(_Shown(data, shape, strides, typestr))


def _each(data, shape, strides):
    """The address of each element, in C order."""
    steps = [[i * step for i in range(extent)] for extent, step in zip(shape, strides)]
    return (data + sum(at) for at in itertools.product(*steps))


def gathered(data, shape, strides, size):
    """The bytes of all elements, in C order."""
    if numpy is not None:
        return bytearray(as_array(data, shape, strides, size).tobytes())
    return bytearray(b"".join(ctypes.string_at(at, size) for at in _each(data, shape, strides)))


def scattered(bytes, data, shape, strides, size):
    """Stores elements, given in C order, in their places."""
    if numpy is not None:
        places = as_array(data, shape, strides, size)
        places[...] = numpy.frombuffer(bytes, places.dtype).reshape(places.shape)
        return
    for i, at in enumerate(_each(data, shape, strides)):
        ctypes.memmove(at, bytes[i * size:(i + 1) * size], size)


class Exported:
    """A result that other packages read by from_dlpack.  `array` holds its elements, as bits if
    NumPy lacks their type."""

    def __init__(self, array: Any, kind: str) -> None:
        self.array, self.kind = array, kind

    def __dlpack_device__(self) -> Tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        """NumPy's capsule, with the type corrected if NumPy lacks it."""
        capsule = self.array.__dlpack__(**options)
        _tensor(capsule)[0].code = dlpack_of_kind(self.kind)
        return capsule
