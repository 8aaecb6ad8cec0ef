"""Which constraints follow from those that the host checks."""

from __future__ import annotations

import re
from collections.abc import Collection

_EXTENTS = re.compile(r"(\w+)\.(?:numel|shape(\[-?\d+\])?)")
"""What arrays of one shape have in common: the number of elements, and each extent."""


def follows(expression: str, checked: Collection[str]) -> bool:
    """True when every part of a constraint is checked, or is an equation between what checked
    equations say is one.

    >>> follows("a.numel == b.numel", {"a.shape == (n, m)", "b.shape == (n, m)"})
    True
    """
    same = _Classes()
    for one in checked:
        same.join(_sides(one))
    return all(part in checked or same.one(_sides(part)) for part in expression.split(" and "))


def _sides(expression: str) -> list[str]:
    """The sides of an equation, none of anything else."""
    sides = expression.split(" == ")
    plain = len(sides) > 1 and not any(word in expression for word in (" and ", " or ", " if "))
    return sides if plain else []


class _Classes:
    """Terms that are equal to one another."""

    def __init__(self) -> None:
        self._of: dict[str, set[str]] = {}

    def join(self, terms: list[str]) -> None:
        """Take terms for equal."""
        joined = {other for term in terms for other in self._of.get(term, {term})}
        self._of |= dict.fromkeys(joined, joined)

    def one(self, terms: list[str]) -> bool:
        """Whether there are terms and all are equal."""
        found = {frozenset(self._of.get(term, {term})) for term in terms}
        return len(found) == 1 or len({self._extent(term) for term in terms}) == 1

    def _extent(self, term: str) -> tuple[frozenset[str], str]:
        """The arrays of one shape, and which extent of them a term is."""
        found = _EXTENTS.fullmatch(term)
        if found is None:
            return frozenset({term}), ""
        shape = f"{found[1]}.shape"
        return frozenset(self._of.get(shape, {shape})), term.partition(".")[2]
