"""The accumulator is stored piece by piece, or whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import PRODUCT_DESCRIPTOR
from extractors.patterns.cases_rows import TURN
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.product_summed import GEMV, GEMV_TILE
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Node
from kb.analysis.lane_products import products_summed
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
_LANES = vary(
    GEMV,
    ("(a, x, out,", "(a, x, scale, out,"),
    ("tl.sum(w * v[None, :], axis=1)", "tl.sum(w * v[None, :], axis=1) * tl.load(scale + rows)"),
)
_LANES_TILE = vary(
    GEMV_TILE,
    ("(a, x, out,", "(a, x, scale, out,"),
    ("ct.sum(w * v, axis=1)", "ct.sum(w * v, axis=1) * ct.load(scale, index=(i,), shape=(TN,))"),
)
_SUMMED = vary(
    PRODUCT_POINTER,
    (
        "    tl.store(out",
        "    acc = tl.sum(acc, axis=1)[:, None] + tl.zeros((1, TN), tl.float32)\n    tl.store(out",
    ),
)
_MERGED = (
    POINTER
    + """
@triton.jit
def merge(a, b, out, n, whole: tl.constexpr, S: tl.constexpr, D: tl.constexpr):
    s = tl.arange(0, S)
    d = tl.arange(0, D)
    if whole:
        w = tl.load(b + s)
        top = tl.max(w, axis=0)
        part = tl.load(a + s[:, None] * D + d[None, :])
    else:
        w = tl.load(b + s, mask=s < n, other=float("-inf"))
        top = tl.max(w, axis=0)
        part = tl.load(a + s[:, None] * D + d[None, :], mask=s[:, None] < n, other=0.0)
    acc = tl.sum(part * tl.exp(w - top)[:, None], axis=0)
    tl.store(out + d, (acc / (top + 1.0)).to(tl.float16))
"""
)
_STATISTIC = (
    POINTER
    + """
@triton.jit
def back(y, gy, gx, n, R: tl.constexpr, T: tl.constexpr):
    at = (tl.program_id(0) * R + tl.arange(0, R))[:, None] * n + tl.arange(0, T)[None, :]
    p = tl.load(y + at)
    g = tl.load(gy + at)
    tl.store(gx + at, p * (g - tl.sum(p * g, axis=1)[:, None]))
"""
)
_ENDS = LOOPS | CONTRACTIONS | READS | REDUCTIONS
_CHANGES = frozenset({OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA, OpKind.MAXIMUM})
"""Steps that change what a product left, beside those that only round or turn it."""


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
        Case(vary(_SCALED, ("tl.store(out", "tl.atomic_add(out")), "full-tile epilogue"),
        Case(_LANES, "full-tile epilogue"),
        Case(_LANES_TILE, "full-tile epilogue"),
        Case(_MERGED, "full-tile epilogue"),
        Case(_MERGED.replace("top", "z_top"), "full-tile epilogue"),
        Case(_MERGED.replace("part", "a_part"), "full-tile epilogue"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="the accumulator is stored whole", value="extract sub-tiles"),
        NearMiss(
            vary(PRODUCT_POINTER, ("tl.store(out", "tl.atomic_add(out")),
            why="other blocks have parts of the tile, too",
        ),
        NearMiss(_STATISTIC, why="the sum of a product of rows is taken off the rows"),
        NearMiss(_SUMMED, why="a sum of the tile is stored"),
        NearMiss(GEMV, why="sums of the lanes are stored as they are"),
        NearMiss(GEMV_TILE, why="sums of the lanes are stored as they are"),
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
        made = self._made(facts)
        cut = [s for s in facts.stores if any(facts.graph.rests_on(s.value, n) for n in pieces)]
        if pieces:
            ways = [place for store in cut for place in self._whole(facts, store, made)]
            yield self.decide(facts, "extract sub-tiles", [*pieces, *dict.fromkeys(ways)])
        rest = [store for store in facts.stores if store not in cut]
        whole = [place for store in rest for place in self._whole(facts, store, made)]
        if whole:
            yield self.decide(facts, "full-tile epilogue", dict.fromkeys(whole))

    def _made(self, facts: Facts) -> set[Node]:
        """Products, loops that add them up, and products that lanes add up."""
        grown = {loop.node for loop in facts.loops if loop.of(Role.ACCUMULATOR)}
        if grown or facts.contractions:
            return {*grown, *facts.contractions}
        return {total for _, total in products_summed(facts)}

    def _whole(self, facts: Facts, store: Access, made: set[Node]) -> list[Where]:
        """A store of what a product left, with the elementwise steps on its way and what they load.
        Of what blocks add up together or lanes have summed, where there are such steps."""
        if not made or store.value is None:
            return []
        above = list(facts.graph.upstream(store.value, lambda n: n in made or n.op.kind in _ENDS))
        own = [n for n in above if n in made]
        steps = [
            n
            for n in above
            if n.op.kind not in _ENDS
            and not n.op.regions
            and any(facts.graph.rests_on(n.result, m) for m in own)
        ]
        lanes = any(n.op.kind in REDUCTIONS for n in own)
        plain = len(facts.types.shape(store.value)) > 1 and not (store.is_atomic or lanes)
        if not own or not (plain or any(n.op.kind in _CHANGES for n in steps)):
            return []
        if lanes and any(self._again(facts, n, own, above) for n in above):
            return []
        taken = [n for n in above if n.op.kind in READS and n not in own]
        return [*(n for n in taken if self._joins(facts, n, steps)), *steps, store]

    def _again(
        self, facts: Facts, node: Node, totals: Sequence[Node], above: Sequence[Node]
    ) -> bool:
        """True for a tile, on the way to a store, that was summed as well, or is read again: the
        sum is a statistic of it, no product that is handed on. Of the results of a branch or a
        loop those are on the way that what is above the store takes."""
        tiles = [
            one.name
            for one in node.op.results
            if sum(e != "1" for e in facts.types.shape(one.name)) > 1
            and (
                len(node.op.results) == 1
                or any(n in above and n not in totals for n in facts.graph.users(one.name))
            )
        ]
        if not tiles:
            return False
        access = facts.access(node) if node.op.kind in READS else None
        summed = {a.array for t in totals for a in facts.feeding(t.op.inputs[0])}
        again = access is not None and access.array in summed
        return again or any(facts.graph.rests_on(t.op.inputs[0], node) for t in totals)

    def _joins(self, facts: Facts, load: Node, steps: list[Node]) -> bool:
        """True for a load whose values a step takes beside those of the product."""
        return any(facts.graph.rests_on(v, load) for n in steps for v in n.op.inputs)
