"""Taps of one thread: products of elements of two arrays of it, of which a loop over the taps picks
the one and, from a place that goes on, the other."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.analysis.values import Values
from kb.analysis.windows import held_in
from kb.ops import OpKind

_STEP = frozenset({1, -1})


def slid_products(facts: Facts) -> list[Node]:
    """Products of a weight, which the taps alone pick, with an input: at the place of the output
    moved by the tap, or in a window that every round moves on by one."""
    if not facts.of_threads or facts.contractions:
        return []
    graph = facts.threads
    pairs = [
        (node, *(made for v in node.op.inputs[:2] if (made := _element(facts, v)) is not None))
        for node in graph.of(OpKind.MUL, OpKind.FMA)
        if node.loops
    ]
    held = [pair for pair in pairs if len(pair) == 3]
    if not held:
        return []
    values = Values(graph)
    found: list[Node] = []
    for node, one, other in held:
        for weight, taken in ((one, other), (other, one)):
            own, place = (values.expr(n.op.operand("index") or "") for n in (weight, taken))
            if weight.op.inputs[0] != taken.op.inputs[0] and (
                _moved(own, place) or (own == place and _in_window(facts, node, taken))
            ):
                found.append(node)
    return list(dict.fromkeys(found))


def _element(facts: Facts, value: str) -> Node | None:
    """The element of an array that a value is, cast or not."""
    made = facts.threads.producer(facts.threads.through(value, CASTS))
    return made if made is not None and made.op.kind == OpKind.EXTRACT else None


def _moved(weight: Expr, place: Expr) -> bool:
    """Whether the rounds that pick a weight move a place by as much, which another loop moves on by
    one."""
    taps, steps = _rounds(weight), _rounds(place)
    alike = all(e.coefficient(a).constant in _STEP for e in (weight, place) for a in taps)
    outer = steps - taps
    on = all(place.coefficient(a).constant in _STEP for a in outer)
    return len(taps) == 1 and taps <= steps and bool(outer) and alike and on


def _in_window(facts: Facts, node: Node, taken: Node) -> bool:
    """Whether an element is of a window that the outermost loop around its product moves on."""
    return len(node.loops) > 1 and held_in(facts, taken.op.inputs[0], node.loops[0])


def _rounds(place: Expr) -> set[Atom]:
    return {a for a in place.atoms() if a.kind is AtomKind.INDUCTION}
