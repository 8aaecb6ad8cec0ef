"""Denormal results are flushed to zero, or kept, by a flag on the operation."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import SOFTMAX
from kb.analysis.facts import Facts
from kb.evidence import Decision


class FlushToZero(Pattern):
    """The flag is given on an arithmetic operation: set, or expressly not set.

    An operation that says nothing decides nothing: it keeps denormals because its dialect does.
    """

    name = "flush-to-zero-on-transcendental-arith-ops"
    axis = "denormal_mode"
    source = "NVIDIA, PTX ISA, ex2.approx.ftz.f32"
    matches = (
        Case(ATTENTION, "ftz"),
        Case(SOFTMAX, "ftz"),
        Case(vary(SOFTMAX, ("flush_to_zero=True", "flush_to_zero=False")), "ieee denormals"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="no operation has the flag"),
        NearMiss(
            vary(SOFTMAX, ("flush_to_zero=True", "flush_to_zero=False")),
            why="the flag is off",
            value="ftz",
        ),
        NearMiss(
            vary(SOFTMAX, (", flush_to_zero=True", "")),
            why="the flag is not given, its default is no decision",
            value="ieee denormals",
        ),
        NearMiss(PRODUCT_POINTER, why="no operation has the flag"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        given = [(facts.values.literal(n.op.operand("ftz")), n) for n in facts.graph.nodes]
        for flag, value in ((True, "ftz"), (False, "ieee denormals")):
            nodes = [node for seen, node in given if seen is flag]
            if nodes:
                yield self.decide(facts, value, nodes)
