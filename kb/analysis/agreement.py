"""Arrays that are read together must agree in their extents, and values that are loaded as places
must lie inside the array that they pick from."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.accesses import BULK, Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.idioms import comparisons, sides
from kb.analysis.parameters import strides_of
from kb.analysis.symbolic import Atom, AtomKind
from kb.space import Constraint, implied

_MOVES = (AtomKind.BLOCK, AtomKind.INDUCTION)
_ANY = "stride"

Place = tuple[str, ...]
"""One term of an offset: its number and its factors, any stride called alike."""


def agreements(facts: Facts) -> Iterator[Constraint]:
    """What arrays that are read at the same places must have in common."""
    strides = strides_of(facts)
    loads = [one for one in facts.loads if one.array]
    yield from _same_elements(facts, loads, strides)
    yield from _same_rows(facts, loads, strides)


def _same_elements(
    facts: Facts, loads: list[Access], strides: frozenset[str]
) -> Iterator[Constraint]:
    """Arrays that are read at the same places of rows or tiles: the largest group of them."""
    groups: dict[tuple[object, ...], dict[str, Access]] = {}
    elsewhere = _read_elsewhere(loads, strides)
    for load in loads:
        if load.array in elsewhere:
            continue
        spread = load.mode in BULK or any(i.has(AtomKind.LANE) for i in load.index)
        if spread and any(index.has(*_MOVES) for index in load.index):
            key = load.mode, *_places(load, strides), *_asked(facts, load), _extents(facts, load)
            groups.setdefault(key, {}).setdefault(load.array or "", load)
    found = max(groups.values(), key=len, default={})
    if len(found) > 1:
        flat = all(len(load.index) == 1 for load in found.values())
        what = "numel" if flat else "shape"
        yield implied(
            " == ".join(f"{name}.{what}" for name in found),
            "they are read at the same places",
            "check that they agree, or pass the extents of each",
            list(found.values())[1].node.lines,
        )


def _read_elsewhere(loads: list[Access], strides: frozenset[str]) -> set[str | None]:
    """Arrays that are read at places of several kinds: their rows hold more than one of them."""
    kinds: dict[str | None, set[tuple[Place, ...]]] = {}
    for load in loads:
        kinds.setdefault(load.array, set()).add(tuple(_places(load, strides, rounds=True)))
    return {array for array, found in kinds.items() if len(found) > 1}


def _same_rows(facts: Facts, loads: list[Access], strides: frozenset[str]) -> Iterator[Constraint]:
    """Vectors that are read at the columns of an array, up to the same end."""
    found: dict[str, Access] = {}
    of = ""
    loads = [*{(a.array, a.mode, a.index, a.mask): a for a in reversed(loads)}.values()][::-1]
    vectors = [a for a in loads if a.mode is not Mode.POINTER or not _in_blocks(a)]
    for row in loads:
        for vector in vectors:
            if vector.array != row.array and _columns(facts, vector, row, strides):
                found.setdefault(vector.array or "", vector)
                of = of or row.array or ""
    if found:
        yield implied(
            " == ".join(f"{name}.shape[-1]" for name in (*found, of)),
            "they are read at the same columns, up to the same end",
            "check that they are as long as the rows",
            next(iter(found.values())).node.lines,
        )


def _columns(facts: Facts, vector: Access, row: Access, strides: frozenset[str]) -> bool:
    """Whether a vector is read at the columns of a row, and nothing but blocks, rows and strides
    tell the places of the two apart."""
    if vector.mode is not row.mode:
        return False
    if vector.mode in BULK or len(vector.index) < len(row.index):
        last = _extents(facts, vector)[-1:] == _extents(facts, row)[-1:]
        return len(vector.index) == 1 < len(row.index) and last and vector.index == row.index[-1:]
    own, other = (set(_places(one, strides)) for one in (vector, row))
    asked = _asked(facts, vector)
    if not own < other or not asked or asked != _asked(facts, row):
        return False
    if _in_blocks(vector):
        return False
    more = [factors for index in row.index for factors, _ in index.terms]
    return any(any(atom.kind is AtomKind.BLOCK for atom in factors) for factors in more)


def _in_blocks(access: Access) -> bool:
    """Whether the own block says where an access is."""
    return any(index.has(AtomKind.BLOCK) for index in access.index)


def _places(access: Access, strides: frozenset[str], rounds: bool = False) -> list[Place]:
    """Where an access is; with `rounds` the counters of all loops are called alike."""

    def called(atom: Atom) -> str:
        if atom.value in strides:
            return _ANY
        return "round" if rounds and atom.kind is AtomKind.INDUCTION else atom.text

    return sorted(
        (str(axis), str(number), *sorted(map(called, factors)))
        for axis, index in enumerate(access.index)
        for factors, number in index.terms
    )


def _asked(facts: Facts, access: Access) -> list[tuple[str, str, str]]:
    """What the mask of an access compares."""
    tests = [(node.op.kind, sides(facts, node)) for node in comparisons(facts, access.mask)]
    return sorted((kind, str(left), str(right)) for kind, (left, right) in tests)


def _extents(facts: Facts, access: Access) -> tuple[str, ...]:
    return facts.types.shape(access.value)
