"""Loops over a chunk of work that is the block's own."""

from __future__ import annotations

from kb.analysis import symbolic as s
from kb.analysis.carried_sums import leads, left_over
from kb.analysis.loops import Loop, bounds, persistent
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.analysis.values import Values
from kb.ops import OpKind

_BOUNDS = (AtomKind.MINIMUM, AtomKind.MAXIMUM, AtomKind.CHOICE)


def blocked(loop: Loop, values: Values) -> bool:
    """True for a walk over a chunk of work that starts at a multiple of the own block id."""
    if loop.low is None or loop.high is None or persistent(loop, values):
        return False
    low, high = values.expr(loop.low), values.expr(loop.high)
    block = next((a for a in low.atoms() if a.kind is AtomKind.BLOCK), None)
    chunk = block is not None and block in set(high.atoms()) and low.atom is not block
    if block is None or not chunk or _overlapping(low, high, block):
        return False
    return not _steps(loop, values)


def _overlapping(low: Expr, high: Expr, block: Atom) -> bool:
    """True when neighbours go through some items both, as the taps of a window: a chunk is as long
    as its neighbour begins further on."""
    apart, length = low.coefficient(block), s.sub(high, low)
    told = apart != s.ZERO and high.coefficient(block) == apart and not length.has(*_BOUNDS)
    return told and length != apart


def _steps(loop: Loop, values: Values) -> bool:
    """True for a walk over the steps of one sequence, of this loop or of another one with the same
    ends: what a round stores rests on the round before."""
    graph = values.graph
    for node in graph.of(OpKind.FOR):
        if bounds(graph, node)[:2] != (loop.low, loop.high):
            continue
        begun = zip(graph.inits(node), node.op.regions[-1].arguments[1:], strict=False)
        names = [a.name for init, a in begun if not left_over(graph, init, a.name)]
        states = [name for name in names if name not in values.increments]
        stored = [n.op.operand("value") for n in graph.of(OpKind.STORE) if n.inside(node)]
        if any(leads(graph, v, state) for v in stored if v is not None for state in states):
            return True
    return False
