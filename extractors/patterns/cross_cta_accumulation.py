"""How partial sums of several blocks become one."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, PRODUCT, PRODUCT_POINTER, TILE, vary
from extractors.patterns.cases_indirect import ROWS, SEGMENT_PRODUCT, SEGMENT_PRODUCT_TILE
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER, DECODE_PART
from extractors.patterns.cases_rows import NORM_BACKWARD, PARTIAL_SUM
from extractors.patterns.cases_rows_pointer import NORM_BACKWARD_LOCKED, NORM_BACKWARD_POINTER
from extractors.patterns.cases_rows_threads import NORM_BACKWARD_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.parameter_gradient import left_by_rows, may_walk_rows
from kb.analysis.accesses import Access
from kb.analysis.facts import HELD, Facts
from kb.analysis.idioms import partial_reductions, recomputed
from kb.analysis.locks import locked_sums, spins, swapped_sums
from kb.analysis.loops import Role
from kb.analysis.own_columns import column_sums
from kb.analysis.segments_summed import segments_of_threads, segments_summed
from kb.analysis.splits import grown, pieces, shared_out
from kb.analysis.stages import partials_joined, steps, tree_steps
from kb.analysis.symbolic import AtomKind
from kb.dtypes import may_be_float
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, REDUCTIONS, OpKind

_EXTREMES = frozenset({OpKind.ATOMIC_MAX, OpKind.ATOMIC_MIN})
_ATOMIC = vary(NORM_BACKWARD, ("    ct.store(parts, index=(own, 0), tile=acc)",
                               "    ct.atomic_add(parts, ct.arange(TN, dtype=ct.int32), ct.reshape(acc, (TN,)))"))  # fmt: skip  # noqa: E501


_ATOMIC_THREADS = vary(
    NORM_BACKWARD_THREADS,
    ("if (at < n) parts[blockIdx.x * n + at] = acc;", "if (at < n) atomicAdd(parts + at, acc);"),
)


SWAPPED = vary(
    NORM_BACKWARD_THREADS,
    (
        "if (at < n) parts[blockIdx.x * n + at] = acc;",
        "if (at < n) {\n"
        "        unsigned* word = (unsigned*)(parts + at);\n"
        "        unsigned seen = *word, old = seen + 1;\n"
        "        while (old != seen) {\n"
        "            old = seen;\n"
        "            float now = __uint_as_float(seen) + acc;\n"
        "            seen = atomicCAS(word, old, __float_as_uint(now));\n"
        "        }\n"
        "    }",
    ),
)


_LARGEST = vary(PARTIAL_SUM, ("tl.store(parts + own, tl.sum(", "tl.atomic_max(parts, tl.max("))
_ONTO = vary(
    ROWS,
    (
        "    tl.store(out + at[:, None] * s + c[None, :], v, mask=inside)",
        "    w = tl.load(out + at[:, None] * s + c[None, :], mask=inside)\n"
        "    tl.store(x + row[:, None] * s + c[None, :], v + 2.0 * w, mask=inside)",
    ),
)
_ONTO_TILE = (
    TILE
    + """
@ct.kernel
def onto(x, rows, out, T: Int, W: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    row = ct.gather(rows, at)
    c = ct.arange(W, dtype=ct.int32)
    v = ct.gather(x, (row[:, None], c[None, :]))
    w = ct.gather(out, (at[:, None], c[None, :]))
    ct.scatter(x, (row[:, None], c[None, :]), v + w)
"""
)
_COLUMN_THREADS = """__global__ void column(const float* x, float* all, int rows, int n) {
    float sum = 0.f;
    for (int i = threadIdx.x; i < rows; i += 32) sum += x[i * n + blockIdx.x];
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffff, sum, o);
    if (threadIdx.x == 0) all[blockIdx.x] += sum;
}
"""
_SHARED_THREADS = """__global__ void columns(const float* x, float* all, int rows, int cols) {
    extern __shared__ float sums[];
    for (int i = threadIdx.x; i < cols; i += blockDim.x) sums[i] = 0.f;
    __syncthreads();
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    for (int i = threadIdx.x % 32; i < cols; i += 32) atomicAdd(&sums[i], x[row * cols + i]);
    __syncthreads();
    for (int i = threadIdx.x; i < cols; i += blockDim.x) atomicAdd(&all[i], sums[i]);
}
"""
_SEGMENT_THREADS = """__global__ void largest(const float* x, const int* begin, float* out, int n) {
    int own = blockIdx.x * blockDim.x + threadIdx.x;
    if (own >= n) return;
    float most = 0.f;
    for (int i = begin[own]; i < begin[own + 1]; ++i) most = fmaxf(most, x[i]);
    out[own] = most;
}
"""


class CrossCtaAccumulation(Pattern):
    """A sum over many work items is stored at the block's own place, or added with an atomic or
    under a lock."""

    name = "cross-cta-accumulation-method"
    axis = "cross_cta_reduction"
    source = "NVIDIA, CUDA C++ Programming Guide, atomic functions; tilelore catalogue, P49"
    matches = (
        Case(NORM_BACKWARD, "per-CTA partial buffer + second stage"),
        Case(_ATOMIC, "atomics"),
        Case(NORM_BACKWARD_POINTER, "per-CTA partial buffer + second stage"),
        Case(PARTIAL_SUM, "per-CTA partial buffer + second stage"),
        Case(NORM_BACKWARD_THREADS, "per-CTA partial buffer + second stage"),
        Case(_ATOMIC_THREADS, "atomics"),
        Case(_LARGEST, "atomics"),
        Case(SWAPPED, "atomics"),
        Case(_SHARED_THREADS, "atomics"),
        Case(BACKWARD_KEYS, "exclusive ownership"),
        Case(_COLUMN_THREADS, "exclusive ownership"),
        Case(BACKWARD_KEYS_POINTER, "exclusive ownership"),
        Case(NORM_BACKWARD_LOCKED, "accumulated under a lock"),
        Case(DECODE_PART, "per-CTA partial buffer + second stage"),
        Case(_SEGMENT_THREADS, "exclusive ownership"),
        Case(SEGMENT_PRODUCT, "exclusive ownership"),
        Case(SEGMENT_PRODUCT_TILE, "exclusive ownership"),
        Case(_ONTO, "exclusive ownership"),
        Case(_ONTO_TILE, "exclusive ownership"),
    )
    near_misses = (
        NearMiss(
            vary(_SHARED_THREADS, ("&all[i]", "&all[blockIdx.x * cols + i]")),
            why="every block has sums of its own",
            value="atomics",
        ),
        NearMiss(
            vary(PARTIAL_SUM, ("at = own * T + tl.arange(0, T)", "at = own * n + tl.arange(0, T)")),
            why="every block has a row of its own",
        ),
        NearMiss(
            vary(
                PARTIAL_SUM,
                ("    v = tl", "    y = tl"),
                (
                    "tl.sum(v, axis=0))",
                    "tl.sum(y, axis=0))\n    tl.store(x + at, y / tl.sum(y, axis=0), mask=at < n)",
                ),
            ),
            why="the whole group is the block's, which divides it by its own sum",
        ),
        NearMiss(
            vary(
                PARTIAL_SUM,
                (
                    "tl.store(parts + own",
                    "for i in range(T):\n        w = tl.load(x + own * T + i)\n        tl.store("
                    "parts + n + own * T + i, 1 if w > 0.0 else 0)\n    tl.store(parts + own",
                ),
            ),
            why="the block stores something for every element, too",
        ),
        NearMiss(
            vary(NORM_BACKWARD_LOCKED, ("    part += tl.load(to, mask=cols < N)\n", "")),
            why="the last block's part stays, nothing is added up",
            value="accumulated under a lock",
        ),
        NearMiss(
            vary(_LARGEST, ("tl.atomic_max(parts,", "tl.atomic_max(parts + own,")),
            why="every block keeps a maximum of its own",
            value="atomics",
        ),
        NearMiss(
            vary(_COLUMN_THREADS, ("x[i * n + blockIdx.x]", "x[blockIdx.x * rows + i]")),
            why="a row of its own, which nobody else could add to",
        ),
        NearMiss(
            vary(_COLUMN_THREADS, ("all[blockIdx.x] += sum", "all[blockIdx.x] = sum")),
            why="nothing is added up over launches or blocks",
        ),
        NearMiss(
            vary(SEGMENT_PRODUCT, ("owner * K * N", "low * K * N")),
            why="where the segment begins says where the output goes",
        ),
        NearMiss(
            vary(SEGMENT_PRODUCT_TILE, ("high - low", "TK * TN")), why="every segment is as long"
        ),
        NearMiss(
            vary(_SEGMENT_THREADS, ("i = begin[own]", "i = 0")), why="no segment, a length of rows"
        ),
        NearMiss(vary(_ONTO, ("v + 2.0 * w", "v * w")), why="nothing is added to what lies there"),
        NearMiss(
            vary(_ONTO, ("tl.load(rows + at, mask=at < n)", "tl.load(rows) + at")),
            why="where a segment begins is loaded, its rows follow each other",
        ),
        NearMiss(
            vary(
                SEGMENT_PRODUCT, ("tl.dot(tl.trans(a), b)", "tl.dot(tl.trans(a), tl.dot(a, acc))")
            ),
            why="a state that every round reads",
        ),
        NearMiss(
            vary(_ONTO_TILE, ("scatter(x, (row[", "scatter(out, (at[")),
            why="a row of the block's own",
        ),
        NearMiss(PRODUCT, why="one block owns its output tile"),
        NearMiss(ATTENTION, why="one block owns its output tile"),
        NearMiss(PRODUCT_POINTER, why="one block owns its output tile"),
        NearMiss(PRODUCT_THREADS, why="one block owns its output tile"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        added = [
            a
            for a in facts.stores
            if a.node.op.kind in (OpKind.ATOMIC_ADD, OpKind.DESCRIPTOR_ATOMIC_ADD)
        ]
        sums = [
            a
            for a in added
            if facts.graph.roots(a.value, *REDUCTIONS, *CONTRACTIONS)
            or self._tile(facts, a)
            or self._everywhere(facts, a)
        ]
        sums += [a for a, total in swapped_sums(facts) if facts.feeding(total.result)]
        sums += [a for a in facts.stores if a.node.op.kind in _EXTREMES and not self._own(a)]
        if sums:
            yield self.decide(facts, "atomics", sums)
        locked = locked_sums(facts)
        if locked:
            yield self.decide(facts, "accumulated under a lock", [*spins(facts), *locked])
            return
        if recomputed(facts) and not added:
            kept = [s for s in facts.stores if self._grown(facts, s)]
            if kept and all(self._own(s) for s in kept):
                yield self.decide(facts, "exclusive ownership", kept)
            return
        parts = partial_reductions(facts)
        if parts:
            kept = [a for a in facts.stores if not a.is_atomic]
            if kept:
                yield self.decide(facts, "per-CTA partial buffer + second stage", [*parts, *kept])
            return
        split = [s for p in (pieces(facts) or shared_out(facts))[:1] for c in grown(p.loop)
                 for s in facts.stored_in(c.result)]  # fmt: skip
        if split:
            added = [s for s in split if s.is_atomic]
            if not added:
                yield self.decide(facts, "per-CTA partial buffer + second stage", split)
            elif not sums:
                yield self.decide(facts, "atomics", added)
            return
        if left := left_by_rows(facts):
            yield self.decide(facts, "per-CTA partial buffer + second stage", left)
            return
        owned = [s for s in facts.stores if not s.is_atomic and self._column(facts, s)]
        if owned and not any(s.is_atomic for s in facts.stores):
            yield self.decide(facts, "exclusive ownership", owned)
            return
        where: list[Where] = [n for loop, s in segments_summed(facts) for n in (loop.node, s)]
        where += [n for loop, store in segments_of_threads(facts) for n in (loop.node, store)]
        if where:
            yield self.decide(facts, "exclusive ownership", where)
            return
        if onto := [n for s in facts.stores for n in self._added_onto(facts, s)]:
            yield self.decide(facts, "exclusive ownership", onto)
            return
        for loop in facts.loops:
            for state in loop.of(Role.SUM):
                stores = [
                    a
                    for a in facts.stored_in(state.result)
                    if not a.node.inside(loop.node)
                    and self._own(a)
                    and facts.graph.core(a.value) == state.result
                ]
                items = [a for a in facts.stores if a.node.inside(loop.node)]
                if stores and items and may_walk_rows(facts, loop):
                    where = [
                        facts.graph.producer(state.init),
                        facts.graph.producer(state.next),
                        *stores,
                    ]
                    yield self.decide(facts, "per-CTA partial buffer + second stage", where)
                    return

    def _column(self, facts: Facts, store: Access) -> bool:
        """True for what the threads of a block add, together, onto an array: the block's own
        columns of rows that lie a stride apart."""
        onto = [a for a in facts.loads if a.array == store.array and a.index == store.index]
        if not facts.of_threads or not self._own(store):
            return False
        if not any(facts.graph.rests_on(store.value, a.node) for a in onto):
            return False
        if not (steps(facts) or tree_steps(facts) or partials_joined(facts)):
            return False
        return bool(column_sums(facts, store))

    def _added_onto(self, facts: Facts, store: Access) -> list[Access]:
        """A store, at places that are loaded for its lanes, of what lies there with something
        added to it, and the load of that: nothing but the loaded numbers keeps blocks apart."""
        placed = any(
            atom.kind is AtomKind.LOADED and facts.types.shape(atom.value)
            for index in store.index
            for atom in index.atoms()
        )
        added = facts.graph.producer(facts.graph.through(store.value, HELD))
        if facts.of_threads or store.is_atomic or not placed or added is None:
            return []
        if added.op.kind not in (OpKind.ADD, OpKind.FMA):
            return []
        before = (a for value in added.op.inputs for a in facts.held_loads(value))
        same = [a for a in before if a.array == store.array and a.index == store.index]
        return [*same[:1], store] if same else []

    def _grown(self, facts: Facts, store: Access) -> bool:
        """A store of what a loop of products summed."""
        loops = [loop.node for loop in facts.loops if loop.of(Role.ACCUMULATOR)]
        return any(facts.graph.rests_on(store.value, loop) for loop in loops)

    def _tile(self, facts: Facts, access: Access) -> bool:
        return bool(facts.types.shape(access.value)) and bool(facts.feeding(access.value))

    def _everywhere(self, facts: Facts, access: Access) -> bool:
        """True when threads of all blocks add numbers with a point to places that no block owns."""
        number = may_be_float(facts.types.dtype(access.value))
        own = any(index.has(AtomKind.BLOCK) for index in access.index)
        return facts.of_threads and number and not own

    def _own(self, access: Access) -> bool:
        return any(a.kind is AtomKind.BLOCK for e in access.index for a in e.top())
