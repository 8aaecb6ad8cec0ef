"""Results go through shared memory on their way out: one thread leaves them, another stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from extractors.patterns.cases_staged import STAGED_ROW_THREADS
from extractors.patterns.cases_threads import PRODUCT_BLOCKED_THREADS, TREE_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, Expr
from kb.analysis.thread_numbers import address, of_thread
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, REDUCTIONS, OpKind

_GATED = """__global__ void step(const float* a, const float* x, const float* z, float* y, int n) {
    __shared__ float kept[64];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int row = warp; row < 64; row += 4) {
        float sum = 0.f;
        for (int k = lane; k < n; k += 32) sum += a[(blockIdx.x * 64 + row) * n + k] * x[k];
        for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffff, sum, o);
        if (lane == 0) kept[row] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 64) {
        int at = blockIdx.x * 64 + threadIdx.x;
        float v = z[at];
        y[at] = kept[threadIdx.x] * v / (1.f + expf(-v));
    }
}
"""
_LINES = """__global__ void product(const float* a, const float* b, float* out, int n, int k) {
    __shared__ float tile[32][33];
    float acc[4] = {0.f, 0.f, 0.f, 0.f};
    for (int i = 0; i < k; i++)
        for (int j = 0; j < 4; j++)
            acc[j] += a[threadIdx.x * k + i] * b[i * n + threadIdx.y * 4 + j];
    for (int j = 0; j < 4; j++) tile[threadIdx.x][threadIdx.y * 4 + j] = acc[j];
    __syncthreads();
    for (int j = threadIdx.y; j < 32; j += 8) out[j * n + threadIdx.x] = tile[j][threadIdx.x];
}
"""
_THREADS = REDUCTIONS | CONTRACTIONS | {OpKind.SHUFFLE}
_STOPS = _THREADS | {OpKind.LOAD}
_INTEGERS = ("i", "u")
"""How types of positions and counts begin."""
_ADDS = (OpKind.ADD, OpKind.FMA)


class ResultsStaged(Pattern):
    """Threads leave in shared memory what they summed up, meet, and other threads take it out,
    each elements of its own, and store it, perhaps with more done to it element by element."""

    name = "results-staged-in-shared-memory"
    axis = "epilogue"
    source = "NVIDIA, CUTLASS documentation, Efficient GEMM in CUDA: epilogue through shared memory"
    matches = (
        Case(_GATED, "results staged in shared memory"),
        Case(_LINES, "results staged in shared memory"),
    )
    near_misses = (
        NearMiss(
            vary(_GATED, ("kept[threadIdx.x] * v", "kept[0] * v")),
            why="one number for all of the threads",
        ),
        NearMiss(
            vary(_GATED, ("kept[row] = sum", "kept[row] = x[row]")),
            why="what lies there was loaded",
        ),
        NearMiss(
            vary(
                _LINES,
                ("int j = threadIdx.y; j < 32; j += 8", "int j = 0; j < 4; j++"),
                ("= tile[j][threadIdx.x]", "= tile[threadIdx.x][threadIdx.y * 4 + j]"),
            ),
            why="every thread takes its own",
        ),
        NearMiss(ROW_NORM_THREADS, why="a number per row"),
        NearMiss(STAGED_ROW_THREADS, why="a loaded row lies there"),
        NearMiss(TREE_THREADS, why="sums of threads become one"),
        NearMiss(PRODUCT_BLOCKED_THREADS, why="operands lie there"),
        NearMiss(ADD_THREADS, why="no shared memory"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads or not facts.threads.of(OpKind.ALLOCATE):
            return
        met = [n.index for n in facts.threads.of(OpKind.BARRIER)]
        put: dict[str | None, list[Node]] = {}
        for node in facts.threads.of(OpKind.STORE) if met else ():
            place = facts.shared.place(node.op)
            put.setdefault(place, []).append(node)
        where: dict[Node, None] = {}
        for store in put.get(None, ()):
            for taken in _taken(facts, store):
                left = [
                    one
                    for one in put.get(facts.shared.place(taken.op), ())
                    if any(one.index < at < taken.index for at in met)
                    if _summed(facts, one) and not _same(facts, one, taken)
                ]
                where.update(dict.fromkeys([*left, taken, store] if left else ()))
        if where:
            yield self.decide(facts, "results staged in shared memory", where)


def _taken(facts: Facts, store: Node) -> list[Node]:
    """Loads from shared memory that a store goes on with, element by element, each at places of the
    storing threads."""
    graph, value = facts.threads, store.op.operand("value") or ""
    own = _threads(facts, address(facts, store)) if graph.roots(value, OpKind.LOAD) else {}
    if not own or facts.types.dtype(value).startswith(_INTEGERS):
        return []
    above = [*graph.upstream(value, lambda n: n.op.kind in _STOPS)]
    loads = [n for n in above if n.op.kind == OpKind.LOAD and facts.shared.holds(n.op)]
    if _joined(facts, loads, above, store):
        return []
    return [n for n in loads if own.keys() <= _threads(facts, address(facts, n)).keys()]


def _threads(facts: Facts, place: Expr) -> dict[str, Expr]:
    """The numbers of a place that tell threads apart, a loop's by where it begins and its steps,
    with how far they move it."""
    return {
        _called(facts, atom): place.coefficient(atom)
        for atom in place.top() if of_thread(facts, atom)
    }  # fmt: skip


def _called(facts: Facts, atom: Atom) -> str:
    """What a number is, whichever loop counts it."""
    loop = next((one for one in facts.thread_loops if one.induction == atom.value), None)
    if loop is None or loop.low is None or loop.step is None:
        return atom.text
    low, step = map(facts.thread_values.expr, (loop.low, loop.step))
    return f"from {low} by {step}"


def _joined(facts: Facts, taken: list[Node], above: list[Node], store: Node) -> bool:
    """Whether several elements that were taken out become one before the store: over threads, by an
    addition, or in a loop."""
    graph, value = facts.threads, store.op.operand("value")
    over = [n for n in graph.of(*_THREADS) if graph.rests_on(value, n)]
    if any(graph.rests_on(one, t) for t in taken for n in over for one in n.op.inputs):
        return True
    for node in above:
        if node.op.kind in _ADDS:
            sides = [{t for t in taken if graph.rests_on(v, t)} for v in node.op.inputs]
            if sum(map(bool, sides)) > 1 and len(set(map(frozenset, sides))) > 1:
                return True
    inner = {one for t in taken for one in t.loops if one not in store.loops}
    return any(
        graph.rests_on(node.result, t) for node in _added(facts, inner) for t in taken
    )  # fmt: skip


def _added(facts: Facts, loops: set[Node]) -> Iterator[Node]:
    """Additions to what loops carry."""
    graph = facts.threads
    for loop in facts.thread_loops:
        for carried in loop.carried if loop.node in loops else ():
            for node in graph.upstream(carried.next, lambda n: n.op.kind == OpKind.LOAD):
                if node.op.kind in _ADDS and graph.rests_on_argument(node.result, carried.argument):
                    yield node


def _summed(facts: Facts, left: Node) -> bool:
    """Whether what is left was summed up: over threads, by a product, or by a loop."""
    value = left.op.operand("value") or ""
    above = [*facts.threads.upstream(value, lambda n: n.op.kind == OpKind.LOAD)]
    if any(n.op.kind in _THREADS for n in above):
        return True
    loops = {n for n in above if n.op.kind in (OpKind.FOR, OpKind.WHILE)}
    return any(True for _ in _added(facts, loops))


def _same(facts: Facts, left: Node, taken: Node) -> bool:
    """Whether threads lie as far apart where they leave elements as where they take them."""
    one, two = (_threads(facts, address(facts, n)) for n in (left, taken))
    return one == two
