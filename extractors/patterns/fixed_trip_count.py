"""A loop whose trip count is known although the valid range is not."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_threads import FLASH_THREADS, PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import against_extent, sides
from kb.analysis.loops import Loop
from kb.analysis.splits import fixed_length, pieces
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


_MASKED = vary(
    _SPLIT,
    ("if last > first:", "if size > 0:"),
    (
        "            acc = ct.mma(s.",
        "            at = first + j * TN + ct.arange(TN, dtype=ct.int32)\n"
        "            s = ct.where(at[None, :] < size, s, -1.0e6)\n            acc = ct.mma(s.",
    ),
)
_MASKED_POINTER = vary(_SPLIT_POINTER, ("if last > first:", "if size > 0:"))


class FixedTripCount(Pattern):
    """A loop over a block's own range runs over its full compile-time length; a guard around it
    compares the clipped end of the range, or masks compare positions inside."""

    name = "fixed-trip-count-per-split"
    axis = "loop_extent"
    source = "tilelore catalogue, P24; Flash-Decoding: splits of equal length"
    matches = (
        Case(_SPLIT, "fixed cdiv(LEN,TILE) + mask"),
        Case(_SPLIT_POINTER, "fixed cdiv(LEN,TILE) + mask"),
        Case(_SPLIT_THREADS, "fixed cdiv(LEN,TILE) + mask"),
        Case(_MASKED, "fixed cdiv(LEN,TILE) + mask"),
        Case(_MASKED_POINTER, "fixed cdiv(LEN,TILE) + mask"),
    )
    near_misses = (
        NearMiss(
            vary(_MASKED, ("            s = ct.where(at[None, :] < size, s, -1.0e6)\n", "")),
            why="no position is compared with an end",
        ),
        NearMiss(
            vary(_MASKED_POINTER, (", mask=at[:, None] < last, other=0.0", "")),
            why="no position is compared with an end",
        ),
        NearMiss(
            vary(_MASKED_POINTER, ("at = first + j", "at = j")),
            why="every block takes the same positions",
        ),
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
            if not fixed_length(facts, loop):
                continue
            clipped = [n for g in facts.guards(loop.node) for n in self._clips(facts, loop, g)]
            clipped = clipped or self._masked(facts, loop)
            if clipped:
                where: list[Where] = [loop.node, *clipped]
                yield self.decide(facts, "fixed cdiv(LEN,TILE) + mask", where)

    def _masked(self, facts: Facts, loop: Loop) -> list[Node]:
        """Comparisons of the positions of a block's piece with an end, in a loop over the piece."""
        step = facts.values.expr(loop.induction).atom
        if step is None or all(piece.loop is not loop for piece in pieces(facts)):
            return []
        return [
            n
            for n in facts.graph.of(*COMPARISONS)
            if n.inside(loop.node) and against_extent(facts, n)
            if any(step in side.atoms() for side in sides(facts, n))
        ]

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
