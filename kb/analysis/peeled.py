"""Last tiles that are taken out of a loop: the loop reads full tiles without a mask, the last one
is read beside it, under a mask."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import against_extent, comparisons, sides
from kb.analysis.rounds import steps_of
from kb.analysis.symbolic import ZERO, AtomKind, Expr, mul, sub


@dataclass(frozen=True, slots=True, eq=False)
class PeeledTail:
    """The loop over full tiles, the load of the last one and the comparisons of its mask that the
    loads of the loop go without."""

    loop: Node
    load: Access
    tests: tuple[Node, ...]


@lru_cache(maxsize=2)
def peeled_tails(facts: Facts) -> tuple[PeeledTail, ...]:
    """Loads under a tail mask of arrays that a loop beside them walks without that mask."""
    if facts.of_threads:
        return ()
    plain = [(a, way) for a in facts.loads if (way := _walked(facts, a))]
    held = [(a, tests) for a in facts.loads if (tests := _tests(facts, a))]
    walked = {a.node: way for a, way in plain}
    found = []
    for load, tests in held if plain else ():
        for other, along in plain:
            loop = other.loop
            if along & walked.get(load.node, set()):
                continue  # a loop of its own walks that axis
            if loop is None or load.array is None or other.array != load.array:
                continue
            if load.node.inside(loop):
                continue
            if load.node.excludes(other.node) or not along & _apart(load):
                continue
            bounds = {extent for _, extent in _tests(facts, other)}
            own = tuple(test for test, extent in tests if extent not in bounds)
            if own and _goes_on(facts, load, other):
                found.append(PeeledTail(loop, load, own))
                break
    return tuple(found)


def _goes_on(facts: Facts, load: Access, other: Access) -> bool:
    """Whether a tile enters what the loop leaves, or both are stored in one array."""
    mine, theirs = facts.stored_in(load.value), facts.stored_in(other.value)
    return not {s.array for s in mine}.isdisjoint(s.array for s in theirs)


def _walked(facts: Facts, access: Access) -> set[Expr]:
    """How far apart the lanes lie along which the innermost loop around a tile moves it on: by
    elements or by tiles, forth or back."""
    loop = facts.loop(access.loop) if access.loop is not None else None
    if loop is None or not facts.types.shape(access.value):
        return set()
    moving = [step for step, _ in steps_of(facts, loop)]
    found = set()
    for index in access.index:
        by = {index.coefficient(atom) for atom in moving if atom in {*index.top()}}
        for lane in (a for a in index.top() if a.kind is AtomKind.LANE):
            apart = index.coefficient(lane)
            tile = mul(apart, lane.args[0])
            if by & {w for way in (apart, tile) if way is not None for w in (way, sub(ZERO, way))}:
                found.add(apart)
    return found


def _apart(access: Access) -> set[Expr]:
    """How far apart the lanes of an access lie."""
    lanes = ((i, a) for i in access.index for a in i.top() if a.kind is AtomKind.LANE)
    return {index.coefficient(lane) for index, lane in lanes}


def _tests(facts: Facts, access: Access) -> list[tuple[Node, str]]:
    """Comparisons of places of a tile with an extent, and that extent."""
    if access.mask is None or not facts.types.shape(access.value):
        return []
    tests = [c for c in comparisons(facts, access.mask) if against_extent(facts, c)]
    return [
        (test, str(side))
        for test in tests
        for side in sides(facts, test)
        if not side.has(AtomKind.LANE)
    ]
