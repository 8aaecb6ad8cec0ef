"""Whether the dilation is known when the kernel is compiled."""

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
from extractors.patterns.cases_rows import CONVOLUTION
from extractors.patterns.cases_rows_pointer import CONVOLUTION_TILE
from extractors.patterns.cases_rows_threads import CONVOLUTION_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.convolution import convolution, factor, places
from kb.analysis.facts import Facts
from kb.evidence import Decision


class ConvDilation(Pattern):
    """A parameter multiplies the tap in the input position."""

    name = "tap-times-dilation"
    axis = "conv_dilation"
    source = "Chetlur et al., cuDNN: Efficient Primitives for Deep Learning (2014), implicit GEMM"
    matches = (
        Case(CONVOLUTION, "constexpr"),
        Case(CONVOLUTION_TILE, "constexpr"),
        Case(CONVOLUTION_THREADS, "constexpr"),
        Case(vary(CONVOLUTION, ("DIL: tl.constexpr", "DIL")), "runtime"),
        Case(vary(CONVOLUTION, ("r * DIL", "r"), ("s * DIL", "s")), "unsupported"),
        Case(DIRECT, "constexpr"),
        Case(DEPTHWISE_TILE, "constexpr"),
        Case(DEPTHWISE_THREADS, "constexpr"),
    )
    near_misses = (
        NearMiss(POOLED, why="inputs are summed without weights"),
        NearMiss(WINDOW, why="one factor for all taps"),
        NearMiss(PRODUCT, why="rows are rows, nothing is taken apart"),
        NearMiss(PRODUCT_POINTER, why="rows are rows, nothing is taken apart"),
        NearMiss(PRODUCT_THREADS, why="rows are rows, nothing is taken apart"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = convolution(facts)
        if found is None or found.by_engine:
            return
        steps = [a for e in found.positions if (a := factor(e, taps=True)) is not None]
        value = "unsupported"
        if steps:
            value = "constexpr" if all(a.value in facts.constexprs for a in steps) else "runtime"
        yield self.decide(facts, value, places(facts, found))
