"""Elements on one side of a diagonal, kept without a product or a softmax around."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.analysis.idioms import LARGE, between_lanes, comparisons, masks, sides
from kb.analysis.symbolic import AtomKind, sub
from kb.ops import OpKind

SET = "one side of the diagonal, the rest set to a number"
MULTIPLIED = "multiplied by the comparison"
PADDED = "the padding of the load on one side of the diagonal"
_ORDERED = frozenset({OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE})
_PLACES = frozenset({AtomKind.LANE, AtomKind.BLOCK, AtomKind.INDUCTION})


def kept_sides(facts: Facts) -> dict[str, list[Node]]:
    """What keeps one side of a diagonal, by how it does: a select, a cast comparison with the
    product that takes it in, or a load of one side alone whose padding is stored with it."""
    tests = {n.result for n in facts.graph.of(*_ORDERED) if _diagonal(facts, n)}
    if not tests or facts.of_threads:
        return {}
    told = {mask.node for mask in masks(facts)}
    found: dict[str, list[Node]] = {}
    for node in facts.graph.of(OpKind.SELECT):
        if node not in told and _asks(facts, node.op.operand("condition"), tests):
            if _filled(facts, node) and facts.stored_in(node.result):
                found.setdefault(SET, []).append(node)
    for load in facts.loads:
        if load.padding not in ("", "undetermined") and _asks(facts, load.mask, tests):
            if any(_is_held(facts, store, load) for store in facts.stores):
                asked = [n for n in comparisons(facts, load.mask) if n.result in tests]
                found.setdefault(PADDED, []).extend((load.node, *asked))
    for node in facts.graph.of(OpKind.MUL):
        for this, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
            cast = facts.graph.producer(facts.graph.plain(this))
            if cast is not None and cast.op.kind in CASTS and cast.op.inputs[0] in tests:
                if facts.feeding(other):
                    found.setdefault(MULTIPLIED, []).extend((cast, node))
    return found


def _is_held(facts: Facts, store: Access, load: Access) -> bool:
    """Whether what was loaded is stored as it is."""
    return load in facts.held_loads(store.value)


def _filled(facts: Facts, node: Node) -> bool:
    """One side is zero or as good as minus infinity, the other one rests on a load."""
    ends = [node.op.operand(role) or "" for role in ("x", "y")]
    numbers = [facts.number(end) for end in ends]
    return any(
        number is not None and (number == 0 or number <= -LARGE) and bool(facts.feeding(kept))
        for number, kept in zip(numbers, reversed(ends), strict=True)
    )


def _asks(facts: Facts, condition: str | None, tests: set[str]) -> bool:
    return any(n.result in tests for n in comparisons(facts, condition))


def _diagonal(facts: Facts, test: Node) -> bool:
    """Two places are compared, one of them of a lane: no extent, no loaded number, no constant
    edge."""
    left, right = sides(facts, test)
    apart = sub(left, right)
    if not apart.has(AtomKind.LANE):
        return False
    places = {a for factors, _ in apart.terms for a in factors if a.kind in _PLACES}
    whole = all(any(a.kind in _PLACES for a in f) for f, _ in apart.terms if f)
    return whole and len(places) > 1 and right.has(*_PLACES) and left.has(*_PLACES)


def triangle_products(facts: Facts) -> list[Node]:
    """Products of a loaded tile with ones on one side of the diagonal, with what makes those: sums
    up to every row, or down from it."""
    found: list[Node] = []
    for product in facts.contractions:
        operands = [product.op.operand(role) or "" for role in ("lhs", "rhs")]
        for one, other in (operands, operands[::-1]):
            made = _triangle(facts, facts.graph.producer(facts.graph.core(one)))
            if made and facts.feeding(other):
                found += [*made, product]
    return found


def _triangle(facts: Facts, ones: Node | None) -> list[Node]:
    """A choice of one on one side of the diagonal and zero on the other, with its comparisons."""
    if ones is None or ones.op.kind != OpKind.SELECT:
        return []
    tests = comparisons(facts, ones.op.operand("condition"))
    numbers = {facts.number(v) for v in ones.op.inputs[1:]}
    sided = any(t.op.kind in _ORDERED and between_lanes(facts, t) for t in tests)
    return [*tests, ones] if sided and numbers == {0, 1} else []
