"""How often a counted loop goes round."""

from __future__ import annotations

from collections.abc import Callable

from kb.analysis import symbolic as s
from kb.analysis.graph import VIEWS, Graph, Node
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
