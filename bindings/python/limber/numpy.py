# SPDX-License-Identifier: BSD-3-Clause
"""NumPy's own loops by Limber: products of integers, truth values and float16, which NumPy gives to
no BLAS.

    import limber.numpy
    limber.numpy.install()
    c = a @ b               # the same values and the same warnings, sooner
    limber.numpy.remove()

The inner loops of the ufuncs matmul, vecdot, matvec and vecmat are replaced, so `@`, matrix_power
and others are served, too.  Integers wrap in their own type, truth values are the OR of ANDs,
float16 is summed in order in binary32 and rounded once, all as NumPy does it."""
from __future__ import annotations

import os
from typing import Tuple

from . import _loops
from ._library import lib

__all__ = ["install", "remove", "installed", "calls"]


def install(*, longdouble: bool = False, dot: bool = False) -> None:
    """Replaces NumPy's loops of integers, truth values and float16; those that Limber has replaced
    already stay.

    longdouble=True replaces those of longdouble, too: each element is then the exact value, rounded
    once.  That is slower than NumPy on small products.  dot=True replaces the functions numpy.dot
    and numpy.inner, which tensordot and multi_dot call; ndarray.dot stays.

    RuntimeError names what is wrong, and NumPy is as it was: another version of NumPy, a loop that
    is not there."""
    _loops.load(os.path.join(os.path.dirname(lib._name), "limber", "liblimber_numpy.so"))
    _loops.install(longdouble, dot)


def remove() -> None:
    """Puts back what install replaced.  RuntimeError names what somebody else has replaced since,
    which stays."""
    _loops.remove()


def installed() -> bool:
    """Whether loops are replaced."""
    return _loops.installed()


def calls() -> Tuple[int, int]:
    """How many calls of loops Limber has computed, and how many it has left to NumPy's loops,
    because these are faster there, since the program began.  Where threads multiply at the same
    time, some are not counted."""
    return _loops.calls()
