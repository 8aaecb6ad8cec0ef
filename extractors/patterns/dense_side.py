"""Numbers of rows, such as statistics and scales, that lie one after the other in an array of their
own."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, LAYER_NORM_POINTER, SOFTMAX
from extractors.patterns.cases_rows_threads import LAYER_NORM_THREADS
from extractors.patterns.flattened_side_buffer import FlattenedSideBuffer
from extractors.patterns.side_by_flag import SideByFlag
from extractors.patterns.side_index import SideIndex
from extractors.patterns.side_output import SideOutput
from extractors.patterns.side_strides import SideStrides
from extractors.patterns.statistic_positions import StatisticPositions
from extractors.patterns.stored_scale import QUANTISE
from extractors.patterns.summary_beside import SummaryBeside
from extractors.patterns.swizzled_side import SwizzledSide
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.strides import moves
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision

_VALUE = "one number after the other"
_OTHERS = (
    FlattenedSideBuffer(),
    SideByFlag(),
    SideStrides(),
    SideIndex(),
    SwizzledSide(),
    StatisticPositions(),
)

_QUANTISE_TILE = (
    TILE
    + """
@ct.kernel
def quantise(x, out, scales, T: Int):
    row = ct.bid(0)
    v = ct.load(x, index=(row, 0), shape=(1, T))
    top = ct.max(ct.abs(v))
    ct.store(out, index=(row, 0), tile=v / top)
    ct.scatter(scales, row, top)
"""
)
_THREADS = """__global__ void widen(const float* x, float* out, float* largest, int n) {
    int row = blockIdx.x;
    float top = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) {
        out[row * n + i] = x[row * n + i] * 2.f;
        top = fmaxf(top, x[row * n + i]);
    }
    for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    if (threadIdx.x == 0) largest[row] = top;
}
"""


_UNTOLD = frozenset({AtomKind.CHOICE, AtomKind.OPAQUE})
"""What does not say how far apart positions are."""


class DenseSide(Pattern):
    """What is stored beside the output is at one position, with no factor: the row's."""

    name = "side-buffer-one-number-after-the-other"
    axis = "auxiliary_layout"
    source = "PyTorch documentation, tensor views: contiguous strides"
    matches = (
        Case(QUANTISE, _VALUE),
        Case(_QUANTISE_TILE, _VALUE),
        Case(LAYER_NORM_POINTER, _VALUE),
        Case(LAYER_NORM_THREADS, _VALUE),
        Case(_THREADS, _VALUE),
    )
    near_misses = (
        NearMiss(vary(QUANTISE, ("scales + row", "scales + row * n")), why="rows of numbers"),
        NearMiss(
            vary(_QUANTISE_TILE, ("scales, row", "scales, (row, 0)")), why="two indices"
        ),
        NearMiss(_THREADS.replace("largest[row]", "largest[row * n]"), why="far apart"),
        NearMiss(
            _THREADS.replace("largest[row]", "largest[n > 4 ? row : row % 4 * 32 + row / 4]"),
            why="in another order under a condition",
        ),
        NearMiss(
            _THREADS.replace("largest[row]", "largest[row / 8 * n + row % 8]"),
            why="in runs that lie apart",
        ),
        NearMiss(PRODUCT, why="there is one output"),
        NearMiss(SOFTMAX, why="there is one output"),
        NearMiss(ADD_POINTER, why="there is one output"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if len({s.array for s in facts.stores}) < 2:
            return
        told = (d for p in (SideOutput(), SummaryBeside()) for d in p.seen(facts))
        lines = {at for d in told for at in d.lines}
        side = [s for s in facts.stores if s.node.lines in lines and _dense(s, facts.of_threads)]
        arrays = {s.array for s in side}
        apart = any(s.array not in arrays for s in facts.stores)
        if side and apart and not any(d for p in _OTHERS for d in p.seen(facts)):
            yield self.decide(facts, _VALUE, side)


def _dense(access: Access, of_threads: bool) -> bool:
    """One position, counted in single elements: a row's, or a tile's of rows."""
    if len(access.index) != 1:
        return False
    terms = [factors for factors, _ in access.index[0].terms if any(map(moves, factors))]
    alone = [factors for factors in terms if len(factors) == 1]
    if of_threads and any(factors[0].kind in _UNTOLD for factors in alone):
        return False
    lanes = [f for f in alone if f[0].kind is AtomKind.LANE]
    if lanes:
        return len(lanes) == 1 and len(terms) <= 2
    return len(alone) == 1 and (len(terms) == 1 or not of_threads)
