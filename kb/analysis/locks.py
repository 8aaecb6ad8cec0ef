"""Sums that blocks add up one after the other: under a lock, or by a swap that is tried again until
nobody came between; and words of memory that are read again until another one has written them."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.ops import READS, WRITES, OpKind

_ORDERED = ("volatile", "acquire", "relaxed")
"""Loads that see what others have written since. Source: PTX ISA, ld."""
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


def polled(facts: Facts) -> list[Node]:
    """Loads in a loop that reads the same place again and writes nothing: they see what others
    write, or the loop goes on for nothing else; each with the loop. So do calls that nobody can
    read, of the same values."""
    found: list[Node] = []
    for load in facts.threads.of(OpKind.LOAD):
        opcode = str(load.op.attribute("opcode") or "")
        rounds = [n for n in load.around() if n.op.kind in _LOOPS and _stays(facts, load, n)]
        loop = next((n for n in rounds if _ordered(opcode) or _waits_for(facts, load, n)), None)
        found += [loop, load] if loop is not None else []
    for call in facts.threads.of(OpKind.OPAQUE):
        loop = call.loop
        if loop is not None and call.op.inputs and _repeated(facts, call, loop):
            found += [loop, call] if _waits_for(facts, call, loop) else []
    return found


def _repeated(facts: Facts, call: Node, loop: Node) -> bool:
    """Whether every round of a loop that writes nothing makes the same call, which nobody can read,
    of the same values."""
    handed = [one.name for region in loop.op.regions for one in region.arguments]
    taken = [*call.op.inputs]
    moved = any(facts.threads.rests_on_argument(v, one) for v in taken for one in handed)
    others = [n for n in facts.threads.within(loop) if n.op.kind in WRITES | READS]
    return not moved and not others


def _ordered(opcode: str) -> bool:
    return any(word in opcode for word in _ORDERED)


def _stays(facts: Facts, load: Node, loop: Node) -> bool:
    """Whether every round of a loop that writes nothing loads from the same place."""
    handed = [one.name for region in loop.op.regions for one in region.arguments]
    places = [value for role, value in load.op.operands if role in ("pointer", "index")]
    moved = any(facts.threads.rests_on_argument(p, one) for p in places for one in handed)
    return not moved and not any(n.op.kind in WRITES for n in facts.threads.within(loop))


def _waits_for(facts: Facts, load: Node, loop: Node) -> bool:
    """Whether a loop changes nothing but what it loads, and ends by it."""
    if loop.op.kind != OpKind.WHILE:
        return False
    ends = [region.terminator for region in loop.op.regions]
    handed = [value for end in ends[1:] if end is not None for value in end.inputs]
    asked = [*ends[0].inputs] if ends and ends[0] is not None else []
    left = (n.parent for n in facts.threads.within(loop) if n.op.kind == OpKind.BREAK)
    asked += [n.op.inputs[0] for n in left if n is not None and n.op.kind == OpKind.IF]
    made = [facts.threads.rests_on(value, load) for value in handed]
    return all(made) and any(facts.threads.rests_on(value, load) for value in asked)


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
