"""The accumulator is stored whole or piece by piece."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import PRODUCT_DESCRIPTOR
from extractors.patterns.cases_rows import TURN
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.evidence import Decision
from kb.ops import OpKind

_PIECES = vary(
    PRODUCT,
    ("    ct.store(out, index=(m, n), tile=ct.astype(acc, out.dtype))\n",
     "    for j in ct.static_iter(range(2)):\n"
     "        piece = ct.extract(acc, (0, j), shape=(TM, TN // 2))\n"
     "        ct.store(out, index=(m, 2 * n + j), tile=ct.astype(piece, out.dtype))\n"),
)  # fmt: skip


_PIECES_POINTER = vary(
    PRODUCT_DESCRIPTOR,
    ("    to.store([m * TM, n * TN], acc.to(out.dtype.element_ty))\n",
     "    acc = tl.permute(tl.reshape(acc, (TM, 2, TN // 2)), (0, 2, 1))\n"
     "    left_half, right_half = tl.split(acc)\n"
     "    to.store([m * TM, n * TN], left_half.to(out.dtype.element_ty))\n"
     "    to.store([m * TM, n * TN + TN // 2], right_half.to(out.dtype.element_ty))\n"),
)  # fmt: skip


class EpilogueSubTiles(Pattern):
    """Pieces are taken from a product's result before they are stored."""

    name = "epilogue-sub-tiling"
    axis = "epilogue"
    source = "CUTLASS, epilogue visitor tree, epilogue tiles"
    matches = (
        Case(_PIECES, "extract sub-tiles"),
        Case(_PIECES_POINTER, "extract sub-tiles"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="the accumulator is stored whole"),
        NearMiss(TURN, why="there is no product"),
        NearMiss(PRODUCT_POINTER, why="the accumulator is stored whole"),
        NearMiss(PRODUCT_THREADS, why="the accumulator is stored whole"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        pieces = [
            n
            for n in facts.graph.of(OpKind.EXTRACT, OpKind.SPLIT)
            if any(facts.graph.rests_on(n.op.inputs[0], p) for p in facts.contractions)
            and any(facts.graph.rests_on(s.value, n) for s in facts.stores)
        ]
        if pieces:
            yield self.decide(facts, "extract sub-tiles", pieces)
