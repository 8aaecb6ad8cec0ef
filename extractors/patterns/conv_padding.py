"""What happens where a tap lies outside the input."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER
from extractors.patterns.cases_convolutions import (
    DEPTHWISE_THREADS,
    DEPTHWISE_TILE,
    DIRECT,
    POOLED,
    WINDOW,
)
from extractors.patterns.cases_gluon import CONVOLUTION_GLUON, PRODUCT_GLUON
from extractors.patterns.cases_rows import CONVOLUTION
from extractors.patterns.cases_rows_pointer import CONVOLUTION_TILE
from extractors.patterns.cases_rows_threads import CONVOLUTION_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.convolution import convolution
from kb.analysis.facts import Facts
from kb.evidence import Decision


class ConvPadding(Pattern):
    """Input positions are compared with zero and the extent in the mask of the load."""

    name = "tap-checks-at-the-border"
    axis = "conv_padding"
    source = "Chetlur et al., cuDNN: Efficient Primitives for Deep Learning (2014), implicit GEMM"
    matches = (
        Case(CONVOLUTION_GLUON, "out-of-range fill by the copy engine"),
        Case(CONVOLUTION, "mask"),
        Case(CONVOLUTION_TILE, "out-of-range fill by the gather"),
        Case(CONVOLUTION_THREADS, "mask"),
        Case(DIRECT, "mask"),
        Case(DEPTHWISE_TILE, "out-of-range fill by the gather"),
        Case(DEPTHWISE_THREADS, "mask"),
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
        if found.checks:
            yield self.decide(facts, "mask", found.checks)
        elif found.by_engine:
            yield self.decide(facts, "out-of-range fill by the copy engine", (found.load,))
        else:
            yield self.decide(facts, "out-of-range fill by the gather", (found.load,))
