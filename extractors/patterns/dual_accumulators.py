"""Two products share an operand and grow side by side."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.loops import Role, accumulating
from kb.evidence import Decision

_TWIN = vary(
    PRODUCT,
    ("def product(a, b, out,", "def product(a, b, c, out,"),
    ("    for k in", "    acc2 = ct.full((TM, TN), 0.0, dtype=ct.float32)\n    for k in"),
    ("acc = ct.mma(x, y, acc)", "z = ct.load(c, index=(k, n), shape=(TK, TN))\n        acc = ct.mma(x, y, acc)\n        acc2 = ct.mma(x, z, acc2)"),  # noqa: E501
    ("ct.astype(acc, out.dtype)", "ct.astype(acc * acc2, out.dtype)"),
)  # fmt: skip


_TWIN_POINTER = vary(
    PRODUCT_POINTER,
    ("def product(a, b, out,", "def product(a, b, c, out,"),
    ("    for t in", "    pc = c + k[:, None] * sb + n[None, :]\n    acc2 = tl.zeros((TM, TN), dtype=tl.float32)\n    for t in"),  # noqa: E501
    ("acc += tl.dot(x, y)", "acc += tl.dot(x, y)\n        acc2 += tl.dot(x, tl.load(pc))\n        pc += TK * sb"),  # noqa: E501
    ("acc.to(tl.float16)", "(acc * acc2).to(tl.float16)"),
)  # fmt: skip


_TWIN_THREADS = vary(
    PRODUCT_THREADS,
    ("const float* __restrict__ b,", "const float* __restrict__ b, const float* c,"),
    ("    __shared__ float tb[T][T];", "    __shared__ float tb[T][T];\n    __shared__ float tc[T][T];"),  # noqa: E501
    ("    float acc = 0.f;", "    float acc = 0.f;\n    float acc2 = 0.f;"),
    ("        __syncthreads();\n        for", "        tc[threadIdx.y][threadIdx.x] = c[(t + threadIdx.y) * N + n];\n        __syncthreads();\n"  # noqa: E501
     "        for (int k = 0; k < T; ++k) acc2 += ta[threadIdx.y][k] * tc[k][threadIdx.x];\n        for"),  # noqa: E501
    ("= acc;", "= acc * acc2;"),
)  # fmt: skip


class DualAccumulators(Pattern):
    """Two carried products whose left (or right) operand is the same load."""

    name = "dual-accumulators-sharing-one-operand"
    axis = "fusion"
    source = "CUTLASS examples, dual GEMM"
    matches = (
        Case(_TWIN, "one loop, two MMAs"),
        Case(_TWIN_POINTER, "one loop, two MMAs"),
        Case(_TWIN_THREADS, "one loop, two MMAs"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="one product"),
        NearMiss(ATTENTION, why="the second product takes the first one's result"),
        NearMiss(BACKWARD_KEYS, why="the products have no operand in common"),
        NearMiss(PRODUCT_POINTER, why="one product"),
        NearMiss(PRODUCT_THREADS, why="one product"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.score_products:
            return
        for loop in facts.loops:
            grown = loop.of(Role.ACCUMULATOR)
            products = [
                p for c in grown if (p := accumulating(facts.graph, c.argument, c.next)) is not None
            ]
            for role in ("lhs", "rhs"):
                sides = [{a.node for a in facts.held_loads(p.op.operand(role))} for p in products]
                if len(products) >= 2 and sides[0] and all(side == sides[0] for side in sides):
                    yield self.decide(facts, "one loop, two MMAs", products)
                    return
