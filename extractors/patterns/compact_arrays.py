"""Arrays whose elements threads find by counting: they must lie without gaps."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.strides import placed_with, row_strides
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_STRIDED = """__global__ void copy(const float* x, float* out, int n, long down, long far) {
    int row = blockIdx.x;
    for (int at = threadIdx.x; at < n; at += blockDim.x)
        out[row * far + at] = x[row * down + at];
}
"""
_PLANES = """__global__ void move(const float* x, float* out, int count, int wide, int high) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) return;
    int column = at % wide, row = at / wide % high, plane = at / wide / high;
    out[(plane * wide + column) * high + row] = x[at];
}
"""
_ONE_NUMBER = """__global__ void ask(const int* flag, float* out) {
    if (*flag) out[0] = 1.f;
}
"""
_PLACED = frozenset({AtomKind.LANE, AtomKind.BLOCK, AtomKind.INDUCTION})


class CompactArrays(Pattern):
    """Threads reach the elements of arrays by their numbers and by extents; no stride is handed
    in."""

    name = "arrays-of-threads-without-strides"
    axis = "layout_contract"
    source = "PyTorch documentation, tensor views: contiguous tensors and their strides"
    matches = (
        Case(_PLANES, "contiguous arrays taken for granted"),
        Case(ROW_NORM_THREADS, "contiguous arrays taken for granted"),
        Case(ADD_THREADS, "contiguous arrays taken for granted"),
    )
    near_misses = (
        NearMiss(_STRIDED, why="the distances of the rows are handed in"),
        NearMiss(_ONE_NUMBER, why="single numbers have no layout"),
        NearMiss(ADD_POINTER, why="tiles, not threads, are placed"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads or len(row_strides(facts) - facts.constexprs) > 1:
            return
        counted = [access for access in facts.accesses if _counted(access)]
        if counted:
            sizes = {
                atom.value
                for access in counted
                for index in access.index
                for factors, _ in index.terms
                if len(factors) > 1
                for atom in factors
                if atom.kind is AtomKind.PARAMETER
            }
            arrays = {access.array for access in counted}
            steps = [
                node
                for node in facts.threads.of(OpKind.ADD)
                if any(facts.threads.core(v) in arrays for v in node.op.inputs)
            ]
            where: list[Where] = [*placed_with(facts, sizes), *steps, *counted]
            yield self.decide(facts, "contiguous arrays taken for granted", where)


def _counted(access: Access) -> bool:
    """Whether a position of the thread, the block or a round says where an element of an argument
    is."""
    if access.mode is not Mode.POINTER or access.array is None:
        return False
    return any(index.has(*_PLACED) for index in access.index)
