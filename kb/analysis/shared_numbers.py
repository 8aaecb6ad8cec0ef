"""Loaded numbers that many elements share: those of a group, and the one for all."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.symbolic import AtomKind


def of_all(facts: Facts, scales: Iterable[str]) -> list[Access]:
    """Of threads: loads of the one number for the whole call that scales are made with."""
    loads = (a for v in scales for a in facts.feeding(v)) if facts.of_threads else ()
    return [a for a in loads if a.index and all(i.constant is not None for i in a.index)]


def grouped(access: Access) -> bool:
    """A place that several elements share: an index of a loop or a lane that was divided."""
    moving = (AtomKind.INDUCTION, AtomKind.LANE)
    return any(
        atom.kind is AtomKind.FLOOR_DIV and any(arg.has(*moving) for arg in atom.args)
        for index in access.index
        for atom in index.atoms()
    )
