"""How many worker warps a block gets, as written on the kernel."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, head_of
from extractors.patterns.cases import PRODUCT, vary
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import SOFTMAX_THREADS
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.shared import WARP
from kb.evidence import Decision

_BY_TEMPLATE = """template <int THREADS>
__global__ void __launch_bounds__(THREADS) copy(const float* x, float* out) {
    out[blockIdx.x * THREADS + threadIdx.x] = x[blockIdx.x * THREADS + threadIdx.x];
}
"""


class DecoratorWarps(Pattern):
    """An option of the kernel's decorator."""

    name = "worker-warp-count-hint"
    axis = "num_warps"
    source = "cuTile documentation, kernel(num_worker_warps=...)"
    matches = (
        Case(vary(SOFTMAX, ("occupancy=4", "num_worker_warps=8")), "8"),
        Case(FLASH_THREADS, "32"),
        Case(_BY_TEMPLATE, "THREADS / 32"),
        Case(FLASH_THREADS.replace("__launch_bounds__(1024, 1)", "__launch_bounds__(128, 1)"), "4"),
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
            if name in ("num_worker_warps", "num_warps") and value is not None:
                yield self.decide(
                    facts, str(value), ((max(entry.span.line - 1, 1), entry.span.line),)
                )
            elif name == "max_threads" and isinstance(value, int) and value >= WARP:
                yield self.decide(facts, str(value // WARP), (head_of(entry),))
            elif name == "max_threads" and isinstance(value, str):
                yield self.decide(facts, f"{value} / {WARP}", (head_of(entry),))
