"""How groups of channels are handled."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_convolutions import DEPTHWISE_THREADS, DEPTHWISE_TILE, POOLED, WINDOW
from extractors.patterns.cases_rows import CONVOLUTION
from extractors.patterns.cases_rows_pointer import CONVOLUTION_TILE
from extractors.patterns.cases_rows_threads import CONVOLUTION_THREADS
from extractors.patterns.cases_taps import (
    HELD,
    HELD_THREADS,
    NOT_PICKED,
    PICKED,
    REGISTERS,
    ROWS,
    TAPS_TILE,
)
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access, Mode
from kb.analysis.convolution import Convolution, convolution
from kb.analysis.facts import Facts
from kb.analysis.single_steps import convolved
from kb.analysis.symbolic import Atom, AtomKind
from kb.evidence import Decision


class ConvGroups(Pattern):
    """A block id by itself, times channels and their stride, is part of the input address; or every
    channel has weights of its own."""

    name = "group-by-grid-axis"
    axis = "conv_groups"
    source = "Chetlur et al., cuDNN: Efficient Primitives for Deep Learning (2014), implicit GEMM"
    matches = (
        Case(CONVOLUTION, "grid axis"),
        Case(CONVOLUTION_TILE, "grid axis"),
        Case(CONVOLUTION_THREADS, "grid axis"),
        Case(DEPTHWISE_TILE, "depthwise"),
        Case(DEPTHWISE_THREADS, "depthwise"),
        Case(TAPS_TILE, "depthwise"),
        Case(PICKED, "depthwise"),
        Case(HELD, "depthwise"),
        Case(REGISTERS, "depthwise"),
        Case(HELD_THREADS, "depthwise"),
    )
    near_misses = (
        NearMiss(POOLED, why="inputs are summed without weights"),
        NearMiss(WINDOW, why="one factor for all taps"),
        NearMiss(
            vary(TAPS_TILE, ("(w, (c, ", "(w, (0, ")), why="all channels have the same weights"
        ),
        NearMiss(NOT_PICKED, why="a sum of the weights for all taps"),
        NearMiss(ROWS, why="rows side by side are multiplied, nothing slides"),
        NearMiss(PRODUCT, why="rows are rows, nothing is taken apart"),
        NearMiss(PRODUCT_POINTER, why="rows are rows, nothing is taken apart"),
        NearMiss(PRODUCT_THREADS, why="rows are rows, nothing is taken apart"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = convolution(facts)
        if found is None:
            if own := _own_weights(facts):
                yield self.decide(facts, "depthwise", own)
            return
        blocks = [
            a
            for e in found.load.index
            for f, _ in e.terms
            for a in f
            if a.kind is AtomKind.BLOCK
            and sum(x.kind is AtomKind.PARAMETER for x in f) >= _factors(found.load)
        ]
        ids = [n for n in facts.graph.of("block_id") if facts.values.expr(n.result).atom in blocks]
        if found.product is not None and not _channels(found):
            yield self.decide(facts, "depthwise", [n for n in (found.load, found.weights) if n])
        elif ids:
            yield self.decide(facts, "grid axis", ids)


def _own_weights(facts: Facts) -> list[Where]:
    """Of products tap by tap, inputs and weights that one block id or lane places, with the
    product: each channel has weights of its own."""
    for product in convolved(facts):
        for one, other in combinations(map(facts.feeding, product.op.inputs[:2]), 2):
            shared = _placed(one) & _placed(other)
            if shared and {a.array for a in one}.isdisjoint(a.array for a in other):
                return [*(a for a in (*one, *other) if shared & _placed([a])), product]
    return []


def _placed(loads: Iterable[Access]) -> set[Atom]:
    """Block ids and lanes that say where something is loaded."""
    kinds = (AtomKind.BLOCK, AtomKind.LANE)
    return {a for load in loads for e in load.index for a in e.atoms() if a.kind in kinds}


def _factors(load: Access) -> int:
    """Channels of a group and, in a pointer's offset, their stride."""
    return 2 if load.mode is Mode.POINTER else 1


def _channels(found: Convolution) -> bool:
    """True when inputs are read by what a loop counts beside the taps."""
    taps = {a for e in found.positions for a in e.atoms() if a.kind is AtomKind.INDUCTION}
    read = {a for e in found.load.index for a in e.atoms() if a.kind is AtomKind.INDUCTION}
    return bool(read - taps)
