"""What a parameter of the host is when no caller gives it, for values that are handed through."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.origins import Origins, lines_of
from extractors.host.tree import default_of
from kb.evidence import Lines

MAX_CALLERS = 3
"""Functions that hand a value through, one to the other."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def presets(origins: Origins, value: ast.expr) -> set[Lines]:
    """Where the functions that hand a value through, from caller to launch, say what number it is
    when nothing is given."""
    found: set[Lines] = set()
    pending = [value] if isinstance(value, ast.Name) else []
    for _ in range(MAX_CALLERS):
        pending = [one for name in pending for one in _handing(origins, name, found)]
    return found


def _handing(origins: Origins, name: ast.Name, found: set[Lines]) -> Iterator[ast.Name]:
    """The names that callers hand over for a parameter; its own preset number is added."""
    assigned, passed = origins.sources(name)
    scope = origins.owner(name)
    if assigned or not isinstance(scope, _FUNCTIONS):
        return
    given = default_of(scope, name.id)
    if given is not None and _number(origins, given):
        rows = (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)
        first = next(one.lineno for one in rows if one.arg == name.id)
        found.add((first, lines_of(given)[1]))
    yield from (one for one in passed if isinstance(one, ast.Name))


def _number(origins: Origins, given: ast.expr) -> bool:
    """Whether a number is written out, or bound to the name that is given."""
    if isinstance(given, ast.Name):
        return any(_plain(one) for one in origins.values(given))
    return _plain(given)


def _plain(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and type(value.value) is int
