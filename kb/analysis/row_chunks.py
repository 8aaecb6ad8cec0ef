"""Whether loads go along a row with a loop, chunk by chunk."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.rounds import goes_along, steps_of
from kb.analysis.symbolic import ONE, AtomKind


def chunked(facts: Facts, access: Access) -> bool:
    """True when the lanes of a load move with a loop over the row."""
    for loop in facts.loops:
        if loop in facts.item_loops or not access.node.inside(loop.node):
            continue
        for step, by in steps_of(facts, loop):
            rows = [e for e in access.index if e.has(AtomKind.LANE) and step in {*e.atoms()}]
            if any(step.kind is not AtomKind.COUNT or goes_along(e, step, by) for e in rows):
                return True
    return False


def along(facts: Facts, access: Access) -> bool:
    """True when every round of the loop takes the lanes that follow those of the last one."""
    loop = facts.loop(access.loop)
    if loop is None or loop in facts.item_loops or loop.induction is None:
        return False
    step = facts.values.expr(loop.induction).atom
    by = facts.values.expr(loop.step) if loop.step is not None else ONE
    lanes = [e for e in access.index if e.has(AtomKind.LANE)]
    return step is not None and any(goes_along(e, step, by) for e in lanes)


def passes(facts: Facts) -> dict[str, list[Access]]:
    """Arrays that several loops read chunk by chunk."""
    found: dict[str, list[Access]] = {}
    for access in facts.loads:
        if access.array is not None and chunked(facts, access):
            found.setdefault(access.array, []).append(access)
    return {array: loads for array, loads in found.items() if len({a.loop for a in loads}) > 1}
