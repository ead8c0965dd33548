# SPDX-License-Identifier: BSD-3-Clause
"""A cache of calls on NumPy arrays: what follows from types, shapes and strides is kept, so that a
repeated product or convolution only fills in three addresses."""
import sys
from ctypes import byref, c_size_t, pointer

from . import _library as C
from ._library import lib
from ._types import numpy

MOST = 1000     # cached calls of a context
_run = lib.limber_run


def _reader_of_addresses():
    """A function that returns the address of an array's first element."""
    def shown(array):
        """By NumPy's attribute, which takes a microsecond."""
        return array.ctypes.data

    if numpy is None or sys.implementation.name != "cpython":
        return shown
    # PyArrayObject_fields of ndarraytypes.h: a Python object's head, then the address
    head, word = object.__basicsize__, c_size_t.from_address

    def read(array):
        """By the array's structure in C."""
        return word(id(array) + head).value

    try:
        probe = numpy.empty(8)[3:]
        return read if read(probe) == shown(probe) else shown
    except AttributeError:      # another module of this name
        return shown


_address = _reader_of_addresses()


class _Slot:
    """A problem that one thread at a time fills in."""

    def __init__(self, problem):
        self.problem = C.Problem.from_buffer_copy(problem)
        if problem.batch:
            self.batch = C.Batch.from_buffer_copy(problem.batch.contents)
            self.problem.batch = pointer(self.batch)
        self.call = byref(self.problem)
        self.matrices = self.problem.a, self.problem.b, self.problem.c


class Repeat:
    """A cached call. `keep` holds what its problem points to."""

    def __init__(self, problem, dtype, shape, align, keep):
        self.dtype, self.shape, self.align, self._keep = dtype, shape, align, keep
        self._problem, self._slots = problem, []

    def run(self, context, a, b, out):
        """The result; None if an array cannot be used in place, or the library refuses."""
        if out is None:
            c = numpy.empty(self.shape, self.dtype)
        elif out.flags.writeable:
            c = out
        else:
            return None
        try:
            slot = self._slots.pop()
        except IndexError:
            slot = _Slot(self._problem)
        try:
            if not self._fits(slot, a, b, c):
                return None
            ma, mb, mc = slot.matrices
            ma.data, mb.data, mc.data = at = _address(a), _address(b), _address(c)
            if (at[0] | at[1] | at[2]) & self.align:
                return None
            context.acquire()
            try:
                if _run(context._pointer, slot.call, None):
                    return None
            finally:
                context.release()
        finally:
            self._slots.append(slot)
        return c if out is not None or self.shape else c[()]

    def _fits(self, slot, a, b, c):
        """Whether the arrays can be used; their shapes are part of the key."""
        return True


class AnyMatrices(Repeat):
    """A cached product of matrices of any shape; shapes and strides are filled in.  It serves
    factorisations, where each product has other sizes."""

    def run(self, context, a, b, out):
        """The product of a and b; None if shapes do not match or there are no elements."""
        if a.shape[1] != b.shape[0] or 0 in a.shape or 0 in b.shape:
            return None
        if out is None:
            out = numpy.empty((a.shape[0], b.shape[1]), self.dtype)
        return super().run(context, a, b, out)

    def _fits(self, slot, a, b, c):
        """Also fills the sizes and strides of these arrays into the problem."""
        problem = slot.problem
        (problem.m, problem.k), problem.n = a.shape, b.shape[1]
        for matrix, x in zip(slot.matrices, (a, b, c)):
            size = x.itemsize
            row, col = x.strides
            if row <= 0 or col <= 0 or row % size or col % size:
                return False
            matrix.row_stride, matrix.col_stride = row // size, col // size
        return c.shape == (problem.m, problem.n)


def key_of(a, b, labels, contract, out, alpha, beta, options):
    """The cache key of a call: what an equal call must have in common; None: not cacheable. labels,
    options: all other arguments, which must be comparable."""
    if numpy is None or type(a) is not numpy.ndarray or type(b) is not numpy.ndarray or \
            not (contract is None or type(contract) is str) or \
            not _is_key(alpha) or not _is_key(beta):
        return None
    if out is None:
        return (a.dtype, a.shape, a.strides, b.dtype, b.shape, b.strides, labels, contract, options,
                alpha, beta)
    if type(out) is not numpy.ndarray:
        return None
    return (a.dtype, a.shape, a.strides, b.dtype, b.shape, b.strides, labels, contract, options,
            alpha, beta, out.dtype, out.shape, out.strides)


def matrices_key(key, a, b, out):
    """The part of a key that products of real matrices of any shape share, or None."""
    if a.ndim != 2 or b.ndim != 2 or (out is not None and out.ndim != 2) or \
            a.dtype.kind != "f" or b.dtype.kind != "f":
        return None
    return (a.dtype, b.dtype, None if out is None else out.dtype, *key[6:11])


def _is_key(scalar):
    """Whether a scalar can be part of a key: 0.0 and -0.0 are equal but differ."""
    kind = type(scalar)
    return kind is int or kind is float and scalar != 0


def has_own_elements(view):
    """Whether each array element is a whole number of the format, not half of one as in dd."""
    return view.size == view.source.itemsize


def kept(known, key):
    """The cached Repeat for a key, or None."""
    try:
        return known.get(key)
    except TypeError:       # unhashable option
        return None


def keep(known, key, views, result, problem, points_to, kind=Repeat):
    """Caches a call that used its arrays in place. points_to: what its problem points to."""
    addresses = problem.batch and problem.batch.contents.address_a
    if any(view.copied or view.typed for view in views) or addresses or \
            result.result != "numpy" or type(result.array) is not numpy.ndarray or \
            not all(view.count for view in views):
        return
    if len(known) >= MOST:
        known.clear()
    align = max(min(view.size, 8) for view in views) - 1
    try:
        known[key] = kind(problem, result.array.dtype, result.array.shape, align, points_to)
    except TypeError:       # unhashable option
        pass
