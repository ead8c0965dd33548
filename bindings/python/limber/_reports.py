# SPDX-License-Identifier: BSD-3-Clause
"""What calls did and found, as tuples.  Their fields are those of the C structures."""
from typing import List, NamedTuple, Optional, Tuple

from ._facts import tuple_of


class Part(NamedTuple):
    """One of the parts of a mixed product, as limber_part has it."""
    scheme: str
    kernel: str
    rows: int
    bound: float
    m: int
    n: int
    share: float
    cost: float
    seconds: float
    group: Tuple[int, ...]
    kinds: Tuple[int, ...]


class Report(NamedTuple):
    """What a call did, as limber_report has it; `found` is 0 for a kernel compiled now, 1 for one
    from disk, 2 from memory, 3 where the interpreter computed rows, 4 for a prebuilt one used for
    the first time; `parts` the Parts of a mixed product; `way` is what computed it."""
    scheme: str
    backend: str
    kernel: str
    rows: int
    pruned: int
    bound: float
    cost: float
    seconds_scan: float
    seconds_compile: float
    seconds_run: float
    found: int
    workspace: int
    recomputed: int
    parts: Tuple[Part, ...]
    order: int
    recomputed_share: float
    way: str


class Tile(NamedTuple):
    """64 x 64 elements, as limber_tile has them."""
    emin: int
    emax: int
    low: int
    bits: int
    flags: int


class Inspection(NamedTuple):
    """What limber.inspect found; `tiles` is a list of rows of Tiles, 64 x 64 elements each."""
    lines: int
    length: int
    zero: int
    special: int
    negative: int
    emin: int
    emax: int
    spread: int
    width: int
    bits: int
    tiles: Optional[List[List[Tile]]]


class CacheInfo(NamedTuple):
    """Where kernels are kept, as limber_cache_info has it."""
    directory: str
    why_not: str
    writable: int
    entries: int
    bytes: int
    limit: int
    tuned: int


class CacheEntry(NamedTuple):
    """A kernel on disk, as limber_cache_entry has it."""
    key: str
    plan: str
    bytes: int
    used: int
    good: int
    foreign: int


def report_of(r):
    """A Report from a limber_report."""
    parts = tuple(tuple_of(Part, r.part[i]) for i in range(r.parts))
    return tuple_of(Report, r, found=getattr(r, "from"), parts=parts)
