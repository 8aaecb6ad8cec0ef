"""What the grammar takes for something else than the compiler does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from extractors.cuda import nodes as n
from kb.dialects.cuda import CUDA, VECTORS

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax

    from extractors.cuda.parse_expressions import ExpressionBuilder

_SIGNS = {"pointer_declarator": "*", "reference_declarator": "&"}
_OPERANDS = ("identifier", "array_declarator")


def mistaken(node: n.Expr) -> n.Variable | None:
    """`A<b> name = value` and `A<b> name(value)` that the grammar takes for comparisons: what they
    compare would be thrown away, so each is a declaration; and `int (*name)[4]`, which it takes for
    an element of a cast."""
    match node:
        case n.Assign(_, "", n.Index() as target, value) if made := _rows(target, value):
            return made
        case n.Index() if (made := _rows(node, None)) is not None:
            return made
        case n.Binary(_, ">", n.Binary(_, "<", n.Name() as kind, argument), right):
            written = n.CType(kind.text, (argument,))
        case _:
            return None
    match right:
        case n.Assign(_, "", n.Name(text=name), value):
            return n.Variable(node.at, name, written, value)
        case n.Call(_, n.Name(text=name), arguments, ()):
            return n.Variable(node.at, name, written, None, arguments)
        case n.Name(text=name):
            return n.Variable(node.at, name, written)
    return None


def _rows(node: n.Index, value: n.Expr | None) -> n.Variable | None:
    """The pointer to an array that an element of a cast of what lies behind a name is; None where
    the name before the brackets is of no type of the language."""
    rows: list[n.Expr] = []
    inner: n.Expr = node
    while isinstance(inner, n.Index):
        rows.insert(0, inner.index)
        inner = inner.operand
    match inner:
        case n.Call(_, n.Name(text=kind), (behind,), ()):
            written = n.CType(kind)
        case n.Cast(_, written, behind, "c" | "construct"):
            pass
        case _:
            return None
    named = isinstance(behind, n.Unary) and behind.operator == "*" and behind.operand
    if not isinstance(named, n.Name) or written.pointers:
        return None
    if written.name not in CUDA.dtypes and written.name not in VECTORS:
        return None
    return n.Variable(node.at, named.text, replace(written, pointers=1, rows=tuple(rows)), value)


def cast_of(node: n.Binary, kind: n.Name) -> n.Cast:
    """`(T)*p` and `(T)-x`, which the grammar takes for a product and a difference."""
    operand = n.Unary(node.right.at, node.operator, node.right)
    return n.Cast(node.at, n.CType(kind.text), operand, "c")


def argument(builder: ExpressionBuilder, node: Syntax) -> n.Expr | None:
    """One parameter of `T x(y)`, `T x(y * z)` or `T x(y[i])`, read as a function that takes a `y`,
    as the value that it is; None when it can be none."""
    kind, other = node.child_by_field_name("type"), node.child_by_field_name("declarator")
    if node.type != "parameter_declaration" or kind is None:
        return None
    value, at = builder.expression(kind), builder.at(node)
    if other is None:
        return value
    sign = _SIGNS.get(other.type)
    inner = [c for c in other.named_children if sign and c.type in _OPERANDS]
    operand = inner[-1] if inner else other.child_by_field_name("size")
    if kind.type != "type_identifier" or operand is None:
        return None
    if sign is None and len(other.named_children) == 1:
        return n.Index(at, value, builder.expression(operand))
    return n.Binary(at, sign, value, builder.expression(operand)) if sign else None
