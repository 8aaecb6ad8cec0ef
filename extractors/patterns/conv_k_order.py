"""In which order taps and channels are summed."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER
from extractors.patterns.cases_gluon import CONVOLUTION_GLUON, PRODUCT_GLUON
from extractors.patterns.cases_rows import CONVOLUTION
from extractors.patterns.cases_rows_pointer import CONVOLUTION_TILE
from extractors.patterns.cases_rows_threads import CONVOLUTION_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.convolution import convolution, decoding
from kb.analysis.facts import Facts
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
    )
    near_misses = (
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
