"""`(a < 0 || b >= n)`, which the grammar takes for `a<0 || b> = n`: read as comparisons; and
`A<f(b)>`, which it takes for the type of a function: read as a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from extractors.cuda import nodes as n
from extractors.cuda.precedence import WORDS, bound

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax


class _Builder(Protocol):
    """What reads the parts."""

    def at(self, node: Syntax) -> n.Place:
        """Where a node stands."""
        ...

    def expression(self, node: Syntax | None) -> n.Expr:
        """The expression of a node."""
        ...

    def written(self, node: Syntax | None) -> n.CType:
        """The type of a node."""
        ...


def comparison(builder: _Builder, node: Syntax) -> n.Expr | None:
    """What an assignment to a template with arguments says; None for an assignment to anything
    else, or where the sign and the bracket before it stand apart."""
    right = node.child_by_field_name("right")
    choice = right if right is not None and right.type == "conditional_expression" else None
    if choice is not None:
        right = choice.child_by_field_name("condition")
    parts = _compared(node, right)
    operators = [one for one in parts or () if isinstance(one, str)]
    if parts is None or parts[1::2] != operators or len(parts) != 2 * len(operators) + 1:
        return None  # a template with its arguments stands for an operand
    place = builder.at(node)
    operands = [builder.expression(one) for one in parts[::2] if not isinstance(one, str)]
    asked = bound(place, operands, operators)
    if choice is None:
        return asked
    sides = [choice.child_by_field_name(side) for side in ("consequence", "alternative")]
    then, other = (builder.expression(side) for side in sides)
    return n.Choice(place, asked, then, other)


def _compared(node: Syntax, right: Syntax | None) -> list[Syntax | str] | None:
    """Operands and operators in turn."""
    left, sign = node.child_by_field_name("left"), node.child_by_field_name("operator")
    adjacent = left is not None and sign is not None and left.end_byte == sign.start_byte
    if left is None or right is None or not adjacent or sign is None or sign.text != b"=":
        return None
    before = _flat(left)
    return [*before[:-1], ">=", *_flat(right)] if before[-1] == ">" else None


def _flat(node: Syntax) -> list[Syntax | str]:
    """Operands and operators in turn; behind the arguments of a template no operand is left."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if node.type == "assignment_expression":
        return _compared(node, right) or [node]
    if node.type == "binary_expression" and left is not None and right is not None:
        sign = node.child_by_field_name("operator")
        word = (sign.text or b"").decode() if sign is not None else ""
        return [*_flat(left), WORDS.get(word, word), *_flat(right)]
    name, given = node.child_by_field_name("name"), node.child_by_field_name("arguments")
    if node.type == "template_function" and name is not None and given is not None:
        inner = given.named_children
        if len(inner) == 1 and inner[0].type != "type_descriptor":
            return [name, "<", *_flat(inner[0]), ">"]
    return [node]


def call_in_template(builder: _Builder, node: Syntax) -> n.Expr | None:
    """The call, or the cast, that a template argument is which looks like the type of a function of
    plain names; None for other types, and where the result is a type of the language."""
    kind, behind = node.child_by_field_name("type"), node.child_by_field_name("declarator")
    listed = behind.child_by_field_name("parameters") if behind is not None else None
    if kind is None or listed is None or kind.type not in _NAMED:
        return None
    given = listed.named_children
    plain = all(
        one.type == "parameter_declaration" and one.named_child_count == 1
        and one.named_children[0].type in _NAMED for one in given
    )  # fmt: skip
    if not given or not plain or behind is None or behind.type != "abstract_function_declarator":
        return None
    place, called = builder.at(node), builder.written(kind)
    names = [builder.written(one.named_children[0]) for one in given]
    values = [n.Name(place, one.name, one.arguments) for one in names]
    if called.name != "static_cast":
        return n.Call(place, n.Name(place, called.name, called.arguments), tuple(values))
    to = called.arguments[0] if len(called.arguments) == 1 else None
    return n.Cast(place, to, values[0], "static") if isinstance(to, n.CType) else None


_NAMED = ("type_identifier", "template_type", "qualified_identifier")
