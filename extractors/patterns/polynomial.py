"""Functions that are computed as polynomials."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.polynomials import polynomials
from kb.dtypes import is_float
from kb.evidence import Decision

_SINE = (
    POINTER
    + """
@triton.jit
def sine(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    w = v * v
    p = 1.0 + w * (-0.16666667 + w * (0.00833333 + w * -0.00019841))
    tl.store(out + at, v * p, mask=at < n)
"""
)
_STEPWISE = vary(
    _SINE,
    (
        "p = 1.0 + w * (-0.16666667 + w * (0.00833333 + w * -0.00019841))",
        "p = 0.00833333 - 0.00019841 * w\n    p = p * w - 0.16666667\n    p = p * w + 1.0",
    ),
)
_FUSED = vary(
    _SINE,
    (
        "p = 1.0 + w * (-0.16666667 + w * (0.00833333 + w * -0.00019841))",
        "p = tl.fma(w, tl.fma(w, tl.fma(w, -0.00019841, 0.00833333), -0.16666667), 1.0)",
    ),
)
_TILE = """import cuda.tile as ct
@ct.kernel
def sine(x, out, T: ct.Constant[int]):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,))
    w = v * v
    p = 1.0 + w * (-0.16666667 + w * (0.00833333 + w * -0.00019841))
    ct.store(out, index=(ct.bid(0),), tile=v * p)
"""
_THREADS = """__global__ void sine(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    float w = x[at] * x[at];
    float p = 1.f + w * (-0.16666667f + w * (0.00833333f + w * -0.00019841f));
    out[at] = x[at] * p;
}
"""


class Polynomial(Pattern):
    """Three or more coefficients that are written down are added, one after the other, to products
    with one and the same value."""

    name = "polynomial-by-horners-scheme"
    axis = "math_approximation"
    source = "Knuth, The Art of Computer Programming, vol. 2, section 4.6.4"
    matches = (
        Case(_SINE, "polynomial"),
        Case(_STEPWISE, "polynomial"),
        Case(_FUSED, "polynomial"),
        Case(_TILE, "polynomial"),
        Case(_THREADS, "polynomial"),
    )
    near_misses = (
        NearMiss(
            vary(_SINE, ("-0.16666667 + w * (0.00833333 + w * -0.00019841)", "0.5 + w")),
            why="too few steps",
        ),
        NearMiss(
            vary(_SINE, ("(0.00833333 + w", "(0.00833333 + v"), ("v * v", "tl.exp(v)")),
            why="products with several values",
        ),
        NearMiss(
            _THREADS.replace("-0.16666667f", "x[at + 1]").replace("0.00833333f", "x[at + 2]"),
            why="coefficients come from memory",
        ),
        NearMiss(PRODUCT, why="sums of products of tiles"),
        NearMiss(PRODUCT_THREADS, why="sums of loaded products"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        steps = [
            n
            for found in polynomials(facts)
            if is_float(facts.types.dtype(found[0].result)) or _pointed(facts, found)
            for n in found
        ]
        if steps:
            yield self.decide(facts, "polynomial", steps)


def _pointed(facts: Facts, steps: Iterable[Node]) -> bool:
    """Whether a coefficient is written with a point."""
    return any(isinstance(facts.number(v), float) for n in steps for v in n.op.inputs)
