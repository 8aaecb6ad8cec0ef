"""A value of the host followed through calls, by the place that it has among what they give back,
to functions of other modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.facts import Material, functions_of
from extractors.host.modules import Home, imported_from
from extractors.host.tree import loaded_names
from extractors.syntax.nodes import each

MAX_HOPS = 8
"""Names and calls that a value is followed through."""

MAX_PLACES = 64
"""Places that are looked at for one value."""

_KEEPING = frozenset({"lru_cache", "cache"})
"""Wrappers of functools that give what the function gives."""

Reached = tuple[Home, ast.FunctionDef, int | None]


def followed(material: Material, value: ast.expr) -> list[Reached]:
    """The functions of other modules that give a value, each with the place of it among what it
    gives back."""
    found: list[Reached] = []
    seen: set[tuple[ast.expr, int | None]] = set()
    pending: list[tuple[ast.expr, int | None, int]] = [(value, None, MAX_HOPS)]
    while pending and len(seen) < MAX_PLACES:
        one, place, hops = pending.pop(0)
        if (one, place) in seen or not hops:
            continue
        seen.add((one, place))
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name):
            found += [(home, f, place) for home, f in _abroad(material, one.func.id)]
        pending += [(inner, at, hops - 1) for inner, at in _behind(material, one, place)]
    return found


def _behind(
    material: Material, value: ast.expr, place: int | None
) -> Iterator[tuple[ast.expr, int | None]]:
    """What a value is made of."""
    if isinstance(value, ast.Tuple) and place is not None:
        yield from ((one, None) for one in value.elts[place : place + 1])
    elif isinstance(value, ast.Name) and material.origins is not None:
        for made, given in material.origins.bindings(value):
            yield given, _among(made, value.id) if isinstance(made, ast.Assign) else None
    elif isinstance(value, ast.IfExp):
        yield from ((one, place) for one in (value.body, value.orelse))
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        inner = _given_back(material, value.func.id)
        yield from ((one, place) for one in inner)
        if not inner:
            yield from ((one, None) for one in value.args if isinstance(one, ast.Name))
    elif not isinstance(value, ast.Tuple):
        calls = [one for one in each(value, ast.Call) if one is not value]
        yield from ((one, None) for one in (*calls, *loaded_names(value)))


def _among(made: ast.Assign, name: str) -> int | None:
    """The place of a name among those that take a row apart."""
    for target in made.targets:
        if isinstance(target, ast.Tuple | ast.List):
            for place, one in enumerate(target.elts):
                if isinstance(one, ast.Name) and one.id == name:
                    return place
    return None


def _given_back(material: Material, name: str) -> list[ast.expr]:
    """What a function of the module gives back, or the one that a wrapper keeps the results of."""
    inner = {kept for made in material.tree.body for kept in _kept(made, name)} or {name}
    return [
        item.value
        for node in functions_of(material.tree)
        if node.name in inner
        for item in each(node, ast.Return)
        if item.value is not None
    ]


def _kept(made: ast.stmt, name: str) -> Iterator[str]:
    """The function whose results stand under a name, wrapped by functools."""
    if not isinstance(made, ast.Assign) or not isinstance(made.value, ast.Call):
        return
    if not any(isinstance(to, ast.Name) and to.id == name for to in made.targets):
        return
    named = {part.attr for part in each(made.value.func, ast.Attribute)}
    named |= {part.id for part in each(made.value.func, ast.Name)}
    if named & _KEEPING:
        yield from (one.id for one in made.value.args if isinstance(one, ast.Name))


def _abroad(material: Material, name: str) -> Iterator[tuple[Home, ast.FunctionDef]]:
    """Functions of other modules of the package that stand under a name."""
    for home in imported_from(material.loader, material.tree, material.module, name):
        for function in home.tree.body:
            if isinstance(function, ast.FunctionDef) and function.name == home.name:
                yield home, function
