"""Polynomials with coefficients that are written down, by Horner's scheme."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.ops import OpKind

_LOOKS = VIEWS | CASTS
_SUMS = frozenset({OpKind.ADD, OpKind.SUB})
_LEAST = 3
"""Steps that make a polynomial; fewer are a square or a shift."""


def polynomials(facts: Facts) -> list[list[Node]]:
    """The steps of each polynomial, from its outermost coefficient to the innermost product."""
    found = []
    inner: set[Node] = set()
    for node in reversed(facts.graph.of(*_SUMS, OpKind.FMA)):
        if node in inner:
            continue
        steps = _steps(facts, node)
        inner.update(steps)
        if len([n for n in steps if n.op.kind in _SUMS | {OpKind.FMA}]) >= _LEAST:
            found.append(steps)
    return found


def _steps(facts: Facts, outermost: Node) -> list[Node]:
    """Sums of a number and a product, where the product's other side is such a sum of the same
    variable, as far as they go."""
    found: list[Node] = []
    variable: str | None = None
    current: Node | None = outermost
    while current is not None:
        held = _term(facts, current)
        if held is None:
            break
        product, sides = held
        nested = [(_made(facts, v), facts.graph.through(w, _LOOKS)) for v, w in sides]
        further = [
            (n, x) for n, x in nested
            if n is not None and n.op.kind in _SUMS | {OpKind.FMA} and variable in (None, x)
            and (term := _term(facts, n)) is not None
            and x in {facts.graph.through(v, _LOOKS) for v, _ in term[1]}
        ]  # fmt: skip
        found += [current, product] if product is not current else [current]
        if not further:
            break
        current, variable = further[0]
    return found


def _term(facts: Facts, node: Node) -> tuple[Node, list[tuple[str, str]]] | None:
    """The product that a number is added to, and its two sides either way round."""
    if node.op.kind == OpKind.FMA:
        one, two, rest = node.op.inputs[:3]
        return (node, [(one, two), (two, one)]) if facts.number(rest) is not None else None
    for number, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
        made = _made(facts, other)
        if facts.number(number) is None or made is None or made.op.kind != OpKind.MUL:
            continue
        one, two = made.op.inputs[:2]
        return made, [(one, two), (two, one)]
    return None


def _made(facts: Facts, value: str) -> Node | None:
    return facts.graph.producer(facts.graph.through(value, _LOOKS))
