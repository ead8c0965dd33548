# SPDX-License-Identifier: BSD-3-Clause
"""Replaces loops and functions of NumPy by those of liblimber_numpy.so, for limber.numpy.  Programs
of `python -m limber run` load this file alone, because the whole package takes longer to import."""
from __future__ import annotations

import ctypes
import functools
import os
import threading
from ctypes import c_char_p
from typing import List, Set, Tuple

import numpy

_VERSIONS = (1, 24), (2, 5)     # the first and the last that are known
# the ufuncs in the order of loops.h, with the signatures of their loops
_UFUNCS = {"matmul": "(n?,k),(k,m?)->(n?,m?)", "vecdot": "(n),(n)->()",
           "matvec": "(m,n),(n)->(m)", "vecmat": "(n),(n,m)->(m)"}
_TYPES = dict(zip("?bBhHiIlLqQ", range(11)), e=23, g=13)    # NumPy's type numbers
_REPLACE = 30   # place of PyUFunc_ReplaceLoopBySignature in NumPy's table of functions

_lock = threading.RLock()
_replaced: Set[Tuple[str, str]] = set()     # names of ufuncs and letters of types
_functions: List[tuple] = []    # module, name, Limber's function and NumPy's


_library = None


def load(file):
    """Loads the library, once."""
    global _library
    with _lock:
        if _library is not None:
            return
        if not os.path.exists(file):
            raise RuntimeError(f"limber.numpy: there is no {file}")
        loops = ctypes.PyDLL(file)      # which keeps Python's lock
        for name in ("put", "take"):
            function = getattr(loops, f"limber_numpy_{name}")
            function.restype = ctypes.c_bool
            function.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_int, ctypes.c_int]
        loops.limber_numpy_use.restype, loops.limber_numpy_use.argtypes = c_char_p, [c_char_p]
        loops.limber_numpy_calls.restype = ctypes.c_uint64
        loops.limber_numpy_use(os.environ.get("LIMBER_ISA", "all").encode())
        _library = loops


def _check_version():
    """Raises RuntimeError unless this NumPy's loops are known."""
    version = tuple(int(x) for x in numpy.__version__.split(".")[:2])
    if not _VERSIONS[0] <= version <= _VERSIONS[1]:
        first, last = ("{}.{}".format(*x) for x in _VERSIONS)
        raise RuntimeError(f"limber.numpy: NumPy {numpy.__version__} is none of {first} to {last}: "
                           "its loops stay")


def _replace():
    """The address of NumPy's function that replaces a loop of a ufunc."""
    try:
        from numpy._core import _multiarray_umath as umath
    except ImportError:
        from numpy.core import _multiarray_umath as umath
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, c_char_p]
    table = ctypes.cast(pointer(umath._UFUNC_API, None), ctypes.POINTER(ctypes.c_void_p))
    return table[_REPLACE]


def _sample(letter):
    """A product of this type."""
    numbers = numpy.arange(64 * 64).reshape(64, 64)
    a = numbers * numbers % 253 % 19
    a = (a == 0 if letter == "?" else a).astype(letter)
    return numpy.matmul(a, a)


def _put(letters):
    """Replaces the loops of some types, and tries each.  On failure all are as they were."""
    loops, replace, made = _library, _replace(), []
    wanted = {letter: _sample(letter) for letter in letters}
    try:
        for kind, name in enumerate(_UFUNCS):
            ufunc = getattr(numpy, name, None)
            if ufunc is None and name != "matmul":      # an older NumPy
                continue
            if getattr(ufunc, "signature", None) != _UFUNCS[name]:
                raise RuntimeError(f"limber.numpy: numpy.{name} is another function than Limber "
                                   "knows")
            for letter in letters:
                if not loops.limber_numpy_put(replace, ufunc, kind, _TYPES[letter]):
                    raise RuntimeError(f"limber.numpy: numpy.{name} has no loop "
                                       f"{letter}{letter}->{letter}")
                made.append((name, letter))
        for letter in letters:
            before = loops.limber_numpy_calls(0)
            if (_sample(letter) != wanted[letter]).any() or loops.limber_numpy_calls(0) == before:
                raise RuntimeError(f"limber.numpy: numpy.matmul has another loop "
                                   f"{letter}{letter}->{letter} than Limber knows")
    except BaseException:
        _take(made)
        raise
    _replaced.update(made)


def _take(made):
    """Puts NumPy's loops back.  Returns those in whose place somebody else has put others."""
    loops, replace = _library, _replace()
    return [f"numpy.{name} {letter}" for name, letter in made
            if not loops.limber_numpy_take(replace, getattr(numpy, name), list(_UFUNCS).index(name),
                                           _TYPES[letter])]


# ---- functions that are no ufuncs ---------------------------------------------------------------

def _served(a, b):
    """Whether these are arrays whose product is of a type whose loops are replaced."""
    if type(b) is not numpy.ndarray or not all((a.size, b.size, a.ndim, b.ndim)):
        return False
    return ("matmul", numpy.result_type(a, b).char) in _replaced


def _dot(old):
    """A numpy.dot that goes by matmul where that means the same, else by the old dot."""
    @functools.wraps(old)
    def dot(a, b, out=None):
        # other types are told apart first, since their arrays may be small
        if type(a) is numpy.ndarray and a.dtype.char in _TYPES and out is None and \
                _served(a, b) and b.ndim <= 2 and a.shape[-1] == b.shape[0]:
            return numpy.matmul(a, b)
        return old(a, b, out)
    return dot


def _inner(old):
    """A numpy.inner that goes by matmul where that means the same, else by the old inner."""
    @functools.wraps(old)
    def inner(a, b, /):
        if type(a) is numpy.ndarray and a.dtype.char in _TYPES and \
                _served(a, b) and b.ndim <= 2 and a.shape[-1] == b.shape[-1]:
            return numpy.matmul(a, b.T)
        return old(a, b)
    return inner


def _put_functions():
    """Replaces numpy.dot and numpy.inner, also where tensordot and multi_dot find them."""
    try:
        from numpy._core import numeric
        from numpy.linalg import _linalg as linalg
    except ImportError:
        from numpy.core import numeric
        try:
            from numpy.linalg import linalg
        except ImportError:
            linalg = numpy.linalg
    for name, make in (("dot", _dot), ("inner", _inner)):
        old = getattr(numpy, name)
        new = make(old)
        for module in (numpy, numeric, linalg):
            if getattr(module, name, None) is old:
                setattr(module, name, new)
                _functions.append((module, name, new, old))


def _take_functions():
    """Puts numpy.dot and numpy.inner back.  Returns the names of those that somebody else has
    replaced since."""
    left = []
    for module, name, new, old in _functions:
        if getattr(module, name) is new:
            setattr(module, name, old)
        else:
            left.append(f"{module.__name__}.{name}")
    _functions.clear()
    return left


# ---- what limber.numpy gives to programs --------------------------------------------------------

def install(longdouble, dot):
    """Implements limber.numpy.install."""
    with _lock:
        _check_version()
        letters = [letter for letter in _TYPES if letter != "g" or longdouble]
        _put([letter for letter in letters if ("matmul", letter) not in _replaced])
        if dot and not _functions:
            _put_functions()


def remove():
    """Implements limber.numpy.remove."""
    with _lock:
        left = _take(sorted(_replaced)) + _take_functions()
        _replaced.clear()
        if left:
            raise RuntimeError("limber.numpy: replaced by somebody else since, and left so: " +
                               ", ".join(left))


def installed():
    """Implements limber.numpy.installed."""
    return bool(_replaced)


def calls():
    """Implements limber.numpy.calls."""
    if _library is None:
        return 0, 0
    return _library.limber_numpy_calls(0), _library.limber_numpy_calls(1)
