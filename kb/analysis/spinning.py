"""Loops that wait for what another block, or another device, writes."""

from __future__ import annotations

from dataclasses import dataclass

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.pointed import array_of, pointer_of
from kb.analysis.symbolic import sub
from kb.ops import ATOMICS, OpKind

_ENDING = (
    OpKind.BREAK, OpKind.RETURN, OpKind.TRAP, OpKind.CLOCK, OpKind.OPAQUE, OpKind.CALL,
    OpKind.INLINE_ASM,
)  # fmt: skip
_READING = (OpKind.LOAD, OpKind.ATOMIC_ADD, OpKind.ATOMIC_OR, OpKind.ATOMIC_XCHG, OpKind.ATOMIC_MAX,
            OpKind.ATOMIC_CAS)  # fmt: skip
MAX_OPERATIONS = 24
"""Operations of a loop that does nothing but wait."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A loop that ends where a word has a value, and the array that the word lies in; empty where
    that is no parameter. `own` where the kernel itself counts in that word: its own blocks are
    waited for."""

    loop: Node
    array: str
    own: bool


def waits(facts: Facts) -> list[Wait]:
    """Loops that read one word again and again and that nothing but the word ends."""
    if not facts.of_threads:
        return []
    found = []
    for loop in facts.threads.of(OpKind.WHILE):
        read = awaited(facts, loop)
        if read is not None:
            found.append(Wait(loop, array_of(facts.threads, read), _counted(facts, read)))
    return found


def _counted(facts: Facts, read: Node) -> bool:
    """Whether blocks of the kernel add to the word that is read."""
    graph, expr = facts.threads, facts.thread_values.expr
    place = pointer_of(read)
    loaded = graph.roots(place, OpKind.LOAD)
    return any(
        not sub(expr(pointer_of(n)), expr(place)).terms
        or (loaded and graph.roots(pointer_of(n), OpKind.LOAD) == loaded)
        for n in graph.of(OpKind.ATOMIC_ADD)
        if n is not read
    )


def awaited(facts: Facts, loop: Node) -> Node | None:
    """What a loop reads to know whether it ends; None for a loop that does more than wait."""
    graph = facts.threads
    inside = graph.within(loop)
    if len(inside) > MAX_OPERATIONS or any(node.op.kind in _ENDING for node in inside):
        return None
    if any(n.op.kind in (OpKind.STORE, OpKind.FOR) for n in inside):
        return None
    reads = [n for n in inside if n.op.kind in _READING and n.op.attribute("space") != "shared"]
    others = [n for n in inside if n.op.kind in ATOMICS and n not in reads]
    if len(reads) != 1 or others or not _asked(facts, loop, reads[0]):
        return None
    carried = {a.name for region in loop.op.regions for a in region.arguments}
    given = reads[0].op.inputs
    above = {v for value in given for node in graph.upstream(value) for v in node.op.inputs}
    return None if carried & {*given, *above} else reads[0]


def _asked(facts: Facts, loop: Node, read: Node) -> bool:
    """Whether the condition of a loop rests on what was read, and on no count of rounds."""
    graph = facts.threads
    conditions = [
        value
        for region in loop.op.regions
        for op in region.ops[-1:]
        for role, value in op.operands
        if role == "condition"
    ]
    if not conditions or not all(graph.rests_on(value, read) for value in conditions):
        return False
    tests = [*conditions, *_tested(facts, loop)]
    counted = {
        argument.name
        for region in loop.op.regions
        for argument in region.arguments
        if any(graph.rests_on_argument(value, argument.name) for value in tests)
    }
    return not any(_other(facts, name, read) for name in counted)


def _tested(facts: Facts, loop: Node) -> list[str]:
    """Conditions of branches in a loop."""
    branches = (OpKind.IF, OpKind.IF_EXPRESSION)
    return [n.op.inputs[0] for n in facts.threads.within(loop) if n.op.kind in branches]


def _other(facts: Facts, name: str, read: Node) -> bool:
    """Whether what a loop carries is made of anything but what it reads."""
    return not any(facts.threads.rests_on(feed, read) for feed in facts.threads.feeds(name))
