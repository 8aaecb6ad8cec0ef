"""A loop that the compiler writes out."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.evidence import Decision
from kb.ops import OpKind

_TAPS_TILE = vary(
    PRODUCT, ("in range(ct.num_tiles(a, axis=1, shape=(TM, TK)))", "in ct.static_iter(range(4))")
)


_UNROLLED_THREADS = """__global__ void taps(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float y = 0.f;
    #pragma unroll
    for (int k = 0; k < 3; ++k) y += x[at + k];
    if (at < n) out[at] = y;
}
"""


class StaticUnrolling(Pattern):
    """The iterable of a loop is known when the kernel is compiled, by its own word."""

    name = "compile-time-unrolled-taps"
    axis = "unrolling"
    source = "Triton documentation, static_range; cuTile documentation, static_iter"
    matches = (
        Case(
            vary(PRODUCT_POINTER, ("in range(0, tl.cdiv(K, TK))", "in tl.static_range(0, 4)")),
            "static_range/static_iter",
        ),
        Case(_TAPS_TILE, "static_range/static_iter"),
        Case(_UNROLLED_THREADS, "static_range/static_iter"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="the loop runs over tiles counted at run time"),
        NearMiss(PRODUCT_POINTER, why="the loop runs over tiles counted at run time"),
        NearMiss(PRODUCT_THREADS, why="the loop runs over tiles counted at run time"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        kinds = (OpKind.STATIC_RANGE, OpKind.STATIC_ITERATE)
        for loop in facts.loops:
            walked = facts.graph.producer(next(iter(loop.node.op.inputs), None))
            made = [n for n in (walked, loop.range) if n is not None and n.op.kind in kinds]
            if made:
                yield self.decide(facts, "static_range/static_iter", (made[0], loop.node.head))
