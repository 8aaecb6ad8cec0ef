"""What the grammar takes for something else than the compiler does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extractors.cuda import nodes as n
from extractors.cuda.grammar import syntax_tree

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax

_ASKED = ("binary_expression", "conditional_expression")


def mistaken(node: n.Expr) -> n.Variable | None:
    """`A<b> name = value` and `A<b> name(value)` that the grammar takes for comparisons: what they
    compare would be thrown away, so each is a declaration."""
    match node:
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


def compared(node: Syntax) -> Syntax | None:
    """`a < b && c >= d` that the grammar takes for an assignment to the template `a<b && c>`: what
    it takes the same text for as a condition, at the same place. None for what is assigned."""
    left = node.child_by_field_name("left")
    sign = node.child_by_field_name("operator")
    last = left
    while last is not None and last.children:
        last = last.children[-1]
    if last is None or sign is None or last.type != ">" or last.end_byte != sign.start_byte:
        return None
    (row, column), text = node.start_point, (node.text or b"").decode("ascii", "replace")
    around = "\n" * (row - 1) + "void f() { if (\n" + " " * column + text + ") {} }"
    found = syntax_tree(around).descendant_for_point_range(node.start_point, node.end_point)
    return found if found is not None and found.type in _ASKED else None
