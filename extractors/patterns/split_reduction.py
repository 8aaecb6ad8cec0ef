"""A reduction is divided among blocks; a second stage merges the parts."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import (
    ATTENTION,
    BACKWARD_KEYS,
    POINTER,
    PRODUCT,
    PRODUCT_POINTER,
    vary,
)
from extractors.patterns.cases_indirect import SEGMENT_PRODUCT, SEGMENT_PRODUCT_TILE
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER, DECODE_PART, PRODUCT_DESCRIPTOR
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, PARTIAL_SUM
from extractors.patterns.cases_split import (
    SPLIT,
    SPLIT_ATOMIC_POINTER,
    SPLIT_LANES_POINTER,
    SPLIT_PACKED_POINTER,
    SPLIT_THREADS,
)
from extractors.patterns.cases_threads import PRODUCT_ROW_THREADS, PRODUCT_THREADS
from extractors.patterns.scans import CARRIED
from extractors.patterns.streamed_steps import STREAM, STREAM_PARTS
from kb.analysis.accesses import Access
from kb.analysis.carried_scans import serial_scans
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import partial_reductions
from kb.analysis.lane_products import outer_products, products_summed, weighted_rounds
from kb.analysis.loops import Carried, Loop, Role
from kb.analysis.merging import merge_of
from kb.analysis.rows_summed import rows_summed
from kb.analysis.segments_summed import segments_summed
from kb.analysis.splits import added_parts, grown, lane_sums, pieces, shared_out
from kb.analysis.stream_k import joined, streams
from kb.analysis.symbolic import Atom, AtomKind, nested
from kb.analysis.thread_products import thread_products
from kb.evidence import Decision

_ATOMIC = vary(
    SPLIT,
    ("ct.store(out, index=(z, m, n), tile=ct.reshape(ct.astype(acc, out.dtype), (1, TM, TN)))",
     "ct.atomic_add(out, (m * TM + ct.arange(TM, dtype=ct.int32)[:, None], n * TN + ct.arange(TN, dtype=ct.int32)[None, :]), acc)"),  # noqa: E501
)  # fmt: skip


_SPLIT_POINTER = vary(
    PRODUCT_DESCRIPTOR,
    ("TK: tl.constexpr):", "TK: tl.constexpr, PER: tl.constexpr):\n    z = tl.program_id(2)"),
    ("for k in range(tl.cdiv(K, TK)):", "for k in range(z * PER, (z + 1) * PER):"),
    ("to.store([m * TM, n * TN]", "to.store([z * M + m * TM, n * TN]"),
)
_ATOMIC_POINTER = vary(
    _SPLIT_POINTER,
    ("    to.store([z * M + m * TM, n * TN], acc.to(out.dtype.element_ty))",
     "    rows = m * TM + tl.arange(0, TM)\n    cols = n * TN + tl.arange(0, TN)\n"
     "    tl.atomic_add(out + rows[:, None] * N + cols[None, :], acc)"),
)  # fmt: skip


_OWN_PART = vary(
    DECODE_PART,
    ("range(low, high, T)", "range(tl.cdiv(high - low, T))"),
    ("at = first + tl.arange(0, T)", "at = low + first * T + tl.arange(0, T)"),
    ("chunk = tl.cdiv(count, tl.num_programs(1))", "chunk = 4 * T"),
)


_COLUMN_SUMS = (
    POINTER
    + """
@triton.jit
def columns(parts, out, M, N, R: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    acc = tl.zeros([T], tl.float32)
    for i in range(0, M, R):
        row = i + tl.arange(0, R)
        v = tl.load(parts + row[:, None] * N + at[None, :], mask=row[:, None] < M, other=0.0)
        acc += tl.sum(v.to(tl.float32), axis=0)
    tl.store(out + at, acc)
"""
)
_BY_ROWS = (
    ("range(0, M, R)", "range(M)"),
    ("tl.load(parts + row[:, None] * N + at[None, :], mask=row[:, None] < M, other=0.0)",
     "tl.load(parts + i * N + at)"),
    ("tl.sum(v.to(tl.float32), axis=0)", "v"),
)  # fmt: skip


_STRIDED = vary(
    PRODUCT_POINTER,
    ("TK: tl.constexpr):", "TK: tl.constexpr, P: tl.constexpr):\n    z = tl.program_id(2)"),
    ("k = tl.arange", "k = z * TK + tl.arange"),
    ("tl.cdiv(K, TK)", "tl.cdiv(K, TK * P)"),
    ("pa += TK", "pa += TK * P"),
    ("pb += TK * sb", "pb += TK * P * sb"),
    ("out + m[", "out + z * M * N + m["),
)
_WRAPPED = vary(
    PRODUCT_POINTER,
    ("TK: tl.constexpr):", "TK: tl.constexpr, per):\n    z = tl.program_id(2)"),
    ("k = tl.arange(0, TK)", "k = (z * per + tl.arange(0, TK)) % K"),
    ("tl.cdiv(K, TK)", "tl.cdiv(per, TK)"),
    ("out + m[", "out + z * M * N + m["),
)


_COLUMNS_THREADS = """__global__ void columns(const float* x, float* parts, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= cols) return;
    float acc = 0.f;
    for (int row = blockIdx.y; row < rows; row += gridDim.y) acc += x[row * cols + col];
    parts[blockIdx.y * cols + col] = acc;
}
"""
_SCANNED = vary(
    PARTIAL_SUM,
    (
        "    tl.store(parts + own,",
        "    tl.store(x + at, tl.cumsum(v, axis=0))\n    tl.store(parts + own,",
    ),
)


_LISTED = vary(
    DECODE_PART,
    ("def part(", "def part(starts, "),
    ("chunk = tl.cdiv(count, tl.num_programs(1))", "chunk = 4 * T"),
    ("low = share * chunk", "low = tl.load(starts + share)"),
    ("slot = who * tl.num_programs(1) + share", "slot = who * 64 + low // (4 * T)"),
)


SERIAL = "serial reduction in one CTA"
_STORED = "split, partials stored for a second stage"


class SplitReduction(Pattern):
    """A block id that chooses a range of the reduced axis also chooses where the partial result
    goes; or every block adds up all products of what it stores."""

    name = "split-k-split-kv-with-second-stage-combine"
    axis = "reduction_split"
    source = 'CUTLASS, "Efficient GEMM in CUDA", Split K; Dao et al., Flash-Decoding (2023)'
    matches = (
        Case(STREAM, "split with atomics"),
        Case(STREAM_PARTS, "split, partials handed from block to block"),
        Case(SPLIT, _STORED),
        Case(_ATOMIC, "split with atomics"),
        Case(_SPLIT_POINTER, _STORED),
        Case(_ATOMIC_POINTER, "split with atomics"),
        Case(PARTIAL_SUM, _STORED),
        Case(
            vary(PARTIAL_SUM, ("tl.store(parts + own,", "tl.atomic_add(parts,")),
            "split with atomics",
        ),
        Case(SPLIT_ATOMIC_POINTER, "split with atomics"),
        Case(SPLIT_PACKED_POINTER, "split with atomics"),
        Case(SPLIT_LANES_POINTER, "split with atomics"),
        Case(SPLIT_THREADS, _STORED),
        Case(PRODUCT_THREADS, SERIAL),
        Case(PRODUCT, SERIAL),
        Case(PRODUCT_POINTER, SERIAL),
        Case(ATTENTION, SERIAL),
        Case(_COLUMN_SUMS, SERIAL),
        Case(vary(_COLUMN_SUMS, *_BY_ROWS), SERIAL),
        Case(DECODE_PART, _STORED),
        Case(_OWN_PART, _STORED),
        Case(_LISTED, _STORED),
        Case(_SCANNED, _STORED),
        Case(_COLUMNS_THREADS, _STORED),
        Case(
            _COLUMNS_THREADS.replace(
                "parts[blockIdx.y * cols + col] = acc", "atomicAdd(parts + col, acc)"
            ),
            "split with atomics",
        ),
        Case(_STRIDED, _STORED),
        Case(_WRAPPED, _STORED),
        Case(CARRIED, SERIAL),
        Case(SEGMENT_PRODUCT, SERIAL),
        Case(SEGMENT_PRODUCT_TILE, SERIAL),
    )
    near_misses = (
        NearMiss(vary(CARRIED, ("before + tl.c", "tl.c")), why="every tile has a scan of its own"),
        NearMiss(
            vary(CARRIED, ("own = tl.program_id(0) * n", "own = tl.program_id(0) * T")),
            why="blocks take tiles of one row",
            value=SERIAL,
        ),
        NearMiss(
            vary(_COLUMN_SUMS, *_BY_ROWS, ("parts + i * N + at", "parts + i + at")),
            why="the places of a window",
        ),
        NearMiss(
            vary(_COLUMN_SUMS, ("tl.store(out + at, acc)", "tl.store(out, tl.sum(acc))")),
            why="a row of lanes that is summed afterwards",
            value=SERIAL,
        ),
        NearMiss(
            vary(
                _COLUMN_SUMS,
                (
                    "        acc",
                    "        tl.store(parts + row[:, None] * N + at[None, :], v)\n        acc",
                ),
            ),
            why="rows are stored one by one beside their sum",
        ),
        NearMiss(STREAM_PARTS, why="no atomic adds a part of a tile", value="split with atomics"),
        NearMiss(
            vary(_LISTED, ("who * 64 + low // (4 * T)", "who * tl.num_programs(1)")),
            why="no place tells the pieces of a sequence apart",
        ),
        NearMiss(
            vary(_SCANNED, ("tl.cumsum(v, axis=0)", "v * 2.0")),
            why="tiles are stored whole, their sum beside them",
        ),
        NearMiss(
            vary(SPLIT_ATOMIC_POINTER, ("k = tl.program_id(1) * TK + ", "k = ")),
            why="every block sums the whole axis",
        ),
        NearMiss(
            vary(SPLIT_LANES_POINTER, ("range(z, K // TK, PARTS)", "range(0, K // TK)")),
            why="every block sums all columns",
        ),
        NearMiss(
            vary(SPLIT_PACKED_POINTER, ("    k = z * TK +", "    k ="), ("out + m", "out + z + m")),
            why="every block walks the whole axis",
        ),
        NearMiss(
            _COLUMNS_THREADS.replace("acc += x[row * cols + col]", "parts[row * cols + col] = acc"),
            why="rows are written one by one, nothing is added up",
        ),
        NearMiss(vary(_STRIDED, ("z * M * N + m[", "m[")), why="nothing says where the parts go"),
        NearMiss(
            vary(
                _WRAPPED,
                ("a + m[", "a + z * M * sa + m["),
                ("z * per + ", ""),
                ("b + k[", "b + z * K * sb + k["),
            ),
            why="one matrix for each number",
            value=_STORED,
        ),
        NearMiss(LAYER_NORM_POINTER, why="every row is reduced by one block"),
        NearMiss(PRODUCT, why="one block walks the whole reduced axis", value=_STORED),
        NearMiss(
            PRODUCT_ROW_THREADS,
            why="every block walks its own rows to their end",
            value=_STORED,
        ),
        NearMiss(
            vary(
                DECODE_PART,
                ("range(low, high, T)", "range(0, count, T)"),
                ("at < high", "at < count"),
            ),
            why="every block walks all keys",
            value=_STORED,
        ),
        NearMiss(
            vary(_OWN_PART, ("low + first * T", "first * T")),
            why="every block walks the first keys",
            value=_STORED,
        ),
        NearMiss(
            ATTENTION,
            why="the bound is a causal mask's, the output tile is complete",
            value=_STORED,
        ),
        NearMiss(BACKWARD_KEYS, why="the range begins at the block's own tile of the result"),
        NearMiss(BACKWARD_KEYS_POINTER, why="the range begins at the block's own tile"),
        NearMiss(PRODUCT_POINTER, why="one block walks the whole reduced axis", value=_STORED),
        NearMiss(
            SPLIT_THREADS,
            why="every block walks a part of the reduced axis",
            value=SERIAL,
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        told = [*self._divided(facts)]
        yield from told or self._serial(facts)

    def _divided(self, facts: Facts) -> Iterable[Decision]:
        for stream in streams(facts)[:1]:
            places, summed = joined(facts, stream)
            value = "split with atomics" if summed else "split, partials handed from block to block"
            yield self.decide(facts, value, [*stream.within, stream.inner.node, *places])
        parts = partial_reductions(facts)
        atomics = [s for s in facts.stores if s.is_atomic]
        if parts:
            value = "split with atomics" if atomics else _STORED
            yield self.decide(facts, value, [*parts, *(atomics or facts.stores)])
        elif shared := added_parts(facts):
            sums = [n for p in shared for n in (*p.blocks, p.loop.node, p.store.node)]
            yield self.decide(facts, "split with atomics", sums)
        elif not facts.contractions:
            added = [n for s in atomics for n in lane_sums(facts, s)]
            if added:
                begins = [n for piece in pieces(facts) for n in piece.bounds]
                yield self.decide(facts, "split with atomics", [*begins, *added, *atomics])
                return
        split = [] if parts else shared_out(facts)
        for piece in (pieces(facts) or split)[:1]:
            stores = [s for c in grown(piece.loop) for s in facts.stored_in(c.result)]
            atomics = [s for s in stores if s.is_atomic]
            if atomics:
                yield self.decide(facts, "split with atomics", [*piece.bounds, *atomics])
            elif stores:
                yield self.decide(facts, _STORED, [*piece.bounds, *stores])

    def _serial(self, facts: Facts) -> Iterable[Decision]:
        """Loops that begin at the same place for every block add up every product."""
        if any(s.is_atomic for s in facts.stores) or merge_of(facts) is not None:
            return
        found = [
            (loop, carried, step)
            for step in _products(facts)
            for loop in facts.loops
            for carried in loop.of(Role.ACCUMULATOR, Role.SUM, Role.RUNNING_SUM)
            if step.inside(loop.node) and facts.graph.rests_on(carried.next, step)
        ]
        whole = {loop.node for loop, _ in segments_summed(facts)}
        where = [n for loop, _, step in found for n in (loop.node, step)]
        if found and all(loop.node in whole for loop, _, _ in found):
            yield self.decide(facts, SERIAL, where)
        elif found and all(_of_no_block(facts, loop) for loop, _, _ in found):
            if _kept_apart(facts, found) and any(_bound(facts, loop) for loop, _, _ in found):
                yield self.decide(facts, SERIAL, where)
        elif not found and (sums := rows_summed(facts)):
            if all(_of_no_block(facts, loop) and _bound(facts, loop) for loop, _ in sums):
                yield self.decide(facts, SERIAL, [n for loop, s in sums for n in (loop.node, s)])
        elif not found and (scans := serial_scans(facts)):
            nodes = [n for loop, scan, added in scans for n in (loop.node, scan, *added)]
            yield self.decide(facts, SERIAL, nodes)


def _products(facts: Facts) -> list[Node]:
    """Matrix products; where there are none, products that lanes or threads add up."""
    if facts.contractions:
        return [n for n in facts.contractions if n.loop is not None]
    if facts.of_threads:
        return [step for step, _ in thread_products(facts)]
    pairs = [*products_summed(facts), *outer_products(facts), *weighted_rounds(facts)]
    return [made for made, _ in pairs if made.loop is not None]


def _kept_apart(facts: Facts, found: list[tuple[Loop, Carried, Node]]) -> bool:
    """Whether every block id that places what loops read also places what is stored."""
    loops = {loop.node for loop, _, _ in found}
    read = {a for x in facts.loads if any(x.node.inside(one) for one in loops) for a in _ids(x)}
    return read <= {atom for store in facts.stores for atom in _ids(store)}


def _ids(access: Access) -> set[Atom]:
    return {a for index in access.index for a in index.atoms() if a.kind is AtomKind.BLOCK}


def _bound(facts: Facts, loop: Loop) -> bool:
    """Whether a loop ends where the problem says; what the template of a kernel of threads says is
    the extent of its tile."""
    high = facts.values.expr(loop.high) if loop.high is not None else None
    if high is None or high.constant is not None:
        return False
    return not (facts.of_threads and facts.values.compile_time(high))


def _of_no_block(facts: Facts, loop: Loop) -> bool:
    """Whether every block begins a loop at the same element, and none ends it before the end
    because of where it began."""
    low, high, step = (
        facts.values.expr(v) if v else None for v in (loop.low, loop.high, loop.step)
    )
    placed = (AtomKind.BLOCK, AtomKind.BLOCKS, AtomKind.LOADED)
    if any(one is not None and one.has(*placed) for one in (low, step)):
        return False
    if high is None or high.has(AtomKind.OPAQUE) or (facts.of_threads and high.has(*placed)):
        return False
    terms = [term for inner in nested(high) for term in inner.terms]
    return not any(
        factor < 0 and any(atom.kind is AtomKind.BLOCK for atom in atoms) for atoms, factor in terms
    )
