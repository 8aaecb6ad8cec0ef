"""Where types and names that a program uses are declared, as far as its reader noted it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Graph, Node
from kb.evidence import Lines
from kb.ir import Function, Place, Span
from kb.ops import OpKind


def declared_at(node: Node, home: str) -> list[Lines]:
    """Of the type, or of the field, that an operation takes: the lines in the kernel's file; for
    those of other files, the lines of the operation."""
    return _noted(node.op.span, home)


def arrays_at(facts: Facts, nodes: Iterable[Node]) -> list[Lines]:
    """Of the variables of a thread that parts of what operations give are put into, or that they
    put something into."""
    home, graph = facts.kernel.entry.span.path, facts.threads
    begun = {one for node in nodes for one in _begun(graph, node)} if facts.of_threads else set()
    return [lines for node in begun for lines in declared_at(node, home)]


def _begun(graph: Graph, node: Node) -> Iterator[Node]:
    if node.op.kind == OpKind.INSERT:
        yield from _first(graph, node.op.inputs[0])
        return
    values = [row.name for row in node.op.results]
    for value in values:
        for user in graph.users(value):
            if user.op.kind == OpKind.INSERT and user.op.operand("value") == value:
                yield from _first(graph, user.op.inputs[0])
            elif user.op.kind in _PARTS and len(values) < _MOST:
                values += [row.name for row in user.op.results]
            elif user.op.kind == OpKind.YIELD and len(values) < _MOST:
                branch = user.parent is not None and user.parent.op.kind in _BRANCHES
                values += graph.onward(user, value) if branch else []


def _first(graph: Graph, value: str) -> Iterator[Node]:
    """Where an array, or one that a part is of, is made."""
    values = [value]
    for one in values:
        made = graph.producer(one)
        if made is not None and made.op.kind == OpKind.UNDEF:
            yield made
        whole = made is not None and made.op.kind in _WHOLE
        below = made.op.inputs[:1] if made is not None and whole else graph.feeds(one)
        if whole or made is None or made.op.kind in _HANDED:
            values += [v for v in below if v not in values][: _MOST - len(values)]


_WHOLE = frozenset({OpKind.INSERT, OpKind.EXTRACT, OpKind.BITCAST, OpKind.COPY})
"""Steps whose first operand is the array, or one that it is a part of."""

_HANDED = frozenset({OpKind.FOR, OpKind.WHILE, OpKind.IF})

_PARTS = CASTS | {OpKind.UNPACK, OpKind.EXTRACT, OpKind.BITCAST}
_BRANCHES = frozenset({OpKind.IF, OpKind.IF_EXPRESSION})
_MOST = 64


def fields_at(function: Function, names: Collection[str], home: str) -> list[Lines]:
    """Of fields that are parameters of their own: the lines of the kernel's file; for those of
    other files, the lines of the struct among the parameters."""
    return [
        lines
        for one in function.parameters
        if one.name in names and one.struct
        for lines in _noted(one.span, home)
    ]


def _noted(span: Span, home: str) -> list[Lines]:
    own = (span.line, max(span.line, span.end_line))
    return [lines if path == home else Place(own, (path, lines)) for path, lines in span.declared]
