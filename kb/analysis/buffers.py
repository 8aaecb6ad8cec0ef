"""Shared arrays of which a loop fills one part while it reads the other."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import COPIES, LOOPS, Node
from kb.ops import OpKind

_TURNS = (OpKind.BIT_XOR, OpKind.SUB, OpKind.MOD)
"""What makes the next buffer of the present one: x ^ 1, 1 - x, (x + 1) % n."""


def turned_over(facts: Facts) -> list[Node]:
    """Loads from memory, and the stores that put what they brought into the other buffer."""
    graph = facts.threads
    shared = facts.shared
    found: list[Node] = []
    for loop in (node for node in graph.nodes if node.op.kind in LOOPS):
        turns = [
            end
            for value in graph.handed(loop)
            for end in graph.ends(value, COPIES)
            if end.op.kind in _TURNS and end.inside(loop)
        ]
        inside = [node for node in graph.of(OpKind.LOAD, OpKind.STORE) if node.inside(loop)]
        held = [node for node in inside if shared.holds(node.op)]
        read = {shared.place(n.op) for n in held if n.op.kind == OpKind.LOAD}
        for store in (n for n in held if n.op.kind == OpKind.STORE):
            brought = [
                load
                for load in inside
                if load not in held and graph.rests_on(store.op.operand("value"), load)
            ]
            chosen = any(graph.rests_on(store.op.operand("pointer"), turn) for turn in turns)
            if brought and chosen and shared.place(store.op) in read:
                found += [*brought, store]
    return list(dict.fromkeys(found))
