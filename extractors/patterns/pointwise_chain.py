"""Elementwise steps with several arrays in one pass."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.arrays_alike import ArraysAlike
from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.brought_together import BroughtTogether
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.random_source import DRAWS
from extractors.patterns.results_of_one_pass import ResultsOfOnePass
from extractors.patterns.stages_joined import StagesJoined
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Node
from kb.analysis.rotations import rotations
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_VALUE = "elementwise steps with several arrays in one pass"
_STEPS = (
    OpKind.MUL, OpKind.DIV, OpKind.ADD, OpKind.SUB, OpKind.FMA,
)  # fmt: skip
_CURVES = (
    OpKind.EXP, OpKind.EXP2, OpKind.TANH, OpKind.ERF, OpKind.SIGMOID, OpKind.LOG, OpKind.POW,
)  # fmt: skip
_APART = (AtomKind.LANE, AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.LOADED)
_LEAST = 3
"""Arrays beside the first one that are taken in, and curves, of what is more than one operation."""

_RESIDUAL = """__global__ void residual(const float* x, const float* a, const float* h,
                         const float* b, float* out, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[blockIdx.y * n + i] = (x[blockIdx.y * n + i] + a[blockIdx.y * n + i] + b[i]) * by
        + h[blockIdx.y * n + i];
}
"""
_CURVED = """__global__ void tail(const half* x, const float* norm, const float* gain, half* out,
                     int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = __half2float(x[blockIdx.y * n + i]) / norm[blockIdx.y] * gain[i];
    out[blockIdx.y * n + i] = __float2half(v > 0.f ? v : expf(v) - 1.f);
}
"""


class PointwiseChain(Pattern):
    """What threads store is made of elements of four or more arrays, or of three and by a function
    such as an exponential or a draw, with no sum, product or exchange on the way; and nothing else
    is told to be joined."""

    name = "elementwise-steps-in-one-pass"
    axis = "fusion"
    source = "NVIDIA, CUDA C++ Best Practices Guide: one pass over memory for several steps"
    matches = (Case(_RESIDUAL, _VALUE), Case(_CURVED, _VALUE))
    near_misses = (
        NearMiss(_RESIDUAL.replace(" + a[blockIdx.y * n + i]", ""), why="one multiply and add"),
        NearMiss(_RESIDUAL.replace("b[i]", "b[0]"), why="a number, and one multiply and add"),
        NearMiss(_CURVED.replace("expf(v) - 1.f", "v * 0.1f"), why="three arrays and no function"),
        NearMiss(ADD_THREADS, why="one addition"),
        NearMiss(ROW_NORM_THREADS, why="rows are summed"),
        NearMiss(PRODUCT_THREADS, why="products are summed"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads or facts.contractions or facts.reductions:
            return
        if facts.graph.of(OpKind.SHUFFLE, OpKind.CUMSUM, OpKind.SCAN, OpKind.SORT):
            return
        found = [n for s in facts.stores if not s.is_atomic for n in _chain(facts, s)]
        if not found or rotations(facts):
            return
        others = (StagesJoined(), ResultsOfOnePass(), ArraysAlike(), BroughtTogether())
        if not any(True for other in others for _ in other.find(facts)):
            yield self.decide(facts, _VALUE, dict.fromkeys(found))


def _chain(facts: Facts, store: Access) -> list[Node]:
    """The steps from the loaded elements to one that is stored, where they are several."""
    above = [*facts.graph.upstream(store.value or "", lambda n: facts.access(n) is not None)]
    if any(n.op.kind in LOOPS for n in above):
        return []
    arrays = {a.array for n in above if (a := facts.access(n)) is not None and _element(facts, a)}
    made = [n for n in above if n.op.kind in _STEPS and facts.feeding(n.result)]
    curves = [n for n in above if n.op.kind in (*_CURVES, *DRAWS)]
    if len(arrays) - 1 + bool(curves) < _LEAST:
        return []
    return [*made, *curves, store.node]


def _element(facts: Facts, access: Access) -> bool:
    """Whether a number with a point is loaded, one of several by its place."""
    whole = facts.types.dtype(access.value).startswith(("i", "u"))
    return not (whole or access.is_store) and any(e.has(*_APART) for e in access.index)
