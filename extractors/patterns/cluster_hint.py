"""How many blocks form a cluster, as written on the kernel."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, vary
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import SOFTMAX_THREADS
from kb.analysis.facts import Facts
from kb.evidence import Decision

_CLUSTER = """__global__ void __cluster_dims__(2, 1, 1) plus(const float* x, float* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = x[at] + 1.f;
}
"""


class ClusterHint(Pattern):
    """An option of the kernel's decorator."""

    name = "cta-cluster-2-cta-mma"
    axis = "cluster_size"
    source = "NVIDIA, CUDA C++ Programming Guide, thread block clusters"
    matches = (
        Case(vary(SOFTMAX, ("occupancy=4", "num_ctas=2")), "2"),
        Case(_CLUSTER, "2"),
    )
    near_misses = (
        NearMiss(SOFTMAX, why="the decorator speaks of occupancy only"),
        NearMiss(PRODUCT, why="the decorator has no options"),
        NearMiss(SOFTMAX_POINTER, why="the decorator speaks of occupancy only"),
        NearMiss(SOFTMAX_THREADS, why="the decorator speaks of occupancy only"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        entry = facts.kernel.entry
        for name, value in entry.options:
            if name == "num_ctas" and value is not None:
                yield self.decide(
                    facts, str(value), ((max(entry.span.line - 1, 1), entry.span.line),)
                )
            elif name == "cluster_x" and isinstance(value, int):
                sizes = [v for key, v in entry.options if key.startswith("cluster_")]
                blocks = prod(v for v in sizes if isinstance(v, int))
                line = entry.span.line
                yield self.decide(facts, str(blocks), ((line, line),))
