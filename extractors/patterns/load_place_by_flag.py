"""Loads that stand before or after others, as a compile-time parameter says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.specialise import branches
from kb.evidence import Decision

_LOAD = "        x = tl.load(pa, mask=k[None, :] < K - t * TK, other=0.0)\n"
_BESIDE = "        y = tl.load(pb, mask=k[:, None] < K - t * TK, other=0.0)\n"
_PLACED = vary(
    PRODUCT_POINTER,
    ("TM: tl.constexpr, TN", "EARLY: tl.constexpr, TM: tl.constexpr, TN"),
    (
        _LOAD + _BESIDE,
        "        if EARLY == 0:\n    " + _LOAD + _BESIDE + "        if EARLY == 1:\n    " + _LOAD,
    ),
)


class LoadPlaceByFlag(Pattern):
    """One tile is loaded in two places, of which a compile-time parameter picks one; other arrays
    are loaded between them."""

    name = "place-of-a-load-by-a-compile-time-parameter"
    axis = "load_order"
    source = "Triton documentation, tl.constexpr: branches that are taken at compile time"
    matches = (Case(_PLACED, "place of a load by a parameter"),)
    near_misses = (
        NearMiss(
            vary(_PLACED, ("EARLY: tl.constexpr, ", "EARLY, ")), why="asked at run time"
        ),
        NearMiss(
            vary(_PLACED, (_BESIDE + "        if EARLY == 1", "        if EARLY == 1")),
            why="nothing is loaded between the two places",
        ),
        NearMiss(PRODUCT_POINTER, why="one place"),
        NearMiss(PRODUCT, why="one place"),
        NearMiss(ADD_POINTER, why="one place"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            return
        chosen = {branch.node for branch in branches(facts)}
        flagged = [a for a in facts.loads if chosen.intersection(facts.guards(a.node))]
        tiles = [a for a in flagged if a.array is not None and facts.types.shape(a.value)]
        found: dict[Access, None] = {}
        for first, second in _pairs(tiles):
            if not _apart(facts, first, second):
                continue
            low, high = first.node.index, second.node.index
            between = [a for a in facts.loads if low < a.node.index < high]
            others = [a for a in between if a.array not in (None, first.array)]
            if others:
                found |= dict.fromkeys((first, second, *others))
        if found:
            yield self.decide(facts, "place of a load by a parameter", found)


def _pairs(loads: list[Access]) -> Iterator[tuple[Access, Access]]:
    """Neighbours among the loads of one tile."""
    alike: dict[tuple[object, ...], list[Access]] = {}
    for load in loads:
        alike.setdefault((load.array, load.index, load.loop), []).append(load)
    for same in alike.values():
        yield from pairwise(same)


def _apart(facts: Facts, first: Access, second: Access) -> bool:
    """Loads under different branches, none of which holds the other."""
    one, other = (set(facts.guards(a.node)) for a in (first, second))
    return bool(one - other) and bool(other - one)
