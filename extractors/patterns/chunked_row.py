"""A row that is walked in chunks whose lanes past its end are checked."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, SOFTMAX, SOFTMAX_CHUNKS
from extractors.patterns.cases_rows_pointer import SOFTMAX_CHUNKS_POINTER
from extractors.patterns.cases_rows_threads import ROW_NORM_CHUNKS_THREADS
from extractors.patterns.whole_extent_walk import MASKED, walked
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Node
from kb.analysis.idioms import sides
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import COMPARISONS

_KINDS = (
    POINTER
    + """
@triton.jit
def spread(ends, x, out, N: tl.constexpr, T: tl.constexpr):
    at = tl.arange(0, T)
    for t in tl.static_range(N):
        low = tl.load(ends + t)
        high = tl.load(ends + t + 1, mask=t + 1 < N, other=1 << 20)
        if (tl.program_id(0) >= low) & (tl.program_id(0) < high):
            tl.store(out + t * T + at, tl.load(x + t * T + at))
"""
)


class ChunkedRow(Pattern):
    """A loop over the whole of a row whose accesses are checked in every round, in a kernel that
    multiplies no matrices: the tile need not cover the row, nor divide it."""

    name = "row-in-checked-chunks"
    axis = "tile_padding"
    source = "TileGym 1.5.1 (PyPI tilegym, MIT), tilegym/ops/cutile/softmax.py, chunked softmax"
    matches = (Case(SOFTMAX_CHUNKS, "chunk loop"), Case(SOFTMAX_CHUNKS_POINTER, "chunk loop"))
    near_misses = (
        NearMiss(SOFTMAX, why="one tile covers the row"),
        NearMiss(LAYER_NORM_POINTER, why="one tile covers the row"),
        NearMiss(PRODUCT_POINTER, why="the loop walks what a product sums over"),
        NearMiss(
            vary(SOFTMAX_CHUNKS_POINTER, ("range(0, N, T)", "range(0, tl.load(x + row), T)")),
            why="the end is loaded: a segment, not the row",
        ),
        NearMiss(_KINDS, why="the number of the round is checked, no lane"),
        NearMiss(ROW_NORM_CHUNKS_THREADS, why="threads stride over the row one by one"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads or not facts.loops or facts.contractions:
            return
        checked = walked(facts).get(MASKED, [])
        if any(_of_lanes(facts, place) for place in checked):
            yield self.decide(facts, "chunk loop", checked)


def _of_lanes(facts: Facts, place: Where) -> bool:
    """True unless only the number of a round is compared: lanes are checked, one by one or as a
    tile."""
    if not isinstance(place, Node) or place.op.kind in LOOPS:
        return not isinstance(place, Node)
    if place.op.kind not in COMPARISONS:
        return True
    return any(side.has(AtomKind.LANE) for side in sides(facts, place))
