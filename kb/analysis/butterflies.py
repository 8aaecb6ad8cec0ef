"""Butterflies: the sum and the difference of two values, put side by side for another such step, as
in a Hadamard or Fourier transform."""

from __future__ import annotations

from dataclasses import dataclass

from kb.analysis.graph import CASTS, TURNS, VIEWS, Graph, Node
from kb.ops import OWN_THREAD, OpKind

_LOOKS = VIEWS | CASTS | TURNS
_CHOICES = (OpKind.SELECT, OpKind.IF)
_MEETS = (OpKind.JOIN, OpKind.CAT, *_CHOICES, OpKind.INSERT)


@dataclass(frozen=True, slots=True, eq=False)
class Butterfly:
    """`more` and `less` are the sum and the difference of the same two values, `meet` takes both
    in."""

    more: Node
    less: Node
    meet: Node


def butterflies(graph: Graph) -> list[Butterfly]:
    """Every place where the sum and the difference of two values meet."""
    sums = {_pair(graph, node): node for node in graph.of(OpKind.ADD)}
    found = []
    for less in graph.of(OpKind.SUB):
        more = sums.get(_pair(graph, less))
        meet = _meeting(graph, more, less) if more is not None else None
        if more is not None and meet is not None:
            found.append(Butterfly(more, less, meet))
    return found


def chained(graph: Graph, found: list[Butterfly]) -> list[Butterfly]:
    """Those of which one takes what another one, or its own round before, gave."""
    return [
        one
        for one in found
        if any(
            graph.rests_on(value, other.meet) for other in found for value in one.more.op.inputs[:2]
        )
    ]


def mirrored(graph: Graph, choice: Node) -> bool:
    """Whether a choice is between the sum and the difference of the same two values."""
    sides = [graph.producer(graph.core(v)) for v in choice.op.inputs[1:]]
    kinds = [node.kind if node is not None else "" for node in sides]
    if sorted(kinds) != sorted((OpKind.ADD, OpKind.SUB)):
        return False
    pairs = [_pair(graph, node) for node in sides if node is not None]
    return pairs[0] == pairs[1]


def _pair(graph: Graph, node: Node) -> frozenset[str | None]:
    return frozenset(graph.core(v) for v in node.op.inputs[:2])


def _meeting(graph: Graph, more: Node, less: Node) -> Node | None:
    """The first operation of those that put values together which takes both in."""
    reached = _users(graph, more.result)
    for node in _users(graph, less.result):
        if node in reached and (node.kind not in _CHOICES or _by_lane(graph, node)):
            return node
    return None


def _by_lane(graph: Graph, choice: Node) -> bool:
    """Whether the number of a lane or thread decides, so that both sides are kept; a step to the
    left or right by what was read, as of a search, keeps one of them."""
    tested = graph.upstream(choice.op.inputs[0], lambda n: n.op.kind == OpKind.LOAD)
    return any(n.op.kind in (OpKind.ARANGE, *OWN_THREAD) for n in tested)


def _users(graph: Graph, value: str) -> list[Node]:
    """Operations that put a value beside others, below what only looks at it differently."""
    found, pending = [], [value]
    for current in pending:
        for user in graph.users(current):
            if user.kind in _MEETS:
                found.append(user)
            elif user.kind == OpKind.YIELD and user.parent is not None:
                found += [user.parent] if user.parent.kind == OpKind.IF else []
            if len(pending) < 12 and user.kind in _LOOKS | {OpKind.INSERT}:
                pending.append(user.result)
    return found
