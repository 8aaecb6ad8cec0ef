"""Promises about positions that the compiler could not have found out."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT_POINTER, vary
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_PROMISES = (OpKind.MULTIPLE_OF, OpKind.MAX_CONTIGUOUS)
_WRAPPED = vary(
    PRODUCT_POINTER,
    (
        "    k = tl.arange(0, TK)\n",
        "    m = tl.max_contiguous(tl.multiple_of(m % M, TM), TM)\n    k = tl.arange(0, TK)\n",
    ),
)
_COUNTED = (
    POINTER
    + """
@triton.jit
def move(x, out, n, T: tl.constexpr):
    for i in range(0, n, T):
        i = tl.multiple_of(i, T)
        at = i + tl.arange(0, T)
        tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)
"""
)


class AssertedLayout(Pattern):
    """Positions of lanes, on their way to an address, are declared multiples or contiguous."""

    name = "contiguity-and-divisibility-asserted-by-hints"
    axis = "layout_contract"
    source = "Triton documentation, tl.multiple_of, tl.max_contiguous"
    matches = (Case(_WRAPPED, "asserted by hints"),)
    near_misses = (
        NearMiss(vary(_WRAPPED, ("tl.max_contiguous(tl.multiple_of(m % M, TM), TM)", "m % M")),
                 why="the positions stand as they were computed"),
        NearMiss(_COUNTED, why="a loop that counts by the tile says as much itself"),
        NearMiss(PRODUCT_POINTER, why="nothing is promised"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = [
            node
            for node in facts.graph.of(*_PROMISES)
            if facts.values.expr(node.op.inputs[0]).has(AtomKind.LANE) and _addresses(facts, node)
        ]
        if found:
            yield self.decide(facts, "asserted by hints", found)


def _addresses(facts: Facts, node: Node) -> bool:
    """True when an address rests on the promise."""
    return any(facts.graph.rests_on(v, node) for a in facts.accesses for v in a.address)
