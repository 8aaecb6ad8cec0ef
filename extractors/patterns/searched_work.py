"""Work that a block finds by bisection over a table of where problems begin."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Decision
from kb.ops import OpKind

_BISECTED = (
    POINTER
    + """
@triton.jit
def shift(x, starts, out, count, T: tl.constexpr):
    own = tl.program_id(0)
    low = 0
    high = count
    while low < high:
        middle = (low + high) // 2
        if tl.load(starts + middle) <= own:
            low = middle + 1
        else:
            high = middle
    at = (own + low) * T + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at))
"""
)


_HALF: dict[str, int] = {OpKind.FLOOR_DIV: 2, OpKind.SHIFT_RIGHT: 1}
"""Second operands that halve the first."""


class SearchedWork(Pattern):
    """A loop halves a range by what it loads at its middle and compares with the block id, and the
    stores go where the loop ends up."""

    name = "work-found-by-bisection"
    axis = "work_decomposition"
    source = "tilelore catalogue, axis work_decomposition; Knuth, volume 3 (1998), section 6.2.1"
    matches = (Case(_BISECTED, "device-side binary search"),)
    near_misses = (
        NearMiss(
            vary(_BISECTED, ("(own + low) * T", "own * T")),
            why="what is found says nothing about where the block stores",
        ),
        NearMiss(vary(_BISECTED, ("(low + high) // 2", "low + 1")), why="one step at a time"),
        NearMiss(ADD_POINTER, why="nothing is searched"),
        NearMiss(PRODUCT, why="nothing is searched"),
        NearMiss(PRODUCT_POINTER, why="nothing is searched"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            return
        for loop in facts.graph.of(OpKind.WHILE, OpKind.FOR):
            middles = [n for n in facts.graph.of(*_HALF) if self._halves(facts, n, loop)]
            halves = facts.graph.node_set(middles)
            loads = [
                a
                for a in facts.loads
                if facts.graph.rests_on_any(a.base, halves) and a.node.inside(loop)
            ]
            if loads and any(_found(facts, store, loop) for store in facts.stores):
                ids = [
                    n
                    for n in facts.graph.of(OpKind.BLOCK_ID)
                    if any(facts.graph.rests_on(store.base, n) for store in facts.stores)
                ]
                yield self.decide(facts, "device-side binary search", [*ids, *middles, *loads])
                return

    def _halves(self, facts: Facts, node: Node, loop: Node) -> bool:
        """Half of a sum of two numbers, inside the loop."""
        by = _HALF.get(node.op.kind)
        if by is None or not node.inside(loop):
            return False
        made = facts.graph.producer(facts.graph.core(node.op.inputs[0]))
        total = made is not None and made.op.kind == OpKind.ADD
        return total and facts.values.literal(node.op.inputs[1]) == by


def _found(facts: Facts, store: Access, loop: Node) -> bool:
    """True for a store after the loop at a place that the loop says."""
    return not store.node.inside(loop) and facts.graph.rests_on(store.base, loop)
