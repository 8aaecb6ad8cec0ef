"""The outcome of a product is turned and added to a tile that lies the other way around."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.either_orientation import EitherOrientation
from extractors.patterns.thin_operand_swap import ThinOperandSwap
from kb.analysis.facts import HELD, Facts
from kb.analysis.graph import TURNS, Node
from kb.analysis.scalings import elementwise
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_PLANE = 2
"""Axes of what a product gives; more are taken apart, and put together in another order."""
_TURNED = "(A@B)^T, the outcome turned"
_ADDED = vary(
    PRODUCT_POINTER,
    ("tl.zeros((TM, TN)", "tl.zeros((TN, TM)"),
    ("acc += tl.dot(x, y)", "acc += tl.trans(tl.dot(x, y))"),
    ("out + m[:, None] * so + n[None, :]", "out + n[:, None] * so + m[None, :]"),
)
_TILES = vary(
    PRODUCT,
    (
        "ct.mma(x, y, acc)",
        "acc + ct.transpose(ct.mma(x, y, ct.full((TM, TN), 0.0, dtype=ct.float32)))",
    ),
)
_SCALED = vary(_ADDED, ("tl.trans(tl.dot(x, y))", "tl.trans(tl.dot(x, y) * 0.5)"))


class OutcomeTurned(Pattern):
    """What a matrix product gives, at most times something or less another product, is turned,
    before it is added up or stored: no operand had to be."""

    name = "outcome-of-a-product-turned"
    axis = "mma_orientation"
    source = "Golub, Van Loan, Matrix Computations (2013), section 1.1: (A B)^T = B^T A^T"
    matches = (Case(_ADDED, _TURNED), Case(_SCALED, _TURNED), Case(_TILES, _TURNED))
    near_misses = (
        NearMiss(
            vary(_ADDED, ("tl.trans(tl.dot(x, y))", "tl.dot(tl.trans(y), tl.trans(x))")),
            why="the operands are turned",
        ),
        NearMiss(
            vary(_ADDED, ("tl.trans(tl.dot(x, y))", "tl.trans(tl.exp(tl.dot(x, y)))")),
            why="something else is made of the product first",
        ),
        NearMiss(
            vary(
                _ADDED,
                ("acc += tl.trans(tl.dot(x, y))", "acc += tl.dot(tl.trans(tl.dot(x, y)), x)"),
            ),
            why="what is turned is an operand again",
        ),
        NearMiss(
            vary(
                _ADDED,
                (
                    "tl.trans(tl.dot(x, y))",
                    "tl.reshape(tl.permute(tl.reshape(tl.dot(x, y), (TM, 2, TN // 2)), (2, 1, 0)), "
                    "(TN, TM))",
                ),
            ),
            why="three axes in another order",
        ),
        NearMiss(PRODUCT_POINTER, why="nothing is turned"),
        NearMiss(ATTENTION, why="keys are turned"),
        NearMiss(BACKWARD_KEYS, why="operands are turned"),
        NearMiss(BACKWARD_KEYS_POINTER, why="operands are turned"),
        NearMiss(PRODUCT_THREADS, why="threads turn nothing"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads or not facts.contractions:
            return
        turns = [n for n in facts.graph.of(*TURNS) if self._added(facts, n)]
        found = [n for turn in turns for n in (*self._products(facts, turn), turn)]
        others = (ThinOperandSwap(), EitherOrientation()) if found else ()
        if found and not any(True for other in others for _ in other.seen(facts)):
            yield self.decide(facts, _TURNED, dict.fromkeys(found))

    def _products(self, facts: Facts, turn: Node) -> list[Node]:
        """Products that a tile is, or that are added up to it."""
        above = elementwise(facts, turn.op.inputs[0])
        if sum(extent != "1" for extent in facts.types.shape(turn.op.inputs[0])) != _PLANE:
            return []
        if any(n.op.kind in TURNS or n.op.kind == OpKind.IF for n in above):
            return []
        return [n for n in above if n.op.kind in CONTRACTIONS]

    def _added(self, facts: Facts, turn: Node) -> bool:
        """Whether what is turned is a product with two axes, and no operand of another."""
        if not self._products(facts, turn):
            return False
        return not any(
            turn in facts.graph.upstream(p.op.operand(role) or "", lambda n: n.op.kind not in HELD)
            for p in facts.contractions
            for role in ("lhs", "rhs")
        )
