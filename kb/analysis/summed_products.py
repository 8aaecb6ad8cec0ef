"""Products of operands of their own that are added up to one output."""

from __future__ import annotations

from itertools import combinations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.symbolic import Expr, sub
from kb.ops import CONTRACTIONS, OpKind

MAX_TERMS = 64
"""Values that are looked at on the way from a store to the products that it adds up."""


def summed_products(facts: Facts) -> list[Node]:
    """Two products with loads of their own on both sides that one store adds up, with the sums:
    one after the other in one accumulator, or in one each. Not the pieces of one longer sum."""
    if facts.of_threads or len(facts.contractions) < 2:
        return []
    for store in facts.stores:
        terms = _terms(facts, store.value)
        products = [n for n in terms if n.op.kind in CONTRACTIONS]
        for one, other in combinations(products, 2):
            if one.lines != other.lines and not one.excludes(other) and _apart(facts, one, other):
                joins = [n for n in terms if n.op.kind == OpKind.ADD]
                return [*joins, one, other]
    return []


def _terms(facts: Facts, value: str) -> list[Node]:
    """The products that a value is the sum of, with the additions, through the loops that carry
    it."""
    carried = {c.result: c for loop in facts.loops for c in loop.carried}
    pending, found = [value], list[Node]()
    for current in pending:
        core = facts.graph.through(current, CASTS | VIEWS)
        made = facts.graph.producer(core)
        new: list[str] = []
        if core in carried:
            new = [carried[core].next, carried[core].init]
        elif made is not None and made.op.kind in CONTRACTIONS:
            found.append(made)
            new = [v for role, v in made.op.operands if role == "acc"]
        elif made is not None and made.op.kind == OpKind.ADD:
            found.append(made)
            new = [*made.op.inputs[:2]]
        pending += [v for v in new if v not in pending and len(pending) < MAX_TERMS]
    return found


def _apart(facts: Facts, one: Node, other: Node) -> bool:
    """Whether two products have no load in common, and other arrays or places that more than a
    tile lies between."""
    for role in ("lhs", "rhs"):
        first, second = (_tiles(facts, n.op.operand(role)) for n in (one, other))
        if not first or not second or {*first} & {*second}:
            return False
        if {a.array for a in first} == {a.array for a in second}:
            if one.loop is not other.loop or not _far(facts, first[0].index, second[0].index):
                return False
    return True


def _far(facts: Facts, first: tuple[Expr, ...], second: tuple[Expr, ...]) -> bool:
    """Whether an extent that is no tile's lies between two places."""
    between = [sub(a, b) for a, b in zip(first, second, strict=False)]
    names = {atom.value for e in between for atom in e.atoms()}
    return bool(names - facts.tile_extents)


def _tiles(facts: Facts, value: str | None) -> list[Access]:
    """The loads of tiles that an operand is made of."""
    return [a for a in facts.feeding(value) if facts.types.shape(a.value)] if value else []
