"""How the input of every tap is addressed."""

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
from kb.analysis.convolution import convolution, places
from kb.analysis.facts import Facts
from kb.evidence import Decision


class ConvIm2col(Pattern):
    """Input positions are computed in the loop and multiplied by strides; or a copy engine finds
    them."""

    name = "tap-addresses-by-arithmetic"
    axis = "conv_im2col"
    source = "Chetlur et al., cuDNN: Efficient Primitives for Deep Learning (2014), implicit GEMM"
    matches = (
        Case(CONVOLUTION_GLUON, "hardware im2col"),
        Case(CONVOLUTION, "pointer arithmetic per tap"),
        Case(CONVOLUTION_TILE, "pointer arithmetic per tap"),
        Case(CONVOLUTION_THREADS, "pointer arithmetic per tap"),
        Case(DIRECT, "pointer arithmetic per tap"),
        Case(DEPTHWISE_TILE, "pointer arithmetic per tap"),
        Case(DEPTHWISE_THREADS, "pointer arithmetic per tap"),
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
        if found.by_engine:
            yield self.decide(facts, "hardware im2col", [found.load])
            return
        yield self.decide(facts, "pointer arithmetic per tap", [*places(facts, found), found.load])
