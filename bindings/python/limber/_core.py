# SPDX-License-Identifier: BSD-3-Clause
"""Contexts and their functions."""
from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _contraction, _conv, _convert, _product, _significand, _simulation, _solve
from . import _library as C
from ._arguments import ROUNDINGS, check_matrix, contract_of, is_left, path_of, view_of
from ._buffer import format_named
from ._cuda import name_libraries
from ._facts import tuple_of
from ._handles import Closing, Handle, Operand
from ._library import lib
from ._memory import lasting
from ._reports import CacheEntry, CacheInfo, Inspection, Tile
from ._simulation import Trial
from ._typing import Array, DType, Formats, Inputs, ProductOptions, Scalar, Sizes
from .errors import WORD, BadArgument, check, integer

if TYPE_CHECKING:
    from typing_extensions import Unpack

_SIDES = {True: 0, False: 1}     # limber_side of left
_KERNELS = ("auto", "both", "prebuilt", "specialised")


def _rounding(word):
    if not isinstance(word, str) or word not in ROUNDINGS:
        raise BadArgument(f"rounding = {word!r} is none of {', '.join(ROUNDINGS)}")
    return word


class Context(Closing):
    """Kernels, threads and cache of one backend.  Every function may be called from any thread,
    many at once; computing holds no lock of Python's.

    backend     "auto", "interp", "llvm", "cuda"
    threads     0: as the environment says, else the cores at hand
    cache_dir   None: as the environment says; "": kernels are kept in memory only
    log         called with one line a call, from the thread that calls
    background  kernels are made by a thread of the context's, and matmul begins without them
    whole       True: no product is computed in parts
    kernels     "auto", "both", "prebuilt" or "specialised": limber_kernels in limber.h
    contract    of calls that name none; None: native
    Others as limber_config."""

    def __init__(self, backend: Optional[str] = None, threads: int = 0,
                 cache_dir: Union[None, str, os.PathLike[str]] = None, cache_bytes: int = 0,
                 dump_dir: Union[None, str, os.PathLike[str]] = None, verbose: Optional[int] = None,
                 workspace_bytes: int = 0, log: Optional[Callable[[str], object]] = None,
                 device: int = 0, whole: bool = False, background: bool = False,
                 kernels: str = "auto", contract: Optional[str] = None) -> None:
        contract_of(contract, None, 0)        # refused now, not at the first call
        if kernels not in _KERNELS:
            raise BadArgument(f"kernels = {kernels!r} is none of " + ", ".join(_KERNELS))
        config = C.Config(backend=path_of(backend, "backend"), threads=integer(threads, "threads"),
                          cache_dir=path_of(cache_dir, "cache_dir"),
                          cache_bytes=integer(cache_bytes, "cache_bytes", 0, WORD),
                          dump_dir=path_of(dump_dir, "dump_dir"),
                          verbose=integer(log is not None if verbose is None else verbose,
                                        "verbose"),
                          workspace_bytes=integer(workspace_bytes, "workspace_bytes", 0, WORD),
                          device=integer(device, "device"),
                          partition=int(bool(whole)), kernels=_KERNELS.index(kernels))
        if log is not None:
            self._log = C.Log(lambda _, line: log(line.decode(errors="replace")))
            config.log = self._log
        if (config.backend or os.environ.get("LIMBER_BACKEND", "").encode()) == b"cuda":
            name_libraries()
        pointer = c_void_p()
        check(lib.limber_create(byref(pointer), byref(config)))
        self._handle = Handle(pointer, lib.limber_destroy, "the context")
        self.background, self.contract, self.device = background, contract, device
        self._on_gpu: Optional[bool] = None
        self._repeats: Dict[Any, Any] = {}      # cached calls

    def on_gpu(self) -> bool:
        """Whether products are computed on a GPU; the first call tests this with a product of one
        number."""
        if self._on_gpu is None:
            one, result, report = ctypes.c_float(1), ctypes.c_float(), C.Report()
            at = ctypes.addressof(one)
            problem = C.Problem(m=1, n=1, k=1, a=C.Matrix(at, format_named("f32"), 1, 1),
                                b=C.Matrix(at, format_named("f32"), 1, 1),
                                c=C.Output(ctypes.addressof(result), format_named("f32"), 1, 1))
            problem.contract = ctypes.pointer(contract_of(None, None, 0))
            with self._handle.use() as handle:
                check(lib.limber_run(handle, byref(problem), byref(report)))
            self._on_gpu = report.backend == b"cuda"
        return self._on_gpu

    def _wish(self, contract, scheme, slices):
        """The limber_contract for a call, from its arguments or, where these are None, the
        context's."""
        if isinstance(contract, C.Contract):
            return contract
        named = self.contract if contract is None and not slices else contract
        return contract_of(named, scheme, slices, self.background)

    def matmul(self, a: Array, b: Array, contract: Optional[str] = None, out: Array = None,
               alpha: Scalar = 1, beta: Scalar = 0, scheme: Optional[str] = None,
               report: bool = False, format: Formats = None, dtype: DType = None, slices: int = 0,
               conj_a: bool = False, conj_b: bool = False, epilogue: Optional[str] = None,
               inputs: Inputs = None, nan_to_zero: bool = False, result: str = "numpy",
               modulus: Optional[int] = None, rounding: Optional[str] = None) -> Any:
        """alpha a b + beta out to a contract: "native", "reproducible", "bits=N", "correct",
        "correct,round=MODE", "exact", "mod=N", "fast" (with a scheme), "simulate=UNIT"; None: the
        context's, else native.

        a, b        arrays of one, two, or more axes (stacks, broadcast), as in numpy.matmul;
                    anything that shows its memory: buffers, __dlpack__, __array_interface__,
                    __array__; Quads; prepared operands.  Tensors of CUDA's (CuPy's, PyTorch's,
                    JAX's) by __dlpack__ and an `out` there, in a context on their device; what is
                    on its way to them is awaited, and the result is there when the call returns
        format      names what integers (or a carrier) hold, "bf16" say, or a pair for a and b
        dtype       the result's format, or a type of NumPy's, ml_dtypes' or PyTorch's; without it
                    the operands' own, the wider of two; of integers int64, of bytes int32
        out         where the result goes; its elements are distinct.  Where it overlaps an operand,
                    the product is computed aside and copied
        result      "numpy", or "dlpack": an object for others' from_dlpack
        alpha, beta numbers, rounded to the result's format; int, Fraction and decimal strings are
                    exact for f128 and dd; beta needs an out
        report      True: returns (result, Report)
        epilogue    steps that each element x goes through, as text, one a line:
                    "%1 = add %x %bias\\n%2 = gelu %1" (limber_epilogue in limber/ops.h)
        inputs      what they read: {"bias": array}, of shapes () or (n,), (m, 1), (m, n), or the
                    result's; or pairs (array, format)
        nan_to_zero True: an epilogue's result may be of a float format without NaN (e2m1 and so
                    on), which gets 0 for it
        modulus     of integers (of floats, too): the product modulo it, from 0 to modulus - 1, for
                    any sizes; 2 to 2^63 - 1.  dtype="i64" holds all residues.  The contract "mod=N"
                    says the same; "mod=N,symmetric" gives residues above -N/2, at most N/2
        rounding    "up", "down", "zero" or "away" (ties away from zero): the exact value, rounded
                    once in that direction, as the contract "correct,round=MODE" says

        Strides are passed on; a copy is made of operands whose strides are negative or no
        multiples of an element, whose type is no format but another's holds it, and of a real
        operand that meets a complex one."""
        if modulus is not None:
            if contract not in (None, "exact"):
                raise BadArgument(f"contract = {contract!r} has no modulus")
            contract = f"mod={integer(modulus, 'modulus', 2, (1 << 63) - 1)}"
        if rounding is not None:
            if contract not in (None, "correct"):
                raise BadArgument(f"contract = {contract!r} has no rounding")
            contract = f"correct,round={_rounding(rounding)}"
        return _product.multiply(self, a, b, _contraction.MATMUL, contract, out, alpha, beta,
                                 scheme, report, format, dtype, slices, conj_a, conj_b, epilogue,
                                 inputs, nan_to_zero, result)

    def dot(self, a: Array, b: Array, **options: Unpack[ProductOptions]) -> Any:
        """As numpy.dot: a's last axis meets b's last but one; where one is a number, the product of
        all elements with it.  Options as matmul."""
        return _product.multiply(self, a, b, _contraction.DOT, **options)

    def tensordot(self, a: Array, b: Array, axes: Union[int, Sequence[Sizes]] = 2,
                  **options: Unpack[ProductOptions]) -> Any:
        """As numpy.tensordot: sums over pairs of axes, in one product.

        axes        how many: the last of a with the first of b; or two lists of axes
        Options as matmul.  Operands are copied where the axes that are summed over, or those that
        are not, do not lie as one axis would; inputs of an epilogue see the matrices that they
        make."""
        labels = _contraction.tensordot_labels, _contraction.axes_named(axes)
        return _product.multiply(self, a, b, labels, **options)

    def einsum(self, subscripts: str, *operands: Array, **options: Unpack[ProductOptions]) -> Any:
        """As numpy.einsum of two operands: einsum("bij,bkj->bik", a, b).  Labels may occur twice in
        an operand (its diagonal) or in one alone, and "..." stands for axes that broadcast.
        Options as tensordot."""
        if len(operands) != 2:
            raise BadArgument(f"einsum: two operands are served, {len(operands)} were given")
        labels = _contraction.einsum_labels, str(subscripts)
        return _product.multiply(self, *operands, labels, **options)

    def convert(self, a: Array, format: DType, rounding: str = "nearest", saturate: bool = False,
                seed: Optional[int] = None, random_bits: int = 13, nan_to_zero: bool = False,
                holds: Optional[str] = None, out: Array = None, result: str = "numpy",
                subnormals: bool = True) -> Array:
        """The elements of an array in another format, each rounded once.

        format      a name, or a type of NumPy's, ml_dtypes' or PyTorch's
        rounding    "nearest" (ties to even), "away" and "ties_zero" (nearest, ties away from zero,
                    as QPyTorch has them, and toward it), "zero", "up", "down", "odd",
                    "stochastic": as simulated units do it (docs/simulation.md, 8), of all numbers
                    that a double holds; "stochastic_equal": either neighbour with the same
                    chance
        saturate    True: what is too large becomes the largest number
        seed        of stochastic roundings: the same seed gives the same numbers
        random_bits of "stochastic", 1 to 16
        nan_to_zero True: formats without NaN, and integers, get 0 for it; else it is refused
        subnormals  False: what rounds below the smallest normal number becomes 0 of its sign
        holds       what integers (or a carrier) in a hold: "bf16" say
        out, result as of matmul; integers saturate"""
        return _convert.convert(self, a, format, holds, out, result, rounding=rounding,
                                saturate=saturate, seed=seed, random_bits=random_bits,
                                nan_to_zero=nan_to_zero, subnormals=subnormals)

    def quantize(self, a: Array, format: DType, rounding: str = "nearest", saturate: bool = False,
                 seed: Optional[int] = None, random_bits: int = 13, nan_to_zero: bool = False,
                 holds: Optional[str] = None, out: Array = None, result: str = "numpy",
                 subnormals: bool = True, limits: bool = True, flips: float = 0) -> Array:
        """The elements of an array rounded to a format, in the array's own type, which must hold
        them.

        limits      False: to the format's significant bits alone; exponents stay those of the
                    array's type
        flips       the probability that one bit of a result's fraction, each with the same chance,
                    becomes another (soft errors); takes a seed
        Others as of convert; out, holds and result do not go with limits and flips."""
        return _convert.quantize(self, a, format, holds, out, result, limits, flips,
                                 rounding=rounding,
                                 saturate=saturate, seed=seed, random_bits=random_bits,
                                 nan_to_zero=nan_to_zero, subnormals=subnormals)

    def fixed(self, a: Array, integer_bits: int, fraction_bits: int, rounding: str = "nearest",
              seed: Optional[int] = None, nan_to_zero: bool = False) -> Array:
        """The elements of an array of floats rounded to fixed point, in the array's own type:
        multiples of 2^-fraction_bits from -2^(integer_bits - 1) to below 2^(integer_bits - 1), at
        which what is too large ends.  Roundings as of convert; the random numbers of stochastic
        ones are NumPy's, of the seed."""
        _convert.check_rounding(rounding, seed)
        return _significand.fixed(a, integer_bits, fraction_bits, rounding, seed, nan_to_zero)

    def statistics(self, a: Array, b: Array, unit: str, compare: bool = True,
                   swamped_only: bool = False,
                   **options: Unpack[ProductOptions]) -> Tuple[Any, ...]:
        """(the product, Statistics) of two matrices on a simulated unit; with report=True the
        Report stands between them.

        unit            as of the contract "simulate=UNIT": limber.units(), docs/simulation.md
        compare         False: the fields behind `result`, which take two more products, are NaN
        swamped_only    True: of the counters only those of swamped additions, which costs least
        Options as matmul; without a dtype the result is in the operands' format."""
        return _simulation.statistics(self, a, b, unit, compare, swamped_only, **options)

    def explore(self, a: Array, b: Array,
                formats: Sequence[str] = ("e5m2", "(1,4,3)", "(1,5,4)", "(1,6,9)", "bf16", "f16"),
                groups: Sequence[int] = (0, 16, 64), roundings: Sequence[str] = ("rn",),
                products: Optional[Sequence[str]] = None, operands: Optional[str] = None,
                outer: Optional[str] = None, seed: int = 1) -> List[Trial]:
        """One product on many simulated units, as `limber explore` does it: a list of Trials, of
        every combination.

        formats     of accumulators; groups: lengths, 0 for none; roundings: rn ra rz ru rd ro rs
        products    of "rounded" to the accumulator's format (the default without operands),
                    "exact"
        operands    the format that both are loaded in; None: the accumulator's
        outer       the format of outer sums; None: the accumulator's"""
        return _simulation.explore(self, a, b, formats, groups, roundings, products, operands,
                                   outer, seed)

    def plan(self, a: Array, b: Array, contract: Optional[str] = None, alpha: Scalar = 1,
             beta: Scalar = 0, scheme: Optional[str] = None, format: Formats = None,
             dtype: DType = None, slices: int = 0) -> str:
        """What matmul would do with two matrices, as text: schemes, limbs, bound, cost."""
        return _product.plan(self, a, b, _contraction.MATMUL, contract, alpha, beta, scheme,
                             format, dtype, slices)

    def run_plan(self, plan: str, a: Array, b: Array, out: Array = None, alpha: Scalar = 1,
                 beta: Scalar = 0, report: bool = False, format: Formats = None,
                 dtype: DType = None, conj_a: bool = False, conj_b: bool = False,
                 epilogue: Optional[str] = None, inputs: Inputs = None, nan_to_zero: bool = False,
                 result: str = "numpy") -> Any:
        """a b by a plan's text (docs/ir.md): a stated one, whose contract chooses the scheme, or a
        finished one with limbs and rows of its own.  What is not as the plan states is refused by
        name: formats, sizes, the data's range, alpha and beta.  Options as matmul; stacks are
        batches.  The plan of complex operands is of the real product with twice the inner size,
        that of an epilogue of the product before the steps."""
        return _product.multiply(self, a, b, _contraction.MATMUL, None, out, alpha, beta, None,
                                 report, format, dtype, 0, conj_a, conj_b, epilogue, inputs,
                                 nan_to_zero, result, plan=str(plan).encode())

    def conv2d(self, x: Array, w: Array, stride: Sizes = 1, pad: Sizes = 0, dilation: Sizes = 1,
               groups: int = 1, layout: str = "NCHW", contract: Optional[str] = None,
               out: Array = None, alpha: Scalar = 1, beta: Scalar = 0, scheme: Optional[str] = None,
               report: bool = False, format: Formats = None, dtype: DType = None, slices: int = 0,
               epilogue: Optional[str] = None, inputs: Inputs = None, nan_to_zero: bool = False,
               result: str = "numpy") -> Any:
        """Forward convolution (cross-correlation): x is n x c x h x w, w is o x c/groups x r x s;
        layout "NHWC": n x h x w x c and o x r x s x c/groups.  Of one dimension (conv1d) h and r
        are absent; of three (conv3d) depths stand before them.  The layout may then be called
        "NCW", "NWC", "NCDHW", "NDHWC".

        stride, dilation    a number, or one for each dimension
        pad                 a number, one for each dimension, or two: (top, bottom, left, right)
        inputs              of an epilogue: of shapes (), (channels of the result,), or the result's
        Others as matmul.  Arrays with gaps are copied."""
        return _conv.convolve(self, _conv.FORWARD, x, w, None, stride, pad, dilation, groups,
                              layout, contract, out, alpha, beta, scheme, report, format, dtype,
                              slices, epilogue, inputs, nan_to_zero, result)

    def conv2d_backward_data(self, dy: Array, w: Array, size: Sizes, stride: Sizes = 1,
                             pad: Sizes = 0, dilation: Sizes = 1, groups: int = 1,
                             layout: str = "NCHW", contract: Optional[str] = None,
                             out: Array = None, alpha: Scalar = 1, beta: Scalar = 0,
                             scheme: Optional[str] = None, report: bool = False,
                             format: Formats = None, dtype: DType = None, slices: int = 0,
                             epilogue: Optional[str] = None, inputs: Inputs = None,
                             nan_to_zero: bool = False, result: str = "numpy") -> Any:
        """The gradient of conv2d's image, from that of its result, dy, and the filters: also called
        transposed convolution.

        size                (h, w) of the image: as many as there are dimensions
        Others as conv2d."""
        return _conv.convolve(self, _conv.DATA, dy, w, size, stride, pad, dilation, groups,
                              layout, contract, out, alpha, beta, scheme, report, format, dtype,
                              slices, epilogue, inputs, nan_to_zero, result)

    def conv2d_backward_filter(self, x: Array, dy: Array, window: Sizes, stride: Sizes = 1,
                               pad: Sizes = 0, dilation: Sizes = 1, groups: int = 1,
                               layout: str = "NCHW", contract: Optional[str] = None,
                               out: Array = None, alpha: Scalar = 1, beta: Scalar = 0,
                               scheme: Optional[str] = None, report: bool = False,
                               format: Formats = None, dtype: DType = None, slices: int = 0,
                               epilogue: Optional[str] = None, inputs: Inputs = None,
                               nan_to_zero: bool = False, result: str = "numpy") -> Any:
        """The gradient of conv2d's filters, from its image and the gradient of its result, dy.

        window              (r, s) of the filters: as many as there are dimensions
        Others as conv2d."""
        return _conv.convolve(self, _conv.FILTER, x, dy, window, stride, pad, dilation, groups,
                              layout, contract, out, alpha, beta, scheme, report, format, dtype,
                              slices, epilogue, inputs, nan_to_zero, result)

    # The number of dimensions follows from the arrays.
    conv1d = conv3d = conv2d
    conv1d_backward_data = conv3d_backward_data = conv2d_backward_data
    conv1d_backward_filter = conv3d_backward_filter = conv2d_backward_filter

    def inspect(self, x: Array, side: str = "left", format: Optional[str] = None) -> Inspection:
        """What a scan of a matrix finds: as the left operand, whose rows are scanned, or the right,
        whose columns are."""
        left = is_left(side)
        with view_of(x, "x", format) as view, self._handle.use() as ctx:
            check_matrix(view)
            found = C.Inspection()
            check(lib.limber_inspect(ctx, view.matrix(), *view.shape, _SIDES[left], byref(found)))
            try:
                tiles = None
                if found.tile:
                    tiles = [[tuple_of(Tile, found.tile[i * found.tile_cols + j])
                              for j in range(found.tile_cols)] for i in range(found.tile_rows)]
                return tuple_of(Inspection, found, tiles=tiles)
            finally:
                lib.limber_inspection_free(byref(found))

    def solve(self, a: Array, b: Array, dtype: DType = None, out: Array = None,
              report: bool = False, format: Formats = None, result: str = "numpy") -> Any:
        """x of a x = b, rounded once to its format (dtype; without it the wider of both): one
        factorisation in binary64, refined by exact residuals until x stands.  b is a vector or a
        matrix of right sides; out, format and result are as in matmul.  Complex systems are solved
        as real ones of twice the size, in NumPy's complex64 and complex128.

        report      True: returns (x, SolveReport)

        NoScheme: a is singular in binary64, or so near to it that corrections do not shrink.

            x = limber.solve(a, b, dtype="f128")    # 34 digits
        """
        return _solve.solve(self, a, b, dtype, out, result, report, format)

    def prepare(self, x: Array, side: str = "left", bytes: int = 0, check_changes: bool = False,
                format: Optional[str] = None) -> Operand:
        """An Operand for matmul in the place of x.  x is kept and not copied; its elements must not
        change until the operand is closed.  check_changes: every product looks whether they did."""
        left = is_left(side)
        return self._prepare(
            x, left, bytes, check_changes, format, check_matrix,
            lambda view, *rest: lib.limber_prepare(self._handle._pointer, view.matrix(),
                                                   *view.shape, _SIDES[left], *rest))

    def prepare_filters(self, w: Array, layout: str = "NCHW", bytes: int = 0,
                        check_changes: bool = False, format: Optional[str] = None,
                        groups: int = 1, backward: bool = False, stride: Sizes = 1,
                        pad: Sizes = 0, dilation: Sizes = 1) -> Operand:
        """An Operand for conv1d, conv2d and conv3d in the place of filters w, with as many groups
        as there; else as prepare.

        backward     for conv1d_backward_data and so on (transposed convolutions) instead, which
                     read other parts of a window for other strides, pads and dilations: these are
                     as there

            with ctx.prepare_filters(w, backward=True, stride=2, pad=1) as kept:
                y = ctx.conv2d_backward_data(x, kept, size=(64, 64), stride=2, pad=1)
        """
        def check_filters(view):
            """Requires filters that the library can prepare, in C order."""
            if len(view.shape) not in _conv.LAYOUTS or view.pairs:
                raise BadArgument("w: expected three, four or five axes of real numbers")
            view.dense()

        def prepare(view, *rest):
            """Calls limber_prepare_filters; returns its status."""
            named = _conv.layout_of(layout, len(view.shape))
            shape = _conv.geometry_of_filters(_conv.axes_of(view.shape, named), stride, pad,
                                              dilation, groups, named)
            return lib.limber_prepare_filters(self._handle._pointer, byref(shape), view.data,
                                              view.format, *rest)

        return self._prepare(w, False, bytes, check_changes, format, check_filters, prepare,
                             _conv.DATA if backward else _conv.FORWARD)

    def _prepare(self, x, left, bytes, check_changes, format, check_view, prepare, operation=0):
        """Makes an Operand. check_view refuses arrays that do not fit; prepare calls the
        library."""
        room, check_changes = integer(bytes, "bytes", 0, WORD), bool(check_changes)
        x = lasting(x, "x")
        view = view_of(x, "x", format)
        try:
            check_view(view)
            if view.copied:
                raise BadArgument("x: elements are not read where they lie, for their type, their "
                                  "byte order or their strides")
            self._handle.acquire()
        except BaseException:
            view.release()
            raise
        pointer, config = c_void_p(), C.PrepareConfig(bytes=room, changes=check_changes,
                                                      operation=operation)
        status = prepare(view, byref(config), byref(pointer))

        def end(operand):
            """Frees the operand, and what it held."""
            lib.limber_prepared_free(operand)
            view.release()
            self._handle.release()

        handle = Handle(pointer, end, "the operand")
        if status:
            try:
                check(status)
            finally:
                handle.close()
        return Operand(self, x, left, view, handle)

    def cache_info(self) -> CacheInfo:
        """Where kernels are kept, how many and how large."""
        info = C.CacheInfo()
        with self._handle.use() as ctx:
            check(lib.limber_cache_describe(ctx, byref(info)))
        return tuple_of(CacheInfo, info)

    def cache_entries(self, verify: bool = False) -> List[CacheEntry]:
        """The kernels on disk; verify: their checksums are looked at."""
        found = []

        def seen(_, entry):
            """Called by the library for each kernel on disk; 0 asks for the next."""
            found.append(tuple_of(CacheEntry, entry.contents))
            return 0

        with self._handle.use() as ctx:
            check(lib.limber_cache_each(ctx, verify, C.SeenEntry(seen), None))
        return found

    def cache_clear(self, damaged_only: bool = False) -> int:
        """Removes kernels from disk; returns how many."""
        removed = c_size_t()
        with self._handle.use() as ctx:
            check(lib.limber_cache_clear(ctx, damaged_only, byref(removed)))
        return removed.value
