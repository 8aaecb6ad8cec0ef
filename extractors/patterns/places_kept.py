"""Where elements were put, or which number they have among those of their kind, is stored, too."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Decision
from kb.ops import ATOMICS, READS, OpKind

_PUT = """__global__ void permute(const float* x, const int* ids, const int* begins, int* taken,
                        float* out, int* places, int n) {
    int row = blockIdx.x;
    __shared__ int to;
    if (threadIdx.x == 0) {
        int id = ids[row];
        int at = begins[id] + atomicAdd(&taken[id], 1);
        places[row] = at;
        to = at;
    }
    __syncthreads();
    out[to * n + threadIdx.x] = x[row * n + threadIdx.x];
}
"""
_PUT_ALONE = """__global__ void sort(const int* ids, const int* begins, int* taken, int* rows, int* places) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int at = begins[ids[row]] + atomicAdd(&taken[ids[row]], 1);
    places[row] = at;
    rows[at] = row;
}
"""  # noqa: E501
_RANKS = """__global__ void count(const int* ids, int* counts, int* ranks, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) ranks[i] = atomicAdd(&counts[ids[i]], 1);
}
"""
_PUT_SHARED = """__global__ void sort(const int* ids, const int* begins, int* rows, int* places, int n) {
    __shared__ int next;
    if (threadIdx.x == 0) next = begins[blockIdx.x];
    __syncthreads();
    for (int row = threadIdx.x; row < n; row += blockDim.x) {
        if (ids[row] == blockIdx.x) {
            int at = atomicAdd(&next, 1);
            rows[at] = row;
            places[row] = at;
        }
    }
}
"""  # noqa: E501
_BEGINS = """__global__ void split(const int* counts, const int* ids, const int* ranks, int* begins,
                      int* rows) {
    __shared__ int first[32];
    __shared__ typename cub::BlockScan<int, 32>::TempStorage room;
    int before;
    cub::BlockScan<int, 32>(room).ExclusiveSum(counts[threadIdx.x], before);
    first[threadIdx.x] = before;
    begins[threadIdx.x] = before;
    __syncthreads();
    int row = blockIdx.x * 32 + threadIdx.x;
    rows[first[ids[row]] + ranks[row]] = row;
}
"""
_POINTER = (
    POINTER
    + """
@triton.jit
def permute(x, ids, begins, taken, out, places, N: tl.constexpr):
    row = tl.program_id(0)
    own = tl.load(ids + row)
    to = tl.load(begins + own) + tl.atomic_add(taken + own, 1)
    tl.store(places + row, to)
    tl.store(out + to * N + tl.arange(0, N), tl.load(x + row * N + tl.arange(0, N)))
"""
)
_PLACE = "places where the elements are put"
_RANK = "number of each element among its kind"
_BEGIN = "places where segments begin"
_SUMS = (OpKind.CUMSUM, OpKind.SCAN)


class PlacesKept(Pattern):
    """The place at which something is stored in one array is stored in another one, or the place
    behind which it is, or what a counter of elements held before each."""

    name = "place-stored-beside-what-is-put-there"
    axis = "side_output"
    source = "Shazeer et al., Outrageously Large Neural Networks (2017): dispatch and combine"
    matches = (
        Case(_PUT, _PLACE),
        Case(_PUT_ALONE, _PLACE),
        Case(_PUT_SHARED, _PLACE),
        Case(_BEGINS, _BEGIN),
        Case(_POINTER, _PLACE),
        Case(_RANKS, _RANK),
    )
    near_misses = (
        NearMiss(_PUT_ALONE.replace("places[row] = at", "places[at] = at"), why="its own place"),
        NearMiss(_PUT_ALONE.replace("places[row] = at", "places[row] = row"), why="a plain number"),
        NearMiss(
            _PUT_ALONE.replace("begins[ids[row]] + atomicAdd(&taken[ids[row]], 1)", "begins[row]"),
            why="the place is given, and handed on",
        ),
        NearMiss(_PUT_ALONE.replace("    places[row] = at;\n", ""), why="the place is not kept"),
        NearMiss(
            _RANKS.replace("ranks[i] = atomicAdd(&counts[ids[i]], 1)", "atomicAdd(&counts[i], 1)"),
            why="nobody asks for the number",
        ),
        NearMiss(_BEGINS, why="an element lies as far behind as its number says", value=_PLACE),
        NearMiss(
            _BEGINS.replace("    begins[threadIdx.x] = before;\n", ""), why="only threads know them"
        ),
        NearMiss(ADD_THREADS, why="every place is a thread's own"),
        NearMiss(ROW_NORM_THREADS, why="every place is a thread's own"),
        NearMiss(PRODUCT_POINTER, why="every place is a block's own"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        plain = [s for s in facts.stores if not s.is_atomic and s.array is not None]
        places: list[Access | Node] = []
        ranks: list[Access | Node] = []
        begins: list[Access | Node] = []
        for store in plain:
            made = facts.graph.producer(facts.graph.core(store.value))
            if made is None or made.op.kind in (*READS, OpKind.CONST):
                continue
            if made.op.kind == OpKind.ATOMIC_ADD and _whole(facts, store.value):
                counter = facts.access(made)
                if counter is not None and counter.array not in (None, store.array):
                    ranks += [made, store]
            others = [o for o in facts.stores if o.array not in (None, store.array)]
            put = [o for o in others if _at(facts, o, made)]
            if not put or _at(facts, store, made) or not _found(facts, made):
                continue
            further = [o for o in put if _further(facts, o, made)]
            if len(further) < len(put):
                places += [made, store, *(o for o in put if o not in further)]
            else:
                begins += [made, store, *further]
        places += _by_shared_counters(facts)
        if begins:
            yield self.decide(facts, _BEGIN, begins)
        if places:
            yield self.decide(facts, _PLACE, places)
        elif ranks:
            yield self.decide(facts, _RANK, ranks)


def _by_shared_counters(facts: Facts) -> list[Access | Node]:
    """Counters in memory of the block whose old value says where something is stored, and is stored
    at another place, with both stores."""
    graph, found = facts.threads, list[Access | Node]()
    counters = graph.of(OpKind.ATOMIC_ADD) if facts.of_threads else []
    counters = [n for n in counters if facts.shared.holds(n.op)]
    stores = [n for n in graph.of(OpKind.STORE) if counters and not facts.shared.holds(n.op)]
    for counter in counters:
        put = [n for n in stores if graph.made_from(n.op.inputs[:1], (counter,), _read)]
        kept = [n for n in stores if graph.core(n.op.operand("value")) == counter.result]
        kept = [n for n in kept if n not in put]
        if put and kept:
            found += [counter, *kept, *put]
    return found


def _whole(facts: Facts, value: str) -> bool:
    """Whether a whole number is stored that no number with a point was rounded to."""
    dtype = facts.types.dtype(facts.graph.core(value) or value)
    return dtype.startswith(("i", "u")) and dtype not in ("i1", "i8", "u8")


def _at(facts: Facts, store: Access, made: Node) -> bool:
    """Whether a place rests on a number as it is, and not on what was loaded by it."""
    return bool(facts.graph.made_from(store.address, (made,), _read))


def _further(facts: Facts, store: Access, made: Node) -> bool:
    """Whether a place lies as far behind a number as something else that was loaded or counted
    says."""
    known = {made, *facts.graph.roots(made.result, *READS, *ATOMICS, *_SUMS)}
    found = {n for v in store.address for n in facts.graph.roots(v, *READS, *ATOMICS, *_SUMS)}
    return not found <= known


def _found(facts: Facts, made: Node) -> bool:
    """Whether a number is found in the kernel, by a counter or from what was loaded."""
    return bool(facts.graph.roots(made.result, *READS, *ATOMICS, *_SUMS))


def _read(node: Node) -> bool:
    return node.op.kind in READS
