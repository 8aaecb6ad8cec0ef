"""How a configuration space is written: read from the syntax of the `configs` argument alone."""

from __future__ import annotations

import ast

SPELLINGS = (
    "literal list",
    "comprehension, literal ranges",
    "comprehension over names or calls",
    "function call",
    "table beside the code",
    "list(filter(predicate, configs))",
    "name of a literal list",
    "name of a comprehension, concatenation or table",
    "name of several statements or of a branch",
    "conditional expression",
    "concatenation or splice",
    "default of the wrapper",
    "other",
)


def configs_of(call: ast.Call) -> ast.expr | None:
    """The expression that gives the configurations of a call, None when it names none."""
    named = [word.value for word in call.keywords if word.arg in ("configs", "search_space")]
    return named[0] if named else None


def spelling_of(value: ast.expr | None, tree: ast.Module) -> str:
    """One of SPELLINGS for an expression of a module."""
    match value:
        case None:
            return "default of the wrapper"
        case ast.Name(id=name):
            return _named(name, tree)
        case ast.IfExp():
            return "conditional expression"
        case ast.BinOp(op=ast.Add()):
            return "concatenation or splice"
        case ast.ListComp() | ast.GeneratorExp():
            return _comprehension(value)
        case ast.List(elts=items):
            spliced = any(isinstance(item, ast.Starred) for item in items)
            return "concatenation or splice" if spliced else "literal list"
        case ast.Call():
            return _call(value)
        case _:
            return "other"


def _call(node: ast.Call) -> str:
    inner = node.args[0] if node.args else None
    if isinstance(inner, ast.Call) and _last(inner.func) == "filter":
        return "list(filter(predicate, configs))"
    if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
        return "table beside the code"
    return "function call"


def _last(node: ast.expr) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def _comprehension(node: ast.ListComp | ast.GeneratorExp) -> str:
    literal = all(_is_literal(one.iter) for one in node.generators)
    return "comprehension, literal ranges" if literal else "comprehension over names or calls"


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(_is_literal(item) for item in node.elts)
    if isinstance(node, ast.Call) and _last(node.func) in ("range", "product"):
        return all(_is_literal(item) for item in node.args)
    return isinstance(node, (ast.Constant, ast.UnaryOp))


def _named(name: str, tree: ast.Module) -> str:
    """A name by the one statement that binds it; several, or none here, are a branch."""
    bound = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
    grown = any(
        isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
        and node.target.id == name
        for node in ast.walk(tree)
    )  # fmt: skip
    if len(bound) != 1 or grown:
        return "name of several statements or of a branch"
    kind = spelling_of(bound[0], tree) if not isinstance(bound[0], ast.Name) else "other"
    if kind == "literal list":
        return "name of a literal list"
    if kind in ("function call", "conditional expression"):
        return "name of several statements or of a branch"
    return "name of a comprehension, concatenation or table"
