"""Rows that one thread walks more than once, in loops of their own."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.loops import Role
from kb.analysis.symbolic import sub

_REDUCING = (Role.SUM, Role.RUNNING_SUM, Role.RUNNING_MAXIMUM)


def walked_again(facts: Facts) -> list[Access]:
    """Loads of a row that one thread walks more than once, in loops of their own one of which
    reduces it."""
    walks: dict[tuple[str, str], list[Access]] = {}
    for access in facts.loads if facts.of_threads else ():
        loop = facts.loop(access.loop)
        step = facts.values.expr(loop.induction) if loop and loop.induction else None
        if access.array is None or step is None or step.atom is None:
            continue
        rest = [sub(index, step) for index in access.index]
        moved = any(step.atom in set(index.atoms()) for index in access.index)
        if moved and not any(step.atom in set(one.atoms()) for one in rest):
            walks.setdefault((access.array, str(rest)), []).append(access)
    return [a for loads in walks.values() for a in loads if _apart(facts, loads)]


def _apart(facts: Facts, loads: list[Access]) -> bool:
    """Several loops, none inside another, of which one carries a sum or an extreme on."""
    loops = [one for one in map(facts.loop, {a.loop for a in loads}) if one is not None]
    nested = any(a.node.inside(b.node) for a in loops for b in loops)
    reduced = any(
        facts.graph.rests_on(carried.next, access.node)
        for loop in loops
        for carried in loop.of(*_REDUCING)
        for access in loads
        if access.loop is loop.node
    )
    return len(loops) > 1 and not nested and reduced
