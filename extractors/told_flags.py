"""What the host computes, with where the program asks for it or counts up to it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from extractors.host.derived import rule_lines
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.passes import SHARED
from extractors.host.values import Func
from extractors.syntax.nodes import each
from kb.analysis.facts import Facts
from kb.evidence import AxisKind, Decision, Lines
from kb.ops import OpKind

FLAGGED = frozenset({"tail_handling"})
"""Axes that a flag decides which the host computes and the program asks."""

CHOOSING = frozenset({"one-result-in-two-ways"})
"""Patterns of choices that a flag makes which the host may work out."""

BOTH_PASSES = "one-kernel-for-both-passes"
"""What a kernel is that the host tells a pass by a flag or by a sign."""

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
            told = [p.span.line for p in facts.kernel.entry.parameters if p.name in names]
            asked |= {(line, line) for line in told}
        if asked and decision.file is None:
            decision = replace(decision, lines=tuple(sorted({*decision.lines, *asked})))
        yield decision


def of_both_passes(host: Iterable[Decision]) -> Iterator[Decision]:
    """A kernel for both passes that a flag or a sign tells apart is one piece of code for two."""
    for decision in host:
        if decision.value == SHARED and decision.subject and decision.file is None:
            yield replace(
                decision,
                axis="code_structure",
                value="one kernel for both passes, by a flag",
                pattern=BOTH_PASSES,
                kind=AxisKind.HOST,
            )


def with_rules(decisions: Iterable[Decision], material: Material | None) -> Iterator[Decision]:
    """Choices between ways of a kernel by its flags, with the lines where the host works the flags
    out; of operands that may be missing, with the attached rule that says whether they are."""
    for decision in decisions:
        names = (decision.subject or "").split(", ")
        if material is None or decision.file is not None:
            yield decision
        elif decision.pattern in CHOOSING:
            made = {
                line for site in material.sites() for n in names for line in material.made(site, n)
            }
            yield replace(decision, lines=tuple(sorted({*decision.lines, *made})))
        elif decision.axis == "optional_inputs":
            ruled = {line for site in material.sites() for line in _ruled(material, site, names)}
            yield replace(decision, lines=tuple(sorted({*decision.lines, *ruled})))
        else:
            yield decision


def _ruled(material: Material, site: LaunchRecord, operands: list[str]) -> Iterator[Lines]:
    """Lines of the attached rules that ask for operands."""
    named = {part for one in operands for part in one.split(" by ")}
    for flag, rule in site.kernel.heuristics:
        asked = each(rule.node, ast.Constant) if isinstance(rule, Func) else ()
        if named & {str(one.value) for one in asked}:
            yield from rule_lines(material, site, flag)


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
