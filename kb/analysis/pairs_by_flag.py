"""Threads that take an element and its partner as neighbours on one side of a branch, and from the
two halves of a row on the other."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import Graph, Node
from kb.analysis.specialise import branches
from kb.ops import OpKind

_DIVIDES = (OpKind.FLOOR_DIV, OpKind.DIV)


def pairs_by_flag(facts: Facts) -> list[Node]:
    """Branches on compile-time parameters one side of which goes by pairs and the other by halves,
    with what does so."""
    graph = facts.threads
    chosen = {b.node.lines for b in branches(facts)} if facts.of_threads else set()
    found: list[Node] = []
    if not chosen:
        return found
    by_two = [n for n in graph.of(OpKind.BIT_XOR, *_DIVIDES) if _paired(graph, n)]
    by_half = [n for n in graph.of(OpKind.MOD, OpKind.LT) if _halved(graph, n)]
    for branch in graph.of(OpKind.IF) if by_two and by_half else ():
        if branch.lines not in chosen:
            continue
        for side in (0, 1):
            pairs = [n for n in by_two if _side(n, branch) == side]
            halves = [n for n in by_half if _side(n, branch) == 1 - side]
            if pairs and halves and not any(_side(n, branch) == side for n in by_half):
                found += [branch, *pairs, *halves]
    return found


def _side(node: Node, branch: Node) -> int | None:
    """The region of a branch that an operation is in; None outside of it."""
    while node.parent is not None and node.parent is not branch:
        node = node.parent
    return node.branch if node.parent is branch and node.branch < 2 else None


def _paired(graph: Graph, node: Node) -> bool:
    """A number with its last bit turned, or what a number is of two."""
    if node.op.kind == OpKind.BIT_XOR:
        return any(_number(graph, v) == 1 for v in node.op.inputs[:2])
    return _by_two(graph, node) and _own(graph, node)


def _halved(graph: Graph, node: Node) -> bool:
    """What a number is beyond half of another, or less than it."""
    half = graph.producer(graph.core(node.op.inputs[1]))
    return half is not None and _by_two(graph, half) and _own(graph, node)


def _by_two(graph: Graph, node: Node) -> bool:
    return node.op.kind in _DIVIDES and _number(graph, node.op.inputs[1]) == 2


def _own(graph: Graph, node: Node) -> bool:
    """True for a number that the own thread's makes."""
    return bool(graph.roots(node.op.inputs[0], OpKind.THREAD_ID, OpKind.LANE_ID))


def _number(graph: Graph, value: str) -> object:
    made = graph.producer(graph.core(value))
    return made.op.attribute("value") if made is not None and made.op.kind == OpKind.CONST else None
