# SPDX-License-Identifier: BSD-3-Clause
"""Limber: products of matrices and convolutions in the format and at the accuracy you ask for.

    import limber
    c = limber.matmul(a, b)                             # correctly rounded
    c = limber.matmul(a, b, contract="bits=40")
    c = limber.matmul(a, b, dtype="f128")               # a limber.Quad
    c, report = limber.matmul(a, b, report=True)

Functions of this module use one context, made at first use; Context has the same functions."""
import inspect
import threading

from ._core import (Context, FormatFacts, Inspection, Operand, Part, Report, Tile, finfo, formats,
                    schemes, spacing)
from ._install import get_cmake_dir, get_include
from ._library import VERSION as __version__
from .errors import (BadArgument, DeviceError, FileError, InternalError, LimberError, NoMemory,
                     NoScheme, NotReady, OutOfRange, Status)
from .quad import Quad

_FUNCTIONS = ["matmul", "plan", "inspect", "prepare"] + [
    f"conv{n}d{direction}" for n in (1, 2, 3) for direction in ("", "_backward_data",
                                                                "_backward_filter")]

__all__ = [*_FUNCTIONS, "default_context", "finfo", "formats", "schemes", "spacing",
           "get_include", "get_cmake_dir",
           "Context", "Operand", "Report", "Part", "Inspection", "Tile", "FormatFacts",
           "Quad", "Status",
           "LimberError", "BadArgument", "NoScheme", "OutOfRange", "NoMemory", "FileError",
           "DeviceError", "NotReady", "InternalError"]

_lock = threading.Lock()
_context = None


def default_context():
    """The context of this module's functions."""
    global _context
    with _lock:
        if _context is None:
            _context = Context()
        return _context


def _function(name):
    """The Context's function of that name, on the default context."""
    method = getattr(Context, name)

    def function(*arguments, **options):
        return getattr(default_context(), name)(*arguments, **options)

    signature = inspect.signature(method)
    function.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    return function


globals().update({name: _function(name) for name in _FUNCTIONS})
