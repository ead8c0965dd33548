# SPDX-License-Identifier: BSD-3-Clause
"""Simulated units: their words, what happens inside, models, and sweeps over many."""
import ctypes
import math
from ctypes import byref, c_void_p
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from . import _library as C
from ._arguments import contract_of, format_of_dtype, unit_of
from ._buffer import canonical, format_named
from ._facts import rows_of, tuple_of
from ._library import lib
from ._types import numpy
from ._typing import DType
from .errors import WORD, BadArgument, check, integer, listed


class Preset(NamedTuple):
    """A unit's words, and where they are from."""
    words: str
    source: str


class Distribution(NamedTuple):
    """Values of a matrix, as limber_distribution has them; exponents[e + 160] counts those in
    [2^e, 2^(e+1))."""
    count: int      # type: ignore[assignment]
    zeros: int
    special: int
    mean: float
    variance: float
    least: float
    largest: float
    exponents: Tuple[int, ...]


class Statistics(NamedTuple):
    """What happened inside a simulated product, as limber_statistics has it."""
    products: int
    nonzero: int
    mul_inexact: int
    mul_underflow: int
    mul_overflow: int
    swamped: int
    partly_swamped: int
    sum_overflow: int
    outer_sums: int
    outer_swamped: int
    outer_partly: int
    a: Distribution
    b: Distribution
    result: Distribution
    variance_wide: float
    retention: float
    predicted: float
    distance: float
    relative: float


class Trial(NamedTuple):
    """One unit of a sweep.  error: Frobenius, relative to the exact product; swamped and
    partly_swamped: shares of the nonzero products; frontier: no other has fewer bits of the
    accumulator and no larger error."""
    unit: str
    format: str
    group: int
    rounding: str
    products: str
    bits: int
    error: float
    distance: float
    relative: float
    swamped: float
    partly_swamped: float
    retention: float
    predicted: float
    seconds: float
    frontier: bool


def units() -> Dict[str, Preset]:
    """The presets of simulated units: {name: Preset}."""
    return {row.contents.name.decode(): Preset(row.contents.words.decode(),
                                               row.contents.source.decode())
            for row in rows_of(lib.limber_unit_preset_at)}


def unit(words: str) -> str:
    """The canonical words of a unit's description, "h100-e4m3 group=128 outer=f32" say."""
    room = ctypes.create_string_buffer(1024)
    return lib.limber_unit_text(byref(unit_of(words, "words")), room, len(room)).decode()


def retention(bits: int, product_bits: int, n: int, groups: int = 1,
              by_number: bool = False) -> float:
    """The share of a sum's variance that an accumulator keeps: Sakr et al., ICLR 2019, theorem 1.
    NaN outside the model.

    bits, product_bits  fraction bits of the accumulator and of products
    n                   terms; with groups: of each group
    groups              sums of n terms that are added up
    by_number           log2 of the number of groups in the place of their length's"""
    bits, product_bits = integer(bits, "bits"), integer(product_bits, "product_bits")
    n, groups = integer(n, "n", most=WORD), integer(groups, "groups", most=WORD)
    if groups == 1:
        return lib.limber_retention(bits, product_bits, n)
    return lib.limber_retention_chunked(bits, product_bits, n, groups, int(bool(by_number)))


def unit_retention(words: str, k: int) -> float:
    """The retention of a unit for sums of length k."""
    return lib.limber_unit_retention(byref(unit_of(words, "words")), integer(k, "k", most=WORD))


class Revealed(NamedTuple):
    """The order in which k products are summed: [0..3, 4] adds 0 to 3 one by one, then 4; {0..7}
    all at once; 0..12:4 stands for 0, 4, 8, 12.  unit: words of a simulated unit that sums so, or
    None."""
    tree: str
    unit: Optional[str]


def _two(x, what):
    """Two integers from an argument."""
    x = listed(x, what)
    if len(x) != 2:
        raise BadArgument(f"{what} = {tuple(x)} has {len(x)} numbers, not two")
    return integer(x[0], what), integer(x[1], what)


def reveal(function: Callable[[Any, Any], Any], k: int, dtype: DType = "f32",
           result: Optional[str] = None, shape: Tuple[int, int] = (1, 1),
           at: Tuple[int, int] = (0, 0)) -> Revealed:
    """The order in which a product of matrices sums, from its results alone (limber_reveal in
    limber/research.h): of NumPy's, PyTorch's, or any other.

        limber.reveal(numpy.matmul, 64, "f64", shape=(32, 32))
        limber.reveal(lambda a, b: (torch.from_numpy(a) @ torch.from_numpy(b)).numpy(), 256)

    function    of arrays a (m, k) and b (k, n), float32 or float64; gives back (m, n)
    k           products in a sum
    dtype       "f32" or "f64": of the arrays; others, "bf16" say, are numbers of that format in
                float32
    result      the format of results (dtype, or f32 for what is narrower); sums of fewer bits are
                found by themselves
    shape       (m, n); kernels for other shapes sum in other orders
    at          the element of the result that is looked at

    BadArgument: k is too large for the range, or results do not come from one order of rounded
    additions."""
    if numpy is None:
        raise BadArgument("reveal needs NumPy")
    k = integer(k, "k", 1)
    m, n = _two(shape, "shape")
    at = _two(at, "at")
    if not (0 <= at[0] < m and 0 <= at[1] < n):
        raise BadArgument(f"at = {at}: no element of {m} x {n}")
    operand, _, _ = format_of_dtype(dtype)
    sums = operand if operand == "f64" else "f32"
    if result:
        sums = format_of_dtype(result, "result")[0]
    kind = numpy.float64 if operand == "f64" else numpy.float32
    a, b = numpy.zeros((m, k), kind), numpy.zeros((k, n), kind)
    failed = []

    def call(_, left, right, count, out):
        """The dot product that the library tests: sets a row and a column, and reads element `at`
        of the result."""
        try:
            a[at[0]] = left[:count]
            b[:, at[1]] = right[:count]
            with numpy.errstate(over="ignore", invalid="ignore"):   # which is asked for
                out[0] = float(numpy.asarray(function(a, b))[at])
        except BaseException as error:      # ctypes would print it and go on
            failed.append(error)
            return 1
        return 0

    tree, unit = c_void_p(), c_void_p()
    status = lib.limber_reveal(C.RevealFn(call), None, k, format_named(operand), format_named(sums),
                               byref(tree), byref(unit))
    if failed:
        raise failed[0]
    check(status)
    try:
        return Revealed(ctypes.string_at(tree).decode(),
                        ctypes.string_at(unit).decode() if unit else None)
    finally:
        lib.limber_free(tree)
        lib.limber_free(unit)


def statistics(context, a, b, words, compare, swamped_only, **options):
    """Implements Context.statistics."""
    if "contract" in options:
        raise TypeError("statistics takes a unit, not a contract")
    unit_of(words, "unit")      # refused by this name
    found = C.Statistics(compare=int(bool(compare)), swamped_only=int(bool(swamped_only)))
    contract = contract_of(f"simulate={words}", options.pop("scheme", None), 0)
    contract.statistics = ctypes.pointer(found)
    made = context.matmul(a, b, contract=contract, **options)
    parts = {name: tuple_of(Distribution, getattr(found, name)) for name in ("a", "b", "result")}
    counts = tuple_of(Statistics, found, **parts)
    return (*made, counts) if options.get("report") else (made, counts)


def _width(format):
    """The bits of a format."""
    return 1 + format.exp_bits + format.frac_bits if format.exp_bits else 8 * format.size


def _words(format, rounding, products, group, operands, outer, seed):
    """A unit's description, for limber_unit_parse."""
    text = f"in={operands or format} mul=" + \
        (f"{format}:{rounding}" if products == "rounded" else "exact") + f" acc={format}:{rounding}"
    if group:
        text += f" group={group} outer={outer or format}:{rounding}"
    return text + f" seed={seed}" * (rounding in ("rs", "sr"))


def _error(c, exact):
    """The relative error in the Frobenius norm; elements without a finite exact value do not
    count."""
    good = numpy.isfinite(exact)
    far, size = (c.astype("d") - exact)[good], exact[good]
    if not numpy.isfinite(far).all():
        return math.inf
    far, size = (far * far).sum(), (size * size).sum()
    return math.sqrt(far / size) if size > 0 else math.inf if far > 0 else 0.0


def _on_frontier(trial, others):
    """Whether no other trial is as good in bits and error, and better in one of them."""
    return math.isfinite(trial.error) and not any(
        x.bits <= trial.bits and x.error <= trial.error and
        (x.bits < trial.bits or x.error < trial.error) for x in others)


def explore(context, a, b, formats, groups, roundings, products, operands, outer, seed):
    """Implements Context.explore."""
    if numpy is None:
        raise BadArgument("explore needs NumPy")
    formats = [canonical(name, "formats") for name in listed(formats, "formats")]
    operands = canonical(operands or None, "operands")
    groups = [integer(group, "groups", 0) for group in listed(groups, "groups")]
    roundings = listed(roundings, "roundings")
    products = listed(products or (["exact"] if operands else ["rounded"]), "products")
    for word in products:
        if word not in ("exact", "rounded"):
            raise BadArgument(f"products = {products!r}: neither exact nor rounded")
    wishes = [(f, g, r, p) for g in groups for r in roundings for p in products for f in formats]
    texts = [_words(f, r, p, g, operands, outer, seed) for f, g, r, p in wishes]
    # a wrong word is found before any runs
    parsed = [unit_of(text, "roundings, outer, seed") for text in texts]
    exact = context.matmul(a, b, contract="correct", dtype="f64")
    trials = []
    for wish, text, made in zip(wishes, texts, parsed):
        c, report, s = statistics(context, a, b, text, True, False, dtype="f32", report=True)
        share = 1 / s.nonzero if s.nonzero else 0
        trials.append(Trial(unit(text), *wish, _width(made.acc.format), _error(c, exact),
                            s.distance, s.relative, s.swamped * share, s.partly_swamped * share,
                            s.retention, s.predicted, report.seconds_run, False))
    return [trial._replace(frontier=_on_frontier(trial, trials)) for trial in trials]
