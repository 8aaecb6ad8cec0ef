"""What the axes of the grid stand for."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_PERSISTENT, TILE
from extractors.patterns.cases_rows import LAYER_NORM_POINTER
from extractors.patterns.cases_threads import CLUSTER_ROWS_THREADS, PRODUCT_THREADS
from extractors.patterns.flattened_outer_batch_grid_axis import outer_axes
from extractors.patterns.multi_problem_walk import GROUPED_POINTER
from extractors.patterns.persistent_blocked_partition import CHUNK_COUNTED
from kb.analysis.block_steps import steps_by_tile, tile_extents
from kb.analysis.blocked import blocked
from kb.analysis.chunks import chunk_steps
from kb.analysis.facts import Facts
from kb.analysis.flat_places import by_rank, cut_off
from kb.analysis.graph import Node
from kb.analysis.loops import Loop, Role, persistent
from kb.analysis.problem_walks import problem_walk
from kb.analysis.stream_k import streams
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_SINGLE = (
    POINTER
    + """
@triton.jit
def once(x):
    tl.store(x, tl.load(x) + 1)
"""
)


_SINGLE_TILE = (
    TILE
    + """
@ct.kernel
def once(x):
    ct.scatter(x, 0, ct.gather(x, 0) + 1)
"""
)


_SINGLE_THREADS = """__global__ void once(float* x) {
    x[threadIdx.x] = x[threadIdx.x] + 1.f;
}
"""


_FLAT_THREADS = """template <int T>
__global__ void scale(const float* x, const float* f, float* out, int rows, int n) {
    int at = blockIdx.x * T + threadIdx.x;
    if (at >= rows * n) return;
    int row = at / n;
    out[row * n + at % n] = x[row * n + at % n] * f[row];
}
"""


_COUNTED_THREADS = """template <int T>
__global__ void scale(const float* x, float* out, int rows, int n) {
    int at = blockIdx.x * (2 * T) + threadIdx.x;
    if (at >= rows * n) return;
    out[at] = 2.f * x[at];
}
"""
_LONG_ROWS_THREADS = """template <int N>
__global__ void scale(const float* x, float* out) {
    int at = blockIdx.x * N + threadIdx.x;
    out[at] = 2.f * x[at];
}
"""


_WHICH_THREADS = """__global__ void halves(const float* x, float* out, int n) {
    int at = blockIdx.x * n + threadIdx.x;
    int half;
    if (blockIdx.y == 0) half = 0; else half = n / 2;
    out[at + half] = x[at + half] + 1.f;
}
"""


_WHICH = (
    POINTER
    + """
@triton.jit
def halves(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, T)
    half = 0
    if tl.program_id(1) > 0:
        half = n // 2
    tl.store(out + at + half, tl.load(x + at + half) + 1)
"""
)


_ROWS_WALKED = """__global__ void twice(const float* x, float* out, int n) {
    const float* row = x + (long)blockIdx.y * n;
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x)
        out[(long)blockIdx.y * n + at] = 2.f * row[at];
}
"""


class SeparateGridAxes(Pattern):
    """Every axis of the grid is used by itself, or one id is walked over all work items."""

    name = "block-id-per-grid-axis"
    axis = "grid_mapping"
    source = "NVIDIA, CUDA C++ Programming Guide, thread hierarchy"
    matches = (
        Case(PRODUCT, "separate grid axes"),
        Case(PRODUCT_PERSISTENT, "linear persistent id"),
        Case(LAYER_NORM_POINTER, "one program per row"),
        Case(CHUNK_COUNTED, "one id per chunk of work"),
        Case(GROUPED_POINTER, "linear persistent id"),
        Case(_SINGLE, "grid of one program"),
        Case(_SINGLE_TILE, "grid of one program"),
        Case(PRODUCT_THREADS, "separate grid axes"),
        Case(_FLAT_THREADS, "one axis of tiles"),
        Case(_COUNTED_THREADS, "one axis of tiles"),
        Case(_LONG_ROWS_THREADS, "one program per row"),
        Case(CLUSTER_ROWS_THREADS, "one cluster per row"),
        Case(_WHICH_THREADS, "separate grid axes"),
        Case(_WHICH, "separate grid axes"),
        Case(_ROWS_WALKED, "separate grid axes"),
        Case(
            _ROWS_WALKED.replace("(long)blockIdx.y", "(long)at_row")
            .replace(
                "    const float* row",
                "    for (int at_row = blockIdx.y; at_row < n; at_row += gridDim.y) {\n"
                "    const float* row",
            )
            .replace("row[at];", "row[at];\n    }"),
            "separate grid axes",
        ),
        Case(_ROWS_WALKED.replace("(long)blockIdx.y * n", "0l"), "linear persistent id"),
    )
    near_misses = (
        NearMiss(
            _SINGLE.replace("tl.load(x) + 1", "tl.load(x) + tl.program_id(0)"),
            why="the block id says nothing of where",
        ),
        NearMiss(
            _SINGLE_TILE.replace("ct.gather(x, 0) + 1", "ct.gather(x, 0) + ct.bid(0)"),
            why="the block id says nothing of where",
        ),
        NearMiss(_SINGLE_THREADS, why="no block id is read"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        ids = [n for n in facts.graph.of(OpKind.BLOCK_ID) if self._places(facts, n)]
        if not ids:
            asks = facts.graph.of(OpKind.BLOCK_ID, OpKind.NUM_BLOCKS, OpKind.OPAQUE)
            if facts.stores and not asks and not facts.of_threads:
                yield self.decide(facts, "grid of one program", facts.stores)
            return
        walks = [loop for loop in facts.loops if persistent(loop, facts.values)]
        if walks and self._not_walked(facts, walks, ids):
            yield self.decide(facts, "separate grid axes", [*ids, *_decoded(facts)])
            return
        if walks or problem_walk(facts) or streams(facts):
            yield self.decide(facts, "linear persistent id", [*ids, *_decoded(facts)])
            return
        chunks = [loop for loop in facts.loops if blocked(loop, facts.values)]
        ends = [facts.graph.producer(v) for loop in chunks for v in (loop.low, loop.high)]
        counted = [n for loop in facts.loops for n in chunk_steps(facts, loop)]
        if (chunks or counted) and not facts.contractions:
            ends += [n for n in counted if n not in ends]
            yield self.decide(facts, "one id per chunk of work", [*ids, *ends])
            return
        axes = {facts.values.expr(n.result) for n in ids}
        if len(axes) > 1:
            yield self.decide(facts, "separate grid axes", ids)
        elif not self._divided(facts):
            yield self.decide(facts, self._single(facts), ids)
        elif not facts.contractions and not outer_axes(facts):
            yield self.decide(facts, self._single(facts), [*ids, *self._parts(facts)])

    def _not_walked(self, facts: Facts, walks: list[Loop], ids: list[Node]) -> list[Node]:
        """Ids of axes that no walk over work items begins at, where every walk begins at others;
        where walks begin at different axes, all."""
        lows = [facts.values.expr(loop.low) for loop in walks if loop.low is not None]
        begun = {frozenset(a for a in low.atoms() if a.kind is AtomKind.BLOCK) for low in lows}
        known = [n for n in ids if facts.values.expr(n.result).atom is not None]
        if frozenset() in begun:
            return []  # who knows where that one begins
        if len(begun) > 1 and all(len(axes) == 1 for axes in begun):
            return known
        walked = {axis for axes in begun for axis in axes}
        return [n for n in known if walked and facts.values.expr(n.result).atom not in walked]

    def _places(self, facts: Facts, node: Node) -> bool:
        """Whether an id says where something is read or written, or which of several places, or is
        handed to what may do so."""
        asking = [
            one
            for one in facts.graph.of(OpKind.IF, OpKind.IF_EXPRESSION)
            if one.op.results and facts.graph.rests_on(one.op.inputs[0], node)
        ]
        nodes = facts.graph.node_set([node, *asking])
        return any(
            facts.graph.rests_on_any(value, nodes)
            for access in facts.accesses
            for role, value in access.node.op.operands
            if role not in ("value", "mask")
        ) or any(
            facts.graph.rests_on(value, node)
            for unknown in facts.graph.of(OpKind.OPAQUE)
            for value in unknown.op.inputs
        )

    def _divided(self, facts: Facts) -> bool:
        return bool(self._parts(facts))

    def _parts(self, facts: Facts) -> list[Node]:
        """The divisions that take a block id apart."""
        return [
            n
            for n in facts.graph.of(OpKind.FLOOR_DIV, OpKind.MOD)
            if (atom := facts.values.expr(n.op.inputs[0]).atom) is not None
            and atom.kind is AtomKind.BLOCK
        ]

    def _single(self, facts: Facts) -> str:
        extents = tile_extents(facts)
        indices = (index for access in facts.accesses for index in access.index)
        tiles = any(steps_by_tile(index, extents) for index in indices)
        tiles = tiles or any(cut_off(facts, access) for access in facts.stores)
        if not tiles and by_rank(facts, facts.stores):
            return "one cluster per row"
        return "one axis of tiles" if tiles else "one program per row"


def _decoded(facts: Facts) -> list[Node]:
    """The divisions that take the number of an item of a persistent loop apart."""
    walks = [x for x in facts.loops if persistent(x, facts.values)]
    steps = {x.induction for x in walks} | {c.argument for x in walks for c in x.of(Role.COUNTER)}
    return [
        n
        for n in facts.graph.of(OpKind.FLOOR_DIV, OpKind.MOD)
        if facts.graph.core(n.op.inputs[0]) in steps
    ]
