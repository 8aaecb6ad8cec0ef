"""One output tile, one row, or one piece of a reduced axis, per block."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import (
    ATTENTION,
    POINTER,
    PRODUCT,
    PRODUCT_PERSISTENT,
    PRODUCT_POINTER,
    vary,
)
from extractors.patterns.cases_counters import COUNT_THREADS, COUNT_TILE, LISTED
from extractors.patterns.cases_pointer import (
    DECODE_PART,
    FLASH_STAGED,
    PRODUCT_PERSISTENT_POINTER,
)
from extractors.patterns.cases_rows import PARTIAL_SUM, ROW_NORM
from extractors.patterns.cases_rows_pointer import NORM_BACKWARD_LOCKED
from extractors.patterns.cases_rows_threads import COLUMNS_THREADS, RESET_THREADS
from extractors.patterns.cases_searched import (
    EITHER_PLACE_THREADS,
    GROUPED_THREADS,
    HALVED_THREADS,
    HANDED_ON_THREADS,
    LISTED_PLACES_THREADS,
    SEARCHED,
)
from extractors.patterns.cases_split import SPLIT, SPLIT_ATOMIC_POINTER, SPLIT_THREADS
from extractors.patterns.cases_threads import (
    CLUSTER_ROWS_THREADS,
    HEADS_THREADS,
    PRODUCT_PERSISTENT_THREADS,
    PRODUCT_THREADS,
)
from extractors.patterns.cases_walks import PART
from extractors.patterns.jobs_by_block import JOBS_THREADS, parted_jobs
from extractors.patterns.last_block import by_last
from extractors.patterns.persistent_blocked_partition import CHUNK_COUNTED
from kb.analysis.accesses import Access, Mode
from kb.analysis.block_starts import block_starts, of_blocks
from kb.analysis.block_steps import of_block, steps_by_tile, tile_extents
from kb.analysis.chunks import chunk_steps
from kb.analysis.facts import Facts
from kb.analysis.filling import fills
from kb.analysis.flat_places import by_rank, cut_off
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, partial_reductions, sides
from kb.analysis.locks import spins
from kb.analysis.loops import Loop, persistent
from kb.analysis.numbered_places import numbered_places
from kb.analysis.own_columns import by_lanes, column_sums, row_of_warp
from kb.analysis.own_places import by_one_block, scattered
from kb.analysis.own_walks import mapped_items, own_walks, part_walks
from kb.analysis.problem_walks import problem_walk
from kb.analysis.splits import added_parts, lane_sums, pieces
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_ALONE_THREADS = """__global__ void offsets(const int* ends, int* starts, int groups) {
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int g = 0; g < groups; ++g) {
            starts[g] = sum;
            sum += (ends[g] + 127) / 128 * 128;
        }
    }
}
"""


_BIAS_THREADS = """__global__ void rows(const float* dy, const float* w, float* dx, float* db, int n, int c) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    for (int i = 0; i < c; ++i) {
        atomicAdd(db + i, dy[row * c + i]);
        dx[row * c + i] = dy[row * c + i] * w[i];
    }
}
"""  # noqa: E501


_EITHER = vary(
    SPLIT_ATOMIC_POINTER,
    ("TN: tl.constexpr)", "TN: tl.constexpr, PARTS: tl.constexpr)"),
    ("    tl.atomic_add(out + n, tl.sum(x[:, None] * y, axis=0))\n",
     "    v = tl.sum(x[:, None] * y, axis=0)\n    if PARTS == 1:\n        tl.store(out + n, v)\n"
     "    else:\n        tl.atomic_add(out + n, v)\n"),
)  # fmt: skip
_TOTAL_POINTER = (
    POINTER
    + """
@triton.jit
def total(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.atomic_add(out, tl.sum(tl.load(x + at, mask=at < n, other=0.0), axis=0))
"""
)


_ROLES_POINTER = (
    POINTER
    + """
@triton.jit
def prepare(x, out, ends, n, count, T: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    if p < count:
        at = p * T + tl.arange(0, T)
        tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
    else:
        b = tl.arange(0, B)
        tl.store(ends + 1 + b, tl.cumsum(tl.load(x + b), axis=0))
"""
)
"""All blocks but one have a tile each; one has something else to do."""


class OneOutputTilePerCta(Pattern):
    """Every store goes where the block ids alone say, perhaps chunk by chunk inside the own tile,
    and atomics beside them add up what all blocks find; a block may hold what its own piece of a
    reduced axis gives."""

    name = "one-output-tile-per-cta"
    axis = "work_decomposition"
    source = 'CUTLASS, "Efficient GEMM in CUDA", Threadblock-level GEMM'
    matches = (
        Case(PRODUCT, "one tile per CTA"),
        Case(ATTENTION, "one tile per CTA"),
        Case(ROW_NORM, "one row per CTA"),
        Case(PART, "one tile per CTA"),
        Case(vary(PART, ("range(0, (last - first) * k, T)", "range(0, k, T)")), "one row per CTA"),
        Case(PRODUCT_POINTER, "one tile per CTA"),
        Case(PRODUCT_THREADS, "one tile per CTA"),
        Case(FLASH_STAGED, "one tile per CTA"),
        Case(PARTIAL_SUM, "one tile per CTA"),
        Case(_EITHER, "split-K / split-KV"),
        Case(SEARCHED, "one tile per CTA"),
        Case(vary(SEARCHED, ("to = ", "to = tl.load(starts + low) + ")), "one tile per CTA"),
        Case(GROUPED_THREADS, "one row per warp"),
        Case(NORM_BACKWARD_LOCKED, "one row per CTA"),
        Case(DECODE_PART, "split-K / split-KV"),
        Case(SPLIT, "split-K / split-KV"),
        Case(SPLIT_ATOMIC_POINTER, "split-K / split-KV"),
        Case(SPLIT_THREADS, "split-K / split-KV"),
        Case(_BIAS_THREADS, "one tile per CTA"),
        Case(HALVED_THREADS, "one row per CTA"),
        Case(_TOTAL_POINTER, "one input tile per CTA"),
        Case(COUNT_TILE, "one input tile per CTA"),
        Case(LISTED, "one listed item per CTA"),
        Case(_ROLES_POINTER, "roles by the block id"),
        Case(COUNT_THREADS, "one input tile per CTA"),
        Case(HEADS_THREADS, "one tile per CTA"),
        Case(CLUSTER_ROWS_THREADS, "one row per cluster"),
        Case(
            CLUSTER_ROWS_THREADS.replace("this_cluster().block_rank()", "own()"), "one row per CTA"
        ),
        Case(RESET_THREADS, "one row per CTA"),
        Case(COLUMNS_THREADS, "one tile per CTA"),
        Case(vary(COLUMNS_THREADS, ("blockIdx.x * 32 + lane", "blockIdx.x")), "one column per CTA"),
        Case(LISTED_PLACES_THREADS),
        Case(EITHER_PLACE_THREADS, "one tile per CTA"),
    )
    near_misses = (
        NearMiss(HANDED_ON_THREADS, why="blocks take one item after the other"),
        NearMiss(JOBS_THREADS, why="blocks have different jobs"),
        NearMiss(
            vary(DECODE_PART, ("range(low, high, T)", "range(0, count, T)"), ("< high", "< count")),
            why="every block walks all keys",
            value="split-K / split-KV",
        ),
        NearMiss(
            vary(SPLIT, ("range(z * PER, (z + 1) * PER)", "range(PER)")),
            why="every block sums the same part",
            value="split-K / split-KV",
        ),
        NearMiss(
            vary(SPLIT_ATOMIC_POINTER, ("k = tl.program_id(1) * TK + ", "k = ")),
            why="every block sums the whole axis",
        ),
        NearMiss(ATTENTION, why="a mask cuts the keys off", value="split-K / split-KV"),
        NearMiss(
            vary(SEARCHED, ("to = tl.program_id(0)", "to = low")),
            why="the search finds out where the tile goes",
        ),
        NearMiss(
            vary(GROUPED_THREADS, ("blockIdx.x * (blockDim.x / 32) + ", "blockIdx.x + ")),
            why="neighbouring blocks share rows",
            value="one row per warp",
        ),
        NearMiss(
            vary(GROUPED_THREADS, ("starts[g] + row", "starts[g]")),
            why="the search alone finds out where a row goes",
        ),
        NearMiss(
            vary(_TOTAL_POINTER, ("tl.program_id(0) * T + ", "")),
            why="all blocks read one tile",
        ),
        NearMiss(
            vary(_TOTAL_POINTER, ("(out, tl.sum", "(out + tl.program_id(0), tl.sum")),
            why="every block adds to a place of its own",
            value="one input tile per CTA",
        ),
        NearMiss(_ALONE_THREADS, why="no block id says where a store goes"),
        NearMiss(
            vary(_BIAS_THREADS, ("atomicAdd(db + i, dy[row * c + i]);", "db[i] = dy[i];")),
            why="all blocks store to one place",
        ),
        NearMiss(
            vary(_ROLES_POINTER, ("    else:\n", "    if count > 4:\n")),
            why="all blocks store to one place",
        ),
        NearMiss(vary(RESET_THREADS, ("== 0 &&", "< n &&")), why="blocks store to one place"),
        NearMiss(CHUNK_COUNTED, why="a block goes through a chunk of rows"),
        NearMiss(PRODUCT_PERSISTENT, why="a loop over work items decides where each tile goes"),
        NearMiss(
            PRODUCT_PERSISTENT_POINTER, why="a loop over work items decides where each tile goes"
        ),
        NearMiss(PRODUCT_PERSISTENT_THREADS, why="a loop over work items says where a tile goes"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        loads = {a.node for a in facts.loads}
        split = [n for piece in pieces(facts) for n in piece.bounds if n not in loads]
        if any(self._items(facts, loop) for loop in facts.loops):
            if split:
                yield self.decide(facts, "split-K / split-KV", split)
            return
        if any(self._moves(facts, loop) for loop in facts.graph.of(OpKind.WHILE)):
            return
        if problem_walk(facts) or parted_jobs(facts):
            return
        placed = [a for a in facts.stores if _by_block(facts, a)]
        stores = [a for a in placed if not a.is_atomic]
        shared = added_parts(facts)
        if not stores and (pieces(facts) or shared or any(lane_sums(facts, a) for a in placed)):
            stores = placed
        beside = [a for a in _somewhere(facts) if a not in placed and not by_one_block(facts, a)]
        if not stores:
            yield from self._by_input(facts)
        alone = {a: _alone(facts, a) for a in beside if not a.is_atomic and not by_last(facts, a)}
        if not stores or not all(alone.values()):
            return
        where: list[Where] = [*_main(facts, stores), *_decoding(facts, stores)]
        split += [n for part in shared for n in part.blocks]
        either = [a for a in placed if a.is_atomic and a.array in [s.array for s in stores]]
        own = [a for a in either if not any(e.has(AtomKind.LOADED) for e in a.index)]  # no scatter
        sums = any(lane_sums(facts, a) for a in own)
        if pieces(facts) or sums or all(a.is_atomic for a in stores):
            yield self.decide(facts, "split-K / split-KV", [*split, *where])
            return
        if alone:
            tests = [n for found in alone.values() for n in found]
            yield self.decide(facts, "roles by the block id", [*tests, *where])
            return
        parts = part_walks(facts, stores)
        rows = all(_one_row(facts, a) for a in stores) and not partial_reductions(facts)
        rows = rows and not parts
        columns = [loop for a in stores for loop in column_sums(facts, a)]
        line = "column" if columns else "row"
        value = f"one {line} per CTA" if rows else "one tile per CTA"
        if any(row_of_warp(a) for a in stores):
            value = f"one {line} per warp"
        shared_out = by_rank(facts, stores) if rows else []
        if shared_out:
            value, where = f"one {line} per cluster", [*where, *shared_out]
        walked = [*(loop.node for loop in columns), *own_walks(facts, stores), *parts]
        yield self.decide(facts, value, [*where, *walked])

    def _by_input(self, facts: Facts) -> Iterable[Decision]:
        """Where no block owns what is written, as sums and counts for all blocks and what goes
        where a loaded number says: the tile that a block reads."""
        read = [a for a in facts.loads if any(i.has(AtomKind.BLOCK) for i in a.index)]
        if not read or not all(scattered(a, read) for a in facts.stores):
            return
        tiles = facts.of_threads or any(facts.types.shape(a.value) for a in read)
        value = f"one {'input tile' if tiles else 'listed item'} per CTA"
        yield self.decide(facts, value, [*facts.stores, *_decoding(facts, read)])

    def _items(self, facts: Facts, loop: Loop) -> bool:
        """True for a loop over the work items of one block."""
        if fills(facts, loop):
            return False
        return persistent(loop, facts.values) or bool(chunk_steps(facts, loop))

    def _moves(self, facts: Facts, loop: Node) -> bool:
        """True when a `while` loop holds stores or finds out where they go. What is searched before
        them is where a group begins, or a place in it, when the own block id is added to it; or, by
        threads, a place that was looked up for the block before. A loop that waits for a lock moves
        nothing."""
        waits = spins(facts)
        stores = [a for a in facts.stores if a.node not in waits]
        if facts.of_threads:
            stores = [a for a in stores if not a.is_atomic]
            stores = [a for a in stores if not _own(a) and not _looked_up(facts, a, loop)]
        else:
            stores = [a for a in stores if not _own(a) or a.node.inside(loop)]
        return any(
            store.node.inside(loop) or any(facts.graph.rests_on(v, loop) for v in _places(store))
            for store in stores
        )


def _places(access: Access) -> list[str]:
    """The values that say where an access goes."""
    return [v for role, v in access.node.op.operands if role not in ("value", "mask")]


def _own(access: Access) -> bool:
    """True when a block id is a part of where an access goes."""
    return any(index.has(AtomKind.BLOCK) for index in access.index)


def _somewhere(facts: Facts) -> list[Access]:
    """Stores but for those of a thread to where nothing is known of, be it its own variable."""
    return [a for a in facts.stores if a.array is not None or not facts.of_threads]


def _looked_up(facts: Facts, access: Access, loop: Node) -> bool:
    """Whether a number that is loaded for the own block, before a loop, is part of a place."""
    loads = [a for a in facts.loads if _own(a) and not a.node.inside(loop)]
    return any(facts.graph.rests_on(v, a.node) for v in _places(access) for a in loads)


def _by_block(facts: Facts, access: Access) -> bool:
    """True when the place of an access depends on a block id."""
    return _own(access) or any(
        facts.graph.roots(value, OpKind.BLOCK_ID) for value in _places(access)
    )


def _alone(facts: Facts, access: Access) -> list[Node]:
    """The tests of the own block id that leave an access to one block, or to some; no code for
    threads, where they leave it to a group of those."""
    if facts.of_threads:
        return []
    tests = [
        n for guard in facts.guards(access.node) for n in comparisons(facts, guard.op.inputs[0])
    ]
    return [n for n in tests if any(side.has(AtomKind.BLOCK) for side in sides(facts, n))]


def _one_row(facts: Facts, access: Access) -> bool:
    """True when a block id counts single rows: its axis has extent 1, or it is not scaled by a
    tile extent."""
    shape = facts.types.shape(access.value)
    if len([extent for extent in shape if extent != "1"]) > 1:
        return False
    extents = tile_extents(facts)
    if cut_off(facts, access):
        return False
    for axis, index in enumerate(access.index):
        if steps_by_tile(index, extents) or by_lanes(index):
            return False
        tiled = access.mode is Mode.TILE and axis < len(shape) and shape[axis] != "1"
        if tiled and any(of_block(atom) for atom in index.top()):
            return False
    return True


def _decoding(facts: Facts, stores: list[Access]) -> list[Node]:
    """The block ids that place the stores, with the steps that take them apart and lead to where a
    tile begins."""
    addresses = [v for a in stores for v in _places(a)]
    ids = [
        n
        for n in facts.graph.of(OpKind.BLOCK_ID)
        if any(facts.graph.rests_on(v, n) for v in addresses)
    ]
    parts = [
        n
        for n in facts.graph.of(OpKind.FLOOR_DIV, OpKind.MOD)
        if of_blocks(facts.values.expr(n.op.inputs[0]))
    ]
    extents = tile_extents(facts).union(*(facts.types.shape(a.value) for a in stores)) - {"1"}
    parts += mapped_items(facts)
    parts += [n for n in block_starts(facts) if any(facts.graph.rests_on(v, n) for v in addresses)]
    parts += numbered_places(facts)
    return ids + parts + [n for n in facts.graph.of(OpKind.MUL) if _begins(facts, n, extents)]


def _begins(facts: Facts, node: Node, extents: frozenset[str]) -> bool:
    """True for a block's number times the extent of a tile."""
    one, other = (facts.values.expr(value) for value in node.op.inputs[:2])
    return any(
        str(extent) in extents and of_blocks(number)
        for number, extent in ((one, other), (other, one))
    )


def _main(facts: Facts, stores: list[Access]) -> list[Access]:
    """The stores of the widest tiles: the output, not the statistics beside it."""
    rank = {a: len([e for e in facts.types.shape(a.value) if e != "1"]) for a in stores}
    best = max(rank.values())
    return [a for a in stores if rank[a] == best]
