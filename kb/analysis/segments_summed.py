"""Products that one block sums over a whole segment, as the rows that belong to one expert."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.loops import Loop, Role
from kb.analysis.symbolic import AtomKind


def segments_summed(facts: Facts) -> list[tuple[Loop, Access]]:
    """Loops whose bounds are loaded and that sum matrix products, with the stores of the sums: at
    places that nothing loaded is part of, so that a segment gives one tile of the output."""
    if facts.of_threads or facts.exponentials or any(s.is_atomic for s in facts.stores):
        return []
    return [
        (loop, store)
        for loop in facts.rolled_loops
        if any(p.inside(loop.node) for p in facts.contractions) and _loaded(facts, loop)
        for carried in loop.of(Role.ACCUMULATOR)
        if not _read_again(facts, loop, carried.argument)
        for store in facts.stored_in(carried.result)
        if not any(index.has(AtomKind.LOADED, AtomKind.OPAQUE) for index in store.index)
    ]


def _loaded(facts: Facts, loop: Loop) -> bool:
    """Whether something loaded says where a loop begins or ends."""
    return any(facts.feeding(bound) for bound in (loop.low, loop.high))


def _read_again(facts: Facts, loop: Loop, sum_: str) -> bool:
    """Whether a round takes the sum of the rounds before as an operand of a product, or stores
    something of it, as a recurrence does with its state."""
    graph = facts.graph
    taken = [
        p.op.operand(role)
        for p in facts.contractions
        for role in ("lhs", "rhs")
        if p.inside(loop.node)
    ]
    taken += [s.value for s in facts.stores if s.node.inside(loop.node)]
    return any(value is not None and graph.rests_on_argument(value, sum_) for value in taken)
