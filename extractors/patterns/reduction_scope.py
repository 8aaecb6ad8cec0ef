"""Which threads a reduction runs over."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases_merges import MERGE_LOOP_THREADS
from extractors.patterns.cases_rows import ADD_POINTER, COPY, ROW_NORM
from extractors.patterns.cases_rows_pointer import ROW_NORM_POINTER
from extractors.patterns.cases_rows_threads import (
    ADD_THREADS,
    ATOMIC_COLUMNS_THREADS,
    COLUMNS_THREADS,
    NORM_BACKWARD_THREADS,
    ROW_NORM_THREADS,
    SORT_THREADS,
)
from extractors.patterns.cases_threads import FLASH_THREADS, PRODUCT_THREADS, TREE_THREADS
from extractors.patterns.cluster_sums import CLUSTER_THREADS, cluster_sums
from kb.analysis.carried_scans import SCANS
from kb.analysis.declared import declared_at
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.layouts import counts, layout_of
from kb.analysis.one_thread import of_one_thread
from kb.analysis.stages import (
    added_by_atomics,
    partials_joined,
    products_joined,
    second_stage,
    steps,
    tree_steps,
)
from kb.evidence import Decision, Lines
from kb.ops import OpKind

_MOVED = """__global__ void copy(const float* x, float* out, int n, int step) {
    int at = threadIdx.x;
    for (int i = 0; i < n; ++i) {
        if (x[i] > 0.f) at = at / 2;
        at += step;
    }
    out[at] = x[at] + at;
}
"""
_GRID = """__global__ void total(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) atomicAdd(out + at % 4, x[at]);
}
"""
_PARTS = NORM_BACKWARD_THREADS.replace(
    "parts[blockIdx.x * n + at] = acc", "atomicAdd(parts + at, acc)"
)
_GROUP = """#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void sums(const float* x, float* out, int n) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    float acc = 0.f;
    for (int i = warp.thread_rank(); i < n; i += warp.size()) acc += x[blockIdx.x * n + i];
    acc = cg::reduce(warp, acc, cg::plus<float>{});
    if (warp.thread_rank() == 0) out[blockIdx.x] = acc;
}
"""
_HANDED = """template <typename T> struct Add {
    __device__ T operator()(T a, T b) const { return a + b; }
};
template <typename T, int B, template <typename> class Op>
__device__ void joined(T* v) {
    Op<T> op;
    for (int o = 16; o > 0; o /= 2)
        for (int i = 0; i < B; ++i) {
            T other = __shfl_xor_sync(0xffffffff, v[i], o);
            v[i] = op(v[i], other);
        }
}
__global__ void sums(const float* x, float* out, int n) {
    float acc[2] = {0.f, 0.f};
    for (int at = threadIdx.x; at < n; at += 32) {
        acc[0] += x[blockIdx.x * 2 * n + at];
        acc[1] += x[blockIdx.x * 2 * n + n + at];
    }
    joined<float, 2, Add>(acc);
    if (threadIdx.x == 0) {
        out[blockIdx.x * 2] = acc[0];
        out[blockIdx.x * 2 + 1] = acc[1];
    }
}
"""
"""Elements of an array are joined by a function object whose template is handed on."""
_BEST = """__global__ void best(const float* x, int* out, int n) {
    float top = -1e30f;
    int at = -1;
    for (int i = threadIdx.x; i < n; i += 32) {
        float v = x[blockIdx.x * n + i];
        if (v > top) { top = v; at = i; }
    }
    for (int o = 16; o > 0; o >>= 1) {
        float other = __shfl_xor_sync(0xffffffff, top, o);
        int place = __shfl_xor_sync(0xffffffff, at, o);
        if (other > top) { top = other; at = place; }
    }
    if (threadIdx.x == 0) out[blockIdx.x] = at;
}
"""
_HELD_THREADS = """__global__ void norm(const float* x, float* out, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float v[8], sum = 0.f;
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = x[row * 8 + i];
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += v[i];
#pragma unroll
    for (int i = 0; i < 8; ++i) out[row * 8 + i] = v[i] / sum;
}
"""
_ROWS_GLUON = """import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

@gluon.jit
def peaks(x, out, R: gl.constexpr, C: gl.constexpr):
    held: gl.constexpr = gl.BlockedLayout([1, 2], [2, 16], [4, 1], [1, 0])
    r = gl.program_id(0) * R + gl.arange(0, R, layout=gl.SliceLayout(1, held))
    c = gl.arange(0, C, layout=gl.SliceLayout(0, held))
    v = gl.load(x + r[:, None] * C + c[None, :])
    gl.store(out + r, gl.max(v, axis=1))
"""
_THREADS = ("warps_per_cta", "threads_per_warp")

_WEIGHTED = """template <int V, int K>
__global__ void joined(const float* x, const float* w, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float acc[V];
    for (int k = 0; k < V; k++) acc[k] = 0.f;
#pragma unroll
    for (int j = 0; j < K; j++) {
#pragma unroll
        for (int k = 0; k < V; k++) acc[k] += x[(j * n + i) * V + k] * w[j];
    }
    for (int k = 0; k < V; k++) out[i * V + k] = acc[k];
}
"""
"""Every thread adds up K vectors of V elements."""


class ReductionScope(Pattern):
    """Shuffles combine a warp; partial results in shared memory, or a tree in it, a block, and so
    does what a tile language runs over a tile unless the layout of the tile keeps it within a warp
    or a thread; atomics the grid; a loop alone what one thread
    reads."""

    name = "threads-that-a-reduction-runs-over"
    axis = "reduction_scope"
    source = "Luitjens, Faster Parallel Reductions on Kepler (2014): warp, block and grid"
    matches = (
        Case(CLUSTER_THREADS, "cluster"),
        Case(_HELD_THREADS, "thread"),
        Case(_WEIGHTED, "thread"),
        Case(FLASH_THREADS, "warp"),
        Case(ROW_NORM_THREADS, "block"),
        Case(_GRID, "grid"),
        Case(_GROUP, "warp"),
        Case(_HANDED, "warp"),
        Case(SORT_THREADS, "block"),
        Case(MERGE_LOOP_THREADS, "thread"),
        Case(TREE_THREADS, "block"),
        Case(COLUMNS_THREADS, "block"),
        Case(ATOMIC_COLUMNS_THREADS, "block"),
        Case(_BEST, "warp"),
        Case(ROW_NORM, "block"),
        Case(ROW_NORM_POINTER, "block"),
        Case(_ROWS_GLUON, "warp"),
        Case(_ROWS_GLUON.replace("[2, 16]", "[32, 1]"), "thread"),
    )
    near_misses = (
        NearMiss(
            CLUSTER_THREADS.replace("*cluster.map_shared_rank(&part, i)", "part"),
            why="the block's own memory",
            value="cluster",
        ),
        NearMiss(COPY, why="nothing is reduced"),
        NearMiss(_MOVED, why="a place moves on by a fixed step"),
        NearMiss(
            _ROWS_GLUON.replace("[4, 1]", "[2, 2]"), why="two warps share a row", value="warp"
        ),
        NearMiss(
            _ROWS_GLUON.replace("axis=1", "axis=0").replace("out + r", "out + c"),
            why="the warps lie along what is reduced",
            value="warp",
        ),
        NearMiss(_PARTS, why="a row is a block's; what blocks add up is told apart", value="grid"),
        NearMiss(_HELD_THREADS.replace("sum += v[i]", "sum = v[i]"), why="nothing is added up"),
        NearMiss(_WEIGHTED.replace("acc[k] += ", "acc[k] = "), why="the last row is kept"),
        NearMiss(_WEIGHTED.replace("acc[k] += ", "acc[k] = acc[0] + "), why="another one is added"),
        NearMiss(
            _HANDED.replace("v[i] = op(v[i], other)", "v[0] = op(v[1], other)"),
            why="the value of another lane meets another value",
            value="warp",
        ),
        NearMiss(ADD_THREADS, why="nothing is reduced"),
        NearMiss(ADD_POINTER, why="nothing is reduced"),
        NearMiss(
            _BEST.replace("if (other > top) { top = other;", "if (other > x[0]) { top = place;"),
            why="what is compared is not what is kept",
            value="warp",
        ),
        NearMiss(PRODUCT_THREADS, why="a matrix product, told as such"),
        NearMiss(FLASH_THREADS, why="a row belongs to one warp", value="block"),
        NearMiss(ROW_NORM_THREADS, why="a row belongs to one block", value="grid"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            found_by: dict[str, list[Node]] = {}
            for node in (*facts.reductions, *facts.graph.of(*SCANS)):
                if _tiles(facts, node):
                    found_by.setdefault(_held_by(facts, node), []).append(node)
            for scope, nodes in found_by.items():
                yield self.decide(facts, scope, [*nodes, *_layouts(facts, nodes, scope)])
            return
        found = steps(facts)
        second = [*second_stage(facts), *tree_steps(facts)]
        second += [n for nodes in partials_joined(facts).values() for n in nodes]
        second += products_joined(facts)
        groups = _groups(facts, found)
        sorts = [n for n in facts.threads.of(OpKind.SORT, *SCANS) if n.op.attribute("scope")]
        if sorts and not found and not second:
            scope = str(sorts[0].op.attribute("scope"))
            yield self.decide(facts, scope, [*sorts, *_classes(facts, sorts)])
        if joined := cluster_sums(facts):
            yield self.decide(facts, "cluster", joined)
        if second:
            together = [*found, *second]
            where: list[Where] = [*together, *groups, *_classes(facts, together)]
            yield self.decide(facts, "block", where)
        elif found:
            scopes = {str(n.op.attribute("scope") or "warp") for n in found}
            where = [*found, *_handed(facts, found), *groups, *_classes(facts, found)]
            yield self.decide(facts, min(scopes), where)
        elif added := added_by_atomics(facts):
            yield self.decide(facts, "block", list(added))
            return
        adds = [
            a.node
            for a in facts.stores
            if a.node.op.kind == OpKind.ATOMIC_ADD and facts.feeding(a.value)
        ]
        if adds and not found and not second:
            yield self.decide(facts, "grid", adds)
        elif alone := of_one_thread(facts):
            yield self.decide(facts, "thread", alone)


def _classes(facts: Facts, found: list[Node]) -> list[Lines]:
    """Where the classes are named whose threads combine."""
    home = facts.kernel.entry.span.path
    named = dict.fromkeys(lines for node in found for lines in declared_at(node, home))
    return list(named)


def _handed(facts: Facts, found: list[Node]) -> list[Node]:
    """Shuffles that hand other lanes what a step combines, and those that hand on what all steps
    gave."""
    own = facts.threads.node_set(found)
    taken = [v for step in found for v in step.op.inputs]
    return [
        n
        for n in facts.threads.of(OpKind.SHUFFLE)
        if any(facts.threads.rests_on_any(v, own) for v in n.op.inputs)
        or any(facts.threads.rests_on(v, n) for v in taken)
    ]


def _tiles(facts: Facts, node: Node) -> list[str]:
    """The tiles that something runs over, several at once or one."""
    return [v for v in facts.values.items(node.op.inputs[0]) if facts.types.shape(v)]


def _held_by(facts: Facts, node: Node) -> str:
    """The threads that hold what is reduced to one number: those of a block, but where a layout
    puts one warp, or one thread, along the axis."""
    tile = _tiles(facts, node)[0]
    layout = layout_of(facts, tile)
    axis = facts.values.literal(node.op.operand("axis"))
    if layout is None or not isinstance(axis, int):
        return "block"
    warps, lanes = (counts(facts.values, layout, role) for role in _THREADS)
    if not -len(warps) <= axis < len(warps) or warps[axis] != 1:
        return "block"
    return "thread" if -len(lanes) <= axis < len(lanes) and lanes[axis] == 1 else "warp"


def _layouts(facts: Facts, nodes: list[Node], scope: str) -> list[Node]:
    """The layouts that keep a reduction within a warp or a thread."""
    found = [layout_of(facts, _tiles(facts, n)[0]) for n in nodes] if scope != "block" else []
    return [n for n in dict.fromkeys(found) if n is not None]


def _groups(facts: Facts, found: list[Node]) -> list[Node]:
    """Where the groups are made whose threads combine."""
    sizes = {(n.op.attribute("scope"), n.op.attribute("threads")) for n in found}
    return [
        group
        for group in facts.threads.of(OpKind.THREAD_GROUP)
        for size in (group.op.attribute("threads"), None)
        if (group.op.attribute("scope"), size) in sizes
    ]
