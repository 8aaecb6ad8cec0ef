"""Checks of rounds and threads against an extent that a compile-time flag waives."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import against_extent, sides
from kb.analysis.symbolic import AtomKind
from kb.ops import COMPARISONS, OWN_THREAD, OpKind


def waived_rounds(facts: Facts) -> list[tuple[Node, Node]]:
    """Accesses of threads, or branches around them, that a compile-time flag opens for all, else
    only to the rounds, or the threads, that lie inside an extent: `FLAG or round < rounds_inside`;
    each with its condition."""
    found = []
    for made in facts.graph.of(OpKind.OR, OpKind.BIT_OR) if facts.of_threads else ():
        below = [parameters_below(facts, v) for v in made.op.inputs[:2]]
        flags = [bool(names) and names <= facts.constexprs for names in below]
        tests = [_tested(facts, v) for v in made.op.inputs[:2]]
        if not any(flag and test for flag, test in zip(flags, tests[::-1], strict=True)):
            continue
        branches = [n for n in facts.graph.of(OpKind.IF) if n.op.inputs[0] == made.result]
        around = [n for n in branches if any(a.node.inside(n) for a in facts.accesses)]
        masked = [a.node for a in facts.accesses if a.mask == made.result]
        found += [(node, made) for node in (*around, *masked)]
    return found


def _tested(facts: Facts, value: str) -> bool:
    """Whether a value compares a round, or the position of a thread, with what the problem
    gives."""
    test = facts.graph.producer(value)
    if test is None or test.op.kind not in COMPARISONS:
        return False
    if against_extent(facts, test):
        return True
    left, right = test.op.inputs[:2]
    return any(
        facts.values.expr(own).has(AtomKind.INDUCTION)
        and bool(_parameters(facts, extent) - facts.constexprs)
        for own, extent in ((left, right), (right, left))
    )


def parameters_below(facts: Facts, value: str) -> set[str]:
    """Parameters that a value is computed from; none when a block, a thread or a round counts in
    it."""
    lanes = (OpKind.ARANGE, *OWN_THREAD) if facts.of_threads else ()
    own = facts.graph.roots(value, OpKind.BLOCK_ID, *lanes)
    return set() if own else _parameters(facts, value)


def _parameters(facts: Facts, value: str) -> set[str]:
    """Parameters that a value is computed from; none when it counts blocks or rounds."""
    pending, seen = [value], {value}
    for current in pending:
        for feed in facts.graph.feeds(current):
            if feed not in seen:
                seen.add(feed)
                pending.append(feed)
    names = set(facts.graph.function.parameter_names)
    blocks = facts.values.expr(value).has(AtomKind.BLOCK, AtomKind.INDUCTION)
    held = {v for v in seen if v in facts.graph.arguments}
    return set() if blocks or held else seen & names


def lanes_held(facts: Facts, access: Access, tests: Iterable[Node]) -> bool:
    """Whether every lane that an access goes along is held against some extent."""
    held = {a for test in tests for side in sides(facts, test) for a in side.atoms()}
    lanes = {a for e in access.index for a in e.atoms() if a.kind is AtomKind.LANE}
    return bool(lanes) and lanes <= held
