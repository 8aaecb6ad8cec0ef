"""Arrays that hold numbers of tiles: made for tiles of the extent that the kernel has."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.accesses import BULK, Access
from kb.analysis.facts import Facts
from kb.analysis.flags import unless
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.space import Constraint, implied


def numbered_tiles(facts: Facts) -> Iterator[Constraint]:
    """A loaded number is multiplied by the extent of a tile to give where the tile begins."""
    sources = {load.value: load for load in facts.loads}
    told: set[tuple[str, str]] = set()
    for access in facts.accesses:
        for value, extent in _numbered(facts, access):
            source = sources.get(value)
            if source is None or source.array in (None, access.array):
                continue
            if (source.array or "", extent) not in told:
                told.add((source.array or "", extent))
                without = "".join(f"{one} or " for one in unless(facts, source.node))
                yield implied(
                    f"{without}{source.array}.tile == {extent}",
                    f"what is loaded from {source.array} is the number of a tile, of {extent} "
                    "elements here",
                    "make the array for the extent that the kernel is launched with",
                    source.node.lines,
                )


def _numbered(facts: Facts, access: Access) -> Iterator[tuple[str, str]]:
    """Loaded numbers, perhaps on one side of a choice, that an index multiplies by the extent of
    the tile whose lanes go on from there."""
    shape = access.shape or facts.types.shape(access.value)
    for index in access.index:
        for factors, number in index.terms:
            for tile in (one for one in factors if one.text in facts.constexprs):
                for place in (one for one in factors if one is not tile):
                    rest = [one for one in factors if one is not tile and one is not place]
                    goes_on = tile.text in shape and not rest and access.mode in BULK
                    if goes_on or _has_lanes(index, rest, number, tile.text):
                        for atom in _arms(place):
                            if atom.kind is AtomKind.LOADED:
                                yield atom.value, tile.text


def _arms(atom: Atom) -> Iterator[Atom]:
    """A number, or those that a choice takes one of."""
    if atom.kind is AtomKind.CHOICE:
        yield from (one.atom for one in atom.args if one.atom is not None)
    else:
        yield atom


def _has_lanes(index: Expr, rest: list[Atom], number: int, extent: str) -> bool:
    """Whether the lanes of a tile of that extent move through the same rows."""
    for factors, times in index.terms:
        more = [one for one in factors if one not in rest]
        if times == number and len(more) == 1 and len(factors) == len(rest) + 1:
            lane = more[0]
            if lane.kind is AtomKind.LANE and lane.args and str(lane.args[0]) == extent:
                return True
    return False
