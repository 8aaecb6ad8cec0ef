"""Sums that blocks add up one after the other under a lock."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.ops import OpKind

_LOOPS = frozenset({OpKind.WHILE, OpKind.FOR})


def spins(facts: Facts) -> list[Node]:
    """Compare-and-swap operations that a loop repeats."""
    swaps = facts.graph.of(OpKind.ATOMIC_CAS)
    loops = [node for node in facts.graph.nodes if node.op.kind in _LOOPS]
    return [swap for swap in swaps if any(swap.inside(loop) for loop in loops)]


def locked_sums(facts: Facts) -> list[Access]:
    """Stores to an array of a value that rests on what the array held, behind a spin."""
    waits = spins(facts)
    if not waits:
        return []
    behind = min(wait.index for wait in waits)
    return [
        store
        for store in facts.stores
        if not store.is_atomic
        and store.node.index > behind
        and any(
            load.array == store.array
            and load.node.index > behind
            and facts.graph.rests_on(store.value, load.node)
            for load in facts.loads
        )
    ]
