"""Scores that are scaled inside the exponent, below their maximum."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, vary
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import PAIRS_THREADS, SOFTMAX_THREADS
from kb.analysis.exponentials import Statistic
from kb.analysis.facts import Facts
from kb.evidence import Decision

_VALUE = "scale inside the exponent, after the max"
_RAISED = "tl.exp(v - tl.max(v, axis=0))"
_RATE = ("N, so,", "N, rate, so,")
_WARM = vary(SOFTMAX_POINTER, _RATE, (_RAISED, "tl.exp(rate * (v - tl.max(v, axis=0)))"))
_ONLINE_THREADS = """__global__ void softmax(const float* x, float* out, float rate, int n) {
    const float* row = x + (blockIdx.x * blockDim.x + threadIdx.x) * n;
    float top = -1e30f;
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        float before = top;
        top = fmaxf(top, row[i]);
        sum = sum * expf(rate * (before - top)) + expf(rate * (row[i] - top));
    }
    for (int i = 0; i < n; i++)
        out[(blockIdx.x * blockDim.x + threadIdx.x) * n + i] = expf(rate * (row[i] - top)) / sum;
}
"""


class ScaleInExponent(Pattern):
    """exp(scale * (score - maximum)), for a scale that is handed over: the maximum is that of
    scores as they are."""

    name = "scale-inside-the-exponent"
    axis = "scale_placement"
    source = "max(c s) = c max(s) for c > 0; Milakov and Gimelshein (2018)"
    matches = (Case(_WARM, _VALUE), Case(_ONLINE_THREADS, _VALUE))
    near_misses = (
        NearMiss(
            vary(
                SOFTMAX_POINTER, (_RAISED, "tl.exp(1.4426950408889634 * (v - tl.max(v, axis=0)))")
            ),
            why="a number that is written down, such as that of another base",
        ),
        NearMiss(
            vary(_WARM, ("rate * (v - tl.max(v, axis=0))", "rate * v - tl.max(rate * v, axis=0)")),
            why="scaled before the maximum",
        ),
        NearMiss(
            _ONLINE_THREADS.replace("rate * (", "(rate + before) * ("),
            why="the factor is no number that is handed over",
        ),
        NearMiss(ATTENTION, why="scaled beside the subtraction"),
        NearMiss(ATTENTION_POINTER, why="scaled before the maximum"),
        NearMiss(SOFTMAX, why="nothing is scaled"),
        NearMiss(SOFTMAX_POINTER, why="nothing is scaled"),
        NearMiss(SOFTMAX_THREADS, why="nothing is scaled"),
        NearMiss(PAIRS_THREADS, why="nothing is scaled"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        given = facts.graph.function.parameter_names
        plain = [e for e in facts.exponentials if not e.rescale]
        found = [
            e.product
            for e in plain or facts.exponentials
            if e.product is not None
            and e.difference is not None
            and e.origin is Statistic.REDUCED
            and facts.graph.core(e.scale) in given
            and e.difference.result in {facts.graph.core(v) for v in e.product.op.inputs[:2]}
        ]
        if found:
            yield self.decide(facts, _VALUE, found)
