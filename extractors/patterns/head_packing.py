"""All query heads that share one key head form the rows of one tile."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, PRODUCT, vary
from extractors.patterns.cases_pointer import FLASH_POINTER
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision

_PACKED = vary(
    ATTENTION,
    ("index=(bat, head, x, 0), shape=(1, 1, TM, W), padding", "index=(bat, y, 0, 0), shape=(1, 1, TM, W), padding"),  # noqa: E501
    ("index=(bat, kv, 0, j)", "index=(bat, y, 0, j)"),
    ("index=(bat, kv, j, 0)", "index=(bat, y, j, 0)"),
    ("index=(bat, head, x, 0), tile", "index=(bat, y, 0, 0), tile"),
)  # fmt: skip


class HeadPacking(Pattern):
    """A stationary operand of a score product is a tile of two axes at index zero; the streamed
    operand is found by the same block ids and moves with the loop."""

    name = "query-head-packing"
    axis = "kv_head_mapping"
    source = "tilelore catalogue, P11; FlashAttention-3, PackGQA"
    matches = (Case(_PACKED, "query-head packing into M tile (PackGQA)"),)
    near_misses = (
        NearMiss(ATTENTION, why="the block id counts query tiles, rows are positions"),
        NearMiss(BACKWARD_KEYS, why="the queries stream by"),
        NearMiss(PRODUCT, why="there are no scores"),
        NearMiss(FLASH_POINTER, why="the block id counts query tiles, rows are positions"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for product in facts.score_products:
            sides = [facts.held_loads(product.op.operand(role)) for role in ("lhs", "rhs")]
            for still, moving in (sides, sides[::-1]):
                if still and moving and self._packs(facts, product, still[0], moving[0]):
                    value = "query-head packing into M tile (PackGQA)"
                    yield self.decide(facts, value, (still[0], product))
                    return

    def _packs(self, facts: Facts, product: Node, still: Access, moving: Access) -> bool:
        loop = product.loop
        if loop is None or still.node.inside(loop) or not moving.node.inside(loop):
            return False
        if still.mode is not Mode.TILE or len(still.shape) != len(still.index):
            return False
        tiled = [
            index
            for extent, index in zip(still.shape, still.index, strict=True)
            if extent != "1" and extent in facts.constexprs
        ]
        chosen = [index for index in still.index if index.has(AtomKind.BLOCK)]
        return (
            len(tiled) > 1
            and all(index.constant == 0 for index in tiled)
            and bool(chosen)
            and all(index in moving.index for index in chosen)
        )
