"""Rows that a loop adds up, column by column."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Carried, Loop, Role
from kb.analysis.symbolic import AtomKind
from kb.ops import OpKind


def rows_summed(facts: Facts) -> list[tuple[Loop, Node]]:
    """Loops over rows that leave a row of sums, with what adds a row, or what several were reduced
    to; nothing is stored in a round, and no lanes are reduced afterwards."""
    if facts.of_threads or facts.contractions:
        return []
    return [
        (loop, step)
        for loop in facts.loops
        for state in loop.of(Role.SUM, Role.RUNNING_SUM)
        if _row_left(facts, loop, state)
        for step in facts.graph.ends(state.next, CASTS | VIEWS)
        if step.op.kind == OpKind.ADD
        and any(_plain_rows(facts, v, loop) for v in step.op.inputs[:2])
    ]


def _row_left(facts: Facts, loop: Loop, state: Carried) -> bool:
    """Whether a loop leaves a row of lanes that goes into memory as it is, or scaled."""
    if not any(extent != "1" for extent in facts.types.shape(state.result)):
        return False
    if any(a.is_store and a.node.inside(loop.node) for a in facts.accesses):
        return False
    reduced = any(facts.graph.rests_on(r.op.inputs[0], loop.node) for r in facts.reductions)
    return not reduced and bool(facts.stored_in(state.result))


def _plain_rows(facts: Facts, value: str, loop: Loop) -> bool:
    """Whether a value is what the loop loads, or its sum over an axis."""
    node = facts.graph.producer(facts.graph.through(value, CASTS | VIEWS))
    if node is not None and node.op.kind == OpKind.REDUCE_SUM:
        node = facts.graph.producer(facts.graph.through(node.op.inputs[0], CASTS | VIEWS))
    access = facts.access(node) if node is not None and node.inside(loop.node) else None
    return access is not None and not _window(facts, access, loop)


def _window(facts: Facts, access: Access, loop: Loop) -> bool:
    """Whether a loop moves along an axis that the sums have, too, as the taps of a window do."""
    at = facts.values.expr(loop.induction).atom if loop.induction is not None else None
    kept = {a for s in facts.stores for i in s.index for a in i.top() if a.kind is AtomKind.LANE}
    return at is None or any(
        at in index.top() and index.coefficient(lane) == index.coefficient(at)
        for index in access.index
        for lane in index.top()
        if lane in kept
    )
