"""Helpers that hand back a constant for one target, since a condition on it takes out what they
do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.library import Library
from kb.evidence import Lines

Asked = Mapping[str, Sequence[Lines]]
"""Lines of files that stand under a condition on the target."""

_MANY = 60
"""Functions that a kernel calls, one the other, that are looked at."""


def unserved(definition: n.Definition, library: Library, asked: Asked) -> frozenset[str]:
    """The helpers of a kernel that are given something, look at nothing of it and hand back a
    constant, where the file asks for the target."""
    found: set[str] = set()
    seen: set[int] = set()
    pending = [definition]
    while pending and len(seen) < _MANY:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for name in _called(one):
            called = library.functions(name)
            if called and all(_constant(c) for c in called):
                found |= {name for c in called if _asks(c, asked)}
            pending += called
    return frozenset(found)


def serves(name: str, library: Library) -> bool:
    """Whether a function does something with what it is given."""
    return any(not _constant(one) for one in library.functions(name))


def _called(definition: n.Definition) -> set[str]:
    """Functions that every instance calls: what `if constexpr` holds is not for all of them."""
    body = [*n.inside(definition.body)]
    static = [one for one in body if isinstance(one, n.If) and one.static]
    some = {id(x) for one in static for side in (one.then, one.other) for x in n.inside(side)}
    calls = (one.function for one in body if isinstance(one, n.Call) and id(one) not in some)
    return {one.text for one in calls if isinstance(one, n.Name)}


def _asks(definition: n.Definition, asked: Asked) -> bool:
    first, last = definition.at.line, definition.at.end_line
    return any(first <= a and b <= last for a, b in asked.get(definition.at.path, ()))


def _constant(definition: n.Definition) -> bool:
    """Whether a function returns a constant and names nothing that it is given."""
    given = {p.name for p in definition.parameters if p.name}
    body = [*n.inside(definition.body)]
    back = [one for one in body if isinstance(one, n.Leave)]
    return (
        bool(given)
        and bool(back)
        and not any(isinstance(one, n.Call | n.Assembly | n.Unread) for one in body)
        and not any(isinstance(one, n.Name) and one.text in given for one in body)
    )
