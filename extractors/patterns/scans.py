"""Running totals: scans of a tile, totals that a loop writes out as it goes, and sorts."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_kept import RUNNING_BY_PRODUCT
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, PARTIAL_SUM
from extractors.patterns.cases_rows_threads import ROW_NORM_THREADS
from kb.analysis.accesses import Access
from kb.analysis.carried_scans import SCANS, carried_scans
from kb.analysis.diagonals import triangle_products
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop, Role
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

SCAN_TILE = (
    TILE
    + """
@ct.kernel
def column(x, out, n: int, T: Int):
    at = ct.arange(T, dtype=ct.int32) * n + ct.bid(0)
    v = ct.gather(x, at, padding_value=0)
    ct.scatter(out, at, ct.cumsum(v, axis=0))
"""
)
SCAN_POINTER = (
    POINTER
    + """
@triton.jit
def row(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    tl.store(out + tl.program_id(0) * n + at, tl.cumsum(v, axis=0), mask=at < n)
"""
)
CARRIED = (
    POINTER
    + """
@triton.jit
def row(x, out, n, T: tl.constexpr):
    own = tl.program_id(0) * n
    before = 0.0
    for first in range(0, n, T):
        at = first + tl.arange(0, T)
        v = tl.load(x + own + at, mask=at < n, other=0.0)
        tl.store(out + own + at, before + tl.cumsum(v, axis=0), mask=at < n)
        before += tl.sum(v, axis=0)
"""
)
_SEQUENTIAL = (
    TILE
    + """
@ct.kernel
def starts(x, out, n: int):
    total = ct.zeros((1,), dtype=ct.int32)
    for i in range(n):
        total = total + ct.load(x, index=(i,), shape=(1,))
        ct.store(out, index=(i + 1,), tile=total)
"""
)
_SEQUENTIAL_POINTER = (
    POINTER
    + """
@triton.jit
def starts(x, out, n):
    total = 0
    for i in range(n):
        tl.store(out + i, total)
        total += tl.load(x + i)
"""
)
_SEQUENTIAL_THREADS = """__global__ void starts(const int* x, int* out, int n) {
    int total = 0;
    for (int i = 0; i < n; ++i) {
        out[threadIdx.x * n + i] = total;
        total += x[threadIdx.x * n + i];
    }
}
"""
_SORTED = vary(SCAN_POINTER, ("tl.cumsum(v, axis=0)", "tl.sort(v)"))


class Scans(Pattern):
    """Partial sums of a tile in one operation, alone or with the total of the tiles before; or a
    loop whose sum is stored in every round; or a tile put in order."""

    name = "running-totals-of-a-tile-or-a-loop"
    axis = "reduction_scheme"
    source = "Merrill and Garland, Single-pass Parallel Prefix Scan with Decoupled Look-back (2016)"
    matches = (
        Case(RUNNING_BY_PRODUCT, "scan of a resident tile"),
        Case(SCAN_TILE, "scan of a resident tile"),
        Case(SCAN_POINTER, "scan of a resident tile"),
        Case(CARRIED, "scan tile by tile with a carried total"),
        Case(
            vary(
                CARRIED,
                (
                    "        tl.store(out + own + at, before + tl.cumsum(v, axis=0)",
                    "        if T > 64:\n            w = tl.cumsum(v, axis=0, reverse=True)\n"
                    "        else:\n            w = tl.cumsum(v, axis=0)\n"
                    "        tl.store(out + own + at, before + w",
                ),
            ),
            "scan tile by tile with a carried total",
        ),
        Case(_SEQUENTIAL, "sequential scan"),
        Case(_SEQUENTIAL_POINTER, "sequential scan"),
        Case(_SEQUENTIAL_THREADS, "sequential scan"),
        Case(_SORTED, "sort of a resident tile"),
    )
    near_misses = (
        NearMiss(
            vary(CARRIED, ("before + tl.cumsum", "tl.cumsum")),
            why="the total is not added",
            value="scan tile by tile with a carried total",
        ),
        NearMiss(
            vary(
                _SEQUENTIAL_POINTER,
                ("        tl.store(out + i, total)\n", ""),
                ("tl.load(x + i)\n", "tl.load(x + i)\n    tl.store(out, total)\n"),
            ),
            why="only the whole sum is stored",
        ),
        NearMiss(
            _SEQUENTIAL_THREADS.replace("= total;", "= i;"),
            why="the sum itself is not stored",
        ),
        NearMiss(
            vary(_SEQUENTIAL, ("index=(i + 1,)", "index=(0,)")),
            why="every round stores to the same place",
        ),
        NearMiss(PRODUCT, why="an accumulator is stored when it is complete"),
        NearMiss(LAYER_NORM_POINTER, why="reductions keep one number"),
        NearMiss(PARTIAL_SUM, why="reductions keep one number"),
        NearMiss(ROW_NORM_THREADS, why="threads add up one number"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Node | Access]] = {}
        carried = {scan: added for _, scan, added in carried_scans(facts)}
        for node in facts.graph.of(*SCANS):
            added = carried.get(node, [])
            value = "scan tile by tile with a carried total" if added else "scan of a resident tile"
            found.setdefault(value, []).extend((node, *added))
        if running := triangle_products(facts):
            found.setdefault("scan of a resident tile", []).extend(dict.fromkeys(running))
        for node in facts.graph.of(OpKind.SORT):
            found.setdefault("sort of a resident tile", []).append(node)
        for loop in facts.rolled_loops:
            stored = self._written(facts, loop)
            if stored:
                found.setdefault("sequential scan", []).extend((loop.node, *stored))
        for value, where in found.items():
            yield self.decide(facts, value, where)

    def _written(self, facts: Facts, loop: Loop) -> list[Node | Access]:
        """Stores of the sum so far, in every round of a loop to another place, with what makes the
        sum."""
        sums = {v: c for c in loop.of(Role.SUM) for v in (c.next, c.argument)}
        written = [
            a
            for a in facts.stores
            if sums and a.node.loop is loop.node and not a.is_atomic
            if facts.graph.core(a.value) in sums
            if any(i.has(AtomKind.INDUCTION, AtomKind.COUNT) for i in a.index)
        ]
        added = [facts.graph.producer(sums[str(facts.graph.core(a.value))].next) for a in written]
        return [*written, *(n for n in added if n is not None)]
