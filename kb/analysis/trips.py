"""How often a counted loop goes round, and up to which round it does its work."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kb.analysis import symbolic as s
from kb.analysis.graph import CASTS, COPIES, VIEWS, Graph, Node
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.ops import OpKind


def trips(graph: Graph, loop: Node, expr: Callable[[str | None], Expr]) -> Expr:
    """The rounds of a loop: the distance of its ends where it steps by one and they are not loaded,
    else a number that is not known."""
    unknown = s.of(Atom(f"rounds{loop.index}", AtomKind.OPAQUE, value=loop.result))
    made = graph.producer(graph.through(loop.op.inputs[0], VIEWS)) if loop.op.inputs else None
    if loop.op.kind != OpKind.FOR or made is None or made.op.kind != OpKind.RANGE:
        return unknown
    low, high, step = (made.op.operand(role) for role in ("low", "high", "step"))
    if step is not None and expr(step).constant != 1:
        return unknown
    rounds = expr(low) if high is None else s.sub(expr(high), expr(low))
    return unknown if rounds.has(AtomKind.LOADED) else rounds


def advanced(graph: Graph, value: str, argument: str, loop: Node) -> str | None:
    """What a branch makes of a carried number in the rounds that a bound lets through, where it
    hands the number on as it is in the others: once the bound is passed it stays passed, so that in
    all rounds that count the number has grown as often."""
    branch = graph.producer(value)
    if branch is None or branch.op.kind not in _CHOICES or loop.op.kind != OpKind.FOR:
        return None
    ends = branch.op.inputs[1:] if branch.op.kind == OpKind.SELECT else graph.feeds(value)
    grown = [end for end in ends if end != argument]
    if len(grown) != 1 or len(ends) != 2:
        return None
    return grown[0] if _within(graph, branch.op.inputs[0], loop) else None


def parted(graph: Graph, result: str) -> bool:
    """Whether what a loop gives is handed on by a branch in it, that may leave it as it was."""
    loop = graph.producer(result)
    ends = graph.feeds(result)
    kinds = [graph.kind_of(end) for end in ends]
    return loop is not None and not _CHOICES.isdisjoint(kinds)


def _within(graph: Graph, test: str, loop: Node, depth: int = 0) -> bool:
    """A comparison of the round's number, that only grows, with what stays below it; perhaps waived
    or narrowed by what is known before the loop."""
    node = graph.producer(test)
    if node is None or depth > _NESTED:
        return False
    if node.op.kind in (OpKind.AND, OpKind.OR):
        inner = [v for v in node.op.inputs if not _before(graph, v, loop)]
        return len(inner) == 1 and _within(graph, inner[0], loop, depth + 1)
    if node.op.kind not in _BOUNDS:
        return False
    less, more = node.op.inputs[:: _BOUNDS[node.op.kind]][:2]
    counter = loop.op.regions[-1].arguments[0].name
    return _before(graph, more, loop) and any(v == counter for v in _terms(graph, less))


def _before(graph: Graph, value: str, loop: Node) -> bool:
    """Whether a value is there when a loop begins."""
    made = graph.producer(value) or graph.arguments.get(value, (None,))[0]
    return made is None or (made is not loop and not made.inside(loop))


def _terms(graph: Graph, value: str) -> Iterator[str]:
    """Values that a sum or a product is made of."""
    pending = [value]
    for one in pending:
        node = graph.producer(one)
        yield one
        if node is not None and node.op.kind in _GROWING and len(pending) < _MOST:
            pending += node.op.inputs[:2] if node.op.kind not in CASTS else node.op.inputs[:1]


_CHOICES = frozenset({OpKind.IF, OpKind.SELECT})
_BOUNDS: dict[str, int] = {OpKind.LT: 1, OpKind.LE: 1, OpKind.GT: -1, OpKind.GE: -1}
_GROWING = CASTS | COPIES | {OpKind.ADD, OpKind.MUL}
_NESTED = 4
_MOST = 16
