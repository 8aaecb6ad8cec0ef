"""Fields of records that are handed to a kernel."""

from __future__ import annotations

from kb.analysis.graph import LOOPS, Graph
from kb.ir import Function
from kb.ops import OpKind

_MERGING = LOOPS | {OpKind.IF, OpKind.IF_EXPRESSION}
MAX_HANDED_THROUGH = 32
"""Loops and branches that a value is followed through."""


def field_of(graph: Graph, value: str | None) -> str | None:
    """`params.size`: the field of a parameter that a value is; None for anything else."""
    names: list[str] = []
    while value is not None:
        node = graph.producer(value)
        if node is None or node.op.regions:
            value = _handed_through(graph, value)
            field = value is not None and (bool(names) or struct_of(graph.function, value) != "")
            return ".".join((str(value), *reversed(names))) if field else None
        if node.op.kind != OpKind.ATTRIBUTE:
            return None
        names.append(str(node.op.attribute("name")))
        value = node.op.inputs[0]
    return None


def struct_of(function: Function, name: str) -> str:
    """The parameter that a name, as `field_of` gives it, is a field of, whether that is a parameter
    of its own or a part of the struct; empty for anything else."""
    own = next((one for one in function.parameters if one.name == name), None)
    first, dot, _ = name.partition(".")
    if own is not None or not dot:
        return own.struct if own is not None else ""
    return first if first in function.parameter_names else ""


def _handed_through(graph: Graph, value: str) -> str | None:
    """The parameter that is all that loops and branches hand on as a value; None when they may hand
    on another."""
    pending, found = [value], set[str]()
    for current in pending:
        node, held = graph.producer(current), graph.arguments.get(current)
        carried = held is not None and not (held[0].op.kind == OpKind.FOR and held[2] == 0)
        if carried or (node is not None and node.op.kind in _MERGING):
            pending += [feed for feed in graph.feeds(current) if feed not in pending]
        else:
            found.add(current)
        if len(found) > 1 or len(pending) > MAX_HANDED_THROUGH:
            return None
    name = next(iter(found), "")
    return name if name in graph.function.parameter_names else None
