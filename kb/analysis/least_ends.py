"""Loops that end where the range of a block does, or the problem if that comes first."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import COPIES, Graph, Lines, Node
from kb.analysis.loops import Loop
from kb.ops import OpKind

BOUND = COPIES | {
    OpKind.IF, OpKind.IF_EXPRESSION, OpKind.MINIMUM, OpKind.MAXIMUM, OpKind.CEIL_DIV,
    OpKind.FLOOR_DIV, OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.SELECT,
}  # fmt: skip
"""What bounds of loops are computed with."""

_ORDERED = frozenset({OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE, OpKind.NE})
_BOTH = frozenset({OpKind.AND, OpKind.BIT_AND})


def least(facts: Facts, loop: Loop) -> list[Node]:
    """The minimum of a range of the block and what is left, as the end of a loop over memory; of
    threads, of a loop that reads."""
    touched = facts.loads if facts.of_threads else facts.accesses
    if not any(a.node.inside(loop.node) for a in touched):
        return []
    return [
        n
        for end in ([loop.high] if loop.high else _ends(facts.graph, loop.node))
        for n in facts.graph.upstream(end, lambda n: n.op.kind not in BOUND)
        if n.op.kind == OpKind.MINIMUM and facts.graph.roots(n.result, OpKind.BLOCK_ID)
    ]


def least_end(facts: Facts, loop: Loop) -> list[Node | Lines]:
    """The same of a loop that counts by itself, with the loop; or the two ends that it asks for,
    the range of the block and the problem's."""
    if loop.range is not None or facts.contractions:
        return []
    ends = least(facts, loop) if facts.of_threads else _either_end(facts, loop)
    return [*ends, loop.node.head] if ends else []


def _either_end(facts: Facts, loop: Loop) -> list[Node]:
    """What gives the end of a block's own range, where a loop over memory stops at that and at
    another end, whichever comes first."""
    ends = _ends(facts.graph, loop.node)
    own = [v for v in ends if facts.graph.roots(v, OpKind.BLOCK_ID)]
    made = [n for v in own if (n := facts.graph.producer(v)) is not None]
    touched = any(a.node.inside(loop.node) for a in facts.accesses)
    return made if touched and len(own) < len(ends) else []


def _ends(graph: Graph, loop: Node) -> list[str]:
    """What the condition of a `while` loop holds its numbers against, all of which must hold."""
    last = loop.op.regions[0].terminator if loop.op.kind == OpKind.WHILE else None
    return [
        value
        for condition in (last.inputs[:1] if last is not None else ())
        for n in graph.upstream(condition, lambda n: n.op.kind not in _BOTH)
        if n.op.kind in _ORDERED
        for value in n.op.inputs[:2]
        if not _carried(graph, loop, value)
    ]


def _carried(graph: Graph, loop: Node, value: str) -> bool:
    arguments = loop.op.regions[0].arguments
    return any(graph.rests_on_argument(value, one.name) for one in arguments)
