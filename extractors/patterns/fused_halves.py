"""Two halves of one array, such as gate and value, are read side by side."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT, vary
from extractors.patterns.cases_halves import (
    APART_TILE,
    BESIDE_THREADS,
    EITHER,
    HALVES,
    HALVES_DESCRIBED,
    HALVES_FLAT,
    HALVES_OF_TILE,
    HALVES_PACKED,
    HALVES_STRIDED,
    HALVES_THREADS,
    HALVES_TILE,
    HALVES_VECTORS,
    HALVES_WORDS,
    OTHER_PIECES,
    PIECES_THREADS,
    ROTATED,
    SECTIONS,
    SLICES,
    THIRDS,
    TWO_TILES,
)
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis import symbolic as s
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import alike, comparisons, sides
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Decision
from kb.ops import REDUCTIONS, TERMINATORS, OpKind

MOST = 48
"""Loads of a kernel that are compared with each other."""


class FusedHalves(Pattern):
    """Two loads of an array whose positions differ by an extent."""

    name = "fused-gate-up-halves-addressed-in-one-tensor"
    axis = "operand_layout"
    source = "Shazeer, GLU Variants Improve Transformer (2020)"
    matches = (
        Case(TWO_TILES, "halves as two tiles of an axis"),
        Case(HALVES_DESCRIBED, "halves as two tiles of an axis"),
        Case(SECTIONS, "sections as tiles of an axis"),
        Case(HALVES_VECTORS, "one [.., 2H] tensor with +H column offset"),
        Case(HALVES_PACKED, "one [.., 2H] tensor with +H column offset"),
        Case(HALVES_WORDS, "one [.., 2H] tensor with +H column offset"),
        Case(HALVES_OF_TILE, "one [.., 2H] tensor with +H column offset"),
        Case(HALVES, "one [.., 2H] tensor with +H column offset"),
        Case(HALVES_STRIDED, "one [.., 2H] tensor with +H column offset"),
        Case(
            vary(HALVES_STRIDED, ("< H\n", "< T\n"), ("hop, H", "hop, H: tl.constexpr")),
            "one [.., 2H] tensor with +H column offset",
        ),
        Case(ROTATED, "one [.., 2H] tensor with +H column offset"),
        Case(HALVES_TILE, "one [.., 2H] tensor with +H column offset"),
        Case(SLICES, "one [.., 2H] tensor with +H column offset"),
        Case(HALVES_FLAT, "one [.., 2H] tensor with +H column offset"),
        Case(HALVES_THREADS, "one [.., 2H] tensor with +H column offset"),
    )
    near_misses = (
        NearMiss(
            vary(HALVES_OF_TILE, ("tl.arange(D // 2, D)", "tl.arange(0, D // 2)")), why="one half"
        ),
        NearMiss(
            vary(TWO_TILES, ("u - v", "u"), ("u + v", "v")), why="two tiles are moved, each alone"
        ),
        NearMiss(
            vary(
                HALVES_DESCRIBED,
                ("x.store([row, 0, 0]", "tl.store(out + row * H + tl.arange(0, H)"),
                ("    x.store([row, 1, 0], (v + u * c).reshape((1, 1, H)))\n", ""),
                (".reshape((1, 1, H))", ""),
            ),
            why="a window whose blocks may overlap",
        ),
        NearMiss(
            vary(TWO_TILES, ("(row, 1), (1, H))\n", "(row, 2), (1, H))\n")),
            why="tiles that do not lie beside each other",
        ),
        NearMiss(
            vary(HALVES_STRIDED, ("< H\n", "< s\n")),
            why="a step of a window: the positions are held below another number",
        ),
        NearMiss(vary(SECTIONS, ("(1, H)", "(1, 1)")), why="single numbers of a row"),
        NearMiss(vary(SLICES, ("start=H, ", "start=0, ")), why="one slice lies in the other"),
        NearMiss(
            vary(SLICES, ("H: Int", "H")), why="how the row is cut is known at run time alone"
        ),
        NearMiss(vary(HALVES, ("(0) * s", "(0) * H")), why="the next row, no other half"),
        NearMiss(THIRDS, why="three pieces of a block, no halves"),
        NearMiss(
            vary(
                HALVES,
                (" + tl.arange(0, T)\n    inside", "\n    inside"),
                ("tl.arange(0, T) < H", "H > 0"),
                ("H: tl.constexpr", "H"),
            ),
            why="single numbers: both ends of a range",
        ),
        NearMiss(vary(HALVES, *EITHER), why="one or the other is read"),
        NearMiss(
            vary(
                HALVES, ("at + H,", "at + T,"), ("u * tl.sigmoid(u) * v", "u * tl.sum(v, axis=0)")
            ),
            why="a row in two pieces that meet in a sum alone",
        ),
        NearMiss(
            HALVES_WORDS.replace("+ wide + i) * 4", "+ i) * 4 + wide * 3"),
            why="parts of words: no half begins there",
        ),
        NearMiss(OTHER_PIECES, why="pieces of another length than a vector's"),
        NearMiss(ADD_POINTER, why="two arrays"),
        NearMiss(PRODUCT, why="two arrays"),
        NearMiss(APART_TILE, why="two arrays"),
        NearMiss(ADD_THREADS, why="two arrays"),
        NearMiss(BESIDE_THREADS, why="the tile beside the own one"),
        NearMiss(PIECES_THREADS, why="what follows in the row, of which a round takes two"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        tiles = self._tiles(facts)
        halves = [a for a in tiles if sum(b.array == a.array for b in tiles) == 2]
        if halves:
            yield self.decide(facts, "halves as two tiles of an axis", halves)
        if len(tiles) > len(halves):
            sections = [a for a in tiles if a not in halves]
            yield self.decide(facts, "sections as tiles of an axis", sections)
        where: list[Where] = []
        for first, second in self._pairs(facts):
            where += [first, second, *self._shifts(facts, first, second)]
        where += self._slices(facts)
        if where:
            yield self.decide(facts, "one [.., 2H] tensor with +H column offset", where)

    def _slices(self, facts: Facts) -> list[Node]:
        """Slices of one array of which one ends where the other begins, at bounds that parameters
        give."""
        cut: dict[tuple[str, str], list[tuple[Node, Expr, Expr]]] = {}
        for node in facts.graph.of(OpKind.ARRAY_SLICE):
            given = dict(node.op.operands)
            start, stop = (facts.values.expr(given.get(role)) for role in ("start", "stop"))
            if facts.values.compile_time(start) and facts.values.compile_time(stop):
                axis = str(facts.values.expr(given.get("axis")))
                cut.setdefault((given["array"], axis), []).append((node, start, stop))
        return [
            node
            for parts in cut.values()
            if len(parts) == 2 and (parts[0][2] == parts[1][1] or parts[1][2] == parts[0][1])
            for node, _, _ in parts
        ]

    def _pairs(self, facts: Facts) -> list[tuple[Access, Access]]:
        """Of every array the first two loads that lie an extent apart."""
        found: dict[str | None, tuple[Access, Access]] = {}
        loads = facts.loads[:MOST]
        for first in loads:
            for second in loads:
                if (
                    first.array not in found
                    and first is not second
                    and first.array == second.array
                    and not first.node.excludes(second.node)
                    and self._apart(facts, first, second)
                    and not any(_third(first, second, third) for third in loads)
                ):
                    found[first.array] = (first, second)
        return list(found.values())

    def _tiles(self, facts: Facts) -> list[Access]:
        """Loads of the first tiles of an axis, each once, that are computed with together."""
        found: list[Access] = []
        whole = [
            a
            for a in facts.loads[:MOST]
            if (a.mode is Mode.TILE or _written_alike(facts, a))
            and not a.node.loops
            and any(extent != "1" for extent in facts.types.shape(a.value))
        ]
        for array in dict.fromkeys(a.array for a in whole if a.array is not None):
            loads = [a for a in whole if a.array == array]
            if len(loads) < 2 or len({len(a.index) for a in loads}) > 1:
                continue
            places = zip(*(a.index for a in loads), strict=True)
            moved = [{e.constant for e in place} for place in places if len(set(place)) > 1]
            if moved == [set(range(len(loads)))] and any(
                all(facts.graph.rests_on(store.value, a.node) for a in loads)
                for store in facts.stores
            ):
                found += loads
        return found

    def _shifts(self, facts: Facts, first: Access, second: Access) -> list[Node]:
        """The additions that move one half off the other, on the way to one of the two addresses
        alone."""
        apart = [d for d in _differences(first, second) if d != s.ZERO]
        offsets = [*apart, *map(_in_words, apart)]
        names = facts.graph.function.parameter_names
        found = []
        for node in facts.graph.of(OpKind.ADD):
            sides = node.op.inputs[:2]
            lanes = facts.values.expr(node.result).has(AtomKind.LANE)
            moved = any(facts.values.expr(v) in offsets for v in sides)
            moved |= lanes and any(facts.graph.core(v) in names for v in sides)
            based = lanes or facts.of_threads or first.array in map(facts.graph.core, sides)
            if moved and based and _reaches(facts, first, node) != _reaches(facts, second, node):
                found.append(node)
        return found

    def _apart(self, facts: Facts, first: Access, second: Access) -> bool:
        """True when the indices differ on one axis, by one parameter that is no stride and no
        tile."""
        if first.array is None or len(first.index) != len(second.index):
            return False
        moved = [d for d in _differences(first, second) if d != s.ZERO]
        lanes = [a for e in first.index for a in e.atoms() if a.kind is AtomKind.LANE]
        if any(
            e.coefficient(a) in moved and not _added_rows(e, a)
            for e in first.index
            for a in set(e.top())
        ):
            return False
        if not lanes:
            return False
        if any(a.args[0] in moved for a in lanes) and (
            facts.of_threads or not _own_pieces(facts, first, second)
        ):
            return False
        return (
            len(moved) == 1
            and not _within_a_round(facts, first, moved[0])
            and (
                self._extent(facts, moved[0], first)
                or self._strided(facts, moved[0], first)
                or (
                    _masked_alike(facts, first, second)
                    and self._compiled_in(facts, moved[0], first)
                )
            )
        )

    def _compiled_in(self, facts: Facts, difference: Expr, access: Access) -> bool:
        """A compile-time extent that is no tile, or half of one, times the stride that the lanes
        go along."""
        for lane in (a for e in access.index for a in e.top() if a.kind is AtomKind.LANE):
            hop = next((e.coefficient(lane) for e in access.index if lane in set(e.top())), s.ONE)
            for atom in difference.top():
                named = atom.kind is AtomKind.PARAMETER and atom.value in facts.constexprs
                named = named and atom.value not in facts.tile_extents
                if (named or _half_tile(atom, lane)) and hop != s.ONE:
                    return s.mul(s.of(atom), hop) == difference
        return False

    def _strided(self, facts: Facts, difference: Expr, access: Access) -> bool:
        """An extent that the mask of the load compares positions with, times a stride."""
        if len(difference.terms) != 1 or difference.terms[0][1] != 1:
            return False
        factors = difference.terms[0][0]
        if [a.kind for a in factors] != [AtomKind.PARAMETER] * 2:
            return False
        bounds = {
            atom.value
            for c in comparisons(facts, access.mask)
            for side in sides(facts, c)
            if (atom := side.atom) is not None and atom.kind is AtomKind.PARAMETER
        }
        return len(bounds & {a.value for a in factors}) == 1

    def _extent(self, facts: Facts, difference: Expr, access: Access) -> bool:
        """One parameter, or the half of one; or the whole vectors of one, in elements or words, or
        in vectors of those that are loaded."""
        atom = difference.atom
        if atom is None and len(difference.terms) == 1:
            factors, number = difference.terms[0]
            return any(
                a.kind is AtomKind.FLOOR_DIV
                and a.args[0].atom is not None
                and (
                    a.args[1] == Expr(((tuple(f for f in factors if f != a), number),))
                    or _words(a, factors, number)
                )
                for a in factors
            )
        if atom is not None and atom.kind is AtomKind.FLOOR_DIV:
            halved = atom.args[1].constant == 2 or atom.args[1] in _vectors(facts, access)
            atom = atom.args[0].atom if halved else None
        return atom is not None and atom.kind in (AtomKind.PARAMETER, AtomKind.EXTENT)


def _within_a_round(facts: Facts, access: Access, difference: Expr) -> bool:
    """Whether a loop goes on by twice the distance or more of it: the second access is of what
    follows in one row."""
    around = [loop for loop in facts.loops if loop.step and access.node.inside(loop.node)]
    steps = [facts.values.expr(loop.step) for loop in around]
    return any(step == s.scale(difference, times) for step in steps for times in (2, 4, 8))


def _masked_alike(facts: Facts, first: Access, second: Access) -> bool:
    """Whether two accesses have one mask, or masks that are computed in the same way, or none."""
    if first.mask is None or second.mask is None:
        return first.mask == second.mask
    return alike(facts.graph, first.mask, second.mask)


def _half_tile(atom: Atom, lane: Atom) -> bool:
    """Whether the lanes of a tile are one half of an extent."""
    return atom.kind is AtomKind.FLOOR_DIV and s.of(atom) == lane.args[0]


def _written_alike(facts: Facts, access: Access) -> bool:
    """Whether a block that a descriptor reads is stored where one begins at the same numbers, so
    that it takes one place of its axis and no window."""
    return access.mode is Mode.DESCRIPTOR and any(
        store.mode is Mode.DESCRIPTOR and store.index == access.index for store in facts.stores
    )


def _in_words(difference: Expr) -> Expr:
    """The same distance in the largest words that make it up."""
    word = gcd(*(count for _, count in difference.terms))
    return Expr(tuple((factors, count // word) for factors, count in difference.terms))


def _vectors(facts: Facts, access: Access) -> list[Expr]:
    """How many elements a load gives at once, where that is no plain number."""
    kind = access.node.op.results[0].type
    names = kind.shape if kind is not None and facts.of_threads else ()
    found = [facts.values.expr(name) for name in names if name in facts.graph.defs]
    return [e for e in found if e.constant is None]


def _words(atom: Atom, factors: tuple[Atom, ...], number: int) -> bool:
    """Whether vectors of a constant length, and nothing else, are counted in words that divide
    it."""
    length = atom.args[1].constant
    return factors == (atom,) and length is not None and number > 1 and length % number == 0


def _own_pieces(facts: Facts, first: Access, second: Access) -> bool:
    """True when tiles beside each other meet element by element, or go to arrays of their own;
    those that meet in a sum alone and go to one array are a row in two pieces."""
    one, other = _elementwise(facts, first), _elementwise(facts, second)
    if one & other:
        return True
    ends = [{a.array for n in made if (a := facts.access(n))} for made in (one, other)]
    return all(ends) and not ends[0] & ends[1]


def _elementwise(facts: Facts, access: Access) -> set[Node]:
    """Operations on the elements of a loaded tile, stores with them; what comes after a reduction
    is left out."""
    found: set[Node] = set()
    pending = [access.value]
    for value in pending:
        for user in facts.graph.users(value):
            if user.op.kind in REDUCTIONS or user in found:
                continue
            if not user.op.regions and user.op.kind not in TERMINATORS:
                found.add(user)
            pending += [one for one in facts.graph.onward(user, value) if one not in pending]
    return found


def _added_rows(index: Expr, atom: Atom) -> bool:
    """True for `at + at // H * H`: the places of one half, between which those of the other lie."""
    if atom.kind is not AtomKind.FLOOR_DIV or index.coefficient(atom) != atom.args[1]:
        return False
    terms = {*index.terms}
    return {*atom.args[0].terms} <= terms


def _third(first: Access, second: Access, third: Access) -> bool:
    """True when a load of the array lies as far behind the second as that behind the first, or
    before the first."""
    if third.array != first.array or len(third.index) != len(first.index):
        return False
    step = _differences(first, second)
    return step in (_differences(second, third), _differences(third, first))


def _differences(one: Access, other: Access) -> list[Expr]:
    """How far another access is from one on each axis."""
    return [s.sub(b, a) for a, b in zip(one.index, other.index, strict=True)]


def _reaches(facts: Facts, access: Access, node: Node) -> bool:
    """True when the address of an access is computed from a node."""
    return any(facts.graph.rests_on(value, node) for value in (access.base, *access.address))
