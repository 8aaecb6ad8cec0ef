"""Whether warps of a block do different work."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT_POINTER, vary
from extractors.patterns.cases_rows_threads import ROW_NORM_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.shared import SharedMemory
from kb.evidence import Decision
from kb.ir import walk
from kb.ops import COMPARISONS, OpKind

_OPTION = vary(
    PRODUCT_POINTER,
    ("in range(0, tl.cdiv(K, TK))", "in tl.range(0, tl.cdiv(K, TK), warp_specialize=True)"),
)
_BY_FLAG = vary(
    _OPTION, ("specialize=True", "specialize=APART"), ("(a, b", "(APART: tl.constexpr, a, b")
)
_ROLES = """#include <cuda_pipeline.h>
__global__ void stage(const float* x, float* out, int n) {
    __shared__ float buf[256];
    int warp = threadIdx.x / 32;
    float acc = 0.f;
    for (int i = 0; i < n; ++i) {
        if (warp == 0) {
            __pipeline_memcpy_async(&buf[threadIdx.x], &x[i * 32 + threadIdx.x], 4);
            __pipeline_commit();
            __pipeline_wait_prior(0);
        } else {
            acc += buf[threadIdx.x % 32];
        }
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = acc;
}
"""
_COPIES = (OpKind.ASYNC_COPY, OpKind.BULK_COPY)
_OWN = (OpKind.THREAD_ID, OpKind.WARP_ID, OpKind.LANE_ID, OpKind.WARP_PARTITION)


class WarpRoles(Pattern):
    """A branch on the warp whose one side copies into shared memory and whose other side reads it;
    or an option of a loop."""

    name = "roles-of-warps"
    axis = "warp_specialization"
    source = "Bauer et al., CudaDMA (2011); Triton documentation, range: warp_specialize"
    matches = (
        Case(_OPTION, "compiler option"),
        Case(_BY_FLAG, "compiler option"),
        Case(_ROLES, "producer/consumer"),
    )
    near_misses = (
        NearMiss(vary(_OPTION, ("=True", "=False")), why="the option is off"),
        NearMiss(PRODUCT_POINTER, why="the loop has no such option"),
        NearMiss(PRODUCT_THREADS, why="every thread copies and computes"),
        NearMiss(ROW_NORM_THREADS, why="a branch on the lane only stores a result"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        options = [
            loop.range
            for loop in facts.loops
            if loop.range is not None
            and self._asked(facts, loop.range.op.operand("warp_specialize"))
        ]
        if options:
            yield self.decide(facts, "compiler option", options)
        if facts.program is facts.source:
            return
        shared = facts.shared
        roles = [n for n in facts.threads.of(OpKind.IF) if self._parts(facts, shared, n)]
        budgets = facts.threads.of(OpKind.REGISTER_BUDGET)
        if roles or budgets:
            yield self.decide(facts, "producer/consumer", [*roles, *budgets])

    def _asked(self, facts: Facts, option: str | None) -> bool:
        """An option that is on, or that a compile-time parameter turns on."""
        return option is not None and (facts.flag(option) or option in facts.constexprs)

    def _parts(self, facts: Facts, shared: SharedMemory, branch: Node) -> bool:
        """True when a test of the thread parts copying from reading."""
        graph, test = facts.threads, branch.op.inputs[0]
        asked = graph.roots(test, *_OWN)
        if not asked or not graph.roots(test, *COMPARISONS) or len(branch.op.regions) < 2:
            return False
        sides = [list(walk(region)) for region in branch.op.regions]
        fills = [any(op.kind in _COPIES for op in side) for side in sides]
        reads = [any(op.kind == OpKind.LOAD and shared.holds(op) for op in s) for s in sides]
        reads = [
            r or any(op.kind == OpKind.MMA for op in s) for r, s in zip(reads, sides, strict=True)
        ]
        return fills[0] != fills[1] and reads[fills.index(False)]
