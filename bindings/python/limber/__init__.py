# SPDX-License-Identifier: BSD-3-Clause
"""Limber: products of matrices and convolutions in the format and at the accuracy you ask for.

    import limber
    c = limber.matmul(a, b)                             # native: to the format's own accuracy
    c = limber.matmul(a, b, contract="correct")         # correctly rounded
    c = limber.matmul(a, b, contract="bits=40")
    c = limber.matmul(a, b, dtype="f128")               # a limber.Quad
    c, report = limber.matmul(a, b, report=True)

Functions of this module use one context, made at first use; Context has the same functions."""
from __future__ import annotations

import sys as _sys
import threading
from inspect import signature as _signature
from typing import TYPE_CHECKING, Callable, Optional, TypeVar

try:
    from ._core import Context
except ImportError as _error:
    if _sys.argv[:1] == ["-m"]:     # python -m limber: a message, and no traceback
        _sys.exit(f"python -m limber: {_error}")
    raise
from ._facts import FormatFacts, finfo, formats, schemes, spacing
from ._handles import Operand
from ._install import get_cmake_dir, get_include
from ._library import VERSION as __version__
from ._memory import Exported
from ._reports import Inspection, Part, Report, Tile
from ._simulation import (Distribution, Preset, Revealed, Statistics, Trial, retention, reveal,
                          unit, unit_retention, units)
from ._solve import SolveReport
from .errors import (BadArgument, DeviceError, FileError, InternalError, LimberError, NoMemory,
                     NoScheme, NotReady, OutOfRange, Status)
from .quad import Quad

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    _P = ParamSpec("_P")
_R = TypeVar("_R")

__all__ = ["matmul", "dot", "tensordot", "einsum", "convert", "quantize", "fixed", "statistics",
           "explore", "plan", "run_plan", "inspect", "prepare", "solve", "SolveReport",
           "conv1d", "conv2d", "conv3d", "conv1d_backward_data", "conv2d_backward_data",
           "conv3d_backward_data", "conv1d_backward_filter", "conv2d_backward_filter",
           "conv3d_backward_filter", "default_context", "finfo", "formats", "schemes", "spacing",
           "units", "unit", "retention", "unit_retention", "reveal",
           "get_include", "get_cmake_dir",
           "Context", "Operand", "Report", "Part", "Inspection", "Tile", "Preset", "Statistics",
           "Distribution", "Trial", "Revealed", "FormatFacts", "Exported",
           "Quad", "Status",
           "LimberError", "BadArgument", "NoScheme", "OutOfRange", "NoMemory", "FileError",
           "DeviceError", "NotReady", "InternalError"]

_lock = threading.Lock()
_context: Optional[Context] = None


def default_context() -> Context:
    """The context of this module's functions."""
    global _context
    if _context is not None:
        return _context
    with _lock:
        if _context is None:
            _context = Context()
        return _context


def _function(method: Callable[Concatenate[Context, _P], _R],
              name: Optional[str] = None) -> Callable[_P, _R]:
    """A function of Context's on the default context."""
    def function(*arguments: _P.args, **options: _P.kwargs) -> _R:
        return method(_context or default_context(), *arguments, **options)

    signature = _signature(method)
    function.__signature__ = signature.replace(         # type: ignore[attr-defined]
        parameters=list(signature.parameters.values())[1:])
    function.__name__ = function.__qualname__ = name or method.__name__
    function.__doc__ = method.__doc__
    return function


matmul = _function(Context.matmul)
dot = _function(Context.dot)
tensordot = _function(Context.tensordot)
einsum = _function(Context.einsum)
convert = _function(Context.convert)
quantize = _function(Context.quantize)
fixed = _function(Context.fixed)
statistics = _function(Context.statistics)
explore = _function(Context.explore)
plan = _function(Context.plan)
run_plan = _function(Context.run_plan)
inspect = _function(Context.inspect)
prepare = _function(Context.prepare)
solve = _function(Context.solve)
conv1d = _function(Context.conv1d, "conv1d")
conv2d = _function(Context.conv2d)
conv3d = _function(Context.conv3d, "conv3d")
conv1d_backward_data = _function(Context.conv1d_backward_data, "conv1d_backward_data")
conv2d_backward_data = _function(Context.conv2d_backward_data)
conv3d_backward_data = _function(Context.conv3d_backward_data, "conv3d_backward_data")
conv1d_backward_filter = _function(Context.conv1d_backward_filter, "conv1d_backward_filter")
conv2d_backward_filter = _function(Context.conv2d_backward_filter)
conv3d_backward_filter = _function(Context.conv3d_backward_filter, "conv3d_backward_filter")
