"""Rows that may have nothing to be made from, and what is done with them."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, VIEWS, Lines, Node
from kb.analysis.lane_products import score_sums
from kb.analysis.loops import Loop, Role
from kb.analysis.symbolic import AtomKind
from kb.ops import COMPARISONS, OpKind

_JOINED = VIEWS | {OpKind.BIT_OR, OpKind.OR}
_ASKING = COPIES | CASTS | COMPARISONS | {OpKind.SELECT, OpKind.IF_EXPRESSION, OpKind.NOT}


def whole_row(facts: Facts, loop: Loop) -> bool:
    """True for a maximum that is taken of loaded tiles of a row of which every block walks all."""
    if loop.high is None or facts.values.expr(loop.high).has(AtomKind.LOADED, AtomKind.BLOCK):
        return False
    tops = [n for c in loop.of(Role.RUNNING_MAXIMUM) for n in facts.graph.upstream(c.next)]
    taken = [n for n in tops if n.op.kind == OpKind.REDUCE_MAX and n.inside(loop.node)]
    return any(facts.feeding(n.result) for n in taken) and not score_sums(facts)


def nothing_stored(facts: Facts, loop: Loop) -> list[Node | Lines]:
    """What asks whether a loop has any round, and the branch or loop on it that all stores are
    in."""
    if loop.high is None or facts.of_threads:
        return []
    rounds = facts.values.expr(loop.high)
    for guard in facts.graph.of(OpKind.IF, OpKind.FOR):
        stores = [s for s in facts.stores if s.node.index > loop.node.index]
        if guard is loop.node or not stores or not all(s.node.inside(guard) for s in stores):
            continue
        other = facts.loop(guard)
        asked = other.high if other is not None else guard.op.inputs[0]
        above = facts.graph.upstream(asked, lambda n: n.op.kind not in _ASKING) if asked else ()
        tests = [n for n in above if n.op.kind in COMPARISONS]
        met = [n for n in tests if rounds in [facts.values.expr(v) for v in n.op.inputs[:2]]]
        if met:
            return [*met, guard.head]
    return []


def read_as_nothing(facts: Facts, node: Node) -> str:
    """Which numbers a choice reads as minus infinity: those that are none, as they differ from
    themselves, or infinite ones; empty when it does neither."""
    sides = facts.graph.feeds(node.result) if node.op.regions else node.op.inputs[1:]
    held = {facts.graph.core(v) for v in sides}
    if not any(facts.values.literal(v) == float("-inf") for v in held):
        return ""
    for test in facts.graph.upstream(node.op.inputs[0], lambda n: n.op.kind not in _JOINED):
        asked = {facts.graph.core(v) for v in test.op.inputs[:2]}
        if test.op.kind == OpKind.NE and len(asked) == 1 and asked <= held:
            return "not a number read as -inf"
        endless = any(facts.values.literal(v) == float("inf") for v in asked)
        if test.op.kind == OpKind.EQ and endless and asked & held:
            return "+inf read as -inf"
    return ""
