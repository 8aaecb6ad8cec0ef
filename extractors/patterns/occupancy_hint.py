"""How many blocks should share a multiprocessor, as written on the kernel."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, head_of
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_threads import FLASH_THREADS, PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.evidence import Decision

_ELSEWHERE = "launch bounds on other targets only"
_BY_TARGET = """#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 1070)
#define BOUNDS(threads) __launch_bounds__(threads)
#else
#define BOUNDS(threads)
#endif
template <int T>
__global__ void BOUNDS(T) twice(const float* x, float* out) {
    out[threadIdx.x] = 2.f * x[threadIdx.x];
}
"""


class OccupancyHint(Pattern):
    """An option of the kernel's decorator."""

    name = "occupancy-hint"
    axis = "occupancy"
    source = "cuTile documentation, kernel(occupancy=...)"
    matches = (
        Case(SOFTMAX, "fixed 4"),
        Case(vary(SOFTMAX, ("occupancy=4", "occupancy=ct.ByTarget(sm_90=4)")), "ByTarget"),
        Case(FLASH_THREADS, "fixed 1"),
        Case(FLASH_THREADS.replace("(1024, 1)", "(1024)"), "launch bounds, threads only"),
        Case(
            FLASH_THREADS.replace("__global__", "template <int W>\n__global__").replace(
                "(1024, 1)", "(1024, W > 1 ? 2 : 4)"
            ),
            "tuned",
        ),
        Case(_BY_TARGET, _ELSEWHERE),
        Case(_BY_TARGET.replace("1070", "700"), "launch bounds, threads only"),
        Case(
            _BY_TARGET.replace(">= 1070", "< 1070")
            .replace(" __launch_bounds__(threads)", "")
            .replace(
                "#else\n#define BOUNDS(threads)",
                "#else\n#define BOUNDS(threads) __launch_bounds__(threads)",
            ),
            _ELSEWHERE,
        ),
    )
    near_misses = (
        NearMiss(
            _BY_TARGET.replace(" __launch_bounds__(threads)", ""), why="no target has any bounds"
        ),
        NearMiss(
            _BY_TARGET.replace("defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 1070)", "0"),
            why="what is never compiled is of no target",
        ),
        NearMiss(PRODUCT, why="the decorator has no options"),
        NearMiss(PRODUCT_POINTER, why="the decorator has no options"),
        NearMiss(PRODUCT_THREADS, why="the decorator has no options"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        entry = facts.kernel.entry
        for name, value in entry.options:
            if name == "occupancy" and value is not None:
                text = "ByTarget" if isinstance(value, str) else f"fixed {value}"
                # The decorator stands on the line above the function.
                yield self.decide(facts, text, ((max(entry.span.line - 1, 1), entry.span.line),))
            elif name == "min_blocks" and value is not None:
                text = f"fixed {value}" if isinstance(value, int) else "tuned"
                yield self.decide(facts, text, (head_of(entry),))
            elif name == "max_threads_elsewhere":
                yield self.decide(facts, _ELSEWHERE, (head_of(entry),))
            elif name == "max_threads" and "min_blocks" not in dict(entry.options):
                yield self.decide(facts, "launch bounds, threads only", (head_of(entry),))
