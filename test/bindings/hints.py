# SPDX-License-Identifier: BSD-3-Clause
"""A program for the type checker (mypy --strict), which is also run.  Deliberate errors are marked
`type: ignore`.  If the checker misses one, it reports the needless mark."""
from __future__ import annotations

from fractions import Fraction
from typing import Dict, List, Tuple

import limber
from limber import Quad, ops


def products() -> Tuple[object, limber.Report]:
    """Calls products with arguments of the types that the hints accept."""
    a = [[1.0, 2.0], [3.0, 4.0]]
    c, report = limber.matmul(a, a, contract="correct", report=True)
    limber.dot(a, a, dtype="f32")
    limber.tensordot(a, a, axes=1, scheme="native")
    limber.einsum("ij,jk->ik", a, a, alpha=Fraction(1, 3))
    text: str = limber.plan(a, a)
    sides: limber.Inspection = limber.inspect(a)
    assert text and sides
    return c, report


def contexts() -> int:
    """Contexts, prepared operands and what they return."""
    with limber.Context(threads=1, cache_dir="", log=lambda line: None) as ctx:
        with ctx.prepare([[1.0]], side="right") as operand:
            held: limber.Operand = operand
            ctx.matmul([[2.0]], held)
        found: limber.Inspection = ctx.inspect([[1.0]])
        entries: int = ctx.cache_info().entries
    return entries + found.lines


def quads() -> Tuple[Quad, bool]:
    """Arithmetic on Quads."""
    q = Quad([["0.1", Fraction(1, 3)], [2**200, 1e-300]])
    total: Quad = (q + 1 - q * 2).sum(axis=0).mean()
    number: Fraction | float = total.item()
    hi, lo = q.to_pairs()
    assert Quad.from_pairs(hi, lo).shape == q.shape
    return abs(-q).sqrt() / 3, bool(number)


def facts() -> Dict[str, str]:
    """Functions that return facts about formats and units."""
    facts: limber.FormatFacts = limber.finfo("bf16")
    digits: float = facts.decimal_digits
    names: List[str] = limber.formats()
    distance: float = limber.spacing("f16", 10)
    units: Dict[str, limber.Preset] = limber.units()
    kept: float = limber.retention(12, 10, 100)
    status: limber.Status = limber.Status.OK
    assert names and units and digits and distance and kept <= 1 and status == 0
    return limber.schemes()


def others() -> None:
    """Conversions, element-wise functions, systems and convolutions."""
    limber.convert([1.5], "bf16", rounding="odd", subnormals=False)
    limber.quantize([1.5], "e4m3", rounding="stochastic", seed=1, saturate=True)
    x: object = ops.relu([1.0, -1.0])
    limber.solve([[2.0]], [1.0])
    limber.conv2d([[[[1.0]]]], [[[[2.0]]]], pad=(0, 0), layout="NHWC")
    assert x is not None


def wrong() -> None:
    """Makes calls that the checker and the library must refuse."""
    for call in (
            lambda: limber.matmul([[1.0]], [[1.0]], contrct="exact"),       # type: ignore[call-arg]
            lambda: limber.dot([[1.0]], [[1.0]], contrct="exact"),          # type: ignore[call-arg]
            lambda: limber.plan([[1.0]]),                                   # type: ignore[call-arg]
            lambda: limber.Context(thread=1),                               # type: ignore[call-arg]
            lambda: limber.quantize([1.0], "bf16", seeds=1),                # type: ignore[call-arg]
            lambda: limber.finfo("f16").digits,                         # type: ignore[attr-defined]
            lambda: limber.Quad([1]).to_string()):                      # type: ignore[attr-defined]
        try:
            call()
        except (TypeError, AttributeError):
            continue
        raise AssertionError("a wrong call was served")


if __name__ == "__main__":
    assert products() and contexts() >= 0 and quads() and facts()
    others()
    wrong()
