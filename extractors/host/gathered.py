"""Keywords that a function gathers from its callers, to hand them on."""

from __future__ import annotations

import ast
from collections.abc import Callable

from extractors.syntax.nodes import each

Owner = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None
"""The function around a name."""


def gathered(
    owner: Owner, name: str, calls_of: Callable[[str], list[ast.Call]], kernel: str
) -> list[ast.Call]:
    """The calls whose keywords `**name` of a function gathers; of several, those that name the
    kernel, if any does."""
    rest = owner.args.kwarg if owner is not None else None
    if isinstance(owner, ast.Lambda) or owner is None or rest is None or rest.arg != name:
        return []
    made = calls_of(owner.name)
    named = [c for c in made if any(n.id == kernel for a in c.args for n in each(a, ast.Name))]
    return named or made
