"""Denormal results are flushed to zero by a flag on the operation."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT, vary
from extractors.patterns.cases_rows import SOFTMAX
from kb.analysis.facts import Facts
from kb.evidence import Decision


class FlushToZero(Pattern):
    """An arithmetic operation has the flag set."""

    name = "flush-to-zero-on-transcendental-arith-ops"
    axis = "denormal_mode"
    source = "NVIDIA, PTX ISA, ex2.approx.ftz.f32"
    matches = (Case(ATTENTION, "ftz"), Case(SOFTMAX, "ftz"))
    near_misses = (
        NearMiss(PRODUCT, why="no operation has the flag"),
        NearMiss(
            vary(SOFTMAX, ("flush_to_zero=True", "flush_to_zero=False")), why="the flag is off"
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        flushed = [n for n in facts.graph.nodes if facts.flag(n.op.operand("ftz"))]
        if flushed:
            yield self.decide(facts, "ftz", flushed)
