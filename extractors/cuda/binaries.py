"""Operators between two operands, also where the grammar takes what stands before one for a type:
`(a * (b * c)) + d` is no cast of `+d`, for nothing is cast to the type of a function, and
`(a[b]) && c` none of an address, and a variable of the file is no type; or for a template:
`a < b<1>(c)` is no call of `a<b < 1>`."""

from __future__ import annotations

import re
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING

from extractors.cuda import nodes as n
from extractors.cuda.grammar import syntax_tree
from extractors.cuda.precedence import WORDS, bound
from extractors.cuda.preprocess import Prepared

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax

    from extractors.cuda.parse_expressions import ExpressionBuilder

_SIGNED = ("unary_expression", "pointer_expression")
_ON_THE_WAY = (
    "abstract_pointer_declarator", "abstract_reference_declarator",
    "abstract_parenthesized_declarator",
)  # fmt: skip


def binary(builder: ExpressionBuilder, node: Syntax) -> n.Expr:
    """Two operands and what stands between them."""
    # Long sums nest to the left: build the chain without recursion.
    chain = [node]
    left = node.child_by_field_name("left")
    while left is not None and left.type == "binary_expression":
        chain.append(left)
        left = left.child_by_field_name("left")
    if _mistaken_below(builder, [left, *(one.child_by_field_name("right") for one in chain)]):
        operands, operators = _in_a_row(builder, node)
        return bound(builder.at(node), operands, operators)
    built = builder.expression(left)
    for one in reversed(chain):
        operator = _operator(builder, one)
        right = builder.expression(one.child_by_field_name("right"))
        built = n.Binary(builder.at(one), operator, built, right)
    return built


def cast(builder: ExpressionBuilder, node: Syntax) -> n.Expr:
    """`(kind) value`."""
    if _mistaken(builder, node):
        operands, operators = _in_a_row(builder, node)
        return bound(builder.at(node), operands, operators)
    kind = builder.descriptor(node.child_by_field_name("type"))
    return n.Cast(
        builder.at(node), kind, builder.expression(node.child_by_field_name("value")), "c"
    )


def compared(
    builder: ExpressionBuilder, node: Syntax
) -> tuple[Syntax, Syntax, tuple[Syntax, ...]] | None:
    """What a call of `a<b < 1, 2>` compares: the variable `a`, the name `b` and the arguments of
    that template; None for a call, or where the file declares no variable `a`."""
    function = node.child_by_field_name("function") if node.type == "call_expression" else None
    if function is None or function.type != "template_function":
        return None
    name, given = function.child_by_field_name("name"), function.child_by_field_name("arguments")
    inside = given.named_children if given is not None else []
    if name is None or not inside or inside[0].type != "binary_expression":
        return None
    first, *rest = inside
    sign = first.child_by_field_name("operator")
    called, argument = first.child_by_field_name("left"), first.child_by_field_name("right")
    if sign is None or sign.text != b"<" or called is None or argument is None:
        return None
    if called.type not in ("identifier", "qualified_identifier"):
        return None
    declared = rf"(?<!\breturn)[\w>&*]\s+{re.escape(builder.text(name))}\s*[=;,){{:]"
    if re.search(declared, builder.prepared.text) is None:
        return None
    return name, called, (argument, *rest)


def called_behind(
    builder: ExpressionBuilder, node: Syntax, parts: tuple[Syntax, Syntax, tuple[Syntax, ...]]
) -> n.Call:
    """The call on the right side of such a comparison."""
    _, called, given = parts
    name = builder.text(called)
    function = n.Name(builder.at(called), name, tuple(builder.argument(one) for one in given))
    arguments = builder.arguments(node.child_by_field_name("arguments"))
    return n.Call(builder.at(node), function, arguments)


def element(builder: ExpressionBuilder, node: Syntax) -> n.Expr:
    """`a[i]` behind a sign that the grammar takes for a pointer's."""
    array, at = (node.child_by_field_name(part) for part in ("declarator", "size"))
    if array is None or array.type != "identifier" or at is None:
        return builder.unread(node)
    return n.Index(builder.at(node), builder.expression(array), builder.expression(at))


def behind_start(operator: str, operand: n.Expr) -> n.Expr:
    """`a[i]` for `*(a + i)` whose address is taken; any other operand as it is."""
    match operand:
        case n.Unary(_, "*", n.Binary(_, "+", left, right)) if operator == "&":
            return n.Index(operand.at, left, right)
    return operand


def _mistaken(builder: ExpressionBuilder, node: Syntax | None) -> bool:
    """Whether a cast is none: `&&` stands behind the brackets, or a sign behind what is no type."""
    if node is None or node.type != "cast_expression":
        return False
    kind, value = node.child_by_field_name("type"), node.child_by_field_name("value")
    if kind is None or value is None or value.type not in _SIGNED:
        return False
    sign, _ = _sign(value)
    return sign == "&&" or (sign in ("+", "-", "*", "&") and _no_type(builder, kind))


def _sign(value: Syntax) -> tuple[str, Syntax | None]:
    """What a value begins with, two `&` side by side as one, and what follows."""
    written = value.child_by_field_name("operator")
    text = (written.text if written is not None else None) or b""
    rest = value.child_by_field_name("argument")
    if text == b"&" and rest is not None and rest.type == "pointer_expression":
        if (value.text or b"").startswith(b"&&"):
            return "&&", rest.child_by_field_name("argument")
    return text.decode("ascii", "replace"), rest


def _no_type(builder: ExpressionBuilder, kind: Syntax) -> bool:
    """True for the type of a function or an array, which nothing is cast to, and for a member of a
    template or of its parameter that is not said to be a type, or that has a value in the file."""
    part = kind.child_by_field_name("declarator")
    behind = part is not None and part.type != "abstract_parenthesized_declarator"
    while part is not None and part.type in _ON_THE_WAY:
        part = part.named_children[-1] if part.named_children else None
    if part is not None:
        plain = part.child_by_field_name("declarator") is None
        return (
            behind
            and plain
            and part.type in ("abstract_function_declarator", "abstract_array_declarator")
        )
    named = kind.child_by_field_name("type")
    if kind.named_child_count != 1 or named is None:
        return False
    if named.type == "type_identifier":
        return _variable(builder.text(named), builder.prepared.text)
    if named.type != "qualified_identifier":
        return False
    scope, name = named.child_by_field_name("scope"), builder.text(named).rpartition("::")[2]
    if scope is None or not name.isidentifier():
        return False
    text = builder.prepared.text
    dependent = re.search(rf"\b(?:typename|class)\s+{re.escape(builder.text(scope))}\b", text)
    return (
        scope.type == "template_type"
        or dependent is not None
        or re.search(rf"(?<!using )\b{name}\s*=(?!=)", text) is not None
    )


@lru_cache(maxsize=1024)
def _variable(name: str, text: str) -> bool:
    """Whether a file declares a variable of that name and no type of it."""
    if re.search(rf"\b(?:typename|class|struct|union|enum|using)\s+{name}\b", text):
        return False
    if re.search(rf"\btypedef\b[^;{{}}]*\b{name}\s*;", text):
        return False
    return re.search(rf"(?<!\breturn)[\w>&*]\s+{name}\s*[=;,){{:]", text) is not None


def _mistaken_below(builder: ExpressionBuilder, parts: list[Syntax | None]) -> bool:
    for part in parts:
        while part is not None and part.type == "binary_expression":
            part = part.child_by_field_name("left")
        if _mistaken(builder, part) or (part is not None and compared(builder, part) is not None):
            return True
    return False


def _operator(builder: ExpressionBuilder, node: Syntax) -> str:
    operator = builder.text(node.child_by_field_name("operator"))
    return WORDS.get(operator, operator)


def _in_a_row(builder: ExpressionBuilder, node: Syntax | None) -> tuple[list[n.Expr], list[str]]:
    """The operands that no brackets keep together, and the operators between them."""
    chain = []
    while node is not None and node.type == "binary_expression":
        chain.append(node)
        node = node.child_by_field_name("left")
    if chain:
        operands, operators = _in_a_row(builder, node)
        for one in reversed(chain):
            right, behind = _in_a_row(builder, one.child_by_field_name("right"))
            operands += right
            operators += [_operator(builder, one), *behind]
        return operands, operators
    parts = compared(builder, node) if node is not None else None
    if node is not None and parts is not None:
        return [builder.expression(parts[0]), called_behind(builder, node, parts)], ["<"]
    if node is None or not _mistaken(builder, node):
        return [builder.expression(node)], []
    value = node.child_by_field_name("value")
    sign, rest = _sign(value) if value is not None else ("", None)
    held, behind = _in_a_row(builder, rest)
    return [_again(builder, node.child_by_field_name("type")), *held], [sign, *behind]


def _again(builder: ExpressionBuilder, kind: Syntax | None) -> n.Expr:
    """What was taken for a type, read as an expression."""
    at = builder.at(kind) if kind is not None else n.Place(0, 0, 0, builder.path)
    head = " " * max(0, at.column - len("auto x = ")) + "auto x = "
    root = syntax_tree(f"{head}{builder.text(kind)};")
    found = [one for one in root.named_children if one.type == "declaration"]
    value = found[0].child_by_field_name("declarator") if found else None
    placed = copy(builder)
    placed.prepared = Prepared("", {}, [], [], [], [], [], _marks={0: [(0, at.line)]})
    return placed.expression(value.child_by_field_name("value") if value is not None else None)
