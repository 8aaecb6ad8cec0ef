"""Blocks walk the work items, each as many steps ahead as there are blocks."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_PERSISTENT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import PRODUCT_PERSISTENT_POINTER
from extractors.patterns.cases_rows import NORM_PERSISTENT, SOFTMAX
from extractors.patterns.cases_threads import PRODUCT_PERSISTENT_THREADS, PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.filling import fills
from kb.analysis.loops import item_of_round, persistent
from kb.analysis.numbered_places import numbers_below
from kb.evidence import Decision

_ROUNDS = vary(
    PRODUCT_PERSISTENT,
    (
        "    for t in range(ct.bid(0), rows * cols, ct.num_blocks(0)):\n",
        "    for i in range(ct.cdiv(rows * cols, W)):\n        t = ct.bid(0) + i * W\n",
    ),
    ("GROUP: Int):", "GROUP: Int, W: Int):"),
)
_FILLED = """__global__ void scale(const float* x, float* out, float* used, int n, int left) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at] * 2.f;
    for (int i = at; i < left; i += blockDim.x * gridDim.x) used[i] = 0.f;
}
"""
_FIELDS = """template <typename P> __global__ void twice(P given) {
    for (int row = blockIdx.x; row < given.rows; row += gridDim.x)
        for (int i = threadIdx.x; i < given.n; i += blockDim.x)
            given.out[row * given.n + i] = given.x[row * given.n + i] + given.x[row * given.n + i];
}
"""


_CLUSTERS_THREADS = """__global__ void rows(const float* x, float* y, int rows, int n) {
    auto grid = cooperative_groups::this_grid();
    auto cluster = cooperative_groups::this_cluster();
    int part = cluster.block_rank() * blockDim.x + threadIdx.x;
    for (int row = grid.cluster_rank(); row < rows; row += grid.num_clusters())
        if (part < n) y[row * n + part] = 2.f * x[row * n + part];
}
"""


class PersistentGridStrideLoop(Pattern):
    """A loop starts at the own block id and steps by the number of blocks."""

    name = "persistent-grid-stride-loop"
    axis = "work_decomposition"
    source = "Harris, CUDA Pro Tip: Write Flexible Kernels with Grid-Stride Loops (2013)"
    matches = (
        Case(PRODUCT_PERSISTENT, "persistent grid-stride"),
        Case(_ROUNDS, "persistent grid-stride"),
        Case(NORM_PERSISTENT, "persistent grid-stride"),
        Case(SOFTMAX, "persistent grid-stride"),
        Case(PRODUCT_PERSISTENT_POINTER, "persistent grid-stride"),
        Case(PRODUCT_PERSISTENT_THREADS, "persistent grid-stride"),
        Case(_FIELDS, "persistent grid-stride"),
        Case(_CLUSTERS_THREADS, "persistent grid-stride"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="the block id is used once"),
        NearMiss(_FILLED, why="memory is cleared beside the work"),
        NearMiss(
            vary(SOFTMAX, ("range(ct.bid(0), ROWS, ct.num_blocks(0))", "range(0, ROWS, 4)")),
            why="every block walks the same rows",
        ),
        NearMiss(
            vary(_ROUNDS, ("ct.bid(0) + i * W", "i + ct.bid(0) * W")),
            why="every block has a chunk of its own",
        ),
        NearMiss(
            vary(_ROUNDS, ("cols, W)", "cols, 8)")), why="the rounds are not those of W blocks"
        ),
        NearMiss(PRODUCT_POINTER, why="the block id is used once"),
        NearMiss(PRODUCT_THREADS, why="the block id is used once"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for loop in facts.loops:
            if persistent(loop, facts.values) and not fills(facts, loop):
                item = item_of_round(loop, facts.values)
                placed = facts.graph.producer(item) if item is not None else None
                begun = numbers_below(facts, [loop.low] if loop.low else [])
                where = (loop.range, loop.node, *([placed] if placed else []), *begun)
                yield self.decide(facts, "persistent grid-stride", where)
