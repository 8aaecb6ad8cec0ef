"""How often each value occurs, counted within a block."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, vary
from extractors.patterns.cases_counters import COUNT_THREADS
from extractors.patterns.cases_rows_pointer import COPY_POINTER
from extractors.patterns.cases_threads import SUM_IN_SHARED_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Decision
from kb.ops import OpKind

_BY_ATOMICS = "histogram by shared-memory atomics"
_ADDS = (OpKind.ATOMIC_ADD, OpKind.ATOMIC_INC)
_BINS = """__global__ void bins(const int* x, int* out, int n) {
    __shared__ int held[64];
    if (threadIdx.x < 64) held[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&held[x[i]], 1);
    __syncthreads();
    if (threadIdx.x < 64) out[blockIdx.x * 64 + threadIdx.x] = held[threadIdx.x];
}
"""
_TILE = (
    POINTER
    + """
@triton.jit
def bins(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(out + tl.arange(0, 64), tl.histogram(v, 64))
"""
)


class SharedHistogram(Pattern):
    """Atomics add whole numbers at places of shared memory that loaded data says; or one operation
    counts the values of a tile."""

    name = "values-counted-within-a-block"
    axis = "reduction_scheme"
    source = "NVIDIA, CUDA Samples, histogram: one per block in shared memory"
    matches = (
        Case(_BINS, _BY_ATOMICS),
        Case(vary(_BINS, ("held[x[i]]", "held[(x[i] >> 8) & 63]")), _BY_ATOMICS),
        Case(_TILE, "histogram of a resident tile"),
    )
    near_misses = (
        NearMiss(vary(_BINS, ("held[x[i]]", "held[i % 64]")), why="the place says nothing of data"),
        NearMiss(
            vary(_BINS, ("int held", "float held"), (", 1)", ", 0.5f)")), why="a sum by groups"
        ),
        NearMiss(
            vary(_BINS, ("atomicAdd(&held[x[i]], 1)", "held[i % 64] = x[i]")), why="no atomic"
        ),
        NearMiss(COUNT_THREADS, why="all blocks count in global memory"),
        NearMiss(SUM_IN_SHARED_THREADS, why="every thread adds to a place of its own"),
        NearMiss(COPY_POINTER, why="nothing is counted"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if tiles := facts.graph.of(OpKind.HISTOGRAM):
            yield self.decide(facts, "histogram of a resident tile", tiles)
        if not facts.of_threads:
            return
        counted = [
            n
            for n in facts.threads.of(*_ADDS)
            if n.op.attribute("space") == "shared" and _whole(facts, n) and _binned(facts, n)
        ]
        # What hands out places by what a counter held before goes by counts that others took.
        alone = [n for n in counted if not facts.threads.users(n.result)]
        if counted:
            yield self.decide(facts, _BY_ATOMICS, alone or counted)


def _whole(facts: Facts, atomic: Node) -> bool:
    """Whether what is added is a whole number."""
    value = atomic.op.operand("value")
    made = facts.threads.producer(value)
    kind = made.op.results[0].type if made is not None else None
    return value is None or (kind is not None and kind.dtype.startswith(("i", "u")))


def _binned(facts: Facts, atomic: Node) -> bool:
    """Whether loaded data says where."""
    return bool(facts.threads.roots(atomic.op.operand("pointer") or "", OpKind.LOAD))
