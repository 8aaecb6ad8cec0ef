"""Two matrices whose product threads add up, both with the summed axis side by side in memory."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from extractors.patterns.cases_threads import PRODUCT_ROW_THREADS, PRODUCT_THREADS
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind
from kb.analysis.thread_products import thread_products
from kb.evidence import Decision
from kb.ops import READS, OpKind

_VALUE = "summed axis side by side in both operands"
_MOVING = (
    AtomKind.BLOCK, AtomKind.LANE, AtomKind.INDUCTION, AtomKind.COUNT, AtomKind.LOADED,
    AtomKind.OPAQUE,
)  # fmt: skip
_ROUTER = """__global__ void route(const float* x, const float* w, float* out, int k, int n) {
    float sum = 0.f;
    for (int i = threadIdx.x; i < k; i += 32) sum += x[blockIdx.x * k + i] * w[blockIdx.y * k + i];
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
    if (threadIdx.x == 0) out[blockIdx.x * n + blockIdx.y] = sum;
}
"""
_UNROLLED = """template <int M, int K>
__global__ void route(const float* x, const float* w, float* out, int n) {
    float sum[M] = {};
    const float* own = w + blockIdx.x * K;
    for (int i = threadIdx.x; i < K; i += 32) {
#pragma unroll
        for (int m = 0; m < M; ++m) sum[m] += x[m * K + i] * own[i];
    }
#pragma unroll
    for (int m = 0; m < M; ++m) {
        for (int o = 16; o > 0; o >>= 1) sum[m] += __shfl_xor_sync(0xffffffff, sum[m], o);
        if (threadIdx.x == 0) out[m * n + blockIdx.x] = sum[m];
    }
}
"""


class BothAlongTheSum(Pattern):
    """Of threads: what two arrays are multiplied and added up by moves in both of them from one
    element to the next, and rows of their own lie an extent apart in each."""

    name = "summed-axis-side-by-side-in-both-operands"
    axis = "operand_layout"
    source = "NVIDIA, CUTLASS documentation, layouts: both operands of a linear layer K-major"
    matches = (Case(_ROUTER, _VALUE), Case(_UNROLLED, _VALUE))
    near_misses = (
        NearMiss(_ROUTER.replace("w[blockIdx.y * k + i]", "w[i * n + blockIdx.y]"), why="columns"),
        NearMiss(_ROUTER.replace("w[blockIdx.y * k + i]", "w[i]"), why="a matrix and a vector"),
        NearMiss(_ROUTER.replace("w[blockIdx.y * k", "w[blockIdx.x * k"), why="the same row"),
        NearMiss(PRODUCT_THREADS, why="columns of one operand"),
        NearMiss(PRODUCT_ROW_THREADS, why="columns of one operand"),
        NearMiss(ROW_NORM_THREADS, why="no product of two matrices"),
        NearMiss(ADD_THREADS, why="no product"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[Access | Node, None] = {}
        for _, (one, other) in thread_products(facts):
            for first in one:
                for second in other:
                    rows = _rows(first, second), _rows(second, first)
                    if all(rows):
                        found.update(dict.fromkeys((first, second)))
                        found.update(dict.fromkeys(_begun(facts, first, rows[0])))
                        found.update(dict.fromkeys(_begun(facts, second, rows[1])))
        if found:
            yield self.decide(facts, _VALUE, found)


def _rows(matrix: Access, other: Access) -> set[Atom]:
    """What moves from row to row of a matrix, an extent apart, where the other operand does not
    have it and what both share moves by no extent; nothing where they do not lie so."""
    if matrix.array in (None, other.array) or matrix.mode is not Mode.POINTER:
        return set()
    common = {a for index in other.index for a in index.top() if _moves(a)}
    summed: list[bool] = []
    rows: dict[Atom, bool] = {}
    for factors, _ in matrix.index[0].terms if len(matrix.index) == 1 else ():
        moving = {a for a in factors if _moves(a)}
        sized = any(a.kind is AtomKind.PARAMETER for a in factors)
        if moving & common:
            summed.append(sized)
        else:
            rows.update(dict.fromkeys(moving, sized))
    return {*rows} if all(rows.values()) and summed and not all(summed) else set()


def _begun(facts: Facts, access: Access, rows: set[Atom]) -> list[Node]:
    """Where the beginning of a row is added to a place."""
    above = [n for v in access.address for n in facts.graph.upstream(v, _reads)]
    sums = [n for n in above if n.op.kind == OpKind.ADD]
    return [n for n in sums if any(_of(facts, v, rows) for v in n.op.inputs[:2])]


def _of(facts: Facts, value: str, rows: set[Atom]) -> bool:
    moving = {a for a in facts.values.expr(value).top() if _moves(a)}
    return bool(moving) and moving <= rows


def _reads(node: Node) -> bool:
    return node.op.kind in READS


def _moves(atom: Atom) -> bool:
    return atom.kind in _MOVING or any(arg.has(*_MOVING) for arg in atom.args)
