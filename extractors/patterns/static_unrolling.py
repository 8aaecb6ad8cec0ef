"""A loop that the compiler writes out."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from kb.analysis.facts import Facts
from kb.evidence import Decision
from kb.ops import OpKind


class StaticUnrolling(Pattern):
    """The iterable of a loop is known when the kernel is compiled, by its own word."""

    name = "compile-time-unrolled-taps"
    axis = "unrolling"
    source = "Triton documentation, static_range; cuTile documentation, static_iter"
    matches = (
        Case(
            vary(PRODUCT_POINTER, ("in range(0, tl.cdiv(K, TK))", "in tl.static_range(0, 4)")),
            "static_range/static_iter",
        ),
    )
    near_misses = (
        NearMiss(PRODUCT, why="the loop runs over tiles counted at run time"),
        NearMiss(PRODUCT_POINTER, why="the loop runs over tiles counted at run time"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for loop in facts.loops:
            made = loop.range or facts.graph.producer(
                loop.node.op.inputs[0] if loop.node.op.inputs else None
            )
            if made is not None and made.op.kind in (OpKind.STATIC_RANGE, OpKind.STATIC_ITERATE):
                yield self.decide(facts, "static_range/static_iter", (made, loop.node.head))
