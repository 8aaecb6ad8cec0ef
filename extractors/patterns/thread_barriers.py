"""How threads wait for each other."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows_pointer import NORM_BACKWARD_LOCKED
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.last_block import GIVEN_POINTER, GIVEN_TILE, LOADED_POINTER
from kb.analysis.arrivals import arrivals, gathered
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.locks import polled, spins
from kb.evidence import Decision
from kb.ops import NAMED, OpKind

_SCOPES = {
    "block": "block barrier",
    "warp": "warp barrier",
    "grid": "grid-wide",
    "cluster": "cluster barrier",
}
_ORDERING = (
    OpKind.OPAQUE, OpKind.FENCE, OpKind.BARRIER_VOTE, OpKind.BARRIER_ARRIVE, OpKind.ASYNC_COPY,
    OpKind.ASYNC_WAIT, OpKind.BULK_COPY, OpKind.ATOMIC_CAS, OpKind.ATOMIC_XCHG,
)  # fmt: skip
"""What may order threads, besides barriers. A grid that waits for the one before waits for no
thread of its own."""
_COMPUTED = (
    "std::", "cuda::std::", "glm::", "__nv_", "address of a variable", "curand", "memcpy",
    "at::cuda::philox::", "c10::", "cub::Traits", "cutlass::make_", "cute::make_", "sizeof_bits",
)  # fmt: skip
_NO_CALLS = frozenset({"assignment", "dereference", "?", "Fold"})
_LAYOUTS = ("tile_atom_to_shape_SFA", "tile_atom_to_shape_SFB", "deduce_layoutSFA",
            "deduce_layoutSFB")  # fmt: skip
"""What is known of what was not understood: it computes, and waits for nobody. Of those that call
nothing, only a place or an extent is not known; the last are of CUTLASS, layouts of scales."""
_WAITED = vary(
    PRODUCT_POINTER, ("        acc += tl.dot", "        tl.debug_barrier()\n        acc += tl.dot")
)
_NAMED = vary(
    PRODUCT_THREADS,
    ("        __syncthreads();\n    }", '        asm volatile("bar.sync 1, 128;");\n    }'),
)


_LOCKED_THREADS = """__global__ void total(const float* x, float* out, int* lock, int n) {
    float sum = 0.f;
    for (int i = 0; i < n; ++i) sum += x[blockIdx.x * n + i];
    while (atomicCAS(lock, 0, 1) != 0) {}
    out[0] += sum;
    atomicExch(lock, 0);
}
"""


_MADE = """template <typename Shape> __global__ void shapes(Shape* all, const int* begins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) all[i] = Shape(begins[i + 1] - begins[i], WIDE, n);
}
"""
_PLACED = """__global__ void put(Room room, const float* x) {
    *room.first = x[threadIdx.x];
    room.rows[blockIdx.x][threadIdx.x] = x[threadIdx.x + 1];
}
"""
_POLLED = """__global__ void put(const float* x, volatile float* there, float* out) {
    there[threadIdx.x] = x[threadIdx.x];
    float seen = there[blockDim.x + threadIdx.x];
    while (seen == 0.f) seen = there[blockDim.x + threadIdx.x];
    out[threadIdx.x] = seen;
}
"""


_CALLED = """__global__ void take(float4* there, float4* out) {
    float4 seen = fresh(there + threadIdx.x);
    while (seen.x == 0.f) seen = fresh(there + threadIdx.x);
    out[threadIdx.x] = seen;
}
"""
_ARRIVED = "blocks counted as they arrive"
_GATHERED = "blocks wait until a counter lets them on"
_GATHERED_POINTER = (
    POINTER
    + """
@triton.jit
def scaled(x, most, done, out, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at)
    tl.atomic_max(most, tl.max(v, axis=0))
    tl.atomic_add(done, 1)
    while tl.atomic_add(done, 0) < tl.num_programs(0):
        pass
    tl.store(out + at, v / tl.load(most))
"""
)


class ThreadBarriers(Pattern):
    """Barriers by their scope; barriers in memory that copies complete; locks in memory that blocks
    try for until they get them; words that are read until another one has written them; counters
    that blocks add to when they arrive; or threads that wait for none."""

    name = "barriers-between-threads"
    axis = "synchronization"
    source = (
        "NVIDIA, PTX ISA, bar, barrier and mbarrier; CUDA C++ Programming Guide, synchronization"
    )
    matches = (
        Case(PRODUCT_THREADS, "block barrier"),
        Case(_WAITED, "block barrier"),
        Case(_NAMED, "named barriers"),
        Case(NORM_BACKWARD_LOCKED, "spin lock"),
        Case(_LOCKED_THREADS, "spin lock"),
        Case(ADD_THREADS, "none"),
        Case(ADD_THREADS.replace("{\n", "{\n    cudaGridDependencySynchronize();\n", 1), "none"),
        Case(_MADE, "none"),
        Case(_PLACED, "none"),
        Case(_POLLED, "words of memory polled"),
        Case(_CALLED, "words of memory polled"),
        Case(GIVEN_POINTER, _ARRIVED),
        Case(GIVEN_TILE, _ARRIVED),
        Case(LOADED_POINTER, _ARRIVED),
        Case(_GATHERED_POINTER, _GATHERED),
        Case(
            vary(
                _POLLED,
                ("    while (seen == 0.f) seen = ", "    while (true) {\n    seen = "),
                (
                    "+ threadIdx.x];\n    out",
                    "+ threadIdx.x];\n    if (seen) break;\n    }\n    out",
                ),
            ),
            "words of memory polled",
        ),
    )
    near_misses = (
        NearMiss(
            ADD_THREADS.replace("{\n", "{\n    settle(out);\n", 1),
            why="what is called may wait",
            value="none",
        ),
        NearMiss(
            _MADE.replace("Shape(begins", "shaped(begins"),
            why="a function that nobody knows may wait",
            value="none",
        ),
        NearMiss(
            _PLACED.replace("*room.first = x", "*found(room) = x"),
            why="a function that finds the place may wait",
            value="none",
        ),
        NearMiss(
            _PLACED.replace(
                "*room.first = x", "while (*room.first == 0.f) {}\n    *room.first = x"
            ),
            why="a word that is read until it is another one",
            value="none",
        ),
        NearMiss(PRODUCT_THREADS, why="threads of a block wait", value="none"),
        NearMiss(
            ADD_THREADS.replace("{\n", "{\n    __threadfence();\n", 1),
            why="a fence orders what other threads see",
            value="none",
        ),
        NearMiss(PRODUCT_POINTER, why="the compiler places barriers, the kernel none"),
        NearMiss(
            vary(_LOCKED_THREADS, ("    while (atomic", "    if (atomic"), ("{}", "return;")),
            why="whoever comes late leaves",
            value="spin lock",
        ),
        NearMiss(
            vary(
                NORM_BACKWARD_LOCKED,
                ("    while tl.atomic_cas(locks + slot, 0, 1) == 1:\n", "    if True:\n"),
            ),
            why="nobody waits, the number is only put there",
        ),
        NearMiss(
            vary(
                _GATHERED_POINTER,
                ("    while tl.atomic_add(done, 0) < tl.num_programs(0):", "    if done:"),
            ),
            why="no block waits",
        ),
        NearMiss(
            vary(GIVEN_POINTER, ("before == B - 1", "before == 0")),
            why="the first block is picked out",
        ),
        NearMiss(PRODUCT, why="the language has no barriers"),
        NearMiss(
            _CALLED.replace(
                "seen = fresh(there + threadIdx.x);\n    out",
                "seen = fresh(there + (int)seen.x);\n    out",
            ),
            why="every round asks for another place",
            value="words of memory polled",
        ),
        NearMiss(
            vary(_POLLED, ("    while (seen", "    if (seen")),
            why="read again once",
            value="words of memory polled",
        ),
        NearMiss(
            vary(_POLLED, ("seen = there[blockDim.x", "seen = there[(int)seen * blockDim.x")),
            why="every round reads another place",
            value="words of memory polled",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Where]] = {}
        for node in facts.threads.of(OpKind.BARRIER):
            written = node.op.attribute("scope")
            scope = str(written or "block")
            opcode = str(node.op.attribute("opcode"))
            named = not written and opcode.startswith(("bar.", "barrier."))
            value = "named barriers" if named else _SCOPES.get(scope, f"{scope} barrier")
            found.setdefault(value, []).append(node)
        waits = facts.threads.of(OpKind.BARRIER_WAIT, OpKind.BARRIER_INIT)
        if waits:
            found["mbarrier pipeline"] = [*waits]
        locks = spins(facts)
        if locks:
            found["spin lock"] = [*locks, *facts.graph.of(OpKind.ATOMIC_XCHG)]
        seen = polled(facts)
        if seen:
            found["words of memory polled"] = [*seen]
        if counted := [node for pair in arrivals(facts) for node in pair]:
            found[_ARRIVED] = [*counted]
        if waiting := gathered(facts):
            found[_GATHERED] = [*waiting]
        if facts.of_threads and not found and not any(map(_may_wait, facts.threads.of(*_ORDERING))):
            found["none"] = [facts.kernel.entry.span.lines]
        for value, nodes in found.items():
            yield self.decide(facts, value, nodes)


def _may_wait(node: Node) -> bool:
    what = str(node.op.attribute("what") or "")
    repeated = any(one.op.kind == OpKind.WHILE for one in node.around())
    computes = what.startswith((NAMED, *_COMPUTED)) or (what in _NO_CALLS and not repeated)
    computes = computes or what.rpartition("::")[2] in _LAYOUTS
    return node.op.kind != OpKind.OPAQUE or not computes
