"""Records that a thread holds in registers, and pointers seen as others."""

from __future__ import annotations

from kb.analysis.graph import LOOPS, Graph
from kb.ir import Op, TypeKind
from kb.ops import OpKind

MAX_FIELDS = 16
"""Steps from a field to the record that it is of."""

_WRITTEN = frozenset({OpKind.INSERT, OpKind.UNDEF, OpKind.ZEROS})
_PARTS = frozenset({OpKind.ATTRIBUTE, OpKind.EXTRACT})


def looks_only(graph: Graph, op: Op) -> bool:
    """Whether an operation only looks differently at its first operand: a field of a record that
    the thread itself fills, or a pointer seen as one to another type."""
    if op.kind == OpKind.BITCAST:
        kind = op.results[0].type
        return kind is not None and kind.kind is TypeKind.POINTER
    return _of_registers(graph, op)


def is_address(graph: Graph, value: str | None) -> bool:
    """Whether an address is computed: a pointer that is moved."""
    made = graph.producer(value)
    kind = made.op.results[0].type if made is not None and made.op.kind == OpKind.ADD else None
    return kind is not None and kind.kind is TypeKind.POINTER


def unset(graph: Graph, value: str) -> bool:
    """True for a name that a side of a branch gives no value, or a null pointer."""
    made = graph.producer(value)
    kind = made.op.kind if made is not None else ""
    null = made is not None and kind == OpKind.CONST and made.op.attribute("value") is None
    return kind == OpKind.UNDEF or null


def set_or_none(graph: Graph, value: str | None) -> str | None:
    """An operand, or None where the text hands on None or true: nothing is masked by `mask=None`,
    nor by `mask=True`."""
    made = graph.producer(value) if value is not None else None
    always = (
        made is not None and made.op.kind == OpKind.CONST and made.op.attribute("value") is True
    )
    return None if value is None or always or unset(graph, value) else value


def _of_registers(graph: Graph, op: Op) -> bool:
    """Whether an operation reads a field of a record that the thread itself fills."""
    if op.kind != OpKind.ATTRIBUTE:
        return False
    value: str | None = op.inputs[0]
    for _ in range(MAX_FIELDS):
        made = graph.producer(value)
        if made is None:
            value = _first(graph, value)
        elif made.op.kind in _WRITTEN:
            return True
        elif made.op.kind in _PARTS:
            value = made.op.inputs[0]
        elif made.op.kind in (OpKind.IF, OpKind.IF_EXPRESSION):
            ends = graph.feeds(value or "")
            if any(graph.kind_of(v) in _WRITTEN for v in ends):
                return True
            value = next(iter(ends), None)
        elif made.op.kind in LOOPS:
            place = next(i for i, r in enumerate(made.op.results) if r.name == value)
            value = graph.inits(made)[place]
        else:
            return False
        if value is None:
            return False
    return False


def _first(graph: Graph, value: str | None) -> str | None:
    """What a carried argument of a loop begins as; None for another name."""
    around = graph.arguments.get(value) if value is not None else None
    if around is None:
        return None
    loop, _, place = around
    inits = graph.inits(loop)
    place -= loop.op.kind == OpKind.FOR
    return inits[place] if 0 <= place < len(inits) else None
