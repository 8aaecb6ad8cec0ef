"""The accumulator is stored piece by piece, or whole."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import PRODUCT_DESCRIPTOR
from extractors.patterns.cases_rows import TURN
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS
from kb.analysis.loops import Role
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, READS, REDUCTIONS, OpKind

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
_SCALED = vary(
    PRODUCT_POINTER,
    ("(a, b, out,", "(a, b, scale, out,"),
    (
        "    acc = tl.zeros",
        "    rate = tl.load(scale + n, mask=n < N, other=0.0)\n    acc = tl.zeros",
    ),
    ("acc.to(tl.float16)", "(acc * rate[None, :]).to(tl.float16)"),
)
_SCALED_TILE = vary(
    PRODUCT,
    ("(a, b, out,", "(a, b, scale, out,"),
    ("ct.astype(acc,", "ct.astype(acc * ct.load(scale, index=(0, n), shape=(1, TN)),"),
)
_SUMMED = vary(
    PRODUCT_POINTER,
    (
        "    tl.store(out",
        "    acc = tl.sum(acc, axis=1)[:, None] + tl.zeros((1, TN), tl.float32)\n    tl.store(out",
    ),
)
_ENDS = LOOPS | CONTRACTIONS | READS | REDUCTIONS


class EpilogueSubTiles(Pattern):
    """Pieces are taken from a product's result before they are stored; or the whole of it is
    stored, with what is done to it on the way."""

    name = "epilogue-sub-tiling"
    axis = "epilogue"
    source = "CUTLASS, epilogue visitor tree, epilogue tiles"
    matches = (
        Case(_PIECES, "extract sub-tiles"),
        Case(_PIECES_POINTER, "extract sub-tiles"),
        Case(_SCALED, "full-tile epilogue"),
        Case(_SCALED_TILE, "full-tile epilogue"),
        Case(PRODUCT, "full-tile epilogue"),
        Case(PRODUCT_POINTER, "full-tile epilogue"),
        Case(PRODUCT_THREADS, "full-tile epilogue"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="the accumulator is stored whole", value="extract sub-tiles"),
        NearMiss(
            vary(PRODUCT_POINTER, ("tl.store(out", "tl.atomic_add(out")),
            why="other blocks have parts of the tile, too",
        ),
        NearMiss(_SUMMED, why="a sum of the tile is stored"),
        NearMiss(TURN, why="there is no product"),
        NearMiss(ADD_THREADS, why="there is no product"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        pieces = [
            n
            for n in facts.graph.of(OpKind.EXTRACT, OpKind.SPLIT)
            if any(facts.graph.rests_on(n.op.inputs[0], p) for p in facts.contractions)
            and any(facts.graph.rests_on(s.value, n) for s in facts.stores)
        ]
        cut = [s for s in facts.stores if any(facts.graph.rests_on(s.value, n) for n in pieces)]
        if pieces:
            ways = [place for store in cut for place in self._whole(facts, store)]
            yield self.decide(facts, "extract sub-tiles", [*pieces, *dict.fromkeys(ways)])
        rest = [store for store in facts.stores if store not in cut]
        whole = [place for store in rest for place in self._whole(facts, store)]
        if whole:
            yield self.decide(facts, "full-tile epilogue", dict.fromkeys(whole))

    def _whole(self, facts: Facts, store: Access) -> list[Where]:
        """A plain store of what a product left, with the elementwise steps on its way."""
        if store.is_atomic or len(facts.types.shape(store.value)) < 2:
            return []
        grown = {n for loop in facts.loops if loop.of(Role.ACCUMULATOR) for n in (loop.node,)}
        above = list(facts.graph.upstream(store.value, lambda n: n.op.kind in _ENDS))
        made = [n for n in above if n in grown or n.op.kind in CONTRACTIONS]
        if not made:
            return []
        steps = [
            n
            for n in above
            if n.op.kind not in _ENDS
            and not n.op.regions
            and any(facts.graph.rests_on(n.result, m) for m in made)
        ]
        return [*steps, store]
