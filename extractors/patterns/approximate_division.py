"""Rounding of divisions and transcendental functions."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import SOFTMAX
from kb.analysis.facts import Facts
from kb.analysis.graph import COPIES, Node
from kb.evidence import Decision
from kb.ops import OpKind


class ApproximateDivision(Pattern):
    """A rounding mode is given on the operation."""

    name = "approximate-division-transcendental"
    axis = "rounding_mode"
    source = "NVIDIA, PTX ISA, div.approx and ex2.approx"
    matches = (
        Case(ATTENTION, "approx"),
        Case(SOFTMAX, "approx"),
        Case(vary(ATTENTION, ("RoundingMode.APPROX", "RoundingMode.RN")), "rn"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="no rounding mode is given"),
        NearMiss(PRODUCT_POINTER, why="no rounding mode is given"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Node]] = {}
        for node in facts.graph.nodes:
            mode = facts.graph.producer(facts.graph.through(node.op.operand("rounding"), COPIES))
            if mode is not None and mode.op.kind == OpKind.ENUM:
                name = str(mode.op.attribute("name")).removeprefix("rounding.")
                found.setdefault(name, []).append(node)
        for value, nodes in found.items():
            yield self.decide(facts, value, nodes)
