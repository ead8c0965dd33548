# SPDX-License-Identifier: BSD-3-Clause
"""A matrix product: views of operands, their matrices, the library call."""
import ctypes
import functools
import itertools
import math
from contextlib import ExitStack
from ctypes import byref, c_void_p

from . import _library as C
from . import _repeat
from ._arguments import address, operand_view, pair_of, prepared_of, scalar_of
from ._buffer import View
from ._contraction import MATMUL, arrange, axes_of, outline, sides_of
from ._epilogue import epilogue as epilogue_of
from ._library import lib
from ._memory import dense, gathered, scattered
from ._reports import report_of
from ._results import Result, holds
from ._types import kind_of_format, numpy
from .errors import BadArgument, check


def _complex(view):
    """A complex copy of a real operand."""
    kind = None
    if numpy is not None:
        kind = next((name for name in ("f32", "f64") if holds(name, view.name)), None)
    # NumPy's default integers, which are mostly small
    if numpy is not None and view.name == "i64":
        x = view.array()
        if x.size and not -2 ** 53 <= int(x.min()) <= int(x.max()) <= 2 ** 53:
            raise BadArgument(f"{view.what}: has integers beyond 2^53, which no complex number "
                              "holds, and the other operand is complex")
        kind = "f64"
    if kind is None:
        raise BadArgument(f"{view.what}: is real, of {view.name}, which no complex number holds, "
                          "and the other operand is complex")
    made = View(view.array().astype(kind_of_format(kind, True)), view.what)
    made.copied = True
    return made


def _reach(view):
    """The address range of a view: first byte, end."""
    far = [(n - 1) * step for n, step in zip(view.shape, view.bytes)]
    return (view.data + sum(min(x, 0) for x in far),
            view.data + sum(max(x, 0) for x in far) + view.size)


def _meet(a, c):
    """Whether the address ranges of an operand and a result overlap."""
    if a.count == 0 or c.count == 0 or not a.data:      # a prepared operand has its own memory
        return False
    (a0, a1), (c0, c1) = _reach(a), _reach(c)
    return a0 < c1 and c0 < a1


class _Aside:
    """A result in temporary memory, in the layout that a product needs; put() copies it to its
    place."""

    def __init__(self, view, axes, order, extents, filled):
        self._place = view.data, [extents[x] for x in order], [axes.step[x] for x in order], \
            view.size
        self._room = gathered(*self._place) if filled else bytearray(view.count * view.size)
        self.data = ctypes.addressof((ctypes.c_char * len(self._room)).from_buffer(self._room))
        self.strides = dense(self._place[1], view.size)

    def put(self):
        """Copies the result to its place."""
        scattered(self._room, *self._place)


@functools.lru_cache(maxsize=4096)
def _arrangement(spell, argument, a_shape, a_strides, b_shape, b_strides, c_strides, size,
                 together):
    """(outline, arrangement, whether the library can write the result in place)."""
    o = outline(spell, argument, a_shape, b_shape)
    a, b = sides_of(o, a_shape, a_strides, b_shape, b_strides)
    c = axes_of(o.order, o.shape, c_strides)
    found = arrange(o, a, b, c, together)
    return o, found, math.prod(o.shape) == 0 or _in_place(o, found, c, size)


def _in_place(o, found, c, size):
    """Whether rows and columns are one axis each, and matrices given by addresses do not overlap,
    as the library requires."""
    if None in found.c:
        return False
    reach = size + sum((o.extents[x] - 1) * c.step[x] for x in found.rows[0] + found.columns[1])
    return len(found.loops) < 2 or min(steps[2] for _, steps in found.loops) >= reach


def _residue(x, modulus):
    """A whole number's symmetric residue, which the result's format holds; else x itself."""
    return (x + modulus // 2) % modulus - modulus // 2 if isinstance(x, int) else x


class Product:
    """Two operands, a result, and the mapping of their axes to matrices."""

    def __init__(self, context, held, a, b, labels, contract, scheme, slices, format, dtype, out,
                 alpha, beta, result, together):
        self.contract = context._wish(contract, scheme, slices)
        formats = pair_of(format)
        self.ctx = held.enter_context(context._handle.use())
        self.prepared = [prepared_of(held, x) for x in (a, b)]
        views = [operand_view(held, x, what, name, gpu=True)
                 for x, what, name in zip((a, b), "ab", formats)]
        if views[0].pairs != views[1].pairs:
            real = int(views[0].pairs)
            views[real] = held.enter_context(_complex(views[real]))
        self.a, self.b = views
        self.pairs = views[0].pairs
        shapes = outline(*labels, views[0].shape, views[1].shape)
        if any(self.prepared) and (shapes.whole or self.pairs):
            raise BadArgument("prepared operands are for real products by matmul")
        self.result = Result(held, shapes.shape, views, formats, dtype, out, result)
        self.c = self.result.view
        self._check_device(context)
        if self.contract.modulus:
            alpha, beta = (_residue(x, self.contract.modulus) for x in (alpha, beta))
        self.alpha = scalar_of(alpha, 1, self.c, "alpha")
        self.beta = scalar_of(beta, 0, self.c, "beta")
        self._arrange(labels, together)

    def _check_device(self, context):
        """Requires all three tensors to be on the context's GPU."""
        devices = [view.device for view in (self.a, self.b, self.c)]
        if devices == [None, None, None]:
            return
        for what, device in zip(("a", "b", "out"), devices):
            if device is None:
                raise BadArgument(f"{what}: lies in host memory, and others of the product on a "
                                  "GPU")
        where = f"device {context.device}" if context.on_gpu() else "CPUs"
        for what, device in zip(("a", "b", "out"), devices):
            if where != f"device {device}":
                raise BadArgument(f"{what}: lies on CUDA device {device}, and the context computes "
                                  f"on {where}: Context(backend=\"cuda\", device={device}) "
                                  "computes there")

    def _arrange(self, labels, together):
        """Maps axes to matrices; copies operands that are no matrices in place."""
        a, b, c = self.a, self.b, self.c
        self.data, self.aside = c.data, None
        o, found, in_place = _arrangement(*labels, a.shape, a.bytes, b.shape, b.bytes, c.bytes,
                                          c.size, together)
        self.shapes, self._outline, self._found, self._together = found, o, found, together
        self._sides = None
        self.stack = tuple(o.extents[x] for x in found.stack)
        if not in_place or None in found.a or None in found.b:
            self._place(in_place)

    def _place(self, in_place):
        """Copies operands that are not matrices.  Has the result written in place, or to temporary
        memory from which run() copies it."""
        a, b, c, o, found = self.a, self.b, self.c, self._outline, self._found
        if self._sides is None:
            sides = sides_of(o, a.shape, a.bytes, b.shape, b.bytes)
            self._sides = [_rearranged(*side, o.extents, found.stack) for side in
                           ((a, sides[0], found.a, found.rows),
                            (b, sides[1], found.b, found.columns))]
        places = axes_of(o.order, o.shape, c.bytes)
        if not in_place:
            c.stays()
            order = found.stack + found.rows[0] + found.columns[1]
            self.aside = _Aside(c, places, order, o.extents, self.beta is not None)
            self.data = self.aside.data
            places = axes_of(order, self.aside.strides, self.aside.strides)
        self.shapes = arrange(o, *self._sides, places, self._together)

    def set_aside(self):
        """Called after run() was refused: if the result may overlap an operand, makes it temporary
        and returns True, since run() may now succeed."""
        a, b, c = self.a, self.b, self.c
        if self.aside or c.device is not None or not self.result.given or \
                not (_meet(a, c) or _meet(b, c)):
            return False
        self._place(False)
        return True

    def problem(self):
        """The limber_problem of the product, without its batch and epilogue."""
        s = self.shapes
        return C.Problem(m=s.m, n=s.n, k=s.k,
                         a=_matrix(C.Matrix, self.a, self.a.data, s.a, s.m, s.k),
                         b=_matrix(C.Matrix, self.b, self.b.data, s.b, s.k, s.n),
                         c=_matrix(C.Output, self.c, self.data, s.c, s.m, s.n),
                         alpha=address(self.alpha), beta=address(self.beta),
                         contract=ctypes.pointer(self.contract))

    def _batch(self, problem):
        """The stack as a batch: constant strides if it is one loop, else the address of every
        matrix."""
        loops = self.shapes.loops
        sizes = self.a.size, self.b.size, self.c.size
        if len(loops) == 1:
            return C.Batch(loops[0][0], *(step // size for step, size in zip(loops[0][1], sizes)))
        extents = [extent for extent, _ in loops]
        return C.Batch(math.prod(extents), 0, 0, 0, *[
            _addresses(matrix.data or 0, extents, [steps[i] for _, steps in loops])
            for i, matrix in enumerate((problem.a, problem.b, problem.c))])

    def run(self, report, epilogue, conj_a, conj_b, plan=None):
        """Computes the product, by the text of a plan if there is one."""
        self.result.check_beta(self.beta)
        problem = self.problem()
        problem.domain = int(self.pairs)
        problem.conjugate = (1 if conj_a else 0) | (2 if conj_b else 0) if self.pairs else 0
        problem.prepared_a, problem.prepared_b = self.prepared
        problem.epilogue = epilogue
        if self.shapes.loops:
            batch = self._batch(problem)
            problem.batch = ctypes.pointer(batch)
        if plan is None:
            check(lib.limber_run(self.ctx, byref(problem), report and byref(report)))
        else:
            problem.contract = None
            check(lib.limber_run_plan(self.ctx, plan, byref(problem), report and byref(report)))
        if self.aside:
            self.aside.put()
        return problem

    def plan(self):
        """The plan of the product, as text."""
        if self.pairs or self.shapes.loops:
            raise BadArgument("plans are of two real matrices")
        text = c_void_p()
        check(lib.limber_plan(self.ctx, byref(self.problem()), byref(text), None))
        try:
            return ctypes.string_at(text).decode(errors="replace")
        finally:
            lib.limber_free(text)


def _rearranged(view, axes, strides, groups, extents, stack):
    """The axes of an operand; it is copied unless each group of labels is already one axis."""
    if None not in strides:
        return axes
    order = [x for x in stack if x in axes.extent] + groups[0] + groups[1]
    shape = [extents[x] for x in order]
    view.gather(shape, [axes.step.get(x, 0) for x in order])
    return axes_of(order, shape, view.bytes)


def _matrix(kind, view, data, strides, rows, columns):
    """A limber_matrix (or limber_output) from strides in bytes; an axis of one element gets the
    stride that it would have in a dense matrix."""
    if view.count == 0:
        return kind(None, view.format, max(columns, 1), 1)
    return kind(data, view.format, strides[0] // view.size if rows > 1 else max(columns, 1),
                strides[1] // view.size if columns > 1 else 1)


def _addresses(data, extents, steps):
    """An array of the addresses of all matrices, in C order."""
    if numpy is None:
        places = [data + sum(i * s for i, s in zip(at, steps))
                  for at in itertools.product(*map(range, extents))]
        return (c_void_p * len(places))(*places)
    places = numpy.full(extents, data, numpy.uint64)
    for axis, (extent, step) in enumerate(zip(extents, steps)):
        along = numpy.arange(extent, dtype=numpy.uint64) * numpy.uint64(step)
        places += along.reshape([-1] + [1] * (len(extents) - axis - 1))
    return (c_void_p * places.size).from_buffer(places)


def multiply(context, a, b, labels, contract=None, out=None, alpha=1, beta=0, scheme=None,
             report=False, format=None, dtype=None, slices=0, conj_a=False, conj_b=False,
             epilogue=None, inputs=None, nan_to_zero=False, result="numpy", plan=None):
    """Multiplies two operands by a labelling function of _contraction with its argument;
    Context.matmul and Context.run_plan describe the rest."""
    key = None
    if not report and plan is None and epilogue is None and inputs is None and not nan_to_zero:
        key = _repeat.key_of(a, b, labels, contract, out, alpha, beta, (
            scheme, format, dtype, slices, conj_a, conj_b, result, context.contract,
            context.background))
        like = key and _repeat.kept(context._repeats, key)
        others = None
        if key and not like and labels is MATMUL:       # products of other shapes?
            others = _repeat.matrices_key(key, a, b, out)
            like = others and _repeat.kept(context._repeats, others)
        made = like and like.run(context._handle, a, b, out)
        if made is not None:
            return made
    with ExitStack() as held:
        p = Product(context, held, a, b, labels, contract, scheme, slices, format, dtype, out,
                    alpha, beta, result, together=not inputs)
        r = C.Report() if report else None
        problem = None
        while problem is None:
            steps = epilogue_of(held, epilogue, inputs, nan_to_zero,
                                product=(p.stack, p.shapes.m, p.shapes.n))
            try:
                problem = p.run(r, steps, conj_a, conj_b, plan)
            except BadArgument:     # the result may overlap an operand
                if not p.set_aside():
                    raise
        made = p.result.returned_value()
        if key and not p.aside and p.a.source is a and p.b.source is b:
            kept = (p.a, p.b, p.c), p.result, problem, (p.contract, p.alpha, p.beta)
            _repeat.keep(context._repeats, key, *kept)
            if others and all(map(_repeat.has_own_elements, (p.a, p.b, p.c))):
                _repeat.keep(context._repeats, others, *kept, kind=_repeat.AnyMatrices)
    return (made, report_of(r)) if report else made


def plan(context, a, b, labels, contract, alpha, beta, scheme, format, dtype, slices):
    """The text of the plan of multiply's product."""
    with ExitStack() as held:
        return Product(context, held, a, b, labels, contract, scheme, slices, format, dtype, None,
                       alpha, beta, "numpy", False).plan()
