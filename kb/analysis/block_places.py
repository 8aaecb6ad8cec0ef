"""Which places among blocks tell which: a quotient or a remainder is told by what it is taken of,
and that by both together."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.symbolic import Atom, AtomKind, Expr, of

Places = dict[str, Atom]
"""What says where something lies and is made of block ids alone, by text."""


def places(index: Iterable[Expr]) -> Places:
    """The places among blocks in what says where something lies."""
    tops = [atom for one in index for atom in one.top()]
    return {a.text: a for a in tops if of(a).has(AtomKind.BLOCK) and not of(a).has(AtomKind.LANE)}


def tell(known: Places, place: Atom) -> bool:
    """Whether a place follows from others."""
    return _follows(_whole(known), place)


def _follows(known: set[str], place: Atom) -> bool:
    if place.text in known:
        return True
    parts = [a for one in place.args for a in one.top() if of(a).has(AtomKind.BLOCK)]
    return bool(parts) and all(_follows(known, part) for part in parts)


def _whole(known: Places) -> set[str]:
    """The places with what they are the quotient and the remainder of."""
    found = {**known}
    for _ in known:
        pairs: dict[str, set[AtomKind]] = {}
        for atom in found.values():
            if atom.kind in (AtomKind.FLOOR_DIV, AtomKind.MOD):
                pairs.setdefault(str(atom.args), set()).add(atom.kind)
        split = [
            part
            for atom in found.values()
            if len(pairs.get(str(atom.args), ())) > 1
            for part in atom.args[:1]
        ]
        more = {one.atom.text: one.atom for one in split if one.atom is not None}
        if more.keys() <= found.keys():
            break
        found |= more
    return {*found}
