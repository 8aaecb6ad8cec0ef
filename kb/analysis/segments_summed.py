"""What one block, or one thread, makes of a whole segment, as of the rows of one expert."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop, Role
from kb.analysis.symbolic import AtomKind
from kb.ops import ATOMICS, OWN_THREAD, READS, OpKind


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


def segments_of_threads(facts: Facts) -> list[tuple[Loop, Node]]:
    """Loops of threads that begin and end where loaded numbers say, with the stores of what they
    make: at the own place, so that nobody else adds to it."""
    graph, values = facts.threads, facts.thread_values
    if not facts.of_threads or graph.of(*ATOMICS):
        return []
    whole = [
        loop
        for loop in facts.thread_loops
        if loop.low and loop.high
        and all(values.expr(end).has(AtomKind.LOADED) for end in (loop.low, loop.high))
    ]  # fmt: skip
    found = [(loop, n) for loop in whole for n in graph.of(OpKind.STORE) if not n.inside(loop.node)]
    return [
        (loop, store)
        for loop, store in found
        if graph.rests_on(store.op.operand("value"), loop.node) and _at_own_place(facts, store)
    ]


def _at_own_place(facts: Facts, store: Node) -> bool:
    """Whether own numbers, and nothing that was loaded, say where something is stored."""
    pointer = store.op.operand("pointer")
    own = facts.threads.roots(pointer, OpKind.BLOCK_ID, *OWN_THREAD)
    return bool(own) and not facts.threads.roots(pointer, *READS)


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
