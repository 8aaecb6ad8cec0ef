"""A reduction is divided among blocks; a second stage merges the parts."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import DECODE_PART, PRODUCT_DESCRIPTOR
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, PARTIAL_SUM
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import BULK, Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import between_lanes, partial_reductions
from kb.analysis.loops import Loop, Role, persistent
from kb.analysis.symbolic import Atom, AtomKind, Expr, mul
from kb.evidence import Decision
from kb.ops import COMPARISONS, OpKind

_SPLIT = vary(
    PRODUCT,
    ("TK: Int):", "TK: Int, PER: Int):\n    z = ct.bid(2)"),
    ("for k in range(ct.num_tiles(a, axis=1, shape=(TM, TK))):", "for k in range(z * PER, (z + 1) * PER):"),  # noqa: E501
    ("ct.store(out, index=(m, n), tile=ct.astype(acc, out.dtype))",
     "ct.store(out, index=(z, m, n), tile=ct.reshape(ct.astype(acc, out.dtype), (1, TM, TN)))"),
)  # fmt: skip
_ATOMIC = vary(
    _SPLIT,
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


_SPLIT_THREADS = vary(
    PRODUCT_THREADS,
    ("int M, int N, int K)", "int M, int N, int K, int per)"),
    (
        "for (int t = 0; t < K; t += T)",
        "for (int t = blockIdx.z * per; t < (blockIdx.z + 1) * per; t += T)",
    ),
    ("out[m * N + n]", "out[(blockIdx.z * M + m) * N + n]"),
)
_OWN_PART = vary(
    DECODE_PART,
    ("range(low, high, T)", "range(tl.cdiv(high - low, T))"),
    ("at = first + tl.arange(0, T)", "at = low + first * T + tl.arange(0, T)"),
    ("chunk = tl.cdiv(count, tl.num_programs(1))", "chunk = 4 * T"),
)
_VECTOR = (
    POINTER
    + """
@triton.jit
def gemv(a, b, out, N, TK: tl.constexpr, TN: tl.constexpr):
    n = tl.program_id(0) * TN + tl.arange(0, TN)
    k = tl.program_id(1) * TK + tl.arange(0, TK)
    x = tl.load(a + k)
    y = tl.load(b + k[:, None] * N + n[None, :])
    tl.atomic_add(out + n, tl.sum(x[:, None] * y, axis=0))
"""
)


class SplitReduction(Pattern):
    """A block id that chooses a range of the reduced axis also chooses where the partial result
    goes."""

    name = "split-k-split-kv-with-second-stage-combine"
    axis = "reduction_split"
    source = 'CUTLASS, "Efficient GEMM in CUDA", Split K; Dao et al., Flash-Decoding (2023)'
    matches = (
        Case(_SPLIT, "split, partials stored for a second stage"),
        Case(_ATOMIC, "split with atomics"),
        Case(_SPLIT_POINTER, "split, partials stored for a second stage"),
        Case(_ATOMIC_POINTER, "split with atomics"),
        Case(PARTIAL_SUM, "split, partials stored for a second stage"),
        Case(
            vary(PARTIAL_SUM, ("tl.store(parts + own,", "tl.atomic_add(parts,")),
            "split with atomics",
        ),
        Case(_VECTOR, "split with atomics"),
        Case(_SPLIT_THREADS, "split, partials stored for a second stage"),
        Case(DECODE_PART, "split, partials stored for a second stage"),
        Case(_OWN_PART, "split, partials stored for a second stage"),
    )
    near_misses = (
        NearMiss(
            vary(_VECTOR, ("k = tl.program_id(1) * TK + ", "k = ")),
            why="every block sums the whole axis",
        ),
        NearMiss(LAYER_NORM_POINTER, why="every row is reduced by one block"),
        NearMiss(PRODUCT, why="one block walks the whole reduced axis"),
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
        NearMiss(PRODUCT_POINTER, why="one block walks the whole reduced axis"),
        NearMiss(PRODUCT_THREADS, why="one block walks the whole reduced axis"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        parts = partial_reductions(facts)
        atomics = [s for s in facts.stores if s.is_atomic]
        if parts:
            value = "split with atomics" if atomics else "split, partials stored for a second stage"
            yield self.decide(facts, value, [*parts, *(atomics or facts.stores)])
        elif not facts.contractions:
            added = [n for s in atomics for n in self._summed(facts, s)]
            if added:
                yield self.decide(facts, "split with atomics", [*added, *atomics])
        if any(between_lanes(facts, n) for n in facts.graph.of(*COMPARISONS)):
            return
        for loop in facts.loops:
            if not facts.contractions and not loop.of(Role.RUNNING_MAXIMUM):
                continue
            grown = loop.of(Role.ACCUMULATOR, Role.RUNNING_SUM)
            bounds = self._range(facts, loop)
            if not grown or not bounds:
                continue
            stores = [s for c in grown for s in facts.stored_in(c.result)]
            atomics = [s for s in stores if s.is_atomic]
            if atomics:
                yield self.decide(facts, "split with atomics", [*bounds, *atomics])
            elif stores:
                yield self.decide(
                    facts, "split, partials stored for a second stage", [*bounds, *stores]
                )
            return

    def _summed(self, facts: Facts, store: Access) -> list[Node]:
        """Sums of products whose tiles a block id places that the sum's own place knows nothing
        of."""
        own = _blocks(store)
        return [
            total
            for total in facts.graph.roots(store.value, OpKind.REDUCE_SUM)
            if len(
                {
                    a.array
                    for a in facts.feeding(total.op.inputs[0])
                    if facts.types.shape(a.value) and _blocks(a) - own
                }
            )
            > 1
        ]

    def _range(self, facts: Facts, loop: Loop) -> list[Node]:
        """What makes the range of the loop, or the index of its loads, depend on a block id."""
        if persistent(loop, facts.values) or loop.induction is None:
            return []
        if loop.low is not None and facts.values.expr(loop.low).has(AtomKind.BLOCK):
            made = facts.graph.producer(facts.graph.core(loop.low))
            return [n for n in (made, loop.range) if n is not None]
        shifted = [
            a.node
            for a in facts.loads
            if a.node.inside(loop.node) and self._shifted(facts, loop, a)
        ]
        return shifted or self._own_part(facts, loop)

    def _shifted(self, facts: Facts, loop: Loop, access: Access) -> bool:
        step = facts.values.expr(loop.induction).atom
        if access.mode not in BULK:
            return False
        return any(step in set(e.top()) and e.has(AtomKind.BLOCK) for e in access.index)

    def _own_part(self, facts: Facts, loop: Loop) -> list[Node]:
        """Comparisons of positions that a loop counts from the begin of the block's part, where no
        store takes those positions for its own."""
        step = facts.values.expr(loop.induction).atom
        return [
            node
            for node in facts.graph.of(*COMPARISONS)
            if node.inside(loop.node) and step is not None
            for position in map(facts.values.expr, node.op.inputs)
            for lane in position.top()
            if lane.kind is AtomKind.LANE
            and position.coefficient(lane).constant == 1
            and position.coefficient(step) == lane.args[0]
            for block in position.top()
            if block.kind is AtomKind.BLOCK
            and not any(_tiles(s, block, position.coefficient(block)) for s in facts.stores)
        ]


def _tiles(store: Access, block: Atom, part: Expr) -> bool:
    """True when a store writes the part of a block, lane by lane."""
    return any(
        mul(index.coefficient(lane), part) == index.coefficient(block)
        for index in store.index
        for lane in index.top()
        if lane.kind is AtomKind.LANE
    )


def _blocks(access: Access) -> set[Atom]:
    """The block ids that an access is placed by."""
    return {a for index in access.index for a in index.atoms() if a.kind is AtomKind.BLOCK}
