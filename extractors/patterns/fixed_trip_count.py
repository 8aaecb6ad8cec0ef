"""A loop whose trip count is known although the valid range is not."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_threads import FLASH_THREADS, PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import COMPARISONS, OpKind

_SPLIT = (
    TILE
    + """
@ct.kernel
def part(a, b, out, size: int, LEN: Int, TM: Int, TN: Int, W: Int):
    split = ct.bid(0)
    first = split * LEN
    last = ct.minimum(first + LEN, size)
    q = ct.load(a, index=(0, 0), shape=(TM, W))
    acc = ct.full((TM, W), 0.0, dtype=ct.float32)
    if last > first:
        for j in range(ct.cdiv(LEN, TN)):
            k = ct.load(b, index=(first // TN + j, 0), shape=(TN, W))
            s = ct.mma(q, ct.transpose(k), ct.full((TM, TN), 0.0, dtype=ct.float32))
            acc = ct.mma(s.astype(a.dtype), k, acc)
    ct.store(out, index=(split, 0), tile=acc)
"""
)
_EXACT = vary(_SPLIT, ("range(ct.cdiv(LEN, TN))", "range(ct.cdiv(last - first, TN))"))


_SPLIT_POINTER = (
    POINTER
    + """
@triton.jit
def part(a, b, out, size, LEN: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr, W: tl.constexpr):
    split = tl.program_id(0)
    first = split * LEN
    last = tl.minimum(first + LEN, size)
    rows = tl.arange(0, TM)
    lane = tl.arange(0, W)
    q = tl.load(a + rows[:, None] * W + lane[None, :])
    acc = tl.zeros([TM, W], tl.float32)
    if last > first:
        for j in range(tl.cdiv(LEN, TN)):
            at = first + j * TN + tl.arange(0, TN)
            k = tl.load(b + at[:, None] * W + lane[None, :], mask=at[:, None] < last, other=0.0)
            acc = tl.dot(tl.dot(q, tl.trans(k)).to(tl.float16), k, acc)
    tl.store(out + split * TM * W + rows[:, None] * W + lane[None, :], acc)
"""
)
_EXACT_POINTER = vary(
    _SPLIT_POINTER, ("range(tl.cdiv(LEN, TN))", "range(tl.cdiv(last - first, TN))")
)


_SPLIT_THREADS = vary(
    PRODUCT_THREADS,
    ("template <int T>", "template <int T, int LEN>"),
    (
        "    float acc = 0.f;",
        "    int begin = blockIdx.z * LEN;\n    int end = min(begin + LEN, K);\n    float acc = 0.f;\n    if (end > begin)",  # noqa: E501
    ),
    (
        "for (int t = 0; t < K; t += T) {",
        "for (int i = 0; i < LEN / T; ++i) {\n        int t = begin + i * T;",
    ),
)


class FixedTripCount(Pattern):
    """A guard compares the clipped end of a block's range, the loop inside runs over its full
    compile-time length."""

    name = "fixed-trip-count-per-split"
    axis = "loop_extent"
    source = "tilelore catalogue, P24; Flash-Decoding: splits of equal length"
    matches = (
        Case(_SPLIT, "fixed cdiv(LEN,TILE) + mask"),
        Case(_SPLIT_POINTER, "fixed cdiv(LEN,TILE) + mask"),
        Case(_SPLIT_THREADS, "fixed cdiv(LEN,TILE) + mask"),
    )
    near_misses = (
        NearMiss(_EXACT, why="the loop ends where the range ends"),
        NearMiss(ATTENTION, why="the bound follows the extents"),
        NearMiss(ATTENTION_POINTER, why="the bound follows the extents"),
        NearMiss(PRODUCT, why="the bound is an extent"),
        NearMiss(_EXACT_POINTER, why="the loop ends where the range ends"),
        NearMiss(FLASH_THREADS, why="the bound follows the extents"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for loop in facts.loops:
            if not any(p.inside(loop.node) for p in facts.contractions):
                continue
            if not self._fixed(facts, loop):
                continue
            clipped = [n for g in facts.guards(loop.node) for n in self._clips(facts, loop, g)]
            if clipped:
                where: list[Where] = [loop.node, *clipped]
                yield self.decide(facts, "fixed cdiv(LEN,TILE) + mask", where)

    def _fixed(self, facts: Facts, loop: Loop) -> bool:
        """True when the bounds need compile-time parameters only."""
        high = facts.values.expr(loop.high)
        low = facts.values.expr(loop.low)
        known = facts.values.compile_time
        return bool(set(high.atoms())) and known(high) and known(low)

    def _clips(self, facts: Facts, loop: Loop, guard: Node) -> list[Node]:
        """The minimum of a block's range with a runtime extent that a guard compares."""
        tests = facts.graph.roots(guard.op.inputs[0], *COMPARISONS)
        found = []
        for node in facts.graph.roots(guard.op.inputs[0], OpKind.MINIMUM):
            ends = [facts.values.expr(v) for v in node.op.inputs[:2]]
            length = {a for a in facts.values.expr(loop.high).atoms() if not a.args}
            own = [e for e in ends if e.has(AtomKind.BLOCK) and length & set(e.atoms())]
            if tests and len(own) == 1 and not all(map(facts.values.compile_time, ends)):
                found.append(node)
        return found
