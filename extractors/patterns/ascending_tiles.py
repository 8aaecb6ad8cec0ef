"""Output tiles of a product in the order of the grid."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import (
    ATTENTION,
    PRODUCT,
    PRODUCT_PERSISTENT,
    PRODUCT_POINTER,
    TILE,
    vary,
)
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_threads import PRODUCT_PERSISTENT_THREADS, PRODUCT_THREADS
from extractors.patterns.counted_tiles import CountedTiles
from extractors.patterns.grouped_rasterisation import GROUPED_AXES, GroupedRasterisation
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop, persistent
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_HEADS = (
    TILE
    + """
@ct.kernel
def product(a, b, out, TM: Int, TK: Int, MANY: Int, HEADS: Int):
    for one in range(ct.bid(0), MANY, ct.num_blocks(0)):
        head = one % HEADS
        part = one // HEADS % 2
        row = one // HEADS // 2
        x = ct.load(a, index=(head, row, part), shape=(1, TM, TK)).reshape((TM, TK))
        y = ct.load(b, index=(head, part, 0), shape=(1, TK, TM)).reshape((TK, TM))
        acc = ct.mma(x, y, ct.full((TM, TM), 0.0, dtype=ct.float32))
        ct.store(out, index=(head, part, row, 0), tile=acc.reshape((1, 1, TM, TM)))
"""
)


class AscendingTiles(Pattern):
    """Two block ids or more place the tiles of a product, none divided, reversed or grouped; or the
    number of a tile that a block takes in turn is taken apart into its places, without groups."""

    name = "tiles-in-the-order-of-the-grid"
    axis = "rasterization"
    source = "NVIDIA, CUDA C++ Programming Guide, thread hierarchy: x varies fastest"
    matches = (
        Case(PRODUCT, "natural order"),
        Case(PRODUCT_POINTER, "natural order"),
        Case(PRODUCT_THREADS, "natural order"),
        Case(_HEADS, "natural order"),
    )
    near_misses = (
        NearMiss(PRODUCT_PERSISTENT, why="tiles are taken in groups of rows"),
        NearMiss(
            vary(
                _HEADS,
                ("one % HEADS", "0"),
                ("one // HEADS % 2", "0"),
                ("one // HEADS // 2", "one"),
            ),
            why="the number of the tile is its only place",
        ),
        NearMiss(ATTENTION, why="one block id is taken apart; its loop's bounds tell the order"),
        NearMiss(GROUPED_AXES, why="tiles are taken in groups of rows"),
        NearMiss(ADD_POINTER, why="no operand is shared by tiles, their order is nothing"),
        NearMiss(PRODUCT_PERSISTENT_THREADS, why="tiles are taken in groups of rows"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.contractions or facts.score_products:
            return
        if facts.graph.of(OpKind.WHILE, OpKind.SWIZZLE_2D):
            return
        turns = [x for x in facts.loops if persistent(x, facts.values)]
        if turns or any(facts.walks_chunk(x) for x in facts.loops):
            places = [n for loop in turns for n in self._apart(facts, loop)]
            others = (GroupedRasterisation(), CountedTiles())
            if places and not any(any(other.find(facts)) for other in others):
                yield self.decide(facts, "natural order", places)
            return
        ids = facts.graph.of(OpKind.BLOCK_ID)
        divided = [
            n
            for n in facts.graph.of(OpKind.FLOOR_DIV, OpKind.MOD)
            if facts.values.expr(n.op.inputs[0]).has(AtomKind.BLOCK)
            and not facts.types.shape(n.result)
        ]
        if len({facts.values.expr(n.result) for n in ids}) > 1 and not divided:
            yield self.decide(facts, "natural order", ids)

    def _apart(self, facts: Facts, loop: Loop) -> list[Node]:
        """The divisions that take the number of a tile of products apart."""
        number = facts.values.expr(loop.induction).atom
        if number is None or not any(p.inside(loop.node) for p in facts.contractions):
            return []
        return [
            n
            for n in facts.graph.of(OpKind.FLOOR_DIV, OpKind.MOD)
            if not facts.types.shape(n.result)
            and number in facts.values.expr(n.op.inputs[0]).atoms()
        ]
