"""In which order taps and channels are summed."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER
from extractors.patterns.cases_convolutions import DIRECT, POOLED, WINDOW
from extractors.patterns.cases_gluon import CONVOLUTION_GLUON, PRODUCT_GLUON
from extractors.patterns.cases_rows import CONVOLUTION
from extractors.patterns.cases_rows_pointer import CONVOLUTION_TILE
from extractors.patterns.cases_rows_threads import CONVOLUTION_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.convolution import Convolution, convolution, decoding
from kb.analysis.facts import Facts
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision


class ConvKOrder(Pattern):
    """One loop variable is divided into tap and channel block; the remainder runs fastest."""

    name = "tap-and-channel-order"
    axis = "conv_k_order"
    source = "Chetlur et al., cuDNN: Efficient Primitives for Deep Learning (2014), implicit GEMM"
    matches = (
        Case(CONVOLUTION_GLUON, "R,S outer, C inner"),
        Case(CONVOLUTION, "R,S outer, C inner"),
        Case(CONVOLUTION_TILE, "R,S outer, C inner"),
        Case(CONVOLUTION_THREADS, "R,S outer, C inner"),
        Case(DIRECT, "C outer"),
    )
    near_misses = (
        NearMiss(POOLED, why="inputs are summed without weights"),
        NearMiss(WINDOW, why="one factor for all taps"),
        NearMiss(PRODUCT_GLUON, why="rows are rows, nothing is taken apart"),
        NearMiss(PRODUCT, why="rows are rows, nothing is taken apart"),
        NearMiss(PRODUCT_POINTER, why="rows are rows, nothing is taken apart"),
        NearMiss(PRODUCT_THREADS, why="rows are rows, nothing is taken apart"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = convolution(facts)
        if found is None:
            return
        steps = decoding(facts, AtomKind.INDUCTION)
        if not steps and (order := self._nested(facts, found)):
            value = "C outer" if order[0] else "R,S outer, C inner"
            yield self.decide(facts, value, [loop.node for loop in order[1]])
            return
        taps = {a for e in found.positions for a in e.atoms()}
        channels = [
            a
            for e in found.load.index
            for f, _ in e.terms
            for a in f
            if any(x.has(AtomKind.INDUCTION) for x in a.args) and a not in taps
        ]
        if steps:
            inner = any(a.kind is AtomKind.MOD for a in channels)
            yield self.decide(facts, "R,S outer, C inner" if inner else "C outer", steps)

    def _nested(self, facts: Facts, found: Convolution) -> tuple[bool, list[Loop]] | None:
        """Loops of channels and of taps, and whether the former hold the latter."""
        moved = {a for e in found.positions for a in e.atoms() if a.kind is AtomKind.INDUCTION}
        read = {a for e in found.load.index for a in e.atoms() if a.kind is AtomKind.INDUCTION}
        counted = [
            (loop, facts.values.expr(loop.induction).atom)
            for loop in facts.loops
            if loop.induction is not None and found.load.node.inside(loop.node)
        ]
        taps = [loop for loop, atom in counted if atom in moved]
        channels = [loop for loop, atom in counted if atom in read - moved]
        if not taps or not channels:
            return None
        outer = any(tap.node.inside(one.node) for tap in taps for one in channels)
        return outer, [*channels, *taps]
