"""What happens where a tap lies outside the input."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
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
from kb.analysis.accesses import Access
from kb.analysis.convolution import convolution
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind

_CAUSAL = (
    POINTER
    + """
@triton.jit
def causal(x, w, out, n, W: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    acc = tl.zeros((T,), dtype=tl.float32)
    for k in tl.static_range(W):
        tap = at + k - W + 1
        v = tl.load(x + tap, mask=(tap >= 0) & (tap < n), other=0.0)
        acc += v * tl.load(w + k)
    tl.store(out + at, acc, mask=at < n)
"""
)
_ORDERED = (OpKind.GT, OpKind.GE, OpKind.LT, OpKind.LE)
_PLACES = (AtomKind.LANE, AtomKind.BLOCK)


class ConvPadding(Pattern):
    """Input positions are compared with zero and the extent in the mask of the load: those of a
    convolution, or of the taps that a loop of known length walks."""

    name = "tap-checks-at-the-border"
    axis = "conv_padding"
    source = "Chetlur et al., cuDNN: Efficient Primitives for Deep Learning (2014), implicit GEMM"
    matches = (
        Case(CONVOLUTION_GLUON, "out-of-range fill by the copy engine"),
        Case(CONVOLUTION, "mask"),
        Case(CONVOLUTION_TILE, "out-of-range fill by the gather"),
        Case(CONVOLUTION_THREADS, "mask"),
        Case(DIRECT, "mask"),
        Case(POOLED, "mask"),
        Case(WINDOW, "mask"),
        Case(_CAUSAL, "mask"),
        Case(DEPTHWISE_TILE, "out-of-range fill by the gather"),
        Case(DEPTHWISE_THREADS, "mask"),
    )
    near_misses = (
        NearMiss(vary(_CAUSAL, (">= 0", ">= 4")), why="no border is asked for"),
        NearMiss(vary(_CAUSAL, (" + k - W + 1", "")), why="the own place, no tap"),
        NearMiss(
            vary(
                _CAUSAL,
                ("W: tl.constexpr", "W"),
                ("tl.static_range(W)", "range(W)"),
                ("v * tl.load(w + k)", "v"),
            ),
            why="tiles of a row, as many as the launch says",
        ),
        NearMiss(PRODUCT_GLUON, why="rows are rows, nothing is taken apart"),
        NearMiss(PRODUCT, why="rows are rows, nothing is taken apart"),
        NearMiss(PRODUCT_POINTER, why="rows are rows, nothing is taken apart"),
        NearMiss(PRODUCT_THREADS, why="rows are rows, nothing is taken apart"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = convolution(facts)
        if found is None:
            if checks := _walked_taps(facts):
                yield self.decide(facts, "mask", checks)
        elif found.checks:
            yield self.decide(facts, "mask", found.checks)
        elif found.by_engine:
            yield self.decide(facts, "out-of-range fill by the copy engine", (found.load,))
        else:
            yield self.decide(facts, "out-of-range fill by the gather", (found.load,))


def _walked_taps(facts: Facts) -> list[Access | Node]:
    """Loads at an own place moved by a loop of known length, with the comparisons of that place
    with zero and with an extent."""
    found: list[Access | Node] = []
    for load in facts.loads:
        rounds = _known_rounds(facts, load) if load.mask is not None else set()
        below: dict[Expr, list[Node]] = {}
        above: dict[Expr, list[Node]] = {}
        for test in comparisons(facts, load.mask) if rounds else ():
            if test.op.kind not in _ORDERED:
                continue
            left, right = sides(facts, test)
            for own, other in ((left, right), (right, left)):
                if not own.has(*_PLACES) or rounds.isdisjoint(own.atoms()):
                    continue
                if other.constant in (0, -1):
                    below.setdefault(own, []).append(test)
                elif other.constant is None and not other.has(AtomKind.LANE, AtomKind.INDUCTION):
                    above.setdefault(own, []).append(test)
        for own, tests in below.items():
            found += [load, *tests, *above[own]] if own in above else []
    return found


def _known_rounds(facts: Facts, load: Access) -> set[Atom]:
    """What counts the rounds of the loops around a load whose length is known when the kernel is
    compiled."""
    loops = (facts.loop(node) for node in load.node.loops)
    return {
        atom
        for loop in loops
        if loop is not None and facts.values.compile_time(facts.values.expr(loop.high))
        for atom in facts.values.expr(loop.induction).atoms()
        if atom.kind is AtomKind.INDUCTION
    }
