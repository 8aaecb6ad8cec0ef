"""What the accesses of a thread go to: the array that an address begins at."""

from __future__ import annotations

from kb.analysis.graph import Graph, Node
from kb.analysis.record_fields import field_of
from kb.ir import ParameterKind
from kb.ops import OpKind

_MOVED = (OpKind.ADD, OpKind.COPY, OpKind.POINTER_CAST, OpKind.CAST)
MAX_STEPS = 16
"""Steps from an address back to the array that it lies in."""


def pointer_of(node: Node) -> str:
    """The address of a load, a store or an atomic; empty where it has none."""
    return node.op.operand("pointer") or next(iter(node.op.inputs), "")


def array_of(graph: Graph, node: Node) -> str:
    """The parameter, or the field of one, that an access goes to; empty for others."""
    given = graph.function.parameters
    arrays = {p.name for p in given if p.kind is ParameterKind.ARRAY}
    pointer = pointer_of(node)
    for _ in range(MAX_STEPS):
        if pointer in arrays:
            return pointer
        made = graph.producer(pointer)
        if made is None or made.op.kind not in _MOVED or not made.op.inputs:
            return field_of(graph, pointer) or ""
        pointer = made.op.inputs[0]
    return ""
