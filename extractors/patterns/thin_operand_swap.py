"""The large operand of a product stands on the left, so that the hardware's fixed row count is
filled."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, POINTER, vary
from extractors.patterns.cases_pointer import FLASH_POINTER
from extractors.patterns.cases_threads import FLASH_THREADS
from extractors.patterns.either_orientation import EitherOrientation
from kb.analysis.facts import HELD, Facts
from kb.analysis.graph import TURNS, Node
from kb.analysis.idioms import queries_first, recomputed
from kb.evidence import Decision

_SWAPPED = vary(
    ATTENTION,
    ("k = ct.load(b, index=(bat, kv, 0, j), shape=(1, 1, W, TN), order=(0, 1, 3, 2), latency=2).reshape((W, TN))",  # noqa: E501
     "k = ct.load(b, index=(bat, kv, j, 0), shape=(1, 1, TN, W), latency=2).reshape((TN, W))"),
    ("s = ct.full((TM, TN), 0.0, dtype=ct.float32)\n        s = ct.mma(fixed, k, s)",
     "s = ct.mma(k, ct.transpose(fixed), ct.full((TN, TM), 0.0, dtype=ct.float32))"),
    ("if (TRI or not WHOLE) and j >= edge:", "if False:"),
    ("ct.max(s, axis=-1, keepdims=True)", "ct.max(s, axis=0, keepdims=True)"),
    ("ct.sum(p, axis=-1, keepdims=True)", "ct.sum(p, axis=0, keepdims=True)"),
    ("(TM, 1)", "(1, TM)"), ("acc = ct.full((TM, W)", "acc = ct.full((W, TM)"),
    ("acc = ct.mma(p.astype(a.dtype), v, acc)", "acc = ct.mma(ct.transpose(v), p.astype(a.dtype), acc)"),  # noqa: E501
    ("tile=acc.reshape(", "tile=ct.transpose(acc).reshape("),
)  # fmt: skip


_SWAPPED_POINTER = vary(
    FLASH_POINTER,
    ("cols[None, :] * tn + lane[:, None], mask=cols[None, :] < size", "cols[:, None] * tn + lane[None, :], mask=cols[:, None] < size"),  # noqa: E501
    ("s = tl.dot(fixed, k)", "s = tl.dot(k, tl.trans(fixed))"),
    ("if (TRI or not WHOLE) and j >= edge:", "if False:"),
    ("tl.max(s, 1)", "tl.max(s, 0)"), ("tl.sum(p, 1)", "tl.sum(p, 0)"), ("new[:, None]", "new[None, :]"),  # noqa: E501
    ("acc = tl.zeros([TM, W]", "acc = tl.zeros([W, TM]"), ("fade[:, None]", "fade[None, :]"),
    ("acc = tl.dot(p.to(a.dtype.element_ty), v, acc)", "acc = tl.dot(tl.trans(v), p.to(a.dtype.element_ty), acc)"),  # noqa: E501
    ("acc = acc / tot[:, None]", "acc = tl.trans(acc / tot[None, :])"),
)  # fmt: skip


_SWAPPED_PRODUCT = (
    POINTER
    + """
@triton.jit
def thin(a, b, out, K, N, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    m = tl.arange(0, TM)
    n = tl.program_id(0) * TN + tl.arange(0, TN)
    acc = tl.zeros((TN, TM), dtype=tl.float32)
    for j in range(0, K, TK):
        k = j + tl.arange(0, TK)
        x = tl.load(a + m[:, None] * K + k[None, :])
        y = tl.load(b + k[:, None] * N + n[None, :])
        acc = tl.dot(tl.trans(y), tl.trans(x), acc)
    tl.store(out + m[:, None] * N + n[None, :], tl.trans(acc))
"""
)


_SWAPPED_STEP = vary(
    _SWAPPED_PRODUCT,
    ("b + k[:, None] * N + n[None, :]", "b + n[:, None] * K + k[None, :]"),
    ("acc = tl.dot(tl.trans(y), tl.trans(x), acc)", "acc += tl.trans(tl.dot(y, tl.trans(x)))"),
    ("tl.zeros((TN, TM)", "tl.zeros((TM, TN)"),
    ("tl.trans(acc))", "acc)"),
)


class ThinOperandSwap(Pattern):
    """In a forward pass the statistic belongs to the columns of the score tile; or a product is
    turned back on its way to a store."""

    name = "operand-swap-for-thin-m"
    axis = "mma_orientation"
    source = "NVIDIA, PTX ISA, wgmma: M is 64"
    matches = (
        Case(_SWAPPED, "(B^T@A^T)^T"),
        Case(_SWAPPED_POINTER, "(B^T@A^T)^T"),
        Case(_SWAPPED_PRODUCT, "(B^T@A^T)^T"),
        Case(_SWAPPED_STEP, "(B^T@A^T)^T"),
    )
    near_misses = (
        NearMiss(
            vary(_SWAPPED_PRODUCT, ("tl.trans(acc)", "acc")), why="the tile is not turned back"
        ),
        NearMiss(
            vary(_SWAPPED_STEP, ("tl.trans(tl.dot(y, tl.trans(x)))", "tl.dot(x, tl.trans(y))")),
            why="one operand turned, as weights are that lie along the other axis",
        ),
        NearMiss(ATTENTION, why="queries are the rows of the scores"),
        NearMiss(BACKWARD_KEYS, why="a backward pass that keeps keys"),
        NearMiss(FLASH_POINTER, why="queries are the rows of the scores"),
        NearMiss(FLASH_THREADS, why="queries are the rows of the scores"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if recomputed(facts):
            return
        for score in facts.score_products:
            if queries_first(facts, score) is False:
                turns = [
                    t
                    for r in ("lhs", "rhs")
                    if (t := facts.turned(score.op.operand(r))) is not None
                ]
                yield self.decide(facts, "(B^T@A^T)^T", (score, *turns))
                return
        if not facts.score_products:
            turned = [n for product in facts.contractions for n in self._turned(facts, product)]
            if turned:
                yield self.decide(facts, "(B^T@A^T)^T", dict.fromkeys(turned))

    def _turned(self, facts: Facts, product: Node) -> list[Node]:
        """A product of two turned tiles that is turned back on its way to a store; or one of a
        turned tile on the right whose outcome itself is turned."""
        first, second = (facts.turned(product.op.operand(role)) for role in ("lhs", "rhs"))
        if second is None or first is second:
            return []
        back = [
            n
            for n in facts.graph.of(*TURNS)
            if facts.graph.rests_on(n.result, product)
            and any(facts.graph.rests_on(s.value, n) for s in facts.stores)
        ]
        if first is None:
            if any(True for _ in EitherOrientation().seen(facts)):
                return []
            back = [n for n in back if facts.graph.through(n.op.inputs[0], HELD) == product.result]
        return [product, *(n for n in (first, second) if n), *back] if back else []
