# SPDX-License-Identifier: BSD-3-Clause
"""Limber: products of matrices and convolutions in the format and at the accuracy you ask for.

    import limber
    c = limber.matmul(a, b)                             # correctly rounded
    c = limber.matmul(a, b, contract="bits=40")
    c = limber.matmul(a, b, dtype="f128")               # a limber.Quad
    c, report = limber.matmul(a, b, report=True)

Functions of this module use one context, made at first use; Context has the same functions."""
import threading

from ._core import Context, Operand, Report, Part, Look, Tile, formats, schemes
from ._library import VERSION as __version__
from .errors import (BadArgument, DeviceError, FileError, InternalError, LimberError, NoMemory,
                     NoScheme, OutOfRange, Status)
from .quad import Quad

__all__ = ["matmul", "conv2d", "plan", "look", "prepare", "default_context", "formats", "schemes",
           "Context", "Operand", "Report", "Part", "Look", "Tile", "Quad", "Status",
           "LimberError", "BadArgument", "NoScheme", "OutOfRange", "NoMemory", "FileError",
           "DeviceError", "InternalError"]

_lock = threading.Lock()
_context = None


def default_context():
    """The context of this module's functions."""
    global _context
    with _lock:
        if _context is None:
            _context = Context()
        return _context


def matmul(a, b, **options):
    return default_context().matmul(a, b, **options)


def conv2d(x, w, **options):
    return default_context().conv2d(x, w, **options)


def plan(a, b, **options):
    return default_context().plan(a, b, **options)


def look(x, **options):
    return default_context().look(x, **options)


def prepare(x, **options):
    return default_context().prepare(x, **options)


for _function in (matmul, conv2d, plan, look, prepare):
    _function.__doc__ = getattr(Context, _function.__name__).__doc__
