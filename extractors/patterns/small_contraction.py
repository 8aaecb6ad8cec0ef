"""A weighted sum of few rows, or running sums, taken by the matrix unit."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_kept import RUNNING_BY_PRODUCT
from extractors.patterns.cases_merges import MERGE, MERGE_POINTER
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.diagonals import triangle_products
from kb.analysis.facts import Facts
from kb.evidence import Decision

_BY_PRODUCT = vary(
    MERGE,
    (
        "ct.sum(v * ct.reshape(w, (S, 1)), axis=0)",
        "ct.reshape(ct.mma(w[None, :], v.astype(ct.float32), ct.zeros((1, T), dtype=ct.float32)), (T,))",  # noqa: E501
    ),
)


_BY_PRODUCT_POINTER = vary(
    MERGE_POINTER,
    (
        "tl.sum(v * w[:, None], axis=0)",
        "tl.reshape(tl.dot(w[None, :], v.to(tl.float32)), (T,))",
    ),
)


_TRIANGLE = "running sums as a product with a triangle of ones"


class SmallContraction(Pattern):
    """A matrix product whose left or right operand is a single row or column, or ones on one side
    of the diagonal."""

    name = "mma-used-for-a-small-contraction"
    axis = "reduction_engine"
    source = "tilelore catalogue, P73; NVIDIA, PTX ISA, mma: the smallest shapes"
    matches = (
        Case(_BY_PRODUCT, "mma with M=1"),
        Case(_BY_PRODUCT_POINTER, "mma with M=1"),
        Case(RUNNING_BY_PRODUCT, _TRIANGLE),
    )
    near_misses = (
        NearMiss(
            vary(RUNNING_BY_PRODUCT, (">= i[None, :], 1.0", ">= i[None, :], 0.5")),
            why="no ones: a decay",
        ),
        NearMiss(MERGE, why="the sum is taken elementwise"),
        NearMiss(PRODUCT, why="both operands are tiles"),
        NearMiss(ATTENTION, why="both operands are tiles"),
        NearMiss(PRODUCT_POINTER, why="both operands are tiles"),
        NearMiss(PRODUCT_THREADS, why="both operands are tiles"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        thin = []
        for product in facts.contractions:
            left = facts.types.shape(product.op.operand("lhs"))
            right = facts.types.shape(product.op.operand("rhs"))
            if left[-2:-1] == ("1",) or (len(right) > 1 and right[-1:] == ("1",)):
                thin.append(product)
        if thin:
            yield self.decide(facts, "mma with M=1", thin)
        if running := triangle_products(facts):
            yield self.decide(facts, _TRIANGLE, dict.fromkeys(running))
