"""Threads that count on through all blocks, as far as the problem goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.symbolic import ONE, AtomKind, Expr
from kb.ops import OpKind

_QUOTIENTS = (AtomKind.FLOOR_DIV, AtomKind.MOD)


def cut_off(facts: Facts, access: Access) -> bool:
    """Whether a test of a flat position ends what threads read or write, or lets them leave: what
    it asks counts the lanes of all blocks, or is the quotient of what does, and the extent that it
    is held against is the same for all blocks."""
    if not facts.of_threads:
        return False
    left = (
        n
        for n in facts.graph.of(OpKind.IF)
        if n.index < access.node.index
        and any(r.terminator is not None and r.terminator.kind == OpKind.RETURN
                for r in n.op.regions)
    )  # fmt: skip
    asked = [n.op.inputs[0] for n in (*facts.guards(access.node), *left)]
    asked += [access.mask] if access.mask is not None else []
    for test in (n for value in asked for n in comparisons(facts, value)):
        for own, other in permutations(sides(facts, test)):
            extent = other.has(AtomKind.PARAMETER) and not other.has(AtomKind.BLOCK, AtomKind.LANE)
            if extent and any(map(_flat, _taken_apart(own))):
                return True
    return False


def by_rank(facts: Facts, stores: Sequence[Access]) -> list[Node]:
    """Where the number of the block in its cluster is asked for, as a part of where threads
    store."""
    ranks = facts.graph.of(OpKind.CLUSTER_RANK) if facts.of_threads else []
    places = [v for a in stores for v in a.address] if ranks else []
    return [n for n in ranks if any(facts.graph.rests_on(v, n) for v in places)]


def _taken_apart(number: Expr) -> Iterator[Expr]:
    """A number, and those that its quotients and remainders are of."""
    yield number
    for atom in number.top():
        if atom.kind in _QUOTIENTS:
            yield from _taken_apart(atom.args[0])


def _flat(number: Expr) -> bool:
    """A block id several times and lanes, or groups of them, in one sum."""
    top = list(number.top())
    steps = [number.coefficient(a) for a in top if a.kind is AtomKind.BLOCK]
    lanes = (a for a in top if a.kind is AtomKind.LANE
             or (a.kind is AtomKind.FLOOR_DIV and a.args[0].has(AtomKind.LANE)))  # fmt: skip
    return any(step != ONE for step in steps) and any(True for _ in lanes)
