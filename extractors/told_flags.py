"""Branches of a program on flags that the host computes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kb.analysis.facts import Facts
from kb.evidence import Decision
from kb.ops import OpKind

FLAGGED = frozenset({"tail_handling"})
"""Axes that a flag decides which the host computes and the program asks."""


def with_branches(decisions: Iterable[Decision], facts: Facts) -> Iterator[Decision]:
    """What a flag of the host decides, with the branches of the program that ask for it."""
    for decision in decisions:
        asked = {
            branch.head
            for branch in (facts.graph.of(OpKind.IF) if decision.axis in FLAGGED else ())
            if decision.subject in _asked(facts, branch.op.inputs[0])
        }
        if asked and decision.file is None:
            decision = replace(decision, lines=tuple(sorted({*decision.lines, *asked})))
        yield decision


def _asked(facts: Facts, condition: str) -> set[str]:
    """What a condition is put together from."""
    return {condition, *(v for n in facts.graph.upstream(condition) for v in n.op.inputs)}
