# SPDX-License-Identifier: BSD-3-Clause
"""Matrices of intervals, and products that enclose those of all matrices in them.

    from limber import interval

    c = interval.matmul(a, b)                       # arrays of numbers: the tightest bounds
    c.inf, c.sup                                    # NumPy's arrays
    x = interval.from_midrad(a, 1e-10)              # intervals
    y = x @ b

include/limber/interval.h says how wide results are.  Needs NumPy."""
from ctypes import byref
from typing import Any, Optional, Tuple

import numpy

from . import _library as C
from ._buffer import format_named
from ._core import Context
from ._library import lib
from .errors import BadArgument, check

__all__ = ["Interval", "from_midrad", "matmul"]

_FORMATS = {"float64": "f64", "float32": "f32"}


def _bounds(x, what):
    """x as an array of float64 or float32; other numbers must be values of float64."""
    made = numpy.asarray(x)
    if made.dtype.kind not in "fiub" or made.dtype.itemsize > 8:
        raise BadArgument(f"{what}: {made.dtype} is no type of real numbers that float64 holds")
    if made.dtype.name not in _FORMATS:
        wide = made.astype("float64")
        if made.dtype.kind in "iu" and (numpy.abs(wide) >= 2.0**53).any():
            raise BadArgument(f"{what}: has integers of 2^53 or more, which float64 may round")
        made = wide
    return made


class Interval:
    """An array of intervals [inf, sup]; without sup, of numbers."""

    def __init__(self, inf: Any, sup: Any = None) -> None:
        self.inf = _bounds(inf, "inf")
        self.sup = self.inf if sup is None else _bounds(sup, "sup")
        if self.inf.shape != self.sup.shape:
            raise BadArgument(f"sup: shape {self.sup.shape} is not inf's {self.inf.shape}")
        if not (self.inf <= self.sup).all():
            raise BadArgument("inf: is above sup, or NaN, in an element")

    @property
    def shape(self) -> Tuple[int, ...]:
        return self.inf.shape

    @property
    def mid(self) -> Any:
        """Numbers near the middles of the intervals."""
        with numpy.errstate(invalid="ignore"):
            mid = numpy.where(self.inf == self.sup, self.inf, self.inf / 2 + self.sup / 2)
        return numpy.where(numpy.isfinite(self.inf) & numpy.isfinite(self.sup), mid, 0)

    @property
    def rad(self) -> Any:
        """Upper bounds of the distances from mid to inf and sup."""
        mid = self.mid
        return numpy.maximum(_sum_up(mid, -self.inf), _sum_up(self.sup, -mid))

    def __contains__(self, x: Any) -> bool:
        """True if every element of x is in its interval."""
        other = x if isinstance(x, Interval) else Interval(x)
        return bool(((self.inf <= other.inf) & (other.sup <= self.sup)).all())

    def __matmul__(self, other: Any) -> "Interval":
        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> "Interval":
        return matmul(other, self)

    __array_ufunc__ = None      # numpy.ndarray @ Interval is Interval's

    def __repr__(self) -> str:
        return f"Interval({self.inf!r}, {self.sup!r})"


def _sum_up(a, b):
    """a + b, rounded up."""
    with numpy.errstate(all="ignore"):
        total = a + b
        part = total - a
        rest = (a - (total - part)) + (b - part)
        return numpy.where(rest <= 0, total, numpy.nextafter(total, numpy.inf))


def from_midrad(mid: Any, rad: Any) -> Interval:
    """The smallest intervals of floats that contain [mid - rad, mid + rad]; rad is not negative."""
    mid, rad = numpy.broadcast_arrays(_bounds(mid, "mid"), _bounds(rad, "rad"))
    if not (rad >= 0).all():
        raise BadArgument("rad: is negative or NaN in an element")
    if numpy.isnan(mid).any():
        raise BadArgument("mid: is NaN in an element")
    mid, rad = (x.astype(numpy.result_type(mid, rad)) for x in (mid, rad))
    return Interval(-_sum_up(-mid, rad), _sum_up(mid, rad))


def _matrix(x):
    """A dense matrix of the library."""
    return C.Matrix(x.ctypes.data, format_named(_FORMATS[x.dtype.name]), max(x.shape[1], 1), 1)


def matmul(a: Any, b: Any, context: Optional[Context] = None) -> Interval:
    """The product of two matrices, or a matrix and a vector, of intervals or of numbers.  Bounds
    are float32 if a's and b's are, else float64."""
    from . import default_context

    left, right = (x if isinstance(x, Interval) else Interval(x) for x in (a, b))
    if len(left.shape) != 2 or len(right.shape) not in (1, 2):
        raise BadArgument(f"a, b: shapes {left.shape} and {right.shape} are not of a matrix and a "
                          "matrix or vector")
    if left.shape[1] != right.shape[0]:
        raise BadArgument(f"b: shape {right.shape} does not meet a's {left.shape}")
    kind = numpy.result_type(left.inf, left.sup, right.inf, right.sup)
    shape = (left.shape[0],) + right.shape[1:]
    m, k, n = left.shape + (right.shape + (1,))[1:2]
    low, high = numpy.empty((m, n), kind), numpy.empty((m, n), kind)
    call = C.IntervalCall(m=m, n=n, k=k)
    held = []
    for name, x, rows, cols in (("a", left, m, k), ("b", right, k, n)):
        bounds = {"_low": x.inf} if x.sup is x.inf else {"_low": x.inf, "_high": x.sup}
        for end, values in bounds.items():
            held.append(numpy.ascontiguousarray(values.reshape(rows, cols)))
            setattr(call, name + end, _matrix(held[-1]))
    for name, bound in (("c_low", low), ("c_high", high)):
        setattr(call, name, C.Output(bound.ctypes.data, format_named(_FORMATS[kind.name]),
                                     max(n, 1), 1))
    context = default_context() if context is None else context
    with context._handle.use() as ctx:
        check(lib.limber_interval_gemm(ctx, byref(call), None))
    return Interval(low.reshape(shape), high.reshape(shape))
