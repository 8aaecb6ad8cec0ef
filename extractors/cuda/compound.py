"""`x = x + y` and `x = y + x` are `x += y`: one form of what is added to a variable."""

from __future__ import annotations

from extractors.cuda import nodes as n

_EITHER_SIDE = ("+", "*", "&", "|", "^")
_LEFT = (*_EITHER_SIDE, "-", "/", "%", "<<", ">>")


def assign(at: n.Place, operator: str, target: n.Expr, value: n.Expr) -> n.Assign:
    """The assignment with the operator that it has, written out or not."""
    if not operator and isinstance(target, n.Name) and isinstance(value, n.Binary):
        if value.operator in _LEFT and _is(value.left, target):
            return n.Assign(at, value.operator, target, value.right)
        if value.operator in _EITHER_SIDE and _is(value.right, target):
            return n.Assign(at, value.operator, target, value.left)
    return n.Assign(at, operator, target, value)


def _is(node: n.Expr, target: n.Name) -> bool:
    return isinstance(node, n.Name) and node.text == target.text
