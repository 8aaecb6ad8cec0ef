"""What expressions say without a scope: constants, conversions, defaults of the environment."""

from __future__ import annotations

import ast


def environment_default(node: ast.expr) -> object:
    """A constant, or the default of a look-up of the environment."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Call(
            func=ast.Attribute(attr="get" | "getenv"), args=[_, ast.Constant(value=value)]
        ):
            return value
    return None


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def converted(name: str, value: object) -> object:
    if name == "float" and isinstance(value, int | float | str):
        try:
            return float(value)
        except ValueError:
            return None
    return int(value) if name == "int" and isinstance(value, int | bool) else None
