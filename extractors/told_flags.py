"""What the host computes, with where the program asks for it or counts up to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from extractors.host.facts import Material
from extractors.host.passes import SHARED
from kb.analysis.facts import Facts
from kb.evidence import Decision
from kb.ops import OpKind

FLAGGED = frozenset({"tail_handling"})
"""Axes that a flag decides which the host computes and the program asks."""

CHOOSING = frozenset({"one-result-in-two-ways"})
"""Patterns of choices that a flag makes which the host may work out."""

_SIGNS = (OpKind.SELECT, OpKind.MUL)
"""What a flag, or a sign, of the host takes part in without a branch."""


def with_branches(decisions: Iterable[Decision], facts: Facts) -> Iterator[Decision]:
    """What a flag of the host decides, with the branches of the program that ask for it; of a
    kernel for both passes, with what the sign of a pass takes part in."""
    for decision in decisions:
        both = decision.value == SHARED
        names = set((decision.subject or "").split(", ")) - {""}
        asks = bool(names) and (both or decision.axis in FLAGGED)
        asked = {
            branch.head
            for branch in (facts.graph.of(OpKind.IF) if asks else ())
            if names & _asked(facts, branch.op.inputs[0])
        }
        if asks and both:
            asked |= {n.head for n in facts.graph.of(*_SIGNS) if names & {*n.op.inputs}}
        if asked and decision.file is None:
            decision = replace(decision, lines=tuple(sorted({*decision.lines, *asked})))
        yield decision


def with_rules(decisions: Iterable[Decision], material: Material | None) -> Iterator[Decision]:
    """Choices between ways of a kernel by its flags, with the lines where the host works the flags
    out."""
    for decision in decisions:
        names = (decision.subject or "").split(", ") if decision.pattern in CHOOSING else []
        if material is not None and decision.file is None:
            made = {
                line for site in material.sites() for n in names for line in material.made(site, n)
            }
            decision = replace(decision, lines=tuple(sorted({*decision.lines, *made})))
        yield decision


def _asked(facts: Facts, condition: str) -> set[str]:
    """What a condition is put together from."""
    return {condition, *(v for n in facts.graph.upstream(condition) for v in n.op.inputs)}


def along_lanes(decision: Decision, facts: Facts) -> Decision:
    """An extent that is rounded up, with the positions that are counted up to it."""
    if decision.axis != "tile_padding" or not decision.subject:
        return decision
    counted = [n for n in facts.graph.of(OpKind.ARANGE) if n.op.operand("size") == decision.subject]
    lines = {*decision.lines, *facts.spans(*counted)}
    return replace(decision, lines=tuple(sorted(lines)))
