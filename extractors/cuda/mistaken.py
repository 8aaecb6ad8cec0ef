"""What the grammar takes for something else than the compiler does."""

from __future__ import annotations

from extractors.cuda import nodes as n


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


def cast_of(node: n.Binary, kind: n.Name) -> n.Cast:
    """`(T)*p` and `(T)-x`, which the grammar takes for a product and a difference."""
    operand = n.Unary(node.right.at, node.operator, node.right)
    return n.Cast(node.at, n.CType(kind.text), operand, "c")
