"""Whether two runs give the same bits."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import UNKNOWN, Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER, NORM_BACKWARD
from extractors.patterns.cases_rows_threads import NORM_BACKWARD_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.cross_cta_accumulation import SWAPPED
from extractors.patterns.parameter_gradient import LOCKED
from extractors.patterns.summary_beside import EITHER_SUMS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Node
from kb.analysis.held_sums import sums_in_order
from kb.analysis.locks import locked_sums, swapped_sums
from kb.dtypes import may_be_float
from kb.evidence import Decision
from kb.ops import ATOMICS, WRITES, OpKind

_ADDS = frozenset({OpKind.ATOMIC_ADD, OpKind.DESCRIPTOR_ATOMIC_ADD})
_IN_ANY_ORDER = frozenset({OpKind.ATOMIC_MIN, OpKind.ATOMIC_MAX, OpKind.ATOMIC_AND,
                           OpKind.ATOMIC_OR})  # fmt: skip

_HANDED = frozenset({OpKind.BITCAST, OpKind.CAST, OpKind.SELECT, OpKind.YIELD})
_SEEN = COPIES | CASTS
_KEEPING = _SEEN | {OpKind.ADD, OpKind.SUB, OpKind.IF, OpKind.IF_EXPRESSION, OpKind.SELECT}
_ATOMIC = vary(
    NORM_BACKWARD,
    ("    ct.store(parts, index=(own, 0), tile=acc)",
     "    ct.atomic_add(parts, ct.arange(TN, dtype=ct.int32), ct.reshape(acc, (TN,)))"),
)  # fmt: skip
_PLACED = (
    POINTER
    + """
@triton.jit
def put(x, index, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    own = tl.load(index + at, mask=at < n)
    tl.store(out + own, tl.load(x + at, mask=at < n), mask=at < n)
"""
)
_COUNT = vary(
    ADD_POINTER, ("    inside = at < n\n", "    inside = at < n\n    tl.atomic_add(n, 1)\n")
)


_CLAIM = vary(
    ADD_POINTER,
    (
        "    inside = at < n\n",
        "    inside = at < n\n    at = tl.atomic_add(n, 1) + tl.arange(0, 2)\n",
    ),
)
_SCATTER_THREADS = """__global__ void place(const float* x, const int* to, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[to[at]] = x[at];
}
"""


_LEAST_THREADS = """__global__ void least(const float* x, int* out, float u, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n && x[at] > u) atomicMin(out, at);
}
"""


_LEAST_BITS = """__device__ float keep(float* to, float v) {
    float old;
    old = v >= 0 ? __int_as_float(atomicMax((int*)to, __float_as_int(v)))
                 : __uint_as_float(atomicMin((unsigned*)to, __float_as_uint(v)));
    return old;
}
__global__ void most(const float* x, float* out) { keep(out, x[threadIdx.x]); }
"""
_HELD_THREADS = """__global__ void columns(const float* x, float* part, int rows, int cols) {
    extern __shared__ float sums[];
    for (int i = threadIdx.x; i < cols; i += blockDim.x) sums[i] = 0.f;
    __syncthreads();
    for (int row = threadIdx.x / 32; row < rows; row += blockDim.x / 32)
        for (int i = threadIdx.x % 32; i < cols; i += 32)
            atomicAdd(&sums[i], x[(blockIdx.x * rows + row) * cols + i]);
    __syncthreads();
    for (int i = threadIdx.x; i < cols; i += blockDim.x) part[blockIdx.x * cols + i] = sums[i];
}
"""


_CLAIMED_THREADS = """__global__ void order(const int* keys, int* out, int n) {
    __shared__ int next[64];
    next[threadIdx.x % 64] = 0;
    __syncthreads();
    int at = atomicAdd(&next[keys[threadIdx.x]], 1);
    out[at] = threadIdx.x;
}
"""
_SLOTS_THREADS = """__global__ void above(const float* x, int* out, float least, int n) {
    __shared__ int found[1024];
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        if (x[i] > least) {
            int at = atomicAdd(&count, 1);
            if (at < 1024) found[at] = i;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) out[i] = i < count ? found[i] : -1;
}
"""


_SORTED_THREADS = _SLOTS_THREADS.replace(
    "    for (int i = threadIdx.x; i < 1024; i += blockDim.x) out[i] =",
    """    typedef cub::BlockRadixSort<float, 256, 1, int> Sort;
    __shared__ typename Sort::TempStorage room;
    float keys[1] = {x[found[threadIdx.x]]};
    int places[1] = {found[threadIdx.x]};
    Sort(room).SortDescending(keys, places);
    found[threadIdx.x] = places[0];
    __syncthreads();
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) out[i] =""",
)


class Determinism(Pattern):
    """Floating-point sums of several blocks or threads meet in an atomic or under a lock, or every
    sum has one order."""

    name = "order-of-summation"
    axis = "determinism"
    source = (
        "Goldberg, What Every Computer Scientist Should Know About Floating-Point Arithmetic (1991)"
    )
    matches = (
        Case(_CLAIMED_THREADS, "order depends on atomics"),
        Case(_SLOTS_THREADS, "order depends on atomics"),
        Case(_SORTED_THREADS, "order depends on atomics"),
        Case(_ATOMIC, "order depends on atomics"),
        Case(LOCKED, "order depends on atomics"),
        Case(PRODUCT, "bitwise stable"),
        Case(PRODUCT_POINTER, "bitwise stable"),
        Case(PRODUCT_THREADS, "bitwise stable"),
        Case(_PLACED, "the last of repeated places wins"),
        Case(_SCATTER_THREADS, "bitwise stable"),
        Case(SWAPPED, "order depends on atomics"),
        Case(_HELD_THREADS, "order depends on atomics"),
        Case(EITHER_SUMS, "order depends on atomics"),
        Case(_LEAST_THREADS, "bitwise stable"),
        Case(_LEAST_BITS, "bitwise stable"),
        Case(_COUNT, "bitwise stable"),
        Case(_CLAIM, "order depends on atomics"),
    )
    near_misses = (
        NearMiss(_CLAIMED_THREADS, why="the first comes first", value="bitwise stable"),
        NearMiss(_SLOTS_THREADS, why="the first comes first", value="bitwise stable"),
        NearMiss(
            _SORTED_THREADS.replace("(keys, places)", "(places)"),
            why="whatever came first, the numbers lie in one order",
            value="order depends on atomics",
        ),
        NearMiss(
            _CLAIMED_THREADS.replace("out[at] = threadIdx.x", "out[threadIdx.x] = at + 1"),
            why="the first is told that it came first",
            value="bitwise stable",
        ),
        NearMiss(
            _CLAIMED_THREADS.replace(
                "out[at] = threadIdx.x", "if (at == 0) out[threadIdx.x % 64] = 1"
            ),
            why="that one came first is told, not which",
            value="order depends on atomics",
        ),
        NearMiss(
            _SLOTS_THREADS.replace("out[i] = i < count ? found[i] : -1", "out[i] = count"),
            why="only how many there are is told",
            value="order depends on atomics",
        ),
        NearMiss(
            vary(_CLAIMED_THREADS, ("out[at] = ", "out[threadIdx.x] = ")),
            why="every thread has a place of its own",
            value="order depends on atomics",
        ),
        NearMiss(
            vary(_LEAST_THREADS, ("atomicMin(out, at)", "atomicExch(out, at)")),
            why="the last one wins",
            value="bitwise stable",
        ),
        NearMiss(
            vary(
                SWAPPED,
                (" + acc", ""),
                ("float now", "unsigned now"),
                ("__uint_as_float(seen)", "seen"),
                ("__float_as_uint(now)", "now + 1u"),
            ),
            why="the swap counts whole numbers",
            value="order depends on atomics",
        ),
        NearMiss(
            vary(_HELD_THREADS, ("float sums", "int sums"), ("x[(", "(int)x[("), ("= 0.f", "= 0")),
            why="whole numbers are added in shared memory",
            value="order depends on atomics",
        ),
        NearMiss(_COUNT, why="the atomic counts whole numbers", value="order depends on atomics"),
        NearMiss(
            vary(_PLACED, ("out + own", "out + at"), ("x + at", "x + own")),
            why="loads meet at repeated places, stores do not",
            value="the last of repeated places wins",
        ),
        NearMiss(
            NORM_BACKWARD,
            why="every block stores its own partial sum",
            value="order depends on atomics",
        ),
        NearMiss(
            NORM_BACKWARD_THREADS,
            why="every block stores its own partial sum",
            value="order depends on atomics",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        added = [a for a in facts.stores if a.node.op.kind in _ADDS]
        floats: list[Where] = [
            a
            for a in [*added, *locked_sums(facts)]
            if self._float(facts, a.value) or self._into_floats(facts, a)
        ]
        swapped = swapped_sums(facts)
        floats += [a for a, total in swapped if may_be_float(facts.types.dtype(total.result))]
        floats += _added_in_shared(facts)
        floats += [a for a in added if self._claims(facts, a)]
        floats += _old_values(facts)
        floats += _claimed_in_shared(facts)
        slots = _slots(facts)
        floats += _told_slots(facts, slots)
        if floats:
            yield self.decide(facts, "order depends on atomics", [*floats, *_chosen(facts, floats)])
        elif slots:
            return
        elif facts.stores and all(self._settled(facts, a) for a in facts.stores):
            scans = facts.graph.of(OpKind.CUMSUM, OpKind.SCAN)
            sums = [*facts.contractions, *facts.reductions, *scans, *sums_in_order(facts)]
            counts = facts.threads.of(*ATOMICS) if facts.of_threads else []
            whole = facts.kernel.entry.span.lines
            yield self.decide(facts, "bitwise stable", [whole, *sums, *counts, *facts.stores])
        elif facts.stores and not any(a.is_atomic for a in facts.stores):
            raced = [a for a in facts.stores if not self._settled(facts, a)]
            yield self.decide(facts, "the last of repeated places wins", raced)

    def _claims(self, facts: Facts, counter: Access) -> bool:
        """True when what a counter held before says where something is stored."""
        used = facts.graph.users(counter.node.result)
        return bool(used) and any(
            facts.graph.rests_on(v, counter.node)
            for a in facts.stores
            if not a.is_atomic
            for role, v in a.node.op.operands
            if role not in ("value", "mask")
        )

    def _settled(self, facts: Facts, access: Access) -> bool:
        """A plain store at places that no loaded tile chooses, an atomic that counts, or one that
        keeps an extreme. Threads that scatter are taken to own their places."""
        if access.node.op.kind in _IN_ANY_ORDER:
            return not _used(facts, access.node.result)
        if access.is_atomic:
            whole = isinstance(facts.number(access.value), int)
            whole = whole or facts.types.dtype(access.value).startswith(("i", "u"))
            counts = access.node.op.kind in (*_ADDS, OpKind.ATOMIC_INC)
            return counts and whole
        if facts.of_threads:
            return True
        tables = [a.node for a in facts.loads if facts.types.shape(a.value)]
        places = [v for role, v in access.node.op.operands if role not in ("value", "mask")]
        return not any(facts.graph.rests_on(v, node) for v in places for node in tables)

    def _float(self, facts: Facts, value: str) -> bool:
        dtype = facts.types.dtype(value)
        known = may_be_float(dtype)
        known |= dtype == UNKNOWN and self._point(facts, value)
        return known and bool(facts.feeding(value))

    def _into_floats(self, facts: Facts, access: Access) -> bool:
        """True for a value of unknown type that is added to an array of numbers with a point."""
        kinds = {p.name: p.annotation for p in facts.kernel.entry.parameters}
        unknown = facts.types.dtype(access.value) == UNKNOWN and facts.number(access.value) is None
        return unknown and may_be_float(kinds.get(access.array or "", ""))

    def _point(self, facts: Facts, value: str) -> bool:
        """True for a value of unknown type that is computed from a number with a point."""
        constants = facts.graph.roots(value, OpKind.CONST)
        return any(isinstance(n.op.attribute("value"), float) for n in constants)


def _chosen(facts: Facts, atomics: Iterable[Where]) -> list[Node]:
    """Branches that are decided when the code is compiled, with an atomic on one side and a plain
    store on the other: whether results are stable is asked there."""
    plain = [a.node for a in facts.stores if not a.is_atomic]
    nodes = [a.node if isinstance(a, Access) else a for a in atomics]
    return [
        branch
        for node in nodes
        if isinstance(node, Node)
        for branch in facts.guards(node)
        if facts.values.compile_time(facts.values.expr(branch.op.inputs[0]))
        and any(store.inside(branch) and store.excludes(node) for store in plain)
    ]


def _used(facts: Facts, value: str) -> bool:
    """Whether a value is more than handed on to where nobody asks for it."""
    return any(n.op.kind not in _HANDED for n in facts.graph.downstream(value))


def _added_in_shared(facts: Facts) -> list[Where]:
    """Atomics through which the threads of a block add numbers with a point in shared memory."""
    adds = facts.threads.of(OpKind.ATOMIC_ADD) if facts.of_threads else []
    if not adds:
        return []
    shared = facts.shared
    return [
        node
        for node in adds
        if shared.holds(node.op) and may_be_float(_declared(facts, node.op.operand("value")))
    ]


def _claimed_in_shared(facts: Facts) -> list[Where]:
    """Atomics on counters in shared memory whose old value says where a thread stores in memory."""
    adds = facts.threads.of(OpKind.ATOMIC_ADD) if facts.of_threads else []
    held = [node for node in adds if facts.shared.holds(node.op)]
    places = [
        store.op.operand("pointer")
        for store in (facts.threads.of(OpKind.STORE) if held else ())
        if not facts.shared.holds(store.op)
    ]
    return [n for n in held if any(facts.threads.rests_on(v, n) for v in places)]


def _old_values(facts: Facts) -> list[Where]:
    """Counters of which a store keeps what they held before, or what is added to that."""
    graph, told = facts.threads, list[Where]()
    counters = {n for n in graph.of(OpKind.ATOMIC_ADD) if graph.users(n.result)}
    stores = graph.of(*WRITES) if counters else []
    for store in stores:
        value = store.op.operand("value")
        pending = [value] if value is not None and not facts.shared.holds(store.op) else []
        for one in pending:
            made = graph.producer(one)
            if made in counters:
                told += [made, store]
            elif made is not None and made.op.kind in _KEEPING:
                behind = 1 if made.op.kind == OpKind.SELECT else 0
                pending += [v for v in graph.feeds(one)[behind:] if v not in pending]
    return told


def _slots(facts: Facts) -> dict[str, list[Node]]:
    """Memory of a block where the old value of a counter in it says where threads leave something,
    by its allocation, with counters and stores; none where all of it is put in order later. What
    goes along with keys that are alike stays in the order of the threads."""
    graph = facts.threads
    sorts = graph.of(OpKind.SORT)
    if not facts.of_threads or (sorts and all(len(n.op.results) == 1 for n in sorts)):
        return {}
    counters = [n for n in graph.of(OpKind.ATOMIC_ADD) if facts.shared.holds(n.op)]
    found: dict[str, list[Node]] = {}
    for store in graph.of(OpKind.STORE) if counters else ():
        where = facts.shared.place(store.op)
        pointer = store.op.operand("pointer")
        claims = [n for n in counters if graph.rests_on(pointer, n)] if where is not None else []
        if where is not None and claims:
            found.setdefault(where, []).extend((*claims, store))
    return found


def _told_slots(facts: Facts, slots: dict[str, list[Node]]) -> list[Where]:
    """The counters and stores of such memory of which elements go out as they lie there."""
    graph, told = facts.threads, list[Where]()
    for store in graph.of(OpKind.STORE) if slots else ():
        pending = graph.ends(store.op.operand("value"), _SEEN)
        for made in pending if not facts.shared.holds(store.op) else ():
            if made.op.kind == OpKind.SELECT:
                pending += [n for v in made.op.inputs[1:] for n in graph.ends(v, _SEEN)]
            elif made.op.kind == OpKind.LOAD:
                told += slots.get(facts.shared.place(made.op) or "", ())
    return told


def _declared(facts: Facts, value: str | None) -> str:
    made = facts.threads.producer(value)
    kinds = [one.type for one in made.op.results if one.name == value] if made is not None else []
    return kinds[0].dtype if kinds and kinds[0] is not None else UNKNOWN
