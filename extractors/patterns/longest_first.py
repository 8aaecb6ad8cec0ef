"""In which order tiles of unequal work are taken up."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_bounds import CHUNK_SUM
from extractors.patterns.cases_pointer import DECODE_PART, FLASH_POINTER
from extractors.patterns.cases_threads import FLASH_THREADS, PRODUCT_THREADS
from extractors.patterns.up_to_the_diagonal import LOWER_THREADS, diagonal_loops
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.last_part import last_is_shorter, placed
from kb.analysis.loops import Loop, persistent
from kb.analysis.stream_k import streams
from kb.analysis.symbolic import AtomKind, Expr, sub
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, READS, OpKind

_REVERSED = vary(
    ATTENTION, ("    x = ct.bid(0)\n", "    x = ct.cdiv(a.shape[2], TM) - 1 - ct.bid(0)\n")
)


_REVERSED_PART = vary(
    ATTENTION,
    ("    x = ct.bid(0)\n", "    x = ct.cdiv(a.shape[2], TM) - 1 - ct.bid(0) % 64\n"),
)
_PART = vary(
    DECODE_PART,
    ("range(low, high, T)", "range(tl.cdiv(high - low, T))"),
    ("at = first + tl.arange(0, T)", "at = low + first * T + tl.arange(0, T)"),
    ("chunk = tl.cdiv(count, tl.num_programs(1))", "chunk = 4 * T"),
    (
        "score = tl.sum(row[None, :] * keys, 1) * rate",
        "score = tl.sum(tl.dot(row[None, :], tl.trans(keys)), 0) * rate",
    ),
)

_FROM_BELOW = LOWER_THREADS.replace("int row = blockIdx.x", "int row = n - 1 - blockIdx.x")


_ROWS = vary(
    ATTENTION,
    ("    x = ct.bid(0)\n", "    x = ct.bid(0)\n    tiles = (x + 1 + ct.bid(2)) // TN\n"),
    ("    for j in range(0, last)", "    for j in range(0, tiles)"),
)


class LongestFirst(Pattern):
    """The block's work depends on its tile index; that index is the block id, or counted from the
    end."""

    name = "longest-processing-time-first-l2-head-swizzle-for-causal-work"
    axis = "rasterization"
    source = "Graham, Bounds on Multiprocessing Timing Anomalies (1969); FlashAttention-3 scheduler"
    matches = (
        Case(ATTENTION, "natural order"),
        Case(_REVERSED, "LPT reversed q-tiles"),
        Case(_REVERSED_PART, "LPT reversed q-tiles"),
        Case(FLASH_POINTER, "natural order"),
        Case(FLASH_THREADS, "natural order"),
        Case(_FROM_BELOW, "LPT reversed q-tiles"),
        Case(_ROWS, "natural order"),
    )
    near_misses = (
        NearMiss(
            vary(
                ATTENTION,
                (
                    "    for j in range(0, last)",
                    "    for j in range(x * TM // TN, x * TM // TN + 4)",
                ),
            ),
            why="every block takes four rounds",
        ),
        NearMiss(LOWER_THREADS, why="rows in order", value="LPT reversed q-tiles"),
        NearMiss(PRODUCT, why="every tile costs the same"),
        NearMiss(PRODUCT_POINTER, why="every tile costs the same"),
        NearMiss(PRODUCT_THREADS, why="every tile costs the same"),
        NearMiss(_PART, why="the part of a block is clipped to the end, and all are alike"),
        NearMiss(CHUNK_SUM, why="all chunks are alike but the last"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for loop in diagonal_loops(facts)[:1]:
            sums = [n for n, e in self._counted(facts, loop.high) if _descends(e)]
            if sums:
                yield self.decide(facts, "LPT reversed q-tiles", sums)
        for loop in facts.loops:
            if persistent(loop, facts.values) or facts.walks_chunk(loop) or streams(facts):
                continue
            if not any(p.inside(loop.node) for p in facts.contractions):
                continue
            bounds = [n for b in (loop.low, loop.high) for n in self._uneven(facts, b)]
            if not bounds or _alike(facts, loop):
                continue
            if self._shared_out(facts, loop):
                continue
            down = [n for n in bounds if _descends(facts.values.expr(n.result))]
            turns = [
                n
                for n in facts.graph.of(OpKind.SUB)
                if _descends(facts.values.expr(n.result))
                and any(facts.graph.rests_on(b.result, n) for b in down)
            ]
            ids = [
                n
                for n in facts.graph.of(OpKind.BLOCK_ID)
                if any(facts.graph.rests_on(b.result, n) for b in bounds)
            ]
            value = "LPT reversed q-tiles" if down else "natural order"
            yield self.decide(facts, value, [*ids, *bounds, *turns])
            return

    def _uneven(self, facts: Facts, bound: str | None) -> list[Node]:
        """Operations of a bound that scale the block id by a tile."""
        if bound is None:
            return []
        found = []
        for node in facts.graph.upstream(bound, lambda n: n.op.kind in CONTRACTIONS | READS):
            if node.op.kind not in (
                OpKind.MUL,
                OpKind.ADD,
                OpKind.MINIMUM,
                OpKind.CEIL_DIV,
                OpKind.FLOOR_DIV,
            ):
                continue
            expr = facts.values.expr(node.result)
            scaled = any(len(f) == 2 and any(placed(a) for a in f) for f, _ in expr.terms)
            if scaled or self._in_tiles(facts, node):
                found.append(node)
        return found

    def _in_tiles(self, facts: Facts, node: Node) -> bool:
        """Whether the block id, perhaps moved, is divided by a compile-time parameter: the row of a
        block takes the tiles before it."""
        if node.op.kind not in (OpKind.CEIL_DIV, OpKind.FLOOR_DIV):
            return False
        row, tile = (facts.values.expr(v) for v in node.op.inputs[:2])
        moved = any(len(f) == 1 and placed(f[0]) and n == 1 for f, n in row.terms)
        return moved and tile.atom is not None and tile.atom.text in facts.constexprs

    def _counted(self, facts: Facts, bound: str | None) -> list[tuple[Node, Expr]]:
        """Sums on the way to a bound, with their meaning."""
        above = facts.graph.upstream(bound or "")
        sums = [n for n in above if n.op.kind in (OpKind.ADD, OpKind.SUB)]
        return [(n, facts.values.expr(n.result)) for n in sums]

    def _shared_out(self, facts: Facts, loop: Loop) -> bool:
        """True for the end of a block's own part less its begin: parts are alike but for the
        last."""
        made = [
            facts.values.expr(n.result)
            for b in (loop.low, loop.high)
            if b is not None
            for n in facts.graph.upstream(b, lambda n: n.op.kind in CONTRACTIONS)
            if n.op.kind == OpKind.SUB
        ]
        return any(
            end.kind is AtomKind.MINIMUM and any(e.has(AtomKind.BLOCK) for e in end.args)
            for expr in made
            if _descends(expr)
            for end in expr.top()
        )


def _alike(facts: Facts, loop: Loop) -> bool:
    """True when every block takes as many rounds, from where it stands, but for the last."""
    ends = [facts.values.expr(b) for b in (loop.low, loop.high) if b is not None]
    if any(last_is_shorter(end) for end in ends):
        return True
    if len(ends) < 2:
        return False
    last = ends[1].atom
    if not sub(ends[1], ends[0]).has(AtomKind.BLOCK):
        return True
    if last is None or last.kind is not AtomKind.MINIMUM or not ends[0].has(AtomKind.BLOCK):
        return False
    placed = [end for end in last.args if end.has(AtomKind.BLOCK)]
    return len(placed) == 1 and not sub(placed[0], ends[0]).has(AtomKind.BLOCK)


def _descends(expr: Expr) -> bool:
    return any(n < 0 and any(placed(a) for a in f) for f, n in expr.terms)
