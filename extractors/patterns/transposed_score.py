"""Whether scores are computed transposed, so that the second product needs no transpose of
probabilities."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, vary
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER, FLASH_POINTER
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import TURNS, Node
from kb.analysis.idioms import queries_first, recomputed
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_STRAIGHT = vary(
    BACKWARD_KEYS,
    ("s = ct.mma(k, q.permute((1, 0)), ct.full((TN, TM), 0.0, dtype=ct.float32))",
     "s = ct.mma(q, k.permute((1, 0)), ct.full((TM, TN), 0.0, dtype=ct.float32))"),
    ("lse[None, :]", "lse[:, None]"), ("dot[None, :]", "dot[:, None]"),
    ("rows = (m * TM + ct.arange(TM, dtype=ct.int32))[None, :]", "rows = (m * TM + ct.arange(TM, dtype=ct.int32))[:, None]"),  # noqa: E501
    ("cols = (x * TN + ct.arange(TN, dtype=ct.int32))[:, None]", "cols = (x * TN + ct.arange(TN, dtype=ct.int32))[None, :]"),  # noqa: E501
    ("dp = ct.mma(v, o.permute((1, 0)), ct.full((TN, TM), 0.0, dtype=ct.float32))",
     "dp = ct.mma(o, v.permute((1, 0)), ct.full((TM, TN), 0.0, dtype=ct.float32))"),
    ("ct.mma(p.astype(a.dtype), o, gv)", "ct.mma(ct.transpose(p.astype(a.dtype)), o, gv)"),
    ("ct.mma(ds.astype(a.dtype), q, gk)", "ct.mma(ct.transpose(ds.astype(a.dtype)), q, gk)"),
)  # fmt: skip


class TransposedScore(Pattern):
    """In a pass that keeps keys, the key tile is the left operand of the score product."""

    name = "transposed-score-formulation-in-dk-dv"
    axis = "mma_orientation"
    source = "tilelore catalogue, P15; Tri Dao, FlashAttention-2 backward"
    matches = (
        Case(BACKWARD_KEYS, "S^T = K Q^T so P^T is produced directly"),
        Case(_STRAIGHT, "S = QK^T then transpose P for P^T dO"),
        Case(BACKWARD_KEYS_POINTER, "S^T = K Q^T so P^T is produced directly"),
    )
    near_misses = (
        NearMiss(ATTENTION, why="a forward pass: probabilities enter as they are"),
        NearMiss(FLASH_POINTER, why="a forward pass: probabilities enter as they are"),
        NearMiss(FLASH_THREADS, why="a forward pass: probabilities enter as they are"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not recomputed(facts):
            return
        for score in facts.score_products:
            second = self._second(facts, score)
            first = queries_first(facts, score)
            if first is None or not second:
                continue
            turned = [t for p in second for t in self._turns(facts, p)]
            if not first and not turned:
                where: list[Where] = [facts.turned(score.op.operand("rhs")), score, *second]
                yield self.decide(facts, "S^T = K Q^T so P^T is produced directly", where)
                return
            if first and turned:
                yield self.decide(
                    facts, "S = QK^T then transpose P for P^T dO", (score, *turned, *second)
                )
                return

    def _second(self, facts: Facts, score: Node) -> list[Node]:
        """Products whose left operand is computed from the score."""
        return [
            p
            for p in facts.contractions
            if p is not score and facts.graph.rests_on(p.op.operand("lhs"), score)
        ]

    def _turns(self, facts: Facts, product: Node) -> list[Node]:
        """Transposes of computed tiles on the way to the left operand."""
        stop = CONTRACTIONS | {OpKind.EXP, OpKind.EXP2}
        nodes = facts.graph.upstream(product.op.operand("lhs") or "", lambda n: n.op.kind in stop)
        return [n for n in nodes if n.op.kind in TURNS and not facts.held_loads(n.op.inputs[0])]
