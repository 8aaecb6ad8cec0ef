"""Padded lanes are set back to zero after a shift has made them something else."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER
from extractors.patterns.cases_rows_pointer import LAYER_NORM
from extractors.patterns.cases_rows_threads import LAYER_NORM_THREADS
from extractors.patterns.cases_threads import BACKWARD_KEYS_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS
from kb.analysis.idioms import against_extent, comparisons
from kb.evidence import Decision
from kb.ops import OpKind


class RezeroPaddedLanes(Pattern):
    """A select with a tail mask keeps a difference and feeds a reduction."""

    name = "re-zero-padded-lanes-after-a-shift"
    axis = "boundary_handling"
    source = "tilelore catalogue, P67"
    matches = (
        Case(LAYER_NORM_POINTER, "where(mask, x-mean, 0)"),
        Case(LAYER_NORM, "where(mask, x-mean, 0)"),
        Case(
            vary(LAYER_NORM_POINTER, ("(inside, c, 0.0)", "(inside, c, tl.zeros_like(c))")),
            "where(mask, x-mean, 0)",
        ),
        Case(LAYER_NORM_THREADS, "where(mask, x-mean, 0)"),
    )
    near_misses = (
        NearMiss(
            vary(LAYER_NORM_POINTER, ("tl.where(inside, c, 0.0)", "c")),
            why="padded lanes stay shifted",
        ),
        NearMiss(BACKWARD_KEYS, why="probabilities are masked, by a causal mask"),
        NearMiss(ATTENTION, why="no difference is masked"),
        NearMiss(BACKWARD_KEYS_THREADS, why="probabilities are masked, by a causal mask"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for node in facts.graph.of(OpKind.SELECT):
            tests = comparisons(facts, node.op.operand("condition"))
            kept = facts.graph.producer(facts.graph.through(node.op.operand("x"), VIEWS | CASTS))
            if (
                kept is None
                or kept.op.kind != OpKind.SUB
                or not _zero(facts, facts.graph.plain(node.op.operand("y")))
            ):
                continue
            if not any(against_extent(facts, t) for t in tests) or not facts.feeding(
                kept.op.inputs[0]
            ):
                continue
            if any(facts.graph.rests_on(r.op.inputs[0], node) for r in facts.reductions):
                yield self.decide(facts, "where(mask, x-mean, 0)", (node,))


def _zero(facts: Facts, value: str | None) -> bool:
    """True for the number zero and for a tile of zeros."""
    return (
        facts.values.literal(value) == 0
        or facts.values.expr(value).constant == 0
        or facts.graph.kind_of(value) in (OpKind.ZEROS, OpKind.ZEROS_LIKE)
    )
