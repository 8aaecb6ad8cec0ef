"""Gradients of what all rows share, as sums over the rows of one block."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind, Expr, mul
from kb.ops import OpKind


def gradients_by_block(facts: Facts) -> list[Access]:
    """Stores, at places of the block's own, of sums over the rows of its tile: of products of two
    arrays, beside the same rows, which take in what all rows share, stored element by element, and
    all of it outside of loops."""
    if facts.of_threads or facts.contractions:
        return []
    alone = [s for s in facts.stores if not s.node.loops]
    wide = [s for s in alone if s.array is not None and not s.is_atomic]
    return [s for s in alone if any(_gradient(facts, s, tile) for tile in wide)]


def _gradient(facts: Facts, store: Access, tile: Access) -> bool:
    """Whether a store is of such a sum beside a tile."""
    total = facts.graph.producer(facts.graph.core(store.value))
    if total is None or total.op.kind != OpKind.REDUCE_SUM:
        return False
    rows = {b for index in tile.index for b in _rows(facts, total, tile, index)}
    if not rows or not (store.is_atomic or rows <= _blocks(store)):
        return False
    loads = facts.feeding(tile.value)
    whole = {a.array for a in loads if rows & _blocks(a)}
    shared = [a for a in loads if not rows & _blocks(a) and _lanes(a)]
    return bool(shared) and any(
        n.op.kind == OpKind.MUL and _of_two(facts, n, whole)
        for n in facts.graph.upstream(total.op.inputs[0], lambda n: facts.access(n) is not None)
    )


def _rows(facts: Facts, total: Node, tile: Access, index: Expr) -> list[Atom]:
    """Block ids that count tiles of the lanes of an index that a sum runs over."""
    axis, rank = facts.values.literal(total.op.operand("axis")), len(facts.types.shape(tile.value))
    if not isinstance(axis, int) or rank < 2:
        return []
    own = (a for a in index.top() if a.kind is AtomKind.LANE)
    lanes = [a for a in own if int(a.value) % rank == axis % rank]
    steps = [mul(index.coefficient(a), a.args[0]) for a in lanes]
    blocks = [a for a in index.top() if a.kind is AtomKind.BLOCK]
    return [b for b in blocks if index.coefficient(b) in steps]


def _of_two(facts: Facts, product: Node, arrays: set[str | None]) -> bool:
    """Whether the factors of a product take in tiles of different arrays."""
    sides = [{a.array for a in facts.feeding(v)} & arrays for v in product.op.inputs[:2]]
    return len(sides) == 2 and all(sides) and sides[0] != sides[1]


def _blocks(access: Access) -> set[Atom]:
    return {a for index in access.index for a in index.atoms() if a.kind is AtomKind.BLOCK}


def _lanes(access: Access) -> bool:
    return any(index.has(AtomKind.LANE) for index in access.index)
