# SPDX-License-Identifier: BSD-3-Clause
"""Solves linear systems to the precision of the result's format."""
from contextlib import ExitStack
from ctypes import byref
from typing import NamedTuple

from . import _library as C
from ._arguments import format_of_dtype, pair_of, view_of
from ._facts import tuple_of
from ._library import lib
from ._results import Result
from ._types import kind_of_format, numpy
from .errors import BadArgument, check


class SolveReport(NamedTuple):
    """What a solution took; limber/solve.h says what the numbers mean."""
    method: int
    steps: int
    change: float
    residual: float
    condition: float
    seconds: float


def _matrix(view):
    """The matrix of a view; a single axis becomes one column."""
    if len(view.shape) == 2:
        return view.matrix()
    step = view.bytes[0] // view.size if view.count else 1
    return C.Matrix(view.data if view.count else None, view.format, max(step, 1), 1)


def _is_complex(x):
    """Whether an argument holds complex numbers."""
    return numpy is not None and numpy.asarray(x).dtype.kind == "c"


def _as_real(context, a, b, dtype, out, result, report, format):
    """Solves a complex system as the real one [Re a, -Im a; Im a, Re a] [Re x; Im x] = [Re b; Im
    b], whose numbers are the same."""
    if format is not None:
        raise BadArgument("format: names what real arrays hold, and these are complex")
    if result != "numpy":
        raise BadArgument("result: complex solutions are NumPy's arrays")
    a, b = numpy.asarray(a), numpy.asarray(b)
    kind = dtype if dtype is not None else out.dtype if out is not None else \
        numpy.result_type(a, b)
    part, pairs, _ = format_of_dtype(kind)
    if not pairs or part not in ("f32", "f64"):
        raise BadArgument(f"dtype = {kind}: a complex solution is complex64 or complex128")
    kind = numpy.dtype(kind_of_format(part, pairs))
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise BadArgument(f"a: shape {a.shape} is no square matrix")
    if b.ndim not in (1, 2) or b.shape[0] != a.shape[0]:
        raise BadArgument(f"b: shape {b.shape} does not meet a's {a.shape}")
    if out is not None and (out.shape != b.shape or out.dtype != kind):
        raise BadArgument(f"out: is {out.dtype} of shape {out.shape}, and the solution {kind} of "
                          f"shape {b.shape}")
    n = a.shape[0]
    made = solve(context, numpy.block([[a.real, -a.imag], [a.imag, a.real]]),
                 numpy.concatenate([b.real, b.imag]), part, None, "numpy", report, None)
    parts = made[0] if report else made
    x = numpy.empty(b.shape, kind) if out is None else out
    x.real, x.imag = parts[:n], parts[n:]
    return (x, made[1]) if report else x


def solve(context, a, b, dtype, out, result, report, format):
    """Implements Context.solve."""
    if _is_complex(a) or _is_complex(b):
        return _as_real(context, a, b, dtype, out, result, report, format)
    with ExitStack() as held:
        formats = pair_of(format)
        ctx = held.enter_context(context._handle.use())
        views = [held.enter_context(view_of(x, what, name))
                 for x, what, name in zip((a, b), "ab", formats)]
        for view in views:
            if view.pairs:
                raise BadArgument(f"{view.what}: systems are of real numbers")
        rows = views[0].shape
        if len(rows) != 2 or rows[0] != rows[1]:
            raise BadArgument(f"a: shape {rows} is no square matrix")
        if len(views[1].shape) not in (1, 2) or views[1].shape[0] != rows[0]:
            raise BadArgument(f"b: shape {views[1].shape} does not meet a's {rows}")
        if dtype is None and out is None and all(view.name[0] in "iu" for view in views):
            dtype = "f64"
        made = Result(held, views[1].shape, views, formats, dtype, out, result)
        x, columns = _matrix(made.view), (views[1].shape + (1,))[1]
        call = C.SolveCall(n=rows[0], columns=columns, a=_matrix(views[0]), b=_matrix(views[1]),
                           x=C.Output(x.data, x.format, x.row_stride, x.col_stride))
        solved = C.SolveReport()
        check(lib.limber_solve(ctx, byref(call), byref(solved)))
    value = made.returned_value()
    return (value, tuple_of(SolveReport, solved)) if report else value
