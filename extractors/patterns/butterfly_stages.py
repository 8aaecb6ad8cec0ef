"""Transforms in stages of sums and differences, such as a fast Hadamard transform."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows_threads import ADD_THREADS, SOFTMAX_THREADS
from kb.analysis.butterflies import butterflies, chained
from kb.analysis.facts import Facts
from kb.evidence import Decision
from kb.ops import OpKind

STAGES_POINTER = (
    POINTER
    + """
@triton.jit
def turn(x, out, n, T: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * T + at)
    for s in tl.static_range(STAGES):
        a, b = tl.split(tl.reshape(v, (T // 2, 2)))
        v = tl.reshape(tl.join(a + b, a - b), (T,))
    tl.store(out + tl.program_id(0) * T + at, v)
"""
)
_THROUGH_MEMORY = (
    POINTER
    + """
@triton.jit
def turn(x, spare, out, n, T: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, T)
    row = tl.program_id(0) * T
    v = tl.load(x + row + at)
    for s in tl.static_range(STAGES):
        tl.store(spare + row + at, v)
        tl.debug_barrier()
        w = tl.load(spare + row + (at ^ (1 << s)))
        v = tl.where((at & (1 << s)) == 0, v + w, w - v)
    tl.store(out + row + at, v)
"""
)
_SHUFFLED = """__global__ void turn(const float* x, float* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[at];
    for (int s = 1; s < 32; s <<= 1) {
        float w = __shfl_xor_sync(0xffffffff, v, s);
        v = (threadIdx.x & s) ? w - v : v + w;
    }
    out[at] = v;
}
"""
_SEARCH = (
    POINTER
    + """
@triton.jit
def nearest(x, codes, out):
    own = tl.program_id(0)
    v = tl.load(x + own)
    at = 127
    for s in range(6, -1, -1):
        step = 1 << s
        if v > tl.load(codes + at):
            at = at + step
        else:
            at = at - step
    tl.store(out + own, at)
"""
)
_STAGES = "butterfly stages of sums and differences"


class ButterflyStages(Pattern):
    """The sum and the difference of two values are put side by side, and another such step takes
    them."""

    name = "sums-and-differences-in-stages"
    axis = "reduction_scheme"
    source = "Fino, Algazi, Unified matrix treatment of the fast Walsh-Hadamard transform (1976)"
    matches = (
        Case(STAGES_POINTER, _STAGES),
        Case(_THROUGH_MEMORY, _STAGES),
        Case(_SHUFFLED, _STAGES),
    )
    near_misses = (
        NearMiss(_SEARCH, why="a step of a search goes one way"),
        NearMiss(vary(STAGES_POINTER, ("a - b", "a * b")), why="no difference"),
        NearMiss(
            vary(
                STAGES_POINTER,
                ("        v = tl.reshape(", "        w = tl.reshape("),
                ("    tl.store(out", "        v = tl.load(x + s * T + at)\n    tl.store(out"),
                ("* T + at, v)", "* T + at, w)"),
            ),
            why="every round begins with what was loaded: one stage",
        ),
        NearMiss(
            vary(_THROUGH_MEMORY, ("w - v)", "v)")), why="a sum that runs on in half of the lanes"
        ),
        NearMiss(_SHUFFLED.replace("(threadIdx.x & s) ? w - v : v + w", "v + w"), why="a sum"),
        NearMiss(PRODUCT, why="sums only"),
        NearMiss(PRODUCT_POINTER, why="sums only"),
        NearMiss(ADD_THREADS, why="one sum"),
        NearMiss(SOFTMAX_THREADS, why="differences from a maximum"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.threads.of(OpKind.SUB):
            return
        stages = chained(facts.threads, butterflies(facts.threads))
        if stages:
            nodes = [n for s in stages for n in (s.more, s.less, s.meet)]
            yield self.decide(facts, _STAGES, dict.fromkeys(nodes))
