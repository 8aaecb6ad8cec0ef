"""Walks over tiles that end where loaded sizes, or the sizes of a problem, say."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT, PRODUCT_PERSISTENT, PRODUCT_POINTER, vary
from extractors.patterns.cases_kept import FOLDED
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.multi_problem_walk import GROUPED_POINTER
from kb.analysis.facts import Facts
from kb.analysis.graph import COPIES, Node
from kb.analysis.loops import Loop, persistent
from kb.analysis.problem_walks import problem_walk
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import REDUCTIONS, OpKind

_COUNTS = COPIES | {
    OpKind.CEIL_DIV, OpKind.FLOOR_DIV, OpKind.DIV, OpKind.ADD, OpKind.SUB, OpKind.MUL,
}  # fmt: skip
LOADED_COUNT = vary(
    PRODUCT_PERSISTENT,
    ("a, b, out, M: int,", "a, b, out, size,"),
    (
        "    rows = ct.cdiv(M, TM)",
        "    M = ct.load(size, index=(0,), shape=(1,)).item()\n    rows = ct.cdiv(M, TM)",
    ),
)


class LoadedTileCount(Pattern):
    """Blocks walk over tiles up to a number that is counted from loaded sizes; a loop has as many
    rounds as loaded numbers are added up to; or a block takes those of its tiles that lie before
    the running end of each problem."""

    name = "tiles-counted-on-the-device"
    axis = "loop_extent"
    source = "Triton documentation, Group GEMM tutorial"
    matches = (
        Case(LOADED_COUNT, "clipped to valid range"),
        Case(GROUPED_POINTER, "clipped to valid range"),
        Case(FOLDED, "clipped to valid range"),
    )
    near_misses = (
        NearMiss(PRODUCT_PERSISTENT, why="the number of tiles is handed in"),
        NearMiss(
            vary(LOADED_COUNT, ("acc = ct.full((TM, TN), 0.0,", "acc = ct.full((TM, TN), M * 1.0,"),
                 ("rows = ct.cdiv(M, TM)", "rows = ct.cdiv(N, TM)")),
            why="what is loaded ends nothing",
        ),
        NearMiss(vary(FOLDED, ("range(0, count)", "range(0, L)")), why="the end is handed in"),
        NearMiss(PRODUCT, why="one tile per block"),
        NearMiss(PRODUCT_POINTER, why="one tile per block"),
        NearMiss(PRODUCT_THREADS, why="one tile per block"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Where] = []
        for loop in facts.loops:
            if loop.high is not None and persistent(loop, facts.values):
                counted = _counted(facts, loop.high, loop)
                found += [*counted, loop.node.head] if counted else []
            elif loop.high is not None and (counted := _added_up(facts, loop.high)):
                found += [*counted, loop.node.head]
        if walk := problem_walk(facts):
            found += [node.head for node in walk if node.op.kind == OpKind.WHILE]
        if found:
            yield self.decide(facts, "clipped to valid range", found)


def _added_up(facts: Facts, end: str) -> list[Node]:
    """What a tile of loaded numbers is reduced to a number of rounds by, with the loads."""
    made = facts.graph.producer(facts.graph.core(end))
    if made is None or made.op.kind not in REDUCTIONS or facts.of_threads:
        return []
    loads = [a.node for a in facts.feeding(made.result)]
    return [*loads, made] if loads else []


def _counted(facts: Facts, end: str, loop: Loop) -> list[Node]:
    """What counts the tiles of a walk from loaded sizes, with the loads; nothing when none is."""
    if not facts.values.expr(end).has(AtomKind.LOADED):
        return []
    sizes = [a for a in facts.feeding(end) if not a.node.inside(loop.node)]
    steps = [
        n
        for n in facts.graph.upstream(end, lambda n: n.op.kind not in _COUNTS)
        if n.op.kind in _COUNTS - COPIES and facts.values.expr(n.result).has(AtomKind.LOADED)
    ]
    return [*(a.node for a in sizes), *steps] if sizes else []
