"""The last block of a grid that ends adds up what the others left."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.accesses import Access
from kb.analysis.arrivals import arrivals
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import ATOMICS, COMPARISONS, OpKind

_LAST = """__global__ void total(const float* x, float* parts, unsigned* done, float* out, int n) {
    __shared__ bool last;
    float sum = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(done, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        float all = 0.f;
        for (int b = 0; b < gridDim.x; ++b) all += parts[b];
        out[0] = all;
    }
}
"""  # noqa: E501
_LAST_POINTER = (
    POINTER
    + """
@triton.jit
def total(x, parts, done, out, n, B: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(parts + tl.program_id(0), tl.sum(tl.load(x + at, mask=at < n, other=0.0), axis=0))
    before = tl.atomic_add(done, 1)
    if before == tl.num_programs(0) - 1:
        all = tl.sum(tl.load(parts + tl.arange(0, B)), axis=0)
        tl.store(out, all)
"""
)


LOADED_POINTER = vary(
    _LAST_POINTER,
    (
        "    before = tl.atomic_add(done, 1)\n",
        "    tl.atomic_add(done, 1)\n    n = tl.load(done)\n",
    ),
    ("if before == tl.num_programs(0) - 1", "if n == tl.num_programs(0)"),
)


_BESIDE_POINTER = vary(
    _LAST_POINTER,
    ("tl.store(parts + tl.program_id(0), ", "tl.atomic_add(done + 1, "),
    ("tl.sum(tl.load(parts + tl.arange(0, B)), axis=0)", "tl.load(done + 1)"),
)
"""Sums beside the counter, in one array."""
GIVEN_POINTER = vary(_LAST_POINTER, ("before == tl.num_programs(0) - 1", "before == B - 1"))
GIVEN_TILE = (
    TILE
    + """
@ct.kernel
def total(x, parts, done, out, B: Int, T: Int):
    own = ct.bid(0)
    part = ct.sum(ct.load(x, index=(own,), shape=(T,)), 0, keepdims=False)
    ct.scatter(parts, own, part)
    before = ct.atomic_add(done, 0, 1)
    if before != B - 1:
        return
    every = ct.load(parts, index=(0,), shape=(B,))
    ct.scatter(out, 0, ct.sum(every, 0, keepdims=False))
"""
)
_ADDED = "partial buffer, the last block adds up"
_FINISHED = "atomics, the last block finishes"


class LastBlock(Pattern):
    """What a counter held before this block added to it, or holds now, is compared with the number
    of blocks, and partial results, or sums of all blocks, are loaded where that was all but
    one."""

    name = "last-block-adds-up-the-partials"
    axis = "cross_cta_reduction"
    source = "NVIDIA, CUDA C++ Programming Guide, memory fence functions: sum of an array"
    matches = (
        Case(_LAST, _ADDED),
        Case(_LAST_POINTER, _ADDED),
        Case(LOADED_POINTER, _ADDED),
        Case(_BESIDE_POINTER, _FINISHED),
        Case(GIVEN_POINTER, _ADDED),
        Case(GIVEN_TILE, _ADDED),
    )
    near_misses = (
        NearMiss(
            vary(_LAST, ("== gridDim.x - 1", "== 7")),
            why="the counter is compared with a number of its own",
        ),
        NearMiss(
            vary(_LAST_POINTER, ("if before == tl.num_programs(0) - 1:", "if before == 0:")),
            why="the first block is picked out",
        ),
        NearMiss(
            vary(
                _LAST,
                ("all += parts[b];", "all += 1.f;"),
                ("out[0] = all;", "out[0] = done[1] + all;"),
            ),
            why="the last block reads no more than what counts",
        ),
        NearMiss(
            vary(GIVEN_POINTER, ("before == B - 1", "before == 0")),
            why="the first block is picked out",
        ),
        NearMiss(
            vary(
                GIVEN_TILE, ("ct.load(parts, index=(0,), shape=(B,))", "ct.load(x, 0, shape=(T,))")
            ),
            why="nothing of other blocks is read",
        ),
        NearMiss(ADD_THREADS, why="no block waits for another"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        kinds = {node.op.kind for node in facts.graph.of(*ATOMICS)}
        if not kinds:
            return
        where: list[Node] = []
        shared = {a.array for a in facts.stores if a.is_atomic}
        for node in facts.graph.of(*COMPARISONS):
            counted = [
                found
                for one, other in (node.op.inputs[:2], node.op.inputs[1::-1])
                if facts.values.expr(other).has(AtomKind.BLOCKS)
                for found in (
                    *facts.graph.roots(one, *kinds),
                    *(a.node for a in facts.held_loads(one) if a.array in shared),
                )
            ]
            if counted and self._loads(facts, node, counted):
                where += [*counted, node]
        if where:
            sums = self._sums(facts, where)
            yield self.decide(facts, _FINISHED if sums else _ADDED, [*where, *sums])
        elif counted := self._given(facts):
            yield self.decide(facts, _ADDED, counted)

    def _given(self, facts: Facts) -> list[Node]:
        """The same in a tile program that is given how many blocks there are: what counts them,
        and where they store what is loaded afterwards."""
        kept = {a.array: a for a in facts.stores if not a.is_atomic}
        return [
            node
            for added, test in arrivals(facts)
            for later in facts.loads
            if later.node.index > test.index and later.array in kept
            if kept[later.array].node.index < added.index
            for node in (kept[later.array].node, added, test)
        ]

    def _sums(self, facts: Facts, counted: list[Node]) -> list[Access]:
        """Sums that all blocks add to, where the last block loads nothing else but them."""
        added = [a for a in facts.stores if a.is_atomic and a.node not in counted]
        last = [a for a in facts.loads if by_last(facts, a)]
        places = {(a.array, a.index) for a in added}
        own = bool(last) and all((a.array, a.index) in places for a in last)
        return [a for a in added if own and any(a.array == b.array for b in last)]

    def _loads(self, facts: Facts, test: Node, counted: list[Node]) -> bool:
        """Whether a branch on the comparison, perhaps handed on, loads: not what counts blocks."""
        counters = {a.array for a in facts.accesses if a.node in counted}
        summed = {(a.array, a.index) for a in facts.stores if a.is_atomic and a.node not in counted}
        branches = [n for n in facts.graph.downstream(test.result, 40) if n.op.kind == OpKind.IF]
        return any(
            a.node.inside(branch) and (a.array not in counters or (a.array, a.index) in summed)
            for branch in branches
            if facts.graph.rests_on(branch.op.inputs[0], test)
            for a in facts.loads
        )


def by_last(facts: Facts, access: Access) -> bool:
    """True when the block that comes last, by a count of all blocks, makes an access."""
    return any(
        side.has(AtomKind.BLOCKS)
        for guard in facts.guards(access.node)
        for test in comparisons(facts, guard.op.inputs[0])
        for side in sides(facts, test)
    )
