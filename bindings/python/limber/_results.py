# SPDX-License-Identifier: BSD-3-Clause
"""Results: their formats, their arrays, and how they are returned."""
import functools

from ._arguments import format_of_dtype, view_of
from ._buffer import View, carrier, new_array
from ._facts import finfo
from ._memory import Exported
from ._types import dlpack_of_kind, kind_of_format
from .errors import BadArgument
from .quad import Quad

_BYTES = ("i8", "u8", "i4", "i2")
_AS_FLOAT = {**dict.fromkeys(_BYTES, "f16"), "i16": "f32", "i32": "f64", "i64": "f64"}
_HOLDERS = ("f16", "f32", "f64", "f128")
RESULTS = ("numpy", "dlpack")


@functools.lru_cache(maxsize=None)
def holds(large, small):
    """Whether every number of a float format is a number of another."""
    a, b = finfo(large), finfo(small)
    return a.significant_bits >= b.significant_bits and \
        a.largest_exponent >= b.largest_exponent and a.smallest_exponent <= b.smallest_exponent


@functools.lru_cache(maxsize=None)
def result_format(a, b):
    """The format of a product without a dtype: the wider of the two, or the smallest that
    represents both; never a power-of-two format, which no result can have."""
    if a[0] in "iu" and b[0] in "iu":
        return "i32" if a in _BYTES and b in _BYTES else "i64"
    own = [name for name in (a, b) if name != "e8m0"]
    if a == b and own:
        return a
    a, b = _AS_FLOAT.get(a, a), _AS_FLOAT.get(b, b)
    return next(name for name in (*map(lambda x: _AS_FLOAT.get(x, x), own), *_HOLDERS)
                if holds(name, a) and holds(name, b))


def _format_of_out(out, a, b):
    """The format that an out array implies: integers hold bits of the operands' format."""
    if out is None:
        return None
    if isinstance(out, Quad):
        return "f128"
    try:
        with View(out, "out", writable=True, gpu=True) as view:
            own = view.name
    except BadArgument:
        if a is None or a != b:
            raise
        return a
    return a if a == b and a is not None and own[0] in "iu" else own


class Result:
    """The place of a result: an array given as out, or a new one."""

    def __init__(self, held, shape, views, formats, dtype, out, result):
        if result not in RESULTS:
            raise BadArgument(f"result = {result!r} is none of {', '.join(RESULTS)}")
        name, is_complex, typed = format_of_dtype(dtype)
        self.pairs = any(view.pairs for view in views)
        if is_complex and not self.pairs:
            raise BadArgument("dtype: a product of real numbers is real")
        self.name = name or _format_of_out(out, *formats) or \
            result_format(*(view.name for view in views))
        self.given = out is not None
        if not self.given and any(view.device is not None for view in views):
            raise BadArgument("out: is not given, and operands lie on a GPU: name a tensor there")
        self.result, self.shape = result, shape
        self.kind = kind_of_format(self.name, self.pairs) or carrier(self.name)
        self.array = out if self.given else \
            self._new(typed or any(view.typed for view in views))
        plain = self.pairs or isinstance(self.array, Quad)
        self.view = held.enter_context(view_of(self.array, "out", None if plain else self.name,
                                               writable=True, gpu=True))
        self._check()

    def _new(self, typed):
        """A new array for the result."""
        if self.result == "dlpack" and (self.name in ("dd", "f128") or
                                        dlpack_of_kind(self.kind) is None):
            raise BadArgument(f"result = 'dlpack': {self.name} has no type in DLPack")
        made = new_array(self.shape, self.name, self.pairs, typed and self.result == "numpy")
        return Quad.of_words(made) if self.name == "f128" else made

    def _check(self):
        """Requires the shape of the result, and complex numbers only for a complex result."""
        view = self.view
        if view.shape != self.shape:
            raise BadArgument(f"out: shape {view.shape}, the result's is {self.shape}")
        if view.pairs != self.pairs:
            raise BadArgument(f"out: is {'real' if self.pairs else 'complex'}, the result is not")

    def check_beta(self, beta):
        """Refuses a beta without an array that it would scale."""
        if beta is not None and not self.given:
            raise BadArgument("beta: it scales what out holds, and no out is given")

    def returned_value(self):
        """Returns the result.  A product of two vectors becomes a number, unless out was given."""
        if self.given:
            return self.array
        if self.result == "dlpack":
            return Exported(self.array, self.kind)
        if self.shape or isinstance(self.array, Quad):
            return self.array
        return self.array[()]
