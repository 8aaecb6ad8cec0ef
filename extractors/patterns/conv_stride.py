"""Whether the stride is known when the kernel is compiled."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
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
from kb.analysis.convolution import convolution, factor, places
from kb.analysis.facts import Facts
from kb.evidence import Decision


class ConvStride(Pattern):
    """A parameter multiplies the output position in the input position."""

    name = "output-position-times-stride"
    axis = "conv_stride"
    source = "Chetlur et al., cuDNN: Efficient Primitives for Deep Learning (2014), implicit GEMM"
    matches = (
        Case(CONVOLUTION_GLUON, "constexpr"),
        Case(CONVOLUTION, "constexpr"),
        Case(CONVOLUTION_TILE, "constexpr"),
        Case(CONVOLUTION_THREADS, "constexpr"),
        Case(vary(CONVOLUTION, ("STEP: tl.constexpr", "STEP")), "runtime"),
        Case(DIRECT, "constexpr"),
        Case(DEPTHWISE_TILE, "constexpr"),
        Case(DEPTHWISE_THREADS, "constexpr"),
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
        steps = [a for e in found.positions if (a := factor(e, taps=False)) is not None]
        if steps:
            fixed = all(a.value in facts.constexprs for a in steps)
            yield self.decide(facts, "constexpr" if fixed else "runtime", places(facts, found))
