"""A walk over so many tiles as there can be, where the kernel itself finds out which there are."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT_PERSISTENT, vary
from extractors.patterns.multi_problem_walk import FOUND, GROUPED_POINTER
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind
from kb.analysis.tile_search import tile_searches
from kb.evidence import Decision

_VALUE = "upper bound of the tiles, those past the last skipped"


class UpperBoundWalk(Pattern):
    """Around the search for the problem of a tile stands a loop whose rounds nothing that is loaded
    counts; a branch on what the search found stands around every store of a round."""

    name = "upper-bound-of-the-tiles-with-a-guard"
    axis = "loop_extent"
    source = "Triton documentation, Group GEMM tutorial; MegaBlocks, Gale et al. (2022)"
    matches = (Case(FOUND, _VALUE),)
    near_misses = (
        NearMiss(
            vary(FOUND, ("        if rows > 0:\n", "        if MOST > 0:\n")),
            why="no tile is left out",
        ),
        NearMiss(GROUPED_POINTER, why="the walk ends with the tiles of each problem"),
        NearMiss(PRODUCT_PERSISTENT, why="how many tiles there are is known"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for search in tile_searches(facts):
            for loop in facts.loops:
                if search.loop.node.inside(loop.node) and _bounded(facts, loop):
                    heads = _guards(facts, loop, search.loop)
                    if heads:
                        bound = facts.graph.producer(loop.high or "")
                        lines = [head.head for head in heads]
                        yield self.decide(facts, _VALUE, [bound, loop.node, *lines])


def _bounded(facts: Facts, loop: Loop) -> bool:
    """Whether a loop has as many rounds as its parameters say."""
    return loop.high is not None and not facts.values.expr(loop.high).has(
        AtomKind.LOADED, AtomKind.OPAQUE
    )


def _guards(facts: Facts, loop: Loop, search: Loop) -> list[Node]:
    """The branches on what a search found, one around each store of a round; empty when a store
    stands under none."""
    found: list[Node] = []
    for store in facts.stores:
        if not store.node.inside(loop.node):
            continue
        own = [
            guard
            for guard in facts.guards(store.node)
            if guard.inside(loop.node) and facts.graph.rests_on(guard.op.inputs[0], search.node)
        ]
        if not own:
            return []
        found += own
    return [*dict.fromkeys(found)]
