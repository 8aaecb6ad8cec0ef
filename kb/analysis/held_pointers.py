"""Pointers that a kernel stores, and the loaded numbers that they are moved by."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Node
from kb.analysis.registers import is_address
from kb.ops import OpKind

_MOVING = CASTS | COPIES | {OpKind.ADD, OpKind.POINTER_CAST, OpKind.IF, OpKind.SELECT}


def held_pointers(facts: Facts) -> list[tuple[Node, Node]]:
    """Of pointers that threads store, the loads of what they are moved by, each with the step."""
    found: dict[tuple[Node, Node], None] = {}
    for store in facts.stores if facts.of_threads else ():
        value = store.value or ""
        if not is_address(facts.graph, value):
            continue
        for step in facts.graph.upstream(value, lambda n: n.op.kind not in _MOVING):
            if step.op.kind == OpKind.ADD and is_address(facts.graph, step.result):
                loads = (load.node for load in facts.feeding(step.op.inputs[1]))
                found.update(((load, step), None) for load in loads)
    return list(found)
