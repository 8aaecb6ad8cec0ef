"""Items that a loaded mark leaves out: their work is skipped by a branch."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, TILE, vary
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.idioms import masks
from kb.analysis.marks import marks
from kb.evidence import Decision

MARKED = (
    POINTER
    + """
@triton.jit
def loss(x, y, out, n, left_out, T: tl.constexpr):
    row = tl.program_id(0)
    own = tl.load(y + row)
    if own == left_out:
        tl.store(out + row, 0.0)
        return
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(out + row, tl.sum(v, axis=0))
"""
)
_HELD = (
    POINTER
    + """
@triton.jit
def loss(x, counts, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    if tl.load(counts + row).to(tl.int1):
        at = tl.arange(0, T)
        v = tl.load(x + row * n + at, mask=at < n, other=0.0)
        tl.store(out + row, tl.sum(v, axis=0))
    else:
        tl.store(out + row, 0.0)
"""
)
MARKED_TILE = (
    TILE
    + """
@ct.kernel
def scale(x, names, out, rows, left_out, T: Int):
    for row in range(ct.bid(0), rows, ct.num_blocks(0)):
        name = ct.load(names, row, shape=())
        at = ct.arange(T, dtype=ct.int32)
        if name == left_out:
            ct.scatter(out, (row, at), ct.zeros((T,), dtype=ct.float32))
            continue
        v = ct.gather(x, (row, at))
        ct.scatter(out, (row, at), v + v)
"""
)
MARKED_THREADS = """__global__ void loss(const float* x, const int* y, float* out, int n, int z) {
    int row = blockIdx.x;
    if (y[row] == z) return;
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[row * n + i] = x[row * n + i] * 2.f;
}
"""


class MarkedItems(Pattern):
    """A branch on a number that was loaded for the own item leaves, or goes on with the next item,
    or holds all that is loaded: a marked item costs no work. Told where no scores are masked."""

    name = "marked-items-skipped"
    axis = "mask_application"
    source = "Liger Kernel, ops/cross_entropy.py: ignore_index"
    matches = (
        Case(MARKED, "marked items skip the work"),
        Case(vary(MARKED, ("own == left_out", "own == -1")), "marked items skip the work"),
        Case(_HELD, "marked items skip the work"),
        Case(MARKED_TILE, "marked items skip the work"),
        Case(MARKED_THREADS, "marked items skip the work"),
        Case(
            MARKED_THREADS.replace("row = blockIdx", "row = threadIdx"),
            "marked items skip the work",
        ),
        Case(
            MARKED_THREADS.replace("y[row] == z", "y != nullptr && !y[row]"),
            "marked items skip the work",
        ),
    )
    near_misses = (
        NearMiss(vary(MARKED, ("tl.load(y + row)", "tl.load(y)")), why="one switch for all"),
        NearMiss(vary(MARKED, ("own == left_out", "n == left_out")), why="nothing is loaded"),
        NearMiss(vary(MARKED, ("own == left_out", "own < 0")), why="no place: rows out of bounds"),
        NearMiss(vary(MARKED, ("        return\n", "")), why="the work is done anyway"),
        NearMiss(
            vary(
                MARKED,
                ("own == left_out", "own == 0"),
                (
                    "    tl.store(out + row, tl.sum(v",
                    "    for _ in range(own):\n        v += v\n    tl.store(out + row, tl.sum(v",
                ),
            ),
            why="how much there is of the item",
        ),
        NearMiss(vary(MARKED_TILE, ("            continue\n", "")), why="the work is done anyway"),
        NearMiss(
            vary(
                MARKED,
                (
                    "tl.sum(v, axis=0)",
                    'tl.sum(tl.exp(tl.where(at <= row, v, float("-inf"))), axis=0)',
                ),
            ),
            why="scores are masked: that is told",
        ),
        NearMiss(ADD_THREADS, why="the place is asked for, no mark"),
        NearMiss(ATTENTION, why="branches choose bounds, nothing leaves"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = [node for mark in marks(facts) if not mark.negative for node in mark.shown]
        if found and not masks(facts):
            yield self.decide(facts, "marked items skip the work", found)
