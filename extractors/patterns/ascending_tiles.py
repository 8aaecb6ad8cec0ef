"""Output tiles of a product in the order of the grid."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT, PRODUCT_PERSISTENT, PRODUCT_POINTER
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_threads import PRODUCT_PERSISTENT_THREADS, PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.loops import persistent
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind


class AscendingTiles(Pattern):
    """Two block ids or more place the tiles of a product, none divided, reversed or grouped."""

    name = "tiles-in-the-order-of-the-grid"
    axis = "rasterization"
    source = "NVIDIA, CUDA C++ Programming Guide, thread hierarchy: x varies fastest"
    matches = (
        Case(PRODUCT, "natural order"),
        Case(PRODUCT_POINTER, "natural order"),
        Case(PRODUCT_THREADS, "natural order"),
    )
    near_misses = (
        NearMiss(PRODUCT_PERSISTENT, why="tiles are taken in groups of rows"),
        NearMiss(ATTENTION, why="one block id is taken apart; its loop's bounds tell the order"),
        NearMiss(ADD_POINTER, why="no operand is shared by tiles, their order is nothing"),
        NearMiss(PRODUCT_PERSISTENT_THREADS, why="tiles are taken in groups of rows"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.contractions or facts.score_products or facts.graph.of(OpKind.WHILE):
            return
        if any(persistent(x, facts.values) or facts.walks_chunk(x) for x in facts.loops):
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
