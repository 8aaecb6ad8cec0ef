"""Sums that blocks add up one after the other: under a lock, or by a swap that is tried again until
nobody came between."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.ops import OpKind

_LOOPS = frozenset({OpKind.WHILE, OpKind.FOR})


_SUMS = frozenset({OpKind.ADD, OpKind.SUB, OpKind.FMA})
_DEPTH = 24
"""Operations between what a swap expects and what it puts there."""


def swapped_sums(facts: Facts) -> list[tuple[Access, Node]]:
    """Compare-and-swap operations that put a sum with what they expect, each with that sum: an
    atomic addition."""
    return [
        (store, total)
        for store in facts.stores
        if store.node.op.kind == OpKind.ATOMIC_CAS
        for total in _made_of_expected(facts, store.node)
        if total.op.kind in _SUMS
    ]


def _made_of_expected(facts: Facts, swap: Node) -> list[Node]:
    """The operations that make what a swap puts out of what it expects; none when it puts anything
    else, as who takes a lock does."""
    expected, value = swap.op.operand("expected"), swap.op.operand("value")
    if expected is None or value is None:
        return []
    origins = {expected, *facts.graph.feeds(expected)}
    between: list[Node] = []
    pending = [value]
    for current in pending:
        if current in origins:
            return between
        made = facts.graph.producer(current)
        if made is not None and made.op.kind not in _LOOPS and len(between) < _DEPTH:
            between.append(made)
            pending += [one for one in facts.graph.feeds(current) if one not in pending]
    return []


def spins(facts: Facts) -> list[Node]:
    """Compare-and-swap operations that a loop repeats until they find what they expect."""
    swaps = [s for s in facts.graph.of(OpKind.ATOMIC_CAS) if not _made_of_expected(facts, s)]
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
