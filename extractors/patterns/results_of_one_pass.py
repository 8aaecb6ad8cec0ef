"""Several results of one elementwise pass that share what is costly to compute."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, NORM_BACKWARD, SOFTMAX
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, LOOPS, VIEWS, Node
from kb.analysis.idioms import is_wide
from kb.evidence import Decision
from kb.ops import REDUCTIONS, OpKind

_SHARED = "several results of shared work"
_SEARCH = "several results of one walk"
_ADDED = "several arrays added to in one pass"
_STATE = "states and what is made of them in one pass"
_COSTLY = frozenset(
    {
        OpKind.EXP, OpKind.EXP2, OpKind.LOG, OpKind.LOG2, OpKind.TANH, OpKind.ERF, OpKind.SIGMOID,
        OpKind.SQRT, OpKind.RSQRT, OpKind.SIN, OpKind.COS, OpKind.DIV,
    }
)  # fmt: skip
_ADDS = frozenset({OpKind.ATOMIC_ADD, OpKind.VIEW_ATOMIC_ADD, OpKind.DESCRIPTOR_ATOMIC_ADD})
_STEPS = frozenset(
    {OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.CLAMP}
) | CASTS | VIEWS  # fmt: skip

_GRADIENTS = vary(
    ADD_POINTER,
    ("plus(x, y, out, n,", "gradients(x, y, dz, dx, out, n,"),
    (
        "    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)\n",  # noqa: E501
        "    v = tl.load(x + at, mask=inside)\n    g = tl.load(dz + at, mask=inside)\n"
        "    s = tl.sigmoid(v)\n"
        "    tl.store(dx + at, g * tl.load(y + at, mask=inside) * s * (1 - s), mask=inside)\n"
        "    tl.store(out + at, g * s, mask=inside)\n",
    ),
)
_MOMENTS = vary(
    ADD_POINTER,
    (
        "    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)\n",  # noqa: E501
        "    m = 0.9 * tl.load(y + at, mask=inside) + 0.1 * tl.load(x + at, mask=inside)\n"
        "    tl.store(y + at, m, mask=inside)\n"
        "    tl.store(out + at, tl.load(out + at, mask=inside) - m, mask=inside)\n",
    ),
)
_GRADIENTS_TILE = (
    TILE
    + """
@ct.kernel
def gradients(x, y, dz, dx, dy, T: Int):
    i = ct.bid(0)
    v = ct.load(x, index=(i,), shape=(T,))
    g = ct.load(dz, index=(i,), shape=(T,))
    s = ct.tanh(v)
    ct.store(dx, index=(i,), tile=g * ct.load(y, index=(i,), shape=(T,)) * (1 - s * s))
    ct.store(dy, index=(i,), tile=g * s)
"""
)
_MOMENTS_THREADS = """
__global__ void step(float* p, const float* g, float* m, float* v, int n, float rate) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = 0.9f * m[i] + 0.1f * g[i];
    m[i] = a;
    float b = 0.99f * v[i] + 0.01f * g[i] * g[i];
    v[i] = b;
    p[i] -= rate * a / (sqrtf(b) + 1e-8f);
}
"""
_COUNTED_THREADS = """
__global__ void count(const int* ids, const int* ranks, int* each, int* all, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int id = ids[i];
        atomicAdd(&each[id], 1);
        atomicAdd(&all[ranks[id]], 1);
    }
}
"""
_COUNTED = (
    POINTER
    + """
@triton.jit
def scatter(g, ids, near, far, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(g + at, mask=at < n)
    i = tl.load(ids + at, mask=at < n)
    tl.atomic_add(near + i, v, mask=at < n)
    tl.atomic_add(far + at % 8, -v, mask=at < n)
"""
)
_SEARCHED_THREADS = """
__global__ void between(const float* edges, const float* x, int* left, int* right, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int low = 0, high = m;
    while (low < high) {
        int mid = (low + high) / 2;
        if (edges[mid] < x[i]) low = mid + 1; else high = mid;
    }
    left[i] = low - 1;
    right[i] = low;
}
"""


class ResultsOfOnePass(Pattern):
    """Elements of several arrays, or of several parts of one, are computed from one function of
    what is loaded, or of where one walk ended, or an array that is updated in place goes into
    another one, without a reduction in between; or elements are added to several arrays."""

    name = "several-results-of-one-pass"
    axis = "fusion"
    source = "Hsu et al., Liger Kernel (2024), gated activations: both gradients from one pass"
    matches = (
        Case(_GRADIENTS, _SHARED),
        Case(vary(_GRADIENTS, ("tl.store(out + at, g", "tl.store(dx + n + at, g")), _SHARED),
        Case(_GRADIENTS_TILE, _SHARED),
        Case(_MOMENTS, _STATE),
        Case(_MOMENTS_THREADS, _STATE),
        Case(_SEARCHED_THREADS, _SEARCH),
        Case(_COUNTED_THREADS, _ADDED),
        Case(_COUNTED, _ADDED),
    )
    near_misses = (
        NearMiss(
            vary(_GRADIENTS, ("(out + at, g * s,", "(out + at, g * v,")),
            why="what they share is loaded",
        ),
        NearMiss(
            vary(_MOMENTS, ("tl.load(out + at, mask=inside) - m", "tl.load(x + at, mask=inside)")),
            why="the state goes nowhere else",
        ),
        NearMiss(
            vary(_GRADIENTS_TILE, ("tile=g * s", "tile=g * v")), why="what they share is loaded"
        ),
        NearMiss(
            vary(_MOMENTS_THREADS, ("rate * a / (sqrtf(b) + 1e-8f)", "rate * g[i]")),
            why="the states go nowhere else",
        ),
        NearMiss(
            vary(_SEARCHED_THREADS, ("right[i] = low;", "right[i] = m;")),
            why="one of them comes of the walk",
        ),
        NearMiss(vary(_COUNTED_THREADS, ("&all[ranks[id]]", "&each[ranks[id]]")), why="one array"),
        NearMiss(
            vary(_COUNTED_THREADS, ("&all[ranks[id]]", "&all[0]")),
            why="a counter of blocks, whatever was loaded",
        ),
        NearMiss(vary(_COUNTED, ("far + at % 8, -v", "near + at % 8, -v")), why="one array"),
        NearMiss(ADD_POINTER, why="one result"),
        NearMiss(SOFTMAX, why="one result"),
        NearMiss(NORM_BACKWARD, why="rows are reduced in between"),
        NearMiss(PRODUCT, why="one result"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions:
            return
        if added := _added(facts):
            yield self.decide(facts, _ADDED, added)
            return
        stores: dict[str, list[Access]] = {}
        places: dict[tuple[object, ...], Access] = {}
        for store in facts.stores:
            wide = facts.of_threads or is_wide(facts, store.value)
            if store.array is not None and wide and not store.is_atomic and _alone(facts, store):
                stores.setdefault(store.array, []).append(store)
                place = None if facts.of_threads else store.index
                places.setdefault((store.array, place), store)
        if len(places) < 2:
            return
        states = list(_states(facts, stores))
        if states:
            made = [facts.graph.producer(facts.graph.core(s.value)) for s in states]
            yield self.decide(facts, _STATE, [*states, *made])
            return
        for both in combinations(places.values(), 2):
            apart = both[0].node.excludes(both[1].node)
            made = [facts.graph.producer(facts.graph.core(s.value)) for s in both]
            if shared := [] if apart else _shared(facts, *both):
                yield self.decide(facts, _SHARED, [*shared, *both, *made])
                return
            if walk := [] if apart else _walked(facts, *both):
                yield self.decide(facts, _SEARCH, [*walk, *both])
                return


def _added(facts: Facts) -> list[Node]:
    """Where elements are added to several arrays at once, at places or by numbers that one loaded
    element gives; what is added to in shared memory is left aside."""
    sums = [
        s for s in facts.stores
        if s.is_atomic and s.array is not None and s.node.op.attribute("space") != "shared"
        and s.node.op.kind in _ADDS and _alone(facts, s)
    ]  # fmt: skip
    if len(sums) < 2:
        return []
    first, *rest = sums
    taken = _taken(facts, first)
    beside = [
        s for s in rest
        if s.array != first.array and taken & _taken(facts, s)
        and not s.node.excludes(first.node)
    ]  # fmt: skip
    return [first.node, *(s.node for s in beside)] if beside else []


def _taken(facts: Facts, store: Access) -> set[object]:
    """The loaded elements that an element, or its place, is made of."""
    loads = (a for value in store.node.op.inputs for a in facts.feeding(value))
    return {(a.array, a.index) for a in loads}


def _walked(facts: Facts, one: Access, other: Access) -> list[Node]:
    """Loops over what is loaded that both elements are made of, as they end."""
    if not facts.of_threads or facts.graph.of(OpKind.OPAQUE, OpKind.SORT):
        return []
    ends = [
        {n for n in facts.graph.ends(s.value, _STEPS) if n.op.kind in LOOPS} for s in (one, other)
    ]
    return [n for n in ends[0] & ends[1] if any(a.loop is n for a in facts.loads)]


def _alone(facts: Facts, store: Access) -> bool:
    """Whether no reduction lies between what is loaded and an element."""
    kinds = REDUCTIONS | {OpKind.CUMSUM, OpKind.SCAN, OpKind.SHUFFLE}
    above = facts.graph.upstream(store.value or "", lambda n: facts.access(n) is not None)
    return not any(n.op.kind in kinds for n in above)


def _states(facts: Facts, stores: dict[str, list[Access]]) -> Iterable[Access]:
    """Arrays of which every element is loaded, changed and stored once, where the new elements of
    one go into another."""
    once = {a: s for a, s in stores.items() if not any(_carried(facts, x) for x in s)}
    for name, own in once.items():
        if not any(a.array == name and a.index == own[0].index for a in facts.loads):
            continue
        made = facts.graph.producer(facts.graph.core(own[0].value))
        if made is None or facts.access(made) is not None:
            continue
        taking = [
            s
            for other, rest in stores.items()
            if other != name
            for s in rest
            if facts.graph.rests_on(s.value, made)
        ]
        if taking:
            yield from dict.fromkeys((own[0], *taking))


def _carried(facts: Facts, store: Access) -> bool:
    """Whether a loop hands on what an element is made of."""
    above = facts.graph.upstream(store.value or "", lambda n: facts.access(n) is not None)
    return any(n.op.kind in LOOPS for n in above)


def _shared(facts: Facts, one: Access, other: Access) -> list[Node]:
    """Costly operations on what is loaded that two elements rest on, neither on the other."""
    firsts, seconds = (
        [*facts.graph.upstream(s.value or "", lambda n: facts.access(n) is not None)]
        for s in (one, other)
    )
    ends = [facts.graph.producer(facts.graph.core(s.value)) for s in (one, other)]
    if ends[0] in seconds or ends[1] in firsts:
        return []
    met = {*seconds}
    return [
        n
        for n in firsts
        if n in met
        and n.op.kind in _COSTLY
        and any(facts.of_threads or is_wide(facts, a.value) for a in facts.feeding(n.result))
    ]
