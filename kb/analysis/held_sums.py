"""Sums that loops carry of products; sums and extremes that a thread takes over what it holds in
registers itself."""

from __future__ import annotations

from functools import lru_cache

from kb.analysis.carried_sums import accumulating
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Carried, Role, updates
from kb.ops import READS, WRITES, OpKind

_TOTALS = (Role.SUM, Role.RUNNING_SUM, Role.RUNNING_MAXIMUM)
_STEPS = (OpKind.ADD, OpKind.FMA, OpKind.MAXIMUM, OpKind.MINIMUM)


@lru_cache(maxsize=2)
def accumulators(facts: Facts) -> tuple[tuple[Carried, Node | None], ...]:
    """Every accumulator of a loop with the product that is added to it."""
    states = (state for loop in facts.loops for state in loop.of(Role.ACCUMULATOR))
    return tuple((x, accumulating(facts.graph, x.argument, x.next)) for x in states)


def held_sums(facts: Facts) -> list[tuple[Role, Node]]:
    """The steps of loops with known rounds that add up or compare what was loaded, of which
    something is stored: what the program of the whole block has no loop for."""
    if not facts.of_threads:
        return []
    graph = facts.threads
    loads, stores = graph.of(*READS), [n for n in graph.of(*WRITES) if n.op.inputs]
    found = []
    for loop in facts.thread_loops:
        known = loop.range is not None and loop.range.op.kind == OpKind.STATIC_RANGE
        for state in loop.of(*_TOTALS) if known else ():
            steps = updates(graph, state.argument, state.next)
            made = next((n for n in steps if n.op.kind in _STEPS), None)
            if made is None or not any(graph.rests_on(state.next, load) for load in loads):
                continue
            if any(graph.rests_on(n.op.operand("value"), loop.node) for n in stores):
                found.append((state.role, made))
    return found
