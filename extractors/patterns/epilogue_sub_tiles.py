"""The accumulator is stored piece by piece, or whole with something put on it."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import PRODUCT_DESCRIPTOR
from extractors.patterns.cases_rows import TURN
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Node
from kb.analysis.loops import Role
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, READS, OpKind

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
_LAST = (
    "tl.dot(tl.load(a + m[:, None] * sa + k[None, :]), tl.load(b + k[:, None] * sb + n[None, :]))"
)
_APPLIES = frozenset({OpKind.MUL, OpKind.ADD, OpKind.SUB, OpKind.FMA})
_ENDS = LOOPS | CONTRACTIONS | READS


class EpilogueSubTiles(Pattern):
    """Pieces are taken from a product's result before they are stored; or the whole of it is
    scaled by, or added to, what is loaded."""

    name = "epilogue-sub-tiling"
    axis = "epilogue"
    source = "CUTLASS, epilogue visitor tree, epilogue tiles"
    matches = (
        Case(_PIECES, "extract sub-tiles"),
        Case(_PIECES_POINTER, "extract sub-tiles"),
        Case(_SCALED, "full-tile epilogue"),
        Case(_SCALED_TILE, "full-tile epilogue"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="the accumulator is stored whole"),
        NearMiss(vary(_SCALED, ("* rate[None, :]", "* 0.5")), why="a number, nothing is loaded"),
        NearMiss(
            vary(_SCALED, ("rate[None, :]", "0.5"), ("dot(x, y)", "dot(x, y * rate[None, :])")),
            why="an operand is scaled before the product",
        ),
        NearMiss(
            vary(PRODUCT_POINTER, ("    tl.store(out", f"    acc += {_LAST}\n    tl.store(out")),
            why="the last step of the loop, peeled off",
        ),
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
            return
        applied = [] if facts.score_products else self._applied(facts)
        if applied:
            yield self.decide(facts, "full-tile epilogue", applied)

    def _applied(self, facts: Facts) -> list[Where]:
        """What is loaded after the loop of a product and put on its whole result, with the
        stores."""
        found: list[Where] = []
        for loop in facts.loops:
            grown = [c.result for c in loop.of(Role.ACCUMULATOR)]
            for store in facts.stores if grown else ():
                steps = [
                    n
                    for n in facts.graph.upstream(store.value, lambda n: n.op.kind in _ENDS)
                    if n.op.kind in _APPLIES and not n.inside(loop.node)
                    and self._meets(facts, n, grown)
                ]  # fmt: skip
                found += [*steps, store] if steps else []
        return list(dict.fromkeys(found))

    def _meets(self, facts: Facts, node: Node, grown: list[str]) -> bool:
        """One side is the result of the loop so far, the other rests on memory alone."""
        made = [n for value in grown if (n := facts.graph.producer(value)) is not None]
        for this, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
            product = any(facts.graph.rests_on(this, n) for n in made)
            if product and not any(facts.graph.rests_on(other, n) for n in made):
                return bool(facts.feeding(other)) and not facts.graph.roots(other, *CONTRACTIONS)
        return False
