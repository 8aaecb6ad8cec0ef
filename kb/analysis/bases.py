"""Which parameter an address begins at, where several stand alone in it."""

from __future__ import annotations

from collections.abc import Sequence


def bases(addresses: Sequence[Sequence[str]], parameters: Sequence[str]) -> frozenset[str]:
    """Parameters that arrays begin at; `addresses` are those that stand alone in each address. The
    only one of an address is its base; what is added to several bases is a distance, and of two
    that are only ever added to each other the one that the kernel is handed first is the base."""
    found = {names[0] for names in addresses if len(names) == 1}
    beside: dict[str, set[str]] = {}
    for names in addresses:
        for name in names:
            beside.setdefault(name, set()).update(one for one in names if one != name)
    for names in addresses:
        if len(names) > 1 and not found.intersection(names):
            alone = [name for name in names if len(beside[name]) == 1] or names
            found.add(min(alone, key=lambda name: _place(parameters, name)))
    return frozenset(found)


def _place(parameters: Sequence[str], name: str) -> int:
    return parameters.index(name) if name in parameters else len(parameters)
