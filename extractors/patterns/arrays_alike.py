"""Two arrays that one launch treats alike, such as queries and keys that are rotated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION_LSE, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_kept import MIXED
from extractors.patterns.cases_rows import ADD_POINTER, NORM_BACKWARD, SOFTMAX
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.jobs_by_block import parted_jobs
from kb.analysis.accesses import Access
from kb.analysis.derivatives import differentiated
from kb.analysis.facts import HELD, Facts
from kb.analysis.graph import CASTS, LOOPS, Node
from kb.analysis.reduced_alike import reduced_alike
from kb.evidence import Decision
from kb.ops import OpKind

ROTATED = (
    POINTER
    + """
@triton.jit
def rotate(q, k, cos, sin, s, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    c = tl.load(cos + row * T + at)
    d = tl.load(sin + row * T + at)
    a = tl.load(q + row * s + at)
    b = tl.load(q + row * s + at + T)
    tl.store(q + row * s + at, a * c - b * d)
    tl.store(q + row * s + at + T, b * c + a * d)
    e = tl.load(k + row * s + at)
    f = tl.load(k + row * s + at + T)
    tl.store(k + row * s + at, e * c - f * d)
    tl.store(k + row * s + at + T, f * c + e * d)
"""
)
ROTATED_TILE = (
    TILE
    + """
@ct.kernel
def rotate(q, k, cos, sin, q_out, k_out, T: Int):
    row = ct.bid(0)
    c = ct.load(cos, index=(row, 0), shape=(1, T))
    d = ct.load(sin, index=(row, 0), shape=(1, T))
    a = ct.load(q, index=(row, 0), shape=(1, T))
    b = ct.load(q, index=(row, 1), shape=(1, T))
    ct.store(q_out, index=(row, 0), tile=a * c - b * d)
    ct.store(q_out, index=(row, 1), tile=b * c + a * d)
    e = ct.load(k, index=(row, 0), shape=(1, T))
    f = ct.load(k, index=(row, 1), shape=(1, T))
    ct.store(k_out, index=(row, 0), tile=e * c - f * d)
    ct.store(k_out, index=(row, 1), tile=f * c + e * d)
"""
)
UNDER_BRANCHES = vary(
    ROTATED_TILE,
    ("    a = ct.load(", "    if ct.bid(1) < heads:\n     a = ct.load("),
    ("    e = ct.load(", "    if ct.bid(1) < few:\n     e = ct.load("),
    ("q_out, k_out, T", "q_out, k_out, heads, few, T"),
    *((f"    {text}", f"     {text}") for text in (
        "b = ct.load(", "f = ct.load(", "ct.store(q_out, index=(row, 0)",
        "ct.store(q_out, index=(row, 1)", "ct.store(k_out, index=(row, 0)",
        "ct.store(k_out, index=(row, 1)",
    )),
)  # fmt: skip
ROTATED_THREADS = """
__global__ void rotate(float* q, float* k, const float* cos, const float* sin, int h) {
    int row = blockIdx.x;
    int at = threadIdx.x;
    float c = cos[row * h + at];
    float d = sin[row * h + at];
    float a = q[row * 2 * h + at];
    float b = q[row * 2 * h + at + h];
    q[row * 2 * h + at] = a * c - b * d;
    q[row * 2 * h + at + h] = b * c + a * d;
    float e = k[row * 2 * h + at];
    float f = k[row * 2 * h + at + h];
    k[row * 2 * h + at] = e * c - f * d;
    k[row * 2 * h + at + h] = f * c + e * d;
}
"""
_GATED = (
    POINTER
    + """
@triton.jit
def back(gy, x, w, y, gw, gx, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    g = tl.load(gy + at)
    v = tl.load(x + at)
    u = tl.load(w + at)
    a = tl.sigmoid(v)
    tl.store(y + at, a * u)
    tl.store(gw + at, a * g)
    tl.store(gx + at, g * u * a * (1 - a))
"""
)
_MANY = 3
"""Steps that two ways have in common by more than chance."""
_QUANTISED = (
    POINTER
    + """
@triton.jit
def shrink(k, v, ko, vo, ks, vs, s, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    a = tl.load(k + row * s + at)
    up = tl.max(tl.abs(a), 0) / 127.0
    tl.store(ks + row, up)
    tl.store(ko + row * T + at, a * (1.0 / up))
    b = tl.load(v + row * s + at)
    by = tl.max(tl.abs(b), 0) / 127.0
    tl.store(vs + row, by)
    tl.store(vo + row * T + at, b * (1.0 / by))
"""
)
_ALIKE = "two arrays in one launch"
_ARITHMETIC = frozenset({OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA})


_PAIR = """__global__ void append(const float* k, const float* v, float* keys, float* values,
                       const int* slots, int width) {
    for (int row = blockIdx.x; row < width; row += gridDim.x) {
        int to = slots[row] * width + threadIdx.x;
        keys[to] = k[row * width + threadIdx.x];
        values[to] = v[row * width + threadIdx.x];
    }
}
"""
_PAIR_POINTER = (
    POINTER
    + """
@triton.jit
def append(k, v, keys, values, slots, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    to = tl.load(slots + row) * n + at
    tl.store(keys + to, tl.load(k + row * n + at, mask=at < n), mask=at < n)
    tl.store(values + to, tl.load(v + row * n + at, mask=at < n), mask=at < n)
"""
)
_COPIED = "several arrays copied in one launch"
_REDUCED = "several rows reduced alike in one loop"
_LARGEST = (
    POINTER
    + """
@triton.jit
def largest(q, k, out, n, T: tl.constexpr):
    top = 0.0
    other = 0.0
    row = tl.program_id(0)
    for i in range(0, n, T):
        at = row * n + i + tl.arange(0, T)
        top = tl.maximum(top, tl.max(tl.abs(tl.load(q + at)), axis=0))
        other = tl.maximum(other, tl.max(tl.abs(tl.load(k + at)), axis=0))
    tl.store(out + 2 * row, top)
    tl.store(out + 2 * row + 1, other)
"""
)
_APART = "several arrays, each from its own, in one launch"
_TWO_THREADS = """__global__ void append(const float* k, const float* v, float* keys, float* values,
                       const int* slots, float by, int wide, int thin) {
    int to = slots[blockIdx.x];
    int at = threadIdx.x;
    if (at < wide) keys[to * wide + at] = k[blockIdx.x * wide + at] * by;
    if (at < thin) values[to * thin + at] = v[blockIdx.x * thin + at];
}
"""


class ArraysAlike(Pattern):
    """Two outputs are computed by the same operations, each from an array of its own and from one
    that they share; or several are copied, computed or reduced, each from arrays of its own."""

    name = "arrays-treated-alike-in-one-launch"
    axis = "fusion"
    source = "Hsu et al., Liger Kernel (2024), rotary embedding of queries and keys in one kernel"
    matches = (
        Case(ROTATED, _ALIKE),
        Case(ROTATED_TILE, _ALIKE),
        Case(UNDER_BRANCHES, _ALIKE),
        Case(ROTATED_THREADS, _ALIKE),
        Case(_QUANTISED, _ALIKE),
        Case(_GATED, "forward product beside the gradients"),
        Case(_PAIR, _COPIED),
        Case(_PAIR_POINTER, _COPIED),
        Case(_TWO_THREADS, _APART),
        Case(_LARGEST, _REDUCED),
        Case(MIXED, _ALIKE),
    )
    near_misses = (
        NearMiss(
            vary(
                ROTATED,
                ("tl.load(k + row * s + at)", "tl.load(q + row * s + at)"),
                ("tl.load(k + row * s + at + T)", "tl.load(q + row * s + at + T)"),
            ),
            why="both outputs are made of the same array",
        ),
        NearMiss(
            vary(
                ROTATED_TILE,
                ("tile=e * c - f * d", "tile=e"),
                ("tile=f * c + e * d", "tile=f"),
            ),
            why="one array is turned, the other copied",
            value=_ALIKE,
        ),
        NearMiss(
            vary(_GATED, ("tl.store(y + at, a * u)", "tl.store(y + at, a)")),
            why="what was activated and a gradient: other operations",
        ),
        NearMiss(
            vary(_PAIR_POINTER, ("tl.load(v + row", "tl.load(k + row")),
            why="one array, copied twice",
        ),
        NearMiss(
            vary(_PAIR, ("values[to] =", "keys[to + width] =")), why="both go to the same array"
        ),
        NearMiss(
            vary(_QUANTISED, ("b * (1.0 / by)", "b + by")),
            why="one array is scaled, one shifted",
            value=_ALIKE,
        ),
        NearMiss(
            vary(_TWO_THREADS, ("= v[blockIdx.x * thin + at]", "= k[blockIdx.x * thin + at]")),
            why="both are made of one array",
        ),
        NearMiss(
            vary(_TWO_THREADS, ("= v[blockIdx.x * thin + at]", "= 0.f")), why="one is only filled"
        ),
        NearMiss(vary(_LARGEST, ("tl.load(k + at)", "tl.load(q + at)")), why="one row, twice"),
        NearMiss(
            vary(_LARGEST, ("tl.max(tl.abs(tl.load(k + at)), axis=0)", "tl.max(tl.load(k + at))")),
            why="other operations",
        ),
        NearMiss(vary(MIXED, ("tl.load(w + at)", "tl.load(v + at)")), why="of the same arrays"),
        NearMiss(ADD_POINTER, why="one output"),
        NearMiss(ADD_THREADS, why="one output"),
        NearMiss(SOFTMAX, why="one output"),
        NearMiss(NORM_BACKWARD, why="the gradients are computed by other operations"),
        NearMiss(PRODUCT, why="one output"),
        NearMiss(ATTENTION_LSE, why="a statistic beside the output"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if reduced := reduced_alike(facts):
            yield self.decide(facts, _REDUCED, reduced)
            return
        outputs = _outputs(facts)
        if len(outputs) < 2:
            return
        copied = _copied(facts, outputs)
        if copied:
            yield self.decide(facts, _COPIED, copied)
            return
        pair = alike(facts)
        if pair:
            stores, shared = pair
            again = bool(differentiated(facts))
            value = "forward product beside the gradients" if again else _ALIKE
            stores = facts.stores if again else stores
            made = [facts.graph.producer(facts.graph.core(s.value)) for s in stores]
            yield self.decide(facts, value, [*shared, *stores, *made, *_parted(facts, stores)])
            return
        apart = _apart(facts)
        if apart:
            made = [facts.graph.producer(facts.graph.core(s.value)) for s in apart]
            read = [a for s in apart for a in facts.feeding(s.value)]
            yield self.decide(facts, _APART, [*parted_jobs(facts), *apart, *made, *read])


def alike(facts: Facts) -> tuple[list[Access], list[Access]] | None:
    """Stores of two arrays that are computed by the same operations, each from an array of its
    own; with the loads of what they share."""
    outputs = _outputs(facts)
    ways = {
        name: way for name, stores in outputs.items() if (way := _way(facts, stores)) is not None
    }
    for one, (taken, steps) in ways.items():
        same = [
            other
            for other, (rest, others) in ways.items()
            if other != one and others == steps and taken - rest and rest - taken
            if taken & rest or sum(steps.values()) >= _MANY
        ]
        if same and (steps[OpKind.MUL] or steps[OpKind.FMA]):
            stores = [s for name in (one, *same) for s in outputs[name]]
            common = taken.intersection(*(ways[name][0] for name in same))
            shared = [a for s in stores for a in facts.feeding(s.value) if a.array in common]
            return stores, [*dict.fromkeys(shared)]
    return None


def _outputs(facts: Facts) -> dict[str, list[Access]]:
    """Stores by array, where nothing is contracted."""
    outputs: dict[str, list[Access]] = {}
    for store in facts.stores if not facts.contractions else ():
        if store.array is not None and not store.is_atomic:
            outputs.setdefault(store.array, []).append(store)
    return outputs


def _parted(facts: Facts, stores: list[Access]) -> list[Node]:
    """The branches under which one of several arrays is stored and another is not."""
    under: dict[Node, set[str | None]] = {}
    for store in stores:
        for guard in facts.guards(store.node):
            under.setdefault(guard, set()).add(store.array)
    return [guard for guard, arrays in under.items() if arrays < {s.array for s in stores}]


def _apart(facts: Facts) -> list[Access]:
    """Stores of elements into several arrays, where each is made of an array that none of the
    others is made of, and of tables that threads may share; loads that only say where something
    lies are left aside."""
    jobs: dict[str, tuple[set[str], list[Access]]] = {}
    for store in facts.stores:
        loads = [a for a in facts.feeding(store.value) if a.value not in facts.offset_loads]
        data = [a for a in loads if facts.types.shape(a.value) and not _in_shared(a)]
        taken = {a.array for a in data if a.array is not None}
        unknown = len(taken) < len({a.array for a in data})
        if store.is_atomic or unknown or not taken or _in_shared(store):
            continue
        names, stores = jobs.get(name := store.array or ", ".join(sorted(taken)), (set(), []))
        jobs[name] = (names | taken, [*stores, store])
    apart: list[tuple[set[str], list[Access]]] = []
    for taken, stores in sorted(jobs.values(), key=lambda job: -len(job[0])):
        met = [one for one in apart if taken <= one[0] or (taken & one[0] and not facts.of_threads)]
        apart = [one for one in apart if one not in met]
        taken, stores = set(taken), list(stores)
        for others, beside in met:
            taken, stores = taken | others, [*beside, *stores]
        apart.append((taken, stores))
    own = [one - set().union(*(o for o, _ in apart if o is not one)) for one, _ in apart]
    return [s for _, stores in apart for s in stores] if len(apart) > 1 and all(own) else []


def _in_shared(access: Access) -> bool:
    return access.node.op.attribute("space") == "shared"


def _copied(facts: Facts, outputs: dict[str, list[Access]]) -> list[Node]:
    """Loads and stores of outputs that are all copied, each from arrays of its own, by the same
    blocks; what rests on no loaded elements is left aside."""
    moved: dict[str, tuple[set[str | None], list[Node]]] = {}
    for name, stores in outputs.items():
        made = [n for s in stores for n in facts.graph.upstream(s.value, _computes)]
        ends = [facts.access(n) for n in made if _computes(n)]
        loads = [a for a in ends if a is not None and not a.is_store]
        data = [a for a in loads if facts.types.shape(a.value)]
        if not any(facts.types.shape(a.value) for s in stores for a in facts.feeding(s.value)):
            continue
        if len(loads) < len(ends) or not data or None in {a.array for a in loads}:
            return []
        moved[name] = ({a.array for a in loads}, [a.node for a in (*loads, *stores)])
    sources = [taken for taken, _ in moved.values()]
    apart = all(not a & b for n, a in enumerate(sources) for b in sources[n + 1 :])
    sides = {n.branch for _, nodes in moved.values() for n in nodes if not n.loops}
    if len(moved) < 2 or not apart or len(sides) > 1:
        return []
    return [n for _, nodes in moved.values() for n in nodes]


def _computes(node: Node) -> bool:
    """True for a load, and for what does more than hand a value on."""
    return node.op.kind not in HELD


def _way(facts: Facts, stores: list[Access]) -> tuple[set[str | None], Counter[str]] | None:
    """Arrays that stored values are computed from, and how often each arithmetic operation is on
    the way; None where a loop carries them."""
    taken: set[str | None] = set()
    steps: Counter[str] = Counter()
    pending = [store.value for store in stores]
    seen = set(pending)
    for value in pending:
        node = facts.graph.producer(value)
        if value in facts.graph.arguments or (node is not None and node.op.kind in LOOPS):
            return None
        if node is None:
            continue
        access = facts.access(node)
        if access is not None:
            taken.add(access.array)
            continue
        steps[node.op.kind] += node.op.kind in _ARITHMETIC and bool(facts.feeding(value))
        feeds = node.op.inputs[:1] if node.op.kind in CASTS else facts.graph.feeds(value)
        new = [feed for feed in feeds if feed not in seen]
        seen.update(new)
        pending += new
    return taken, +steps
