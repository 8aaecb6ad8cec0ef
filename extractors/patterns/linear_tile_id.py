"""A linear block id that is taken apart into the row and the column of an output tile."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT, PRODUCT_PERSISTENT, PRODUCT_POINTER, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import persistent
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_LINEAR = vary(
    PRODUCT_POINTER,
    (
        "    m = tl.program_id(0) * TM",
        "    own = tl.program_id(0)\n    m = (own // tl.cdiv(N, TN)) * TM",
    ),
    ("    n = tl.program_id(1) * TN", "    n = (own % tl.cdiv(N, TN)) * TN"),
)


_LINEAR_TILE = vary(
    PRODUCT,
    ("TK: Int):", "TK: Int, WIDE: Int):"),
    (
        "    m = ct.bid(0)\n    n = ct.bid(1)\n",
        "    m = ct.bid(0) // WIDE\n    n = ct.bid(0) % WIDE\n",
    ),
)


_LINEAR_THREADS = vary(
    PRODUCT_THREADS,
    ("int m = blockIdx.y * T", "int wide = (N + T - 1) / T;\n    int m = (blockIdx.x / wide) * T"),
    ("int n = blockIdx.x * T", "int n = (blockIdx.x % wide) * T"),
)


class LinearTileId(Pattern):
    """Quotients and remainders of one block id, scaled by tile extents, place the stored tile."""

    name = "linear-block-id-decoded-into-tile-coordinates"
    axis = "grid_mapping"
    source = "Triton documentation, Matrix Multiplication tutorial: program ids"
    matches = (
        Case(_LINEAR, "one axis of tiles"),
        Case(_LINEAR_TILE, "one axis of tiles"),
        Case(_LINEAR_THREADS, "one axis of tiles"),
        Case(
            vary(
                ATTENTION,
                ("x = ct.bid(0)\n", "x = ct.bid(0) // 64\n"),
                ("y = ct.bid(1)\n", "y = ct.bid(0) % 64\n"),
            ),
            "one axis of tiles",
        ),
    )
    near_misses = (
        NearMiss(PRODUCT, why="rows and columns are two grid axes"),
        NearMiss(PRODUCT_PERSISTENT, why="a loop over tiles, not the block id, is taken apart"),
        NearMiss(ATTENTION, why="quotient and remainder find batch and head, not tiles"),
        NearMiss(PRODUCT_POINTER, why="rows and columns are two grid axes"),
        NearMiss(PRODUCT_THREADS, why="rows and columns are two grid axes"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.contractions:
            return
        if any(persistent(loop, facts.values) for loop in facts.loops):
            return
        ids = facts.graph.of(OpKind.BLOCK_ID)
        parts = [n for n in facts.graph.of(OpKind.FLOOR_DIV, OpKind.MOD) if self._part(facts, n)]
        enough = 2 if facts.score_products else 1
        if len({facts.values.expr(n.result) for n in ids}) == 1 and len(parts) > enough:
            yield self.decide(facts, "one axis of tiles", [*ids, *parts])

    def _part(self, facts: Facts, node: Node) -> bool:
        """A division of a scalar that holds the block id, on the way to a store's address."""
        if facts.types.shape(node.result):
            return False
        if not facts.values.expr(node.op.inputs[0]).has(AtomKind.BLOCK):
            return False
        addresses = [
            value
            for store in facts.stores
            for role, value in store.node.op.operands
            if role not in ("value", "mask")
        ]
        return any(facts.graph.rests_on(value, node) for value in addresses)
