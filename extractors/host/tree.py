"""Small facts of the text of host code: what a statement binds, what a call hands over."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.syntax.nodes import each

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_PLAIN = (ast.Attribute, ast.Subscript, ast.Name, ast.Constant)

OPTIONS = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion"})
"""Keywords of a launch that are no parameters of the kernel. Source: triton.Config."""


def handed_over(
    call: ast.Call, name: str, position: int, row: list[ast.expr], size: int = 0
) -> ast.expr | None:
    """What a call passes for a parameter: by keyword, or by its place in a row; behind a piece that
    is spread into the row by its place from the end, where the kernel has `size` parameters."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    spread = [place for place, item in enumerate(row) if isinstance(item, ast.Starred)]
    if not spread or position < spread[0]:
        return row[position] if position < len(row) else None
    named = [key for key in call.keywords if key.arg not in OPTIONS]
    behind = size - len(named) - position
    known = size and all(key.arg for key in named)
    return row[-behind] if known and 0 < behind < len(row) - spread[-1] else None


def spread_at(call: ast.Call, name: str, names: list[str]) -> ast.expr | None:
    """The piece spread into a call that a parameter belongs to, where pieces share alike the
    parameters that nothing else is handed over for: `*a.stride(), *b.stride()`."""
    row = call.args
    pieces = [item for item in row if isinstance(item, ast.Starred)]
    named = {key.arg for key in call.keywords}
    left = [one for one in names if one not in named]
    free = len(left) - (len(row) - len(pieces))
    if not pieces or free <= 0 or free % len(pieces):
        return None
    places = [
        item
        for item in row
        for _ in range(free // len(pieces) if isinstance(item, ast.Starred) else 1)
    ]
    found = dict(zip(left, places, strict=False)).get(name)
    return found if isinstance(found, ast.Starred) else None


def applies(func: ast.expr, name: str) -> bool:
    """`Function.apply` of torch.autograd: it runs `forward`, with a context before its own
    arguments."""
    return (
        isinstance(func, ast.Attribute)
        and func.attr == "apply"
        and isinstance(func.value, ast.Name)
        and func.value.id == name
    )


def bound_pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets with what each is given, as far as both are written out."""
    rows = (ast.Tuple, ast.List)
    if isinstance(target, rows) and isinstance(value, rows) and _matched(target, value):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


def _matched(target: ast.Tuple | ast.List, value: ast.Tuple | ast.List) -> bool:
    spread = any(isinstance(item, ast.Starred) for item in (*target.elts, *value.elts))
    return len(target.elts) == len(value.elts) and not spread


def renames(place: ast.AST, made: ast.expr) -> bool:
    """True for an assignment that makes no choice: a name, a part of something, the parts of a
    row."""
    if isinstance(place, ast.expr):
        return False
    if isinstance(made, ast.Tuple) and isinstance(place, ast.Assign):
        taken = isinstance(place.targets[0], ast.Tuple | ast.List)
        return taken and all(
            isinstance(item.value if isinstance(item, ast.Starred) else item, _PLAIN)
            for item in made.elts
        )
    return isinstance(made, _PLAIN)


def loaded_names(value: ast.expr) -> list[ast.Name]:
    return [node for node in each(value, ast.Name) if isinstance(node.ctx, ast.Load)]


def parameter_names(function: Function) -> list[str]:
    rows = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return [row.arg for row in rows]


def default_of(function: Function, name: str) -> ast.expr | None:
    """What a parameter is when callers pass nothing for it."""
    rows = [*function.args.posonlyargs, *function.args.args]
    plain = dict(
        zip(reversed([row.arg for row in rows]), reversed(function.args.defaults), strict=False)
    )
    named = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return (plain | {row.arg: value for row, value in named if value is not None}).get(name)
