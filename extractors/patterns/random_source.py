"""Where random numbers come from."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE
from extractors.patterns.cases_rows import ADD_POINTER, TURN
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Graph, Node
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_PHILOX = (
    POINTER
    + """
@triton.jit
def drop(x, out, n, p, seed, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    keep = tl.rand(seed, at) > p
    v = tl.load(x + at, mask=at < n)
    tl.store(out + at, tl.where(keep, v / (1 - p), 0.0), mask=at < n)
"""
)
_HASH = (
    POINTER
    + """
@triton.jit
def drop(x, out, n, p, seed, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    h = at ^ seed
    h = (h ^ (h >> 16)) * 73244475
    h = (h ^ (h >> 16)) & 65535
    keep = h > p
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=at < n), 0.0), mask=at < n)
"""
)
DRAWS = (OpKind.RAND, OpKind.RANDN, OpKind.RAND4, OpKind.RANDINT, OpKind.RANDINT4, OpKind.PHILOX)


_HASH_TILE = (
    TILE
    + """
@ct.kernel
def drop(x, out, p: float, seed: Int, T: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    h = at ^ seed
    h = (h ^ (h >> 16)) * 73244475
    h = (h ^ (h >> 16)) & 65535
    keep = ct.astype(h, ct.float32) > p
    ct.scatter(out, at, ct.where(keep, ct.gather(x, at), 0.0))
"""
)


_HASH_THREADS = """__global__ void drop(const float* x, float* out, int n, unsigned p, unsigned seed) {
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned h = at ^ seed;
    h = (h ^ (h >> 16)) * 73244475u;
    h = (h ^ (h >> 16)) & 65535u;
    if (at < n) out[at] = h > p ? x[at] : 0.f;
}
"""  # noqa: E501


_ROUNDS_THREADS = """__global__ void drop(const float* x, float* out, int n, unsigned p, unsigned seed) {
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned key = seed, high = 0;
    for (int i = 0; i < 7; ++i) {
        unsigned low = at;
        at = __umulhi(3528531795u, high) ^ key ^ low;
        high = __umulhi(3449720151u, low) ^ key;
        key += 2654435769u;
    }
    int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place < n) out[place] = at > p ? x[place] : 0.f;
}
"""  # noqa: E501
_SWIZZLED = """__global__ void turn(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int row = at >> 3;
    int place = row * 8 + ((at & 7) ^ (row & 7));
    int back = place ^ (row >> 1);
    if (at < n) out[at] = back < n ? x[back] : 0.f;
}
"""


class RandomSource(Pattern):
    """A generator of the language, or a chain of shifts and exclusive ors of a position."""

    name = "counter-based-hash-rng"
    axis = "rng"
    source = "Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (2011)"
    matches = (
        Case(_PHILOX, "Philox state"),
        Case(_HASH, "stateless hash(offset,seed)"),
        Case(_HASH_TILE, "stateless hash(offset,seed)"),
        Case(_HASH_THREADS, "stateless hash(offset,seed)"),
        Case(_ROUNDS_THREADS, "stateless hash(offset,seed)"),
    )
    near_misses = (
        NearMiss(ADD_POINTER, why="nothing is random"),
        NearMiss(TURN, why="nothing is random"),
        NearMiss(ADD_THREADS, why="nothing is random"),
        NearMiss(_SWIZZLED, why="the bits of one number turn the places of another"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        draws = facts.graph.of(*DRAWS)
        if draws:
            yield self.decide(facts, "Philox state", draws)
            return
        mixed = [n for n in facts.graph.of(OpKind.BIT_XOR) if self._mixes(facts, n.result)]
        if not any(_scatters(facts.graph, n) for n in mixed):
            return
        tests = [
            n
            for n in facts.graph.of(OpKind.SELECT)
            for m in mixed
            if facts.graph.rests_on(n.op.operand("condition"), m)
        ]
        tests += [
            a.node
            for a in facts.accesses
            if any(facts.graph.rests_on(a.mask, m) for m in mixed) and not a.is_store
        ]
        if len(mixed) >= 2 and tests:
            yield self.decide(facts, "stateless hash(offset,seed)", [*mixed, *tests])

    def _mixes(self, facts: Facts, value: str) -> bool:
        """An exclusive or of something shifted, or unknown, that is made from positions."""
        lanes = facts.graph.roots(value, OpKind.ARANGE)
        shifts = facts.graph.roots(value, OpKind.SHIFT_RIGHT, OpKind.SHIFT_LEFT)
        return bool(lanes) and (bool(shifts) or facts.values.expr(value).has(AtomKind.OPAQUE))


def _scatters(graph: Graph, node: Node) -> bool:
    """Whether a number is mixed with its own higher bits, or with those of a product."""
    if graph.roots(node.result, OpKind.UMULHI):
        return True
    one, other = (graph.core(v) for v in node.op.inputs[:2])
    return any(
        made is not None
        and made.op.kind in (OpKind.SHIFT_RIGHT, OpKind.SHIFT_LEFT)
        and graph.core(made.op.inputs[0]) == rest
        for made, rest in ((graph.producer(one), other), (graph.producer(other), one))
    )
