"""Where threads make places out of numbers of their own: of the block, of the thread, of the
warp."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.ops import ATOMICS, OWN_THREAD, READS, OpKind

OF_BLOCK = (OpKind.BLOCK_ID, OpKind.CLUSTER_RANK)
"""What a block asks about itself."""

_STEPS = (
    OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.FMA, OpKind.FLOOR_DIV, OpKind.MOD,
    OpKind.SHIFT_LEFT, OpKind.SHIFT_RIGHT, OpKind.BIT_AND, OpKind.BIT_OR, OpKind.BIT_XOR,
)  # fmt: skip
_COPIES = (OpKind.ASYNC_COPY, OpKind.BULK_COPY)
_WRITING = (OpKind.STORE, OpKind.DESCRIPTOR_STORE, *_COPIES, *ATOMICS)


@lru_cache(maxsize=2)
def numbered_places(facts: Facts) -> tuple[Node, ...]:
    """Of threads: the own numbers, and what is computed of them before any loop, that the places of
    stores past the block are made of; of loads, where no store tells."""
    graph = facts.threads
    for kinds in (_WRITING, READS) if facts.of_threads else ():
        moved = [n for n in graph.of(*kinds) if not _inside_block(facts, n)]
        if found := numbers_below(facts, (v for n in moved for v in _place(n))):
            return tuple(found)
    return ()


def numbers_below(facts: Facts, values: Iterable[str]) -> list[Node]:
    """The own numbers of a block and a thread that values are made of, and the steps before any
    loop that make more of those without memory."""
    graph = facts.threads
    asked = graph.of(*OF_BLOCK, *OWN_THREAD)
    own, above = graph.node_set(asked), 0
    for value in values:
        above |= graph.resting(value)
    if not above & own:
        return []
    read = graph.node_set(graph.of(*READS, OpKind.OPAQUE))
    steps = [n for n in graph.of(*_STEPS) if not n.loops and above >> n.index & 1]
    alone = [n for n in steps if graph.rests_on_any(n.result, own)]
    return [
        *(n for n in asked if above >> n.index & 1),
        *(n for n in alone if not graph.rests_on_any(n.result, read)),
    ]


def _place(access: Node) -> list[str]:
    return [v for role, v in access.op.operands if role not in ("value", "mask")]


def _inside_block(facts: Facts, node: Node) -> bool:
    """Whether what is moved ends in memory of the block."""
    if node.op.kind in _COPIES:
        return node.op.operand("source") is None
    return facts.shared.holds(node.op)
