"""Arrays that threads fill beside the output: masks, and numbers that stand for several each."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, NORM_BACKWARD_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.intermediate_stored import IntermediateStored
from extractors.patterns.parameter_gradient import summed_over_rows
from extractors.patterns.places_kept import PlacesKept
from extractors.patterns.side_output import SideOutput
from extractors.patterns.summary_beside import EITHER_SUMS, SummaryBeside, or_added
from kb.analysis.accesses import Access
from kb.analysis.composed_sums import left_by_states
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS
from kb.analysis.rebuilt import backward
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import COMPARISONS, OpKind

_MASK = "mask of the elements"
_FEWER = "numbers beside the output"
_TOLD = frozenset({OpKind.EXTRACT, OpKind.VECTOR, OpKind.BITCAST}) | CASTS
_COUNTERS = (
    AtomKind.LANE, AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.LOADED, AtomKind.OPAQUE,
)  # fmt: skip

_DROPPED = """__global__ void drop(const float* x, const float* r, float* out, unsigned char* kept,
                     float rate, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned char keep = r[i] > rate;
    out[i] = x[i] * keep;
    kept[i] = keep;
}
"""
_HIT = """__global__ void hit(const float* x, const float* y, float* near, bool* hits, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    bool met = x[i] < y[i];
    if (met) near[i] = x[i] * 2.f;
    else near[i] = -1.f;
    hits[i] = met;
}
"""
_FOUND = """__device__ bool between(float x, float y, float& at) {
    if (x > y) return false;
    at = x;
    return at > 0.f;
}
__global__ void hit(const float* x, const float* y, float* near, bool* hits, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float at;
    bool met = between(x[i], y[i], at);
    if (met) near[i] = at;
    else near[i] = -1.f;
    hits[i] = met;
}
"""
_PIXELS = """__global__ void blend(const float* color, const float* share, float* out, float* left,
                      int n, int deep) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float t = 1.f;
    for (int k = 0; k < deep; ++k) t *= 1.f - share[k];
    for (int c = 0; c < 3; ++c) out[i * 3 + c] = color[c] * t;
    left[i] = t;
}
"""
_TOTAL = """__global__ void list(const int* counts, int* owners, int* total, int n, int wide) {
    int at = threadIdx.x;
    for (int i = 0; i < wide; ++i) owners[at * wide + i] = counts[at] > i ? at : -1;
    if (at == 0) total[0] = counts[n];
}
"""


class BesideOutput(Pattern):
    """An array is given, at the place of an element of another one, the truth that this element is
    chosen or made by; or an array has fewer places than another one, by counters of the threads, of
    the blocks and of loops. Neither is read in the kernel, and nothing else is told to be stored
    beside the output."""

    name = "stored-beside-the-output-by-threads"
    axis = "side_output"
    source = "Kerbl et al., 3D Gaussian Splatting (2023): what is left of the light, kept per pixel"
    matches = (
        Case(_DROPPED, _MASK),
        Case(_HIT, _MASK),
        Case(_FOUND, _MASK),
        Case(_PIXELS, _FEWER),
        Case(_TOTAL, _FEWER),
    )
    near_misses = (
        NearMiss(EITHER_SUMS, why="a part of a sum that is else added for all blocks"),
        NearMiss(_DROPPED.replace("x[i] * keep", "x[i]"), why="no element rests on it"),
        NearMiss(_HIT.replace("hits[i] = met", "hits[i] = n > 4"), why="another truth"),
        NearMiss(
            _DROPPED.replace("keep = r[i] > rate", "keep = r[i] > rate ? n : 7"),
            why="one of two numbers",
        ),
        NearMiss(_PIXELS.replace("    left[i] = t;\n", ""), why="one array"),
        NearMiss(_PIXELS.replace("left[i] = t", "left[i * deep] = t"), why="a place for each"),
        NearMiss(
            _PIXELS.replace("color[c] * t", "out[i * 3 + c] * t"),
            why="the state is written back, the narrower array is the output",
        ),
        NearMiss(_TOTAL.replace("= counts[n]", "= 0"), why="a counter is cleared"),
        NearMiss(_TOTAL.replace("total[0] = counts[n]", "owners[0] = counts[n]"), why="one array"),
        NearMiss(NORM_BACKWARD_THREADS, why="sums over rows are gradients"),
        NearMiss(PRODUCT_THREADS, why="there is one output"),
        NearMiss(ADD_THREADS, why="there is one output"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        read = {a.array for a in facts.loads}
        plain = [s for s in facts.stores if not s.is_atomic and s.array not in read | {None}]
        if len({s.array for s in plain}) < 2:
            return
        masks = [s for s in plain if any(_of_truth(facts, s, other) for other in plain)]
        fewer = [] if masks else _fewer(facts, plain)
        if fewer:
            taken = [*summed_over_rows(facts), *left_by_states(facts)]
            fewer = [s for s in fewer if s not in taken and not or_added(facts, s)]
            fewer = [] if backward(facts, fewer) else fewer
        if not (masks or fewer):
            return
        others = (SideOutput(), IntermediateStored(), SummaryBeside(), PlacesKept())
        if any(d.value != "none" for other in others for d in other.seen(facts)):
            return
        yield self.decide(facts, _MASK if masks else _FEWER, masks or fewer)


def _of_truth(facts: Facts, store: Access, other: Access) -> bool:
    """Whether a truth is stored that another element, at the same place, rests on or waits for."""
    if other.array == store.array or _counters(store) != _counters(other):
        return False
    truths = _truths(facts, store.value)
    if not truths or _truths(facts, other.value):
        return False
    asked = {facts.graph.core(n.op.inputs[0]) for n in other.node.around() if n.kind == OpKind.IF}
    made = [n for n in map(facts.graph.producer, truths) if n is not None]
    single = [n for n in made if len(n.op.results) == 1]
    takes = [v for v in (other.value, other.node.op.operand("mask")) if v is not None]
    return bool(asked & {*truths}) or any(facts.graph.rests_on(v, n) for v in takes for n in single)


def _truths(facts: Facts, value: str) -> list[str]:
    """Comparisons that a stored value is, or what else is true or false."""
    ends = facts.graph.ends(value, _TOLD)
    if ends and all(n.op.kind in COMPARISONS for n in ends):
        return [n.result for n in ends]
    core = facts.graph.core(value)
    return [core] if core is not None and facts.types.dtype(core) == "i1" else []


def _fewer(facts: Facts, stores: list[Access]) -> list[Access]:
    """Stores of arrays that have fewer places than another array has, wherever that is stored."""
    arrays: dict[str | None, list[Access]] = {}
    for store in stores:
        arrays.setdefault(store.array, []).append(store)
    return [
        s
        for own in arrays.values()
        if not all(facts.graph.kind_of(facts.graph.core(s.value)) == OpKind.CONST for s in own)
        if any(_narrower(own, other) for other in arrays.values())
        for s in own
    ]


def _narrower(own: list[Access], other: list[Access]) -> bool:
    """Whether places of one array are told apart by a part of what tells those of another apart."""
    if any(o.node.excludes(s.node) for o in other for s in own):
        return False
    return all(_counters(s) < _counters(o) for s in own for o in other)


def _counters(store: Access) -> frozenset[str]:
    """What tells the places of an array apart."""
    atoms = (atom for index in store.index for atom in index.atoms())
    return frozenset(atom.text for atom in atoms if atom.kind in _COUNTERS)
