"""A reduction is divided among blocks; a second stage merges the parts."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import (
    ATTENTION,
    BACKWARD_KEYS,
    PRODUCT,
    PRODUCT_POINTER,
    vary,
)
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
from extractors.patterns.streamed_steps import STREAM, STREAM_PARTS
from kb.analysis.facts import Facts
from kb.analysis.idioms import partial_reductions
from kb.analysis.splits import added_parts, grown, lane_sums, pieces, shared_out
from kb.analysis.stream_k import joined, streams
from kb.analysis.symbolic import AtomKind
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


class SplitReduction(Pattern):
    """A block id that chooses a range of the reduced axis also chooses where the partial result
    goes."""

    name = "split-k-split-kv-with-second-stage-combine"
    axis = "reduction_split"
    source = 'CUTLASS, "Efficient GEMM in CUDA", Split K; Dao et al., Flash-Decoding (2023)'
    matches = (
        Case(STREAM, "split with atomics"),
        Case(STREAM_PARTS, "split, partials handed from block to block"),
        Case(SPLIT, "split, partials stored for a second stage"),
        Case(_ATOMIC, "split with atomics"),
        Case(_SPLIT_POINTER, "split, partials stored for a second stage"),
        Case(_ATOMIC_POINTER, "split with atomics"),
        Case(PARTIAL_SUM, "split, partials stored for a second stage"),
        Case(
            vary(PARTIAL_SUM, ("tl.store(parts + own,", "tl.atomic_add(parts,")),
            "split with atomics",
        ),
        Case(SPLIT_ATOMIC_POINTER, "split with atomics"),
        Case(SPLIT_PACKED_POINTER, "split with atomics"),
        Case(SPLIT_LANES_POINTER, "split with atomics"),
        Case(SPLIT_THREADS, "split, partials stored for a second stage"),
        Case(PRODUCT_THREADS, "serial reduction in one CTA"),
        Case(DECODE_PART, "split, partials stored for a second stage"),
        Case(_OWN_PART, "split, partials stored for a second stage"),
        Case(_LISTED, "split, partials stored for a second stage"),
        Case(_SCANNED, "split, partials stored for a second stage"),
        Case(_COLUMNS_THREADS, "split, partials stored for a second stage"),
        Case(
            _COLUMNS_THREADS.replace(
                "parts[blockIdx.y * cols + col] = acc", "atomicAdd(parts + col, acc)"
            ),
            "split with atomics",
        ),
        Case(_STRIDED, "split, partials stored for a second stage"),
        Case(_WRAPPED, "split, partials stored for a second stage"),
    )
    near_misses = (
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
        NearMiss(
            vary(_STRIDED, ("z * M * N + m[", "m[")),
            why="nothing says where the parts go",
            value="split, partials stored for a second stage",
        ),
        NearMiss(
            vary(
                _WRAPPED,
                ("a + m[", "a + z * M * sa + m["),
                ("z * per + ", ""),
                ("b + k[", "b + z * K * sb + k["),
            ),
            why="one matrix for each number",
        ),
        NearMiss(LAYER_NORM_POINTER, why="every row is reduced by one block"),
        NearMiss(PRODUCT, why="one block walks the whole reduced axis"),
        NearMiss(
            PRODUCT_ROW_THREADS,
            why="every block walks its own rows to their end",
            value="split, partials stored for a second stage",
        ),
        NearMiss(
            vary(
                DECODE_PART,
                ("range(low, high, T)", "range(0, count, T)"),
                ("at < high", "at < count"),
            ),
            why="every block walks all keys",
        ),
        NearMiss(
            vary(_OWN_PART, ("low + first * T", "first * T")),
            why="every block walks the first keys",
        ),
        NearMiss(ATTENTION, why="the bound is a causal mask's, the output tile is complete"),
        NearMiss(BACKWARD_KEYS, why="the range begins at the block's own tile of the result"),
        NearMiss(BACKWARD_KEYS_POINTER, why="the range begins at the block's own tile"),
        NearMiss(PRODUCT_POINTER, why="one block walks the whole reduced axis"),
        NearMiss(
            SPLIT_THREADS,
            why="every block walks a part of the reduced axis",
            value="serial reduction in one CTA",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for stream in streams(facts)[:1]:
            places, summed = joined(facts, stream)
            value = "split with atomics" if summed else "split, partials handed from block to block"
            yield self.decide(facts, value, [*stream.within, stream.inner.node, *places])
        parts = partial_reductions(facts)
        atomics = [s for s in facts.stores if s.is_atomic]
        if parts:
            value = "split with atomics" if atomics else "split, partials stored for a second stage"
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
        elif facts.of_threads and not atomics:
            yield from self._serial(facts)
        split = [] if parts else shared_out(facts)
        for piece in (pieces(facts) or split)[:1]:
            stores = [s for c in grown(piece.loop) for s in facts.stored_in(c.result)]
            atomics = [s for s in stores if s.is_atomic]
            if atomics:
                yield self.decide(facts, "split with atomics", [*piece.bounds, *atomics])
            elif stores:
                yield self.decide(
                    facts, "split, partials stored for a second stage", [*piece.bounds, *stores]
                )

    def _serial(self, facts: Facts) -> Iterable[Decision]:
        """One loop of the block, which no block id bounds, adds up every product."""
        loops = [loop for loop, _ in facts.accumulators()]
        bounds = [facts.values.expr(v) for loop in loops for v in (loop.low, loop.high) if v]
        if loops and bounds and not any(b.has(AtomKind.BLOCK) for b in bounds):
            yield self.decide(facts, "serial reduction in one CTA", [loop.node for loop in loops])
