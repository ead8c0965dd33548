# SPDX-License-Identifier: BSD-3-Clause
"""Contexts and what they do."""
import ctypes
import itertools
import os
import threading
from collections import namedtuple
from contextlib import ExitStack, contextmanager
from ctypes import byref, c_int64, c_size_t, c_void_p
from fractions import Fraction

from . import _library as C
from ._buffer import View, dense, format_named, new_array, numpy
from ._epilogue import epilogue as _epilogue
from ._library import lib
from .errors import BadArgument, check
from .quad import Quad, encode

_PROMISES = {"native": 0, "bits": 1, "correct": 2, "exact": 3, "fast": 4, "simulate": 5,
             "reproducible": 6}
_SIDES = {True: 0, False: 1}     # limber_side of left
_RANK = ["f16", "f32", "f64", "dd", "f128"]
_AS_FLOAT = {"i8": "f16", "u8": "f16", "i16": "f32", "i32": "f64", "i64": "f64"}

Report = namedtuple("Report", [name if name != "from" else "found" for name, _ in C.Report._fields_
                               if name not in ("size", "part", "part_room", "part_size")])
Report.__doc__ = """What a call did, as limber_report has it; `found` is 0 for a kernel compiled
now, 1 for one from disk, 2 from memory, 3 where the interpreter computed rows, 4 for a prebuilt
one used for the first time; `parts` the Parts of a mixed product."""
Part = namedtuple("Part", [name for name, _ in C.Part._fields_])
Tile = namedtuple("Tile", [name for name, _ in C.Tile._fields_])
Inspection = namedtuple("Inspection", [name for name, _ in C.Inspection._fields_
                           if name not in ("size", "tile", "tile_rows", "tile_cols")] + ["tiles"])
Inspection.__doc__ = """What limber.inspect found; `tiles` is a list of rows of Tiles, 64 x 64
elements each."""
FormatFacts = namedtuple("FormatFacts", [name for name, _ in C.FormatFacts._fields_
                                         if name != "size"])
CacheInfo = namedtuple("CacheInfo", [name for name, _ in C.CacheInfo._fields_ if name != "size"])
CacheEntry = namedtuple("CacheEntry", [name for name, _ in C.CacheEntry._fields_])


def _plain(value):
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return tuple(value) if isinstance(value, ctypes.Array) else value


def _tuple(kind, made, **other):
    values = [other.pop(name) if name in other else _plain(getattr(made, name))
              for name in kind._fields]
    return kind(*values)


def _report(r):
    parts = tuple(_tuple(Part, r.part[i]) for i in range(r.parts))
    return _tuple(Report, r, found=getattr(r, "from"), parts=parts)


def _rows(row_at):
    """The rows of a table of the library's: up to the first that is NULL."""
    return itertools.takewhile(bool, map(row_at, itertools.count()))


_FORMATS = tuple(name.decode() for name in _rows(lib.limber_format_at))


def formats():
    """The names of formats, beside "(1,e,m)"."""
    return list(_FORMATS)


def finfo(name):
    """What a format can hold, as numpy.finfo has it of NumPy's types: a FormatFacts, for example
    limber.finfo("bf16").epsilon.  Fields are those of limber_format_facts in limber/format.h."""
    facts = C.FormatFacts()
    check(lib.limber_format_describe(format_named(name), byref(facts)))
    return FormatFacts(*(bool(getattr(facts, field)) if field.startswith("has_") else
                         getattr(facts, field) for field in FormatFacts._fields))


def spacing(name, exponent):
    """The distance of a format's neighbours in [2^exponent, 2^(exponent+1))."""
    found = ctypes.c_int()
    check(lib.limber_format_spacing(format_named(name), exponent, byref(found)))
    return 2.0 ** found.value


def schemes():
    """The schemes: {name: a line about it}."""
    return {scheme.contents.name.decode(): scheme.contents.about.decode()
            for scheme in _rows(lib.limber_scheme_at)}


def _contract(text, scheme, slices, background=False):
    word, _, value = str(text).partition("=")
    if word not in _PROMISES or (word in ("bits", "simulate")) != bool(value):
        raise BadArgument(f"contract = {text!r} is none of native, reproducible, bits=N, correct, "
                          "exact, fast, simulate=UNIT")
    made = C.Contract(promise=_PROMISES[word], slices=slices, on_miss=int(background),
                      scheme=str(scheme).encode() if scheme else None)
    if word == "bits":
        if not value.isdecimal() or len(value) > 6:
            raise BadArgument(f"contract = {text!r}: bits is no number")
        made.bits = int(value)
    if word == "simulate":
        unit = C.Unit()
        check(lib.limber_unit_parse(value.encode(), byref(unit)))
        made.unit = ctypes.pointer(unit)
    return made


class _Handle:
    """Something of the library's that ends when it is closed and no call uses it any more."""

    def __init__(self, pointer, end, what):
        self._pointer, self._end, self._what = pointer, end, what
        self._lock, self._users, self._closed = threading.Lock(), 0, False

    @contextmanager
    def use(self):
        self.acquire()
        try:
            yield self._pointer
        finally:
            self.release()

    def acquire(self):
        with self._lock:
            if self._closed:
                raise BadArgument(f"{self._what} is closed")
            self._users += 1

    def release(self):
        self._leave(1, False)

    def close(self):
        self._leave(0, True)

    def _leave(self, users, closing):
        with self._lock:
            first = closing and not self._closed
            self._users -= users
            self._closed = self._closed or closing
            over = self._closed and self._users == 0 and (first or users)
        if over:
            self._end(self._pointer)


class _Closing:
    """Ends by close(), by a `with` block, or with the last reference to it."""

    def close(self):
        """Ends it when no call, and nothing that was made from it, uses it any more."""
        self._handle.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if hasattr(self, "_handle"):
            self._handle.close()


class Operand(_Closing):
    """A matrix that meets many others, scanned and packed once; made by Context.prepare.  It keeps
    the array; a `with` block, or close(), ends it."""

    def __init__(self, context, x, left, view, handle):
        self.context, self.x, self.left = context, x, left
        self._view, self._handle = view, handle

    def check(self):
        """Raises BadArgument where the elements are not what they were."""
        with self._handle.use() as pointer:
            check(lib.limber_prepared_check(pointer))


_KERNELS = ("auto", "both", "prebuilt", "specialised")


class Context(_Closing):
    """Kernels, threads and cache of one backend.  Every function may be called from any thread,
    many at once; computing holds no lock of Python's.

    backend     "auto", "interp", "llvm", "cuda"
    threads     0: as the environment says, else the cores at hand
    cache_dir   None: as the environment says; "": kernels are kept in memory only
    log         called with one line a call, from the thread that calls
    background  kernels are made by a thread of the context's, and matmul begins without them
    whole       True: no product is computed in parts
    kernels     "auto", "both", "prebuilt" or "specialised": limber_kernels in limber.h
    Others as limber_config."""

    def __init__(self, backend=None, threads=0, cache_dir=None, cache_bytes=0, dump_dir=None,
                 verbose=None, workspace_bytes=0, log=None, device=0, whole=False,
                 background=False, kernels="auto"):
        config = C.Config(backend=_path(backend), threads=threads, cache_dir=_path(cache_dir),
                          cache_bytes=cache_bytes, dump_dir=_path(dump_dir),
                          verbose=int(log is not None if verbose is None else verbose),
                          workspace_bytes=workspace_bytes, device=device,
                          partition=int(bool(whole)), kernels=_KERNELS.index(kernels))
        if log is not None:
            self._log = C.Log(lambda _, line: log(line.decode(errors="replace")))
            config.log = self._log
        pointer = c_void_p()
        check(lib.limber_create(byref(pointer), byref(config)))
        self._handle = _Handle(pointer, lib.limber_destroy, "the context")
        self.background = background

    def matmul(self, a, b, contract="correct", out=None, alpha=1, beta=0, scheme=None,
               report=False, format=None, dtype=None, slices=0, conj_a=False, conj_b=False,
               epilogue=None, inputs=None):
        """alpha a b + beta out to a contract: "native", "reproducible", "bits=N", "correct",
        "exact", "fast" (with a scheme), "simulate=UNIT".

        a, b        arrays of one, two, or more axes (stacks, broadcast), as in numpy.matmul;
                    anything with Python's buffer protocol; Quads; prepared operands
        format      names what integers (or a carrier) hold, "bf16" say, or a pair for a and b
        dtype       the result's format, or a type of NumPy's; without it the operands' own, the
                    wider of two; of integers int64, of bytes int32
        out         where the result goes; its elements are distinct and it overlaps no operand
        alpha, beta numbers, rounded to the result's format; int, Fraction and decimal strings are
                    exact for f128 and dd
        report      True: returns (result, Report)
        epilogue    steps that each element x goes through, as text, one a line:
                    "%1 = add %x %bias\\n%2 = gelu %1" (limber_epilogue in limber/ops.h)
        inputs      what they read: {"bias": array}, of shapes () or (n,), (m, 1), (m, n), or the
                    result's; or pairs (array, format)

        Strides are passed on; a copy is made of operands whose strides are negative or no
        multiples of an element, and of a real operand that meets a complex one."""
        with ExitStack() as held:
            p = _Product(self, held, a, b, contract, out, alpha, beta, scheme, format, dtype,
                         slices)
            p.epilogue = _epilogue(held, epilogue, inputs, product=(p.stack, p.m, p.n))
            r = C.Report() if report else None
            p.run(r, conj_a, conj_b)
            made = p.result()
        return (made, _report(r)) if report else made

    def plan(self, a, b, contract="correct", alpha=1, beta=0, scheme=None, format=None, dtype=None,
             slices=0):
        """What matmul would do with two matrices, as text: schemes, limbs, bound, cost."""
        with ExitStack() as held:
            p = _Product(self, held, a, b, contract, None, alpha, beta, scheme, format, dtype,
                         slices)
            text = p.plan()
        return text

    def conv2d(self, x, w, stride=1, pad=0, dilation=1, groups=1, layout="NCHW",
               contract="correct", out=None, alpha=1, beta=0, scheme=None, report=False,
               format=None, dtype=None, slices=0, epilogue=None, inputs=None):
        """Forward convolution (cross-correlation): x is n x c x h x w, w is o x c/groups x r x s;
        layout "NHWC": n x h x w x c and o x r x s x c/groups.  Of one dimension (conv1d) h and r
        are absent; of three (conv3d) depths stand before them.  The layout may then be called
        "NCW", "NWC", "NCDHW", "NDHWC".

        stride, dilation    a number, or one for each dimension
        pad                 a number, one for each dimension, or two: (top, bottom, left, right)
        inputs              of an epilogue: of shapes (), (channels of the result,), or the result's
        Others as matmul.  Arrays with gaps are copied."""
        return self._convolve(_FORWARD, x, w, None, stride, pad, dilation, groups, layout,
                              contract, out, alpha, beta, scheme, report, format, dtype, slices,
                              (epilogue, inputs))

    def conv2d_backward_data(self, dy, w, size, stride=1, pad=0, dilation=1, groups=1,
                             layout="NCHW", contract="correct", out=None, alpha=1, beta=0,
                             scheme=None, report=False, format=None, dtype=None, slices=0,
                             epilogue=None, inputs=None):
        """The gradient of conv2d's image, from that of its result, dy, and the filters: also called
        transposed convolution.

        size                (h, w) of the image: as many as there are dimensions
        Others as conv2d."""
        return self._convolve(_DATA, dy, w, size, stride, pad, dilation, groups, layout, contract,
                              out, alpha, beta, scheme, report, format, dtype, slices,
                              (epilogue, inputs))

    def conv2d_backward_filter(self, x, dy, window, stride=1, pad=0, dilation=1, groups=1,
                               layout="NCHW", contract="correct", out=None, alpha=1, beta=0,
                               scheme=None, report=False, format=None, dtype=None, slices=0,
                               epilogue=None, inputs=None):
        """The gradient of conv2d's filters, from its image and the gradient of its result, dy.

        window              (r, s) of the filters: as many as there are dimensions
        Others as conv2d."""
        return self._convolve(_FILTER, x, dy, window, stride, pad, dilation, groups, layout,
                              contract, out, alpha, beta, scheme, report, format, dtype, slices,
                              (epilogue, inputs))

    # Arrays say how many dimensions there are.
    conv1d = conv3d = conv2d
    conv1d_backward_data = conv3d_backward_data = conv2d_backward_data
    conv1d_backward_filter = conv3d_backward_filter = conv2d_backward_filter

    def _convolve(self, direction, left, right, size, stride, pad, dilation, groups, layout,
                  contract, out, alpha, beta, scheme, report, format, dtype, slices, steps):
        names = _TENSORS[direction]
        formats_of = _pair(format)
        with ExitStack() as held:
            xv = held.enter_context(_view(left, names[0], formats_of[0]))
            wv = _operand(held, right, names[1], formats_of[1])
            for view in (xv, wv):
                if len(view.shape) not in _LAYOUTS or view.pairs:
                    raise BadArgument(f"{view.what}: expected three, four or five axes of real "
                                      "numbers")
                if len(view.shape) != len(xv.shape):
                    raise BadArgument(f"{view.what} has {len(view.shape)} axes, {xv.what} "
                                      f"{len(xv.shape)}")
                view.dense()
            layout = _layout(layout, len(xv.shape))
            shape = _conv(direction, _axes(xv.shape, layout), _axes(wv.shape, layout), size, stride,
                          pad, dilation, groups, layout)
            sides = len(xv.shape) - 2
            od, oh, ow = c_int64(), c_int64(), c_int64()
            check(lib.limber_conv_output(byref(shape), byref(oh), byref(ow)))
            check(lib.limber_conv_output_depth(byref(shape), byref(od)))
            tensors = {"x": (shape.n, shape.c, *(shape.d, shape.h, shape.w)[3 - sides:]),
                       "w": (shape.o, shape.c // groups,
                             *(shape.t, shape.r, shape.s)[3 - sides:]),
                       "y": (shape.n, shape.o, *(od.value, oh.value, ow.value)[3 - sides:])}
            for view in (xv, wv):
                wanted = tensors[view.what[-1]]
                if _axes(view.shape, layout) != wanted:
                    raise BadArgument(f"{view.what}: shape {view.shape}, expected "
                                      f"{_stored(wanted, layout)}")
            extents = _stored(tensors[names[2]], layout)
            name = _name(dtype) or _out_name(out, *formats_of) or _result_name(xv.name, wv.name)
            y = _new(extents, name, False) if out is None else out
            yv = held.enter_context(_view(y, "out", _given(name, out), writable=True))
            if yv.shape != extents:
                raise BadArgument(f"out: shape {yv.shape}, the result's is {extents}")
            if yv.count and any(e > 1 and s != d for e, s, d in
                                zip(yv.shape, yv.bytes, dense(yv.shape, yv.size))):
                raise BadArgument("out: has gaps or another order")
            r = C.Report()
            ctx = held.enter_context(self._handle.use())
            a, b = _scalar(alpha, 1, yv, "alpha"), _scalar(beta, 0, yv, "beta")
            wish = _contract(contract, scheme, slices)
            problem = C.Problem(operation=direction, conv=ctypes.pointer(shape),
                                a=C.Matrix(xv.data, xv.format), b=C.Matrix(wv.data, wv.format),
                                c=C.Output(yv.data, yv.format), alpha=_address(a),
                                beta=_address(b), contract=ctypes.pointer(wish),
                                prepared_b=_prepared(held, right))
            problem.epilogue = _epilogue(held, *steps,
                                         tensor=(extents, tensors[names[2]][direction != _FILTER]))
            check(lib.limber_run(ctx, byref(problem), byref(r)))
        return (y, _report(r)) if report else y

    def inspect(self, x, side="left", format=None):
        """What a scan finds of a matrix, as the left operand (its rows are lines) or the right."""
        left = _side(side)
        with _view(x, "x", format) as view, self._handle.use() as ctx:
            _check_matrix(view)
            found = C.Inspection()
            check(lib.limber_inspect(ctx, view.matrix(), *view.shape, _SIDES[left], byref(found)))
            try:
                tiles = None
                if found.tile:
                    tiles = [[_tuple(Tile, found.tile[i * found.tile_cols + j])
                              for j in range(found.tile_cols)] for i in range(found.tile_rows)]
                return _tuple(Inspection, found, tiles=tiles)
            finally:
                lib.limber_inspection_free(byref(found))

    def prepare(self, x, side="left", bytes=0, check_changes=False, format=None):
        """An Operand for matmul in the place of x.  x is kept and not copied; its elements must not
        change until the operand is closed.  check_changes: every product looks whether they did."""
        left = _side(side)
        return self._prepare(
            x, left, bytes, check_changes, format, _check_matrix,
            lambda view, *rest: lib.limber_prepare(self._handle._pointer, view.matrix(),
                                                   *view.shape, _SIDES[left], *rest))

    def prepare_filters(self, w, layout="NCHW", bytes=0, check_changes=False, format=None):
        """An Operand for conv1d, conv2d and conv3d in the place of filters w; else as prepare."""
        def check_filters(view):
            if len(view.shape) not in _LAYOUTS or view.pairs:
                raise BadArgument("w: expected three, four or five axes of real numbers")
            view.dense()

        def prepare(view, *rest):
            o, c, *window = _axes(view.shape, _layout(layout, len(view.shape)))
            shape = C.Conv(c=c, o=o, r=1, groups=1,
                           layout=_layout(layout, len(view.shape)) == "NHWC")
            shape.s = window[-1]
            if len(window) > 1:
                shape.r = window[-2]
            if len(window) > 2:
                shape.t = window[0]
            shape.stride[:] = shape.dilate[:] = (1, 1)
            return lib.limber_prepare_filters(self._handle._pointer, byref(shape), view.data,
                                              view.format, *rest)

        return self._prepare(w, False, bytes, check_changes, format, check_filters, prepare)

    def _prepare(self, x, left, bytes, check_changes, format, check_view, prepare):
        view = _view(x, "x", format)
        try:
            check_view(view)
            if view.copied:
                raise BadArgument("x: its strides are negative or no multiples of an element")
            self._handle.acquire()
        except BaseException:
            view.release()
            raise
        pointer, config = c_void_p(), C.PrepareConfig(bytes=bytes, changes=check_changes)
        status = prepare(view, byref(config), byref(pointer))

        def end(operand):
            lib.limber_prepared_free(operand)
            view.release()
            self._handle.release()

        handle = _Handle(pointer, end, "the operand")
        if status:
            try:
                check(status)
            finally:
                handle.close()
        return Operand(self, x, left, view, handle)

    def cache_info(self):
        """Where kernels are kept, how many and how large."""
        info = C.CacheInfo()
        with self._handle.use() as ctx:
            check(lib.limber_cache_describe(ctx, byref(info)))
        return _tuple(CacheInfo, info)

    def cache_entries(self, verify=False):
        """The kernels on disk; verify: their checksums are looked at."""
        found = []

        def seen(_, entry):
            found.append(_tuple(CacheEntry, entry.contents))
            return 0

        with self._handle.use() as ctx:
            check(lib.limber_cache_each(ctx, verify, C.SeenEntry(seen), None))
        return found

    def cache_clear(self, damaged_only=False):
        """Removes kernels from disk; returns how many."""
        removed = c_size_t()
        with self._handle.use() as ctx:
            check(lib.limber_cache_clear(ctx, damaged_only, byref(removed)))
        return removed.value


class _Product:
    """One matmul: its views, sizes and scalars."""

    def __init__(self, context, held, a, b, contract, out, alpha, beta, scheme, format, dtype,
                 slices):
        self.contract = _contract(contract, scheme, slices, context.background)
        formats_of = _pair(format)
        self.ctx = held.enter_context(context._handle.use())
        self.prepared = [_prepared(held, x) for x in (a, b)]
        self.a = _operand(held, a, "a", formats_of[0])
        self.b = _operand(held, b, "b", formats_of[1])
        if self.a.pairs != self.b.pairs:
            real = "a" if self.b.pairs else "b"
            setattr(self, real, held.enter_context(_complex(getattr(self, real))))
        self._sizes()
        self.out, self.given = out, out is not None
        name = _name(dtype)
        pairs = self.a.pairs or name in ("complex64", "complex128")
        name = {"complex64": "f32", "complex128": "f64"}.get(name, name)
        if pairs and not self.a.pairs:
            raise BadArgument("dtype: a product of real numbers is real")
        name = name or _out_name(out, *formats_of) or _result_name(self.a.name, self.b.name)
        if not self.given:
            self.out = _new(self.shape, name, pairs)
        self.c = held.enter_context(_view(self.out, "out", None if pairs else _given(name, out),
                                          writable=True))
        if self.c.shape != self.shape:
            raise BadArgument(f"out: shape {self.c.shape}, the result's is {self.shape}")
        if self.c.pairs != pairs:
            raise BadArgument(f"out: is {'real' if pairs else 'complex'}, the result is not")
        self.c.shape, self.c.bytes = self._as_matrices(self.c.shape, self.c.bytes)
        self.alpha = _scalar(alpha, 1, self.c, "alpha")
        self.beta = _scalar(beta, 0, self.c, "beta")
        self.epilogue = None

    def _sizes(self):
        a, b = self.a, self.b
        for x in (a, b):
            if not x.shape:
                raise BadArgument(f"{x.what}: expected at least one axis")
        self.row, self.column = len(a.shape) == 1, len(b.shape) == 1
        if self.row:
            a.shape, a.bytes = (1,) + a.shape, (0,) + a.bytes
        if self.column:
            b.shape, b.bytes = b.shape + (1,), b.bytes + (0,)
        if a.shape[-1] != b.shape[-2]:
            raise BadArgument(f"a has {a.shape[-1]} columns and b {b.shape[-2]} rows")
        stack = []
        for i, j in itertools.zip_longest(a.shape[-3::-1], b.shape[-3::-1], fillvalue=1):
            if i != j and 1 not in (i, j):
                raise BadArgument(f"stacks of a {a.shape[:-2]} and b {b.shape[:-2]} do not match")
            stack.insert(0, i if j == 1 else j)
        self.stack = tuple(stack)
        self.m, self.k, self.n = a.shape[-2], a.shape[-1], b.shape[-1]
        self.shape = self.stack + (self.m,) * (not self.row) + (self.n,) * (not self.column)

    def _as_matrices(self, shape, strides):
        """The result's axes with those that vectors have not."""
        shape, strides = list(shape), list(strides)
        if self.row:
            shape.insert(len(self.stack), 1), strides.insert(len(self.stack), 0)
        if self.column:
            shape.append(1), strides.append(0)
        return tuple(shape), tuple(strides)

    def _offsets(self, view):
        """Byte offsets of a view's matrices along the stack."""
        shape, strides = view.shape[:-2], view.bytes[:-2]
        missing = len(self.stack) - len(shape)
        steps = (0,) * missing + tuple(s if e > 1 else 0 for e, s in zip(shape, strides))
        return [sum(i * s for i, s in zip(at, steps))
                for at in itertools.product(*map(range, self.stack))]

    def _one(self, view, offset=0):
        m = view.matrix()
        if m.data:
            m.data += offset
        return m

    def _problem(self):
        c = self._one(self.c)
        return C.Problem(m=self.m, n=self.n, k=self.k, a=self._one(self.a), b=self._one(self.b),
                         c=C.Output(c.data, c.format, c.row_stride, c.col_stride),
                         alpha=_address(self.alpha), beta=_address(self.beta),
                         contract=ctypes.pointer(self.contract))

    def run(self, r, conj_a, conj_b):
        pa, pb = self.prepared
        if self.stack and (pa or pb):
            raise BadArgument("prepared operands are single matrices, not of stacks")
        if self.a.pairs and (pa or pb):
            raise BadArgument("prepared operands are real")
        problem = self._problem()
        problem.domain = int(self.a.pairs)
        problem.conjugate = (1 if conj_a else 0) | (2 if conj_b else 0) if self.a.pairs else 0
        problem.prepared_a, problem.prepared_b = pa, pb
        problem.epilogue = self.epilogue
        if self.stack:
            places = [self._offsets(v) for v in (self.a, self.b, self.c)]
            count = len(places[0])
            each = [(c_void_p * count)(*[(v.data if v.count else 0) + at for at in offsets])
                    for v, offsets in zip((self.a, self.b, self.c), places)]
            problem.batch = ctypes.pointer(C.Batch(count, 0, 0, 0, *each))
        check(lib.limber_run(self.ctx, byref(problem), r and byref(r)))

    def plan(self):
        if self.stack or self.a.pairs:
            raise BadArgument("plans are of two real matrices")
        text = c_void_p()
        check(lib.limber_plan(self.ctx, byref(self._problem()), byref(text), None))
        try:
            return ctypes.string_at(text).decode(errors="replace")
        finally:
            lib.limber_free(text)

    def result(self):
        """A product of two vectors is a number; what is not given stays an array of no axes."""
        if self.given or self.shape:
            return self.out
        return self.out if isinstance(self.out, Quad) else self.out[()]


def _address(scalar):
    """Of the memory that _scalar made, which the caller keeps."""
    return None if scalar is None else ctypes.cast(ctypes.c_char_p(scalar), c_void_p)


def _path(text):
    return None if text is None else os.fsencode(text)


def _pair(format):
    if format is None or isinstance(format, str):
        return format, format
    if not isinstance(format, (list, tuple)) or len(format) != 2:
        raise BadArgument(f"format = {format!r} is neither a name nor a pair of names")
    return tuple(format)


def _name(dtype):
    """The format's name of a dtype, which may be a name already."""
    if dtype is None or (isinstance(dtype, str) and (dtype in _FORMATS or dtype[:1] == "(")):
        return dtype
    try:
        code = numpy.dtype(dtype)
    except (AttributeError, TypeError):
        raise BadArgument(f"dtype = {dtype!r} is no format") from None
    names = {"float16": "f16", "float32": "f32", "float64": "f64", "int8": "i8", "int16": "i16",
             "int32": "i32", "int64": "i64"}
    if code.name in ("complex64", "complex128"):
        return code.name
    if code.name not in names:
        raise BadArgument(f"dtype = {dtype!r} is no format of results")
    return names[code.name]


def _out_name(out, a, b):
    """What an array given as out says of its format: integers hold bits of the operands' one."""
    if out is None:
        return None
    if isinstance(out, Quad):
        return "f128"
    try:
        with View(out, "out", writable=True) as view:
            own = view.name
    except BadArgument:
        if a is None or a != b:
            raise
        return a
    return a if a == b and a is not None and own[0] in "iu" else own


def _given(name, out):
    """The name that a view needs: none where the array tells."""
    return None if isinstance(out, Quad) else name


def _result_name(a, b):
    if a[0] in "iu" and b[0] in "iu":
        return "i32" if a in ("i8", "u8") and b in ("i8", "u8") else "i64"
    if a == b:
        return a
    a, b = _AS_FLOAT.get(a, a), _AS_FLOAT.get(b, b)
    if a in _RANK and b in _RANK:
        return max(a, b, key=_RANK.index)
    raise BadArgument(f"dtype is needed: a is in {a}, b in {b}")


def _new(shape, name, pairs):
    made = new_array(shape, name, pairs)
    return Quad.of_words(made) if name == "f128" else made


def _view(x, what, name, writable=False):
    if isinstance(x, Quad):
        if name not in (None, "f128"):
            raise BadArgument(f"{what}: a Quad is in f128, not {name}")
        x, name = x.words, "f128"
    return View(x, what, name, writable)


def _check_matrix(view):
    if len(view.shape) != 2 or view.pairs:
        raise BadArgument(f"{view.what}: expected two axes of real numbers")


def _operand(held, x, what, name):
    if isinstance(x, Operand):
        view = _view(x.x, what, name or x._view.name if not isinstance(x.x, Quad) else None)
        return held.enter_context(view)
    return held.enter_context(_view(x, what, name))


def _prepared(held, x):
    if not isinstance(x, Operand):
        return None
    return held.enter_context(x._handle.use())


def _complex(view):
    if numpy is None or view.name not in ("f32", "f64"):
        raise BadArgument(f"{view.what}: is real and the other operand complex")
    kind = numpy.complex64 if view.name == "f32" else numpy.complex128
    return View(numpy.asarray(view.source).astype(kind), view.what)


def _side(side):
    if side not in ("left", "right"):
        raise BadArgument(f"side = {side!r} is neither 'left' nor 'right'")
    return side == "left"


def _one_scalar(x, c, what):
    """Memory of one number in C's format (of integers i64)."""
    room = (ctypes.c_char * 16)()
    try:
        if c.name[0] in "iu":
            return bytes(c_int64(_integer(x, what)))
        if c.name in ("f128", "dd"):
            bits, name = encode(x).to_bytes(16, "little"), "f128"
        else:
            value = float(Fraction(x) if isinstance(x, str) else x)
            bits, name = bytes(ctypes.c_double(value)), "f64"
    except (TypeError, ValueError, OverflowError) as error:
        raise BadArgument(f"{what} = {x!r}: {error}") from None
    check(lib.limber_convert(room, c.format, bits, format_named(name), 1, 0))
    return room.raw[:c.format.size]


def _integer(x, what):
    value = int(x)
    if value != x or not -2**63 <= value < 2**63:
        raise BadArgument(f"{what} = {x!r} is no 64-bit integer, which a result of integers needs")
    return value


def _scalar(x, neutral, c, what):
    if not isinstance(x, str) and x == neutral:
        return None
    if c.pairs:
        x = complex(x)
        return _one_scalar(x.real, c, what) + _one_scalar(x.imag, c, what)
    if isinstance(x, complex):
        raise BadArgument(f"{what} is complex, the result is real")
    return _one_scalar(x, c, what)


# limber_operation, and the tensors that each reads and writes
_FORWARD, _DATA, _FILTER = 1, 2, 3
_TENSORS = {_FORWARD: ("x", "w", "y"), _DATA: ("dy", "w", "x"), _FILTER: ("x", "dy", "w")}


_LAYOUTS = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}


def _layout(name, axes):
    for words in (_LAYOUTS[4], _LAYOUTS[axes]):
        if name in words:
            return _LAYOUTS[4][words.index(name)]
    raise BadArgument(f"layout = {name!r} is neither " + " nor ".join(map(repr, _LAYOUTS[axes])))


def _axes(shape, layout):
    """A stored shape as images, channels, (planes,) (rows,) columns."""
    return tuple(shape) if layout == "NCHW" else (shape[0], shape[-1], *shape[1:-1])


def _stored(axes, layout):
    return axes if layout == "NCHW" else (axes[0], *axes[2:], axes[1])


def _conv(direction, first, second, size, stride, pad, dilation, groups, layout):
    """The geometry that two tensors, and the size of what is written, make."""
    if not isinstance(groups, int) or not 1 <= groups < 2 ** 63:
        raise BadArgument(f"groups = {groups!r} is no positive number")
    sides = len(first) - 2
    if direction != _FORWARD:
        size = _numbers(size, "size" if direction == _DATA else "window", (sides,))
    if direction == _FORWARD:
        x, window, filters = first, second[2:], second[0]
        if second[1] * groups != x[1]:
            raise BadArgument(f"x has {x[1]} channels, w {second[1]} in each of {groups} groups")
    elif direction == _DATA:
        x, window, filters = (first[0], second[1] * groups, *size), second[2:], second[0]
    else:
        x, window, filters = first, size, second[1]
    pads = _numbers(pad, "pad", (1, sides, 2 * sides))
    if len(pads) != 2 * sides:
        pads = [p for p in _each(pads, sides) for _ in range(2)]
    strides = _each(_numbers(stride, "stride", (1, sides)), sides)
    dilations = _each(_numbers(dilation, "dilation", (1, sides)), sides)
    lone = (1,) * (sides == 1)  # rows of images of one dimension
    made = C.Conv(x[0], x[1], *lone, *x[-min(sides, 2):], filters, *lone, *window[-2:],
                  groups=groups, layout=layout == "NHWC")
    made.stride[:] = (*lone, *strides[-2:])
    made.dilate[:] = (*lone, *dilations[-2:])
    made.pad[:] = [0] * (4 - len(pads[-4:])) + list(pads[-4:])
    if sides == 3:
        made.d, made.t = x[2], window[0]
        made.depth_stride, made.depth_dilate = strides[0], dilations[0]
        made.depth_pad[:] = pads[:2]
        for what, value in (("stride", strides[0]), ("dilation", dilations[0])):
            if value < 1:
                raise BadArgument(f"{what} = {value} is less than 1")
        if window[0] < 1:
            raise BadArgument(f"a window of {window[0]} planes")
    return made


def _each(numbers, sides):
    return tuple(numbers) * sides if len(numbers) == 1 else tuple(numbers)


def _numbers(x, what, lengths):
    x = tuple(x) if hasattr(x, "__len__") else (x,)
    if len(x) not in lengths or not all(isinstance(v, int) for v in x):
        raise BadArgument(f"{what} = {x!r}: expected " +
                          " or ".join(map(str, sorted(set(lengths)))) + " whole numbers")
    for v in x:
        if not -2 ** 63 <= v < 2 ** 63:
            raise BadArgument(f"{what} = {v} does not fit 64 bits")
    return x
