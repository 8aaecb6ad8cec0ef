"""Operands of threads that may be missing: by a null pointer and by a template flag, told once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Decision, Lines
from kb.ops import READS, OpKind

OPTIONAL = "optional_inputs"
"""Operands that may be missing."""

NULL, FLAG = "null-pointer-for-an-absent-input", "operand-read-under-a-compile-time-flag"
"""The patterns of operands that are asked for when the kernel runs, and when it is compiled."""


def told_once(decisions: Sequence[Decision], of_threads: bool) -> list[Decision]:
    """The decisions, with operands under flags among those that are asked for."""
    flags = [d for d in decisions if of_threads and d.pattern == FLAG]
    asked = [d for d in decisions if d.pattern == NULL and d.file is None]
    same = [d for d in flags if d.file is None]
    if not asked or not same:
        return [*decisions]
    lines = {line for d in (*asked, *same) for line in d.lines}
    names = {n for d in (*asked, *same) if d.subject for n in d.subject.split(", ")}
    whole = replace(asked[0], lines=tuple(sorted(lines)), subject=", ".join(sorted(names)) or None)
    return [whole if d is asked[0] else d for d in decisions if d not in same]


def given_or_not(program: Sequence[Decision], host: Sequence[Decision]) -> Iterator[Decision]:
    """Operands that the program reads under a flag, and what the host hands in where they are not
    given: one decision, which the host names; null pointers are lines of what the program tells."""
    nulls = [d for d in host if d.pattern == NULL]
    program = [_with_nulls(d, nulls) for d in program]
    host = [d for d in host if d.pattern != NULL]
    read = [d for d in program if d.axis == OPTIONAL and d.file is None]
    joined: set[Decision] = set()
    for decision in host:
        names = _operands(decision) if decision.axis == OPTIONAL else set()
        same = [d for d in read if names & _operands(d)]
        joined.update(same)
        lines = tuple(sorted({*decision.lines, *(line for d in same for line in d.lines)}))
        yield replace(decision, lines=lines) if same else decision
    yield from (d for d in program if d not in joined)


def _with_nulls(decision: Decision, nulls: Sequence[Decision]) -> Decision:
    """An operand that may be missing, with where the host hands in none."""
    if decision.axis != OPTIONAL or decision.file is not None:
        return decision
    same = [d for d in nulls if _operands(d) & _operands(decision)]
    lines = {line for d in (decision, *same) for line in d.lines}
    return replace(decision, lines=tuple(sorted(lines))) if same else decision


def _operands(decision: Decision) -> set[str]:
    """The operands that a decision names, without their flags."""
    return {one.split(" by ")[0] for one in (decision.subject or "").split(", ")} - {""}


def asked_for(facts: Facts, operand: str, flag: str) -> tuple[Lines, ...]:
    """The branches on a flag around every access of an operand; none when one is not under it. A
    branch with accesses on both sides does not ask for the operand."""
    found: list[Lines] = []
    uses = [a for a in facts.accesses if a.array == operand]
    if not uses and flag:
        return _around_number(facts, operand, flag)
    read = any(not a.is_store for a in uses)
    for access in uses:
        others = [a.node for a in uses if access.node.excludes(a.node)]
        guards = [g for g in facts.guards(access.node) if flag in ("", *_read(facts, g))]
        guards = [g for g in guards if flag or not any(n.inside(g) for n in others)]
        guards = [g for g in guards if flag or read or not _per_block(facts, g)]
        if not guards:
            return ()
        found += [g.head for g in guards]
    return tuple(found)


def _around_number(facts: Facts, operand: str, flag: str) -> tuple[Lines, ...]:
    """The branches on a flag around every use of a number; none when one is not under it."""
    found: list[Lines] = []
    for user in facts.graph.users(operand):
        guards = [g for g in facts.guards(user) if flag in _read(facts, g)]
        if not guards:
            return ()
        found += [g.head for g in guards]
    return tuple(found)


def _per_block(facts: Facts, branch: Node) -> bool:
    """True when what a branch asks differs from block to block: no flag of an operand."""
    condition = branch.op.inputs[0]
    kinds = {n.op.kind for n in facts.graph.upstream(condition)}
    return bool(kinds & (READS | {OpKind.BLOCK_ID}))


def _read(facts: Facts, branch: Node) -> set[str]:
    """Everything that the condition of a branch is computed from."""
    seen = {branch.op.inputs[0]}
    pending = [*seen]
    for value in pending:
        new = [feed for feed in facts.graph.feeds(value) if feed not in seen]
        seen.update(new)
        pending += new
    return seen
