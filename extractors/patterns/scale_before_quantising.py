"""A scale of the operation that is folded into what is quantised."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.stored_scale import divided_by_largest
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import OpKind

_LOOKS = VIEWS | CASTS

_QUANTISE = (
    POINTER
    + """
@triton.jit
def quantise(x, out, scales, rate, n, T: tl.constexpr):
    at = tl.arange(0, T)
    row = tl.program_id(0)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32) * rate
    s = tl.max(tl.abs(v)) / 127.0
    tl.store(out + row * n + at, (v / s).to(tl.int8), mask=at < n)
    tl.store(scales + row, s)
"""
)
_QUANTISE_TILE = (
    TILE
    + """
@ct.kernel
def quantise(x, out, scales, rate: float, T: Int):
    i = ct.bid(0)
    v = ct.astype(ct.load(x, index=(i, 0), shape=(1, T)), ct.float32) * rate
    s = ct.max(ct.abs(v), axis=1, keepdims=True) / 127.0
    ct.store(out, index=(i, 0), tile=ct.astype(v / s, ct.int8))
    ct.store(scales, index=(i, 0), tile=s)
"""
)
_FOLDED = "folded into what is quantised"


class ScaleBeforeQuantising(Pattern):
    """A loaded tile is multiplied by a number that the host gives, and then by the scale that its
    largest element asks for."""

    name = "scale-folded-in-before-quantisation"
    axis = "scale_placement"
    source = "Zhang et al., SageAttention (2024), section 3: quantisation of queries and keys"
    matches = (
        Case(_QUANTISE, _FOLDED),
        Case(_QUANTISE_TILE, _FOLDED),
    )
    near_misses = (
        NearMiss(vary(_QUANTISE, (" * rate", "")), why="nothing but its own scale"),
        NearMiss(
            vary(_QUANTISE, (" * rate", ""), ("(scales + row, s)", "(scales + row, s * rate)")),
            why="the number goes into the stored scale",
        ),
        NearMiss(vary(_QUANTISE_TILE, (" * rate", "")), why="nothing but its own scale"),
        NearMiss(ADD_POINTER, why="nothing is quantised"),
        NearMiss(PRODUCT, why="nothing is quantised"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions or not facts.graph.of(OpKind.ABS):
            return
        found: dict[Node, None] = {}
        for quotient in divided_by_largest(facts):
            below = facts.graph.producer(facts.graph.through(quotient.op.inputs[0], _LOOKS))
            if below is not None and below.kind == OpKind.MUL and _given(facts, below):
                found |= dict.fromkeys((below, quotient))
        if found:
            yield self.decide(facts, _FOLDED, found)


def _given(facts: Facts, product: Node) -> bool:
    """A product of a loaded tile and a parameter."""
    sides = product.op.inputs[:2]
    names = facts.graph.function.parameter_names
    return any(
        facts.graph.core(number) in names and bool(facts.held_loads(tile))
        for tile, number in (sides, sides[::-1])
    )
