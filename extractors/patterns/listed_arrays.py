"""Arrays that are elements of a list, one per problem."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, TILE, vary
from extractors.patterns.cases_rows import COPY
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import COPIES, Node, is_view
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_LISTED = (
    TILE
    + """
@ct.kernel
def twice(xs, outs, T: Int):
    for g in range(len(xs)):
        x = xs[g]
        out = outs[g]
        for i in range(ct.num_tiles(x, 0, (T,))):
            ct.store(out, (i,), ct.load(x, (i,), (T,)) * 2)
"""
)


class ListedArrays(Pattern):
    """An array that is loaded from or stored to is the element of a list that a loop variable or a
    block id picks; its extents are its own."""

    name = "arrays-picked-from-a-list"
    axis = "ragged_access"
    source = "cuTile documentation, lists of arrays as kernel arguments"
    matches = (
        Case(_LISTED, "list of arrays, one per problem"),
        Case(
            vary(
                _LISTED,
                ("for g in range(len(xs)):", "for _ in range(1):\n        g = ct.bid(0)"),
            ),
            "list of arrays, one per problem",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_LISTED, ("xs[g]", "xs[0]"), ("outs[g]", "outs[0]")),
            why="one array of the list, always the same",
        ),
        NearMiss(COPY, why="arrays are arguments themselves"),
        NearMiss(PRODUCT, why="arrays are arguments themselves"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        picked = [n for a in facts.accesses for n in _picked(facts, a)]
        if picked:
            extents = [
                n
                for n in facts.graph.of(OpKind.NUM_TILES, OpKind.SHAPE)
                if facts.graph.producer(facts.graph.through(n.op.inputs[0], COPIES)) in picked
            ]
            found = dict.fromkeys([*picked, *extents])
            yield self.decide(facts, "list of arrays, one per problem", found)


def _picked(facts: Facts, access: Access) -> list[Node]:
    """The subscript that gives the array of an access, when what it picks by is not fixed."""
    made = facts.graph.producer(facts.graph.through(access.base, COPIES))
    if made is None or made.op.kind != OpKind.SUBSCRIPT or is_view(made.op):
        return []
    by = [facts.values.expr(v) for v in made.op.inputs[1:]]
    return [made] if any(e.has(AtomKind.INDUCTION, AtomKind.BLOCK) for e in by) else []
