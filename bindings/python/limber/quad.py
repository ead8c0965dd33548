# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of binary128, which neither Python nor NumPy has."""
from __future__ import annotations

import ctypes
import itertools
import math
import numbers
from fractions import Fraction
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from . import _binary128
from ._binary128 import decode, encode, to_string
from ._buffer import View, new_array
from ._library import lib
from ._types import numpy
from ._typing import Array
from .errors import BadArgument, check

Axes = Union[None, int, Sequence[int]]


def _flatten(values, shape):
    """The numbers of nested lists, in order; `shape` receives the extents."""
    if isinstance(values, (list, tuple)):
        shape.append(len(values))
        inner, all_of = None, []
        for value in values:
            this = []
            all_of += _flatten(value, this)
            if inner is not None and this != inner:
                raise BadArgument("the rows are of unequal lengths")
            inner = this
        shape += inner or []
        return all_of
    return [values]


def _bits(quad):
    """Each number as an integer of 128 bits, in C order."""
    words = memoryview(memoryview(quad.words).tobytes()).cast("Q").tolist()
    return [low | high << 64 for low, high in zip(words[::2], words[1::2])]


def _of_bits(bits, shape):
    """A Quad of integers of 128 bits, the reverse of _bits."""
    made = Quad.zeros(shape)
    if math.prod(shape):
        memoryview(made.words).cast("B")[:] = b"".join([x.to_bytes(16, "little") for x in bits])
    return made


def _is_array(x):
    """Whether x is an array that a View takes exactly as numbers."""
    kind = getattr(getattr(x, "dtype", None), "kind", None)
    if kind == "u" and x.dtype.itemsize == 8:   # includes numbers beyond 2^63
        return False
    return kind in tuple("biufcV") or isinstance(x, (memoryview, Quad)) or \
        (kind is None and hasattr(x, "__dlpack__"))


def _words_of(array):
    """New words of binary128 from an array that a View takes."""
    source, name = (array.words, "f128") if isinstance(array, Quad) else (array, None)
    with View(source, "values", name) as view:
        if view.pairs:
            raise BadArgument("values: complex numbers are none of binary128")
        view.dense()
        words = new_array(view.shape, "f128")
        with View(words, "words", "f128", writable=True) as to:
            if view.count:
                check(lib.limber_convert(to.data, to.format, view.data, view.format, view.count, 0))
    return words


def _as_quad(x):
    """The other operand of an operation as a Quad, or None."""
    if isinstance(x, Quad):
        return x
    if isinstance(x, (numbers.Number, list, tuple)) or hasattr(x, "_mpf_") or \
            hasattr(x, "tolist"):
        return Quad(x)
    return None


def _spread(flat, own, shape):
    """An array's elements in C order, broadcast to another shape."""
    if own == shape:
        return flat
    own = (1,) * (len(shape) - len(own)) + own
    steps, step = [], 1
    for extent in reversed(own):
        steps.insert(0, step if extent > 1 else 0)
        step *= extent
    return [flat[sum(i * s for i, s in zip(at, steps))]
            for at in itertools.product(*map(range, shape))]


def _shape_of_both(a, b):
    """The shape to which two shapes are broadcast."""
    shape = []
    for x, y in itertools.zip_longest(a[::-1], b[::-1], fillvalue=1):
        if x != y and 1 not in (x, y):
            raise BadArgument(f"shapes {a} and {b} do not match")
        shape.insert(0, x if y == 1 else y)
    return tuple(shape)


def _pairwise(function, a, b):
    """The results of a function on the bits of two broadcast arrays, and the shape."""
    shape = _shape_of_both(a.shape, b.shape)
    return map(function, *(_spread(_bits(x), x.shape, shape) for x in (a, b))), shape


def _operator(function: Callable[[int, int], int],
              swapped: bool = False) -> Callable[[Quad, Any], Quad]:
    """A method for an operator; swapped: for the one whose second operand is the Quad, such as
    __radd__."""
    def method(self: Quad, other: Any) -> Quad:
        other = _as_quad(other)
        if other is None:
            return NotImplemented
        return _of_bits(*_pairwise(function, *((other, self) if swapped else (self, other))))
    return method


def _excesses(x):
    """The signs of the rounding errors in converting numbers that are compared with a Quad."""
    if _is_array(x):
        return [0] * math.prod(x.shape)
    flat = _flatten(x.tolist() if hasattr(x, "tolist") else x, [])
    return [_binary128.excess(y) for y in flat]


def _comparison(*orders: Optional[int]) -> Callable[[Quad, Any], Any]:
    """A comparison method that is true for these orders.  Numbers that no Quad represents are
    compared exactly.  Arrays of answers are NumPy's, or nested lists."""
    def method(self: Quad, other: Any) -> Any:
        quad = _as_quad(other)
        if quad is None:
            return NotImplemented
        found, shape = _pairwise(_binary128.compare, self, quad)
        ties = _spread(_excesses(other), quad.shape, shape)
        return _shaped([(tie if order == 0 else order) in orders
                        for order, tie in zip(found, ties)], shape)
    return method


def _shaped(answers, shape):
    """Answers as one bool, a NumPy array, or nested lists."""
    if not shape:
        return answers[0]
    return _nest(answers, shape) if numpy is None else numpy.array(answers, bool).reshape(shape)


def _put(out, made):
    """Copies a result into the array given as out."""
    if isinstance(made, Quad) != isinstance(out, Quad) or tuple(out.shape) != \
            tuple(getattr(made, "shape", ())):
        raise BadArgument("out: is no array of the result's kind and shape")
    if isinstance(made, Quad):
        out.words[...] = made.words
    else:
        out[...] = made
    return out


# NumPy's functions: the method for a Quad as first operand, and that for a Quad as second operand
# only.
_UFUNCS = {"add": ("__add__", "__radd__"), "subtract": ("__sub__", "__rsub__"),
           "multiply": ("__mul__", "__rmul__"), "divide": ("__truediv__", "__rtruediv__"),
           "true_divide": ("__truediv__", "__rtruediv__"),
           "equal": ("__eq__", "__eq__"), "not_equal": ("__ne__", "__ne__"),
           "less": ("__lt__", "__gt__"), "less_equal": ("__le__", "__ge__"),
           "greater": ("__gt__", "__lt__"), "greater_equal": ("__ge__", "__le__"),
           "matmul": ("__matmul__", "__rmatmul__"), "negative": ("__neg__",),
           "positive": ("__pos__",), "absolute": ("__abs__",), "fabs": ("__abs__",),
           "power": ("__pow__",), "sqrt": ("sqrt",), "square": ("square",),
           "isnan": ("isnan",), "isinf": ("isinf",), "isfinite": ("isfinite",),
           "signbit": ("signbit",)}


class Quad:
    """An array of binary128.  `words` is its memory: pairs of 64-bit words, the low one first, in a
    NumPy array (..., 2), or a memoryview where NumPy is absent."""

    def __init__(self, values: Any) -> None:
        """From a number or nested lists of ints, Fractions, Decimals, decimal strings and floats,
        long doubles and those of mpmath among them, or an array; each is rounded once, to
        nearest-even.  Arrays of floats and of integers are taken exactly."""
        if _is_array(values):
            self.words = _words_of(values)
            return
        if hasattr(values, "tolist"):       # of objects, mpmath's matrices
            values = values.tolist()
        shape: List[int] = []
        flat = _flatten(values, shape)
        self.words = _of_bits([encode(x) for x in flat], shape).words

    @classmethod
    def of_words(cls, words: Any) -> Quad:
        """An array around memory that holds binary128 already; nothing is copied."""
        made = cls.__new__(cls)
        made.words = words
        return made

    @classmethod
    def zeros(cls, shape: Sequence[int]) -> Quad:
        """An array of zeros."""
        return cls.of_words(new_array(shape, "f128"))

    @classmethod
    def from_pairs(cls, hi: Array, lo: Array = None) -> Quad:
        """hi + lo of two arrays of doubles (lo None: zeros), rounded once to nearest-even."""
        with View(hi, "hi") as high:
            if high.name != "f64" or high.pairs:
                raise BadArgument("hi: expected doubles")
            high.dense()
            pairs = new_array(high.shape, "dd")
            made = cls.zeros(high.shape)
            if not high.count:
                return made
            flat = memoryview(pairs).cast("B").cast("d")
            flat[0::2] = _doubles(high)
            if lo is not None:
                with View(lo, "lo") as low:
                    if low.name != "f64" or low.pairs or low.shape != high.shape:
                        raise BadArgument("lo: expected doubles, as many as of hi")
                    low.dense()
                    flat[1::2] = _doubles(low)
        _convert(made.words, "f128", pairs, "dd")
        return made

    def to_pairs(self) -> Tuple[Any, Any]:
        """Two arrays of doubles: hi, the nearest one, and lo, the nearest to what is left."""
        pairs = new_array(self.shape, "dd")
        hi, lo = new_array(self.shape, "f64"), new_array(self.shape, "f64")
        if math.prod(self.shape):
            _convert(pairs, "dd", self.words, "f128")
            flat = memoryview(pairs).cast("B").cast("d")
            memoryview(hi).cast("B").cast("d")[:] = flat[0::2]
            memoryview(lo).cast("B").cast("d")[:] = flat[1::2]
        return hi, lo

    @property
    def shape(self) -> Tuple[int, ...]:
        """The extents of the axes."""
        return tuple(self.words.shape[:-1])

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def reshape(self, *shape: Any) -> Quad:
        """The numbers in another shape, as numpy.reshape has it."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if numpy is not None:
            return Quad.of_words(self.words.reshape(*wanted, 2))
        if math.prod(wanted) != self.size:
            raise BadArgument(f"shape {tuple(wanted)} does not have {self.size} numbers")
        return _of_bits(_bits(self), tuple(wanted))

    @property
    def T(self) -> Quad:
        """The transpose; the same memory (NumPy)."""
        axes = range(self.words.ndim - 1)
        return Quad.of_words(self.words.transpose(*reversed(axes), self.words.ndim - 1))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a Quad of no axes has no length")
        return self.shape[0]

    def __getitem__(self, where: Any) -> Quad:
        """A part of the array, of the same memory (NumPy)."""
        where = where if isinstance(where, tuple) else (where,)
        if Ellipsis not in where:
            where += (Ellipsis,)
        return Quad.of_words(self.words[where + (slice(None),)])

    def item(self) -> Union[Fraction, float]:
        """The one number: a Fraction; a float where it is -0, infinite or NaN."""
        if math.prod(self.shape) != 1:
            raise BadArgument(f"an array of shape {self.shape} is not one number")
        return _numbers(self)[0]

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Objects, or numbers of a type, each rounded once, to the nearest."""
        if copy is False:
            raise ValueError("a Quad's numbers are copied into an array")
        kind = numpy.dtype(object if dtype is None else dtype)
        made = numpy.empty(self.shape, object)
        each = _longdouble if kind == numpy.longdouble else Quad
        for i, x in enumerate(_numbers(self)):
            made.flat[i] = each(x)
        return made.astype(kind)

    def to_fractions(self) -> Any:
        """Nested lists of Fractions; floats where a number is -0, infinite or NaN."""
        return _nest(_numbers(self), self.shape)

    def to_strings(self, digits: int = 36) -> Any:
        """Nested lists of decimal strings."""
        return _nest([to_string(x, digits) for x in _numbers(self)], self.shape)

    def __matmul__(self, other: Array) -> Any:
        from . import matmul
        return matmul(self, other)

    def __rmatmul__(self, other: Array) -> Any:
        from . import matmul
        return matmul(other, self)

    def sum(self, axis: Axes = None, dtype: None = None, out: Optional[Quad] = None,
            keepdims: bool = False) -> Quad:
        """The sums over axes (None: all), each exact and then rounded once."""
        return self._total(axis, dtype, out, keepdims, False)

    def mean(self, axis: Axes = None, dtype: None = None, out: Optional[Quad] = None,
             keepdims: bool = False) -> Quad:
        """The means over axes (None: all), each rounded once."""
        return self._total(axis, dtype, out, keepdims, True)

    def _total(self, axis, dtype, out, keepdims, mean):
        """Sums or means over axes."""
        if dtype is not None:
            raise BadArgument(f"dtype = {dtype!r}: sums of Quads are Quads")
        rank = len(self.shape)
        over = range(rank) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
        if any(not -rank <= x < rank for x in over):
            raise BadArgument(f"axis = {axis!r}: the array has {rank} axes")
        over = {x % rank for x in over}
        left = [x for x in range(rank) if x not in over]
        shape = [1 if x in over else self.shape[x] for x in range(rank) if keepdims or x in left]
        sums = [[] for _ in range(math.prod(self.shape[x] for x in left))]
        places = itertools.product(*map(range, self.shape))
        for at, bits in zip(places, _bits(self)):
            place = 0
            for x in left:
                place = place * self.shape[x] + at[x]
            sums[place].append(bits)
        made = _of_bits([_binary128.total(x, len(x) if mean else 1) for x in sums], tuple(shape))
        return made if out is None else _put(out, made)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None,
                        **options: Any) -> Any:
        """NumPy's functions that have a meaning here, of Quads among other operands."""
        name, out = ufunc.__name__, out[0] if out else None
        if method == "reduce" and name == "add":
            chosen: Any = {"axis": 0, **options, "out": out}
            return inputs[0].sum(**chosen)
        methods = _UFUNCS.get(name) if method == "__call__" else None
        if not methods:
            raise TypeError(f"numpy.{name} of Quads is not served" +
                            f", nor is its {method}" * (method != "__call__"))
        if options:
            raise TypeError(f"numpy.{name} of Quads: {next(iter(options))} is not served")
        if name == "matmul":
            from . import matmul
            return matmul(inputs[0], inputs[1], out=out)
        first = isinstance(inputs[0], Quad)
        owner, others = (inputs[0], inputs[1:]) if first else (inputs[1], inputs[:1])
        made: Any = getattr(owner, methods[not first])(*others)
        return made if out is None or made is NotImplemented else _put(out, made)

    def _tests(self, what):
        """Answers to a question about each number: `what` gets the bits without and with the
        sign."""
        return _shaped([what(x & ~_binary128.SIGN, x) for x in _bits(self)], self.shape)

    def isnan(self) -> Any:
        """Which numbers are NaN."""
        return self._tests(lambda magnitude, _: magnitude > _binary128.INF)

    def isinf(self) -> Any:
        """Which numbers are infinite."""
        return self._tests(lambda magnitude, _: magnitude == _binary128.INF)

    def isfinite(self) -> Any:
        """Which numbers are neither infinite nor NaN."""
        return self._tests(lambda magnitude, _: magnitude < _binary128.INF)

    def signbit(self) -> Any:
        """Which numbers have their sign bit set."""
        return self._tests(lambda _, bits: bits >= _binary128.SIGN)

    def square(self) -> Quad:
        """The squares, rounded once."""
        return self * self

    __hash__ = None             # type: ignore[assignment]  # an array, as NumPy's

    def __bool__(self) -> bool:
        """Of one number: whether it is not 0."""
        if math.prod(self.shape) != 1:
            raise BadArgument(f"an array of shape {self.shape} is neither true nor false")
        return _bits(self)[0] & ~_binary128.SIGN != 0

    def __neg__(self) -> Quad:
        return _of_bits([x ^ _binary128.SIGN for x in _bits(self)], self.shape)

    def __pos__(self) -> Quad:
        return _of_bits(_bits(self), self.shape)

    def __abs__(self) -> Quad:
        return _of_bits([x & ~_binary128.SIGN for x in _bits(self)], self.shape)

    def sqrt(self) -> Quad:
        """The square roots, rounded once; NaN of what is below 0."""
        return _of_bits(map(_binary128.square_root, _bits(self)), self.shape)

    def __pow__(self, power: int) -> Quad:
        """Whole powers from -64 to 64, each rounded once."""
        if not isinstance(power, numbers.Integral) or not -64 <= power <= 64:
            raise BadArgument(f"power = {power!r}: Quads have whole powers from -64 to 64")
        return _of_bits([_binary128.power(x, int(power)) for x in _bits(self)], self.shape)

    __add__ = _operator(_binary128.add)
    __radd__ = _operator(_binary128.add, swapped=True)
    __sub__ = _operator(_binary128.subtract)
    __rsub__ = _operator(_binary128.subtract, swapped=True)
    __mul__ = _operator(_binary128.multiply)
    __rmul__ = _operator(_binary128.multiply, swapped=True)
    __truediv__ = _operator(_binary128.divide)
    __rtruediv__ = _operator(_binary128.divide, swapped=True)
    __eq__ = _comparison(0)
    __ne__ = _comparison(-1, 1, None)
    __lt__ = _comparison(-1)
    __le__ = _comparison(-1, 0)
    __gt__ = _comparison(1)
    __ge__ = _comparison(0, 1)

    def __repr__(self) -> str:
        return f"Quad({self.to_strings()!r})"


def _numbers(quad):
    """The numbers as decode gives them."""
    return [decode(x) for x in _bits(quad)]


def _longdouble(x):
    """The nearest long double, whatever its format on this machine."""
    if isinstance(x, float) or x == 0:
        return numpy.longdouble(x)
    about = numpy.finfo(numpy.longdouble)
    exponent = max(x.numerator.bit_length() - x.denominator.bit_length(), about.minexp + 1)
    last = exponent - about.nmant - 1       # at least one bit more than needed
    size = abs(x) / Fraction(2) ** last
    while size >= 1 << (about.nmant + 1):
        size /= 2
        last += 1
    whole = round(size)
    sign = -1 if x < 0 else 1
    high, low = divmod(whole, 1 << 50)
    return numpy.ldexp(numpy.longdouble(sign * high) * (1 << 50) + sign * low, last)


def _nest(flat, shape):
    """Nested lists of this shape from one list."""
    for extent in reversed(shape[1:]):
        flat = [flat[at:at + extent] for at in range(0, len(flat), extent)] if extent else []
    return flat if shape else flat[0]


def _doubles(view):
    """The doubles of a dense view."""
    return memoryview(ctypes.string_at(view.data, 8 * view.count)).cast("d")


def _convert(to, to_name, source, from_name):
    """Converts elements from one array to another of the same shape."""
    with View(to, "to", to_name, writable=True) as t, View(source, "from", from_name) as f:
        f.dense()
        check(lib.limber_convert(t.data, t.format, f.data, f.format, f.count, 0))
