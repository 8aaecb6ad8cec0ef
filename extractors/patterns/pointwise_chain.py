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
from kb.analysis.loops import Role
from kb.analysis.rotations import rotations
from kb.analysis.symbolic import Atom, AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_VALUE = "elementwise steps in one pass"
_STEPS = (
    OpKind.MUL, OpKind.DIV, OpKind.ADD, OpKind.SUB, OpKind.FMA,
)  # fmt: skip
_CURVES = (
    OpKind.EXP, OpKind.EXP2, OpKind.TANH, OpKind.ERF, OpKind.SIGMOID, OpKind.LOG, OpKind.POW,
)  # fmt: skip
_APART = (AtomKind.LANE, AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.LOADED)
_LEAST = 3
"""Arrays beside the first one that are taken in, numbers that are given, and curves, of what is
more than one operation."""

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
_CAPPED = """__global__ void cap(const float4* x, float4* out, float by, float limit, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = x[i];
    float given[4] = {v.x, v.y, v.z, v.w}, made[4];
    for (int k = 0; k < 4; ++k) made[k] = limit * tanhf(given[k] * by / limit);
    out[i] = make_float4(made[0], made[1], made[2], made[3]);
}
"""


class PointwiseChain(Pattern):
    """What threads store is made of elements of several arrays, of numbers that the kernel is given
    and by functions such as an exponential or a draw, of three of these beside the first array,
    with no sum, product or exchange on the way; and nothing else is told to be joined."""

    name = "elementwise-steps-in-one-pass"
    axis = "fusion"
    source = "NVIDIA, CUDA C++ Best Practices Guide: one pass over memory for several steps"
    matches = (Case(_RESIDUAL, _VALUE), Case(_CURVED, _VALUE), Case(_CAPPED, _VALUE))
    near_misses = (
        NearMiss(
            _RESIDUAL.replace(" + a[blockIdx.y * n + i]", "").replace("* by", "* 2.f"),
            why="one multiply and add",
        ),
        NearMiss(
            _RESIDUAL.replace("b[i]", "b[0]").replace("* by", "* 2.f"),
            why="a number, and one multiply and add",
        ),
        NearMiss(_CURVED.replace("expf(v) - 1.f", "v * 0.1f"), why="three arrays and no function"),
        NearMiss(_CAPPED.replace("by / limit", "2.f"), why="a curve with one number"),
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
        if not any(True for other in others for _ in other.seen(facts)):
            yield self.decide(facts, _VALUE, dict.fromkeys(found))


def _chain(facts: Facts, store: Access) -> list[Node]:
    """The steps from the loaded elements to one that is stored, where they are several."""
    above = [*facts.graph.upstream(store.value or "", lambda n: facts.access(n) is not None)]
    if any(n.op.kind in LOOPS and not _filling(facts, n) for n in above):
        return []
    arrays = {a.array for n in above if (a := facts.access(n)) is not None and _element(facts, a)}
    made = [n for n in above if n.op.kind in _STEPS and facts.feeding(n.result)]
    curves = [n for n in above if n.op.kind in (*_CURVES, *DRAWS)]
    given = {str(n) for step in made for n in _given(facts, step)} if arrays else set()
    if len(arrays) - 1 + bool(curves) + len(given) < _LEAST:
        return []
    return [*made, *curves, store.node]


def _filling(facts: Facts, node: Node) -> bool:
    """Whether each round puts its own element beside those of the rounds before."""
    loop, graph = facts.loop(node), facts.graph
    return loop is not None and all(
        one.role is Role.COUNTER or graph.kind_of(graph.core(one.next)) == OpKind.INSERT
        for one in loop.carried
    )


def _given(facts: Facts, step: Node) -> list[Atom]:
    """The numbers with a point that the kernel is given, by which a step changes an element."""
    atoms = [(v, facts.values.expr(v).atom) for v in step.op.inputs]
    return [
        atom
        for value, atom in atoms
        if atom is not None
        and atom.kind is AtomKind.PARAMETER
        and not facts.types.dtype(value).startswith(("i", "u", "b"))
    ]


def _element(facts: Facts, access: Access) -> bool:
    """Whether a number with a point is loaded, one of several by its place."""
    whole = facts.types.dtype(access.value).startswith(("i", "u"))
    return not (whole or access.is_store) and any(e.has(*_APART) for e in access.index)
