# SPDX-License-Identifier: BSD-3-Clause
"""Linear systems, to the digits of the result's format."""
from contextlib import ExitStack
from ctypes import byref
from typing import NamedTuple

from . import _library as C
from ._arguments import pair_of, view_of
from ._facts import tuple_of
from ._library import lib
from ._results import Result
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
    """A view of one axis is one column."""
    if len(view.shape) == 2:
        return view.matrix()
    step = view.bytes[0] // view.size if view.count else 1
    return C.Matrix(view.data if view.count else None, view.format, max(step, 1), 1)


def solve(context, a, b, dtype, out, result, report, format):
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
        made = Result(held, views[1].shape, views, formats, dtype, out, result)
        x, columns = _matrix(made.view), (views[1].shape + (1,))[1]
        call = C.SolveCall(n=rows[0], columns=columns, a=_matrix(views[0]), b=_matrix(views[1]),
                           x=C.Output(x.data, x.format, x.row_stride, x.col_stride))
        told = C.SolveReport()
        check(lib.limber_solve(ctx, byref(call), byref(told)))
    return (made.give(), tuple_of(SolveReport, told)) if report else made.give()
