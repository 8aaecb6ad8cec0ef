"""Rows of a product that a loaded list of positions names."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, TILE, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.evidence import Decision

_MOE = (
    POINTER
    + """
@triton.jit
def rows(a, b, out, ids, K, sa, sb, so, TOP: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    m = tl.load(ids + tl.program_id(0) * TM + tl.arange(0, TM))
    n = tl.program_id(1) * TN + tl.arange(0, TN)
    k = tl.arange(0, TK)
    acc = tl.zeros((TM, TN), dtype=tl.float32)
    for t in range(0, tl.cdiv(K, TK)):
        x = tl.load(a + (m[:, None] // TOP) * sa + (t * TK + k)[None, :])
        y = tl.load(b + (t * TK + k)[:, None] * sb + n[None, :])
        acc += tl.dot(x, y)
    tl.store(out + m[:, None] * so + n[None, :], acc)
"""  # noqa: E501
)
_GATHER_ONLY = _MOE.replace(
    "out + m[:, None] * so", "out + (tl.program_id(0) * TM + tl.arange(0, TM))[:, None] * so"
)
_SEGMENT = _MOE.replace(
    "tl.load(ids + tl.program_id(0) * TM + tl.arange(0, TM))",
    "tl.load(ids + tl.program_id(0)) + tl.arange(0, TM)",
)


_MOE_TILE = (
    TILE
    + """
@ct.kernel
def rows(a, b, out, ids, TOP: Int, K: Int, TM: Int, TN: Int, TK: Int):
    m = ct.gather(ids, ct.bid(0) * TM + ct.arange(TM, dtype=ct.int32))
    n = ct.bid(1)
    acc = ct.full((TM, TN), 0.0, dtype=ct.float32)
    for t in range(ct.cdiv(K, TK)):
        k = t * TK + ct.arange(TK, dtype=ct.int32)
        x = ct.gather(a, (m[:, None] // TOP, k[None, :]))
        y = ct.load(b, index=(t, n), shape=(TK, TN))
        acc = ct.mma(x, y, acc)
    cols = n * TN + ct.arange(TN, dtype=ct.int32)
    ct.scatter(out, (m[:, None], cols[None, :]), ct.astype(acc, out.dtype))
"""
)


_MOE_THREADS = vary(
    PRODUCT_THREADS,
    ("const float* __restrict__ b,", "const float* __restrict__ b, const int* ids,"),
    ("int m = blockIdx.y * T + threadIdx.y;", "int m = ids[blockIdx.y * T + threadIdx.y];"),
)


class RowIndirectionProduct(Pattern):
    """A loaded tile of positions is part of the address of an operand and of the stored tile."""

    name = "indirect-row-gemm"
    axis = "ragged_access"
    source = "tilelore catalogue, P42; vLLM and Megablocks: fused permutation in expert products"
    matches = (
        Case(_MOE, "gather rows in the K loop + scatter rows"),
        Case(_MOE_TILE, "gather rows in the K loop + scatter rows"),
        Case(_MOE_THREADS, "gather rows in the K loop + scatter rows"),
    )
    near_misses = (
        NearMiss(_SEGMENT, why="one number is loaded, the start of a segment"),
        NearMiss(PRODUCT, why="tiles are found by block ids"),
        NearMiss(PRODUCT_POINTER, why="rows are found by block ids"),
        NearMiss(_GATHER_ONLY, why="the output rows are in order"),
        NearMiss(PRODUCT_THREADS, why="tiles are found by block ids"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        operands = [
            access
            for product in facts.contractions
            for role in ("lhs", "rhs")
            for access in facts.held_loads(product.op.operand(role))
        ]
        for listed in facts.loads:
            if all(extent == "1" for extent in facts.types.shape(listed.value)):
                continue
            read = [a for a in operands if a is not listed and _placed(facts, a, listed)]
            written = [a for a in facts.stores if _placed(facts, a, listed)]
            if read and written:
                value = "gather rows in the K loop + scatter rows"
                yield self.decide(facts, value, (listed, *read, *written))


def _placed(facts: Facts, access: Access, listed: Access) -> bool:
    """True when the place of an access, not its mask or value, is computed from a load."""
    return any(
        facts.graph.rests_on(value, listed.node)
        for role, value in access.node.op.operands
        if role not in ("value", "mask", "other", "padding")
    )
