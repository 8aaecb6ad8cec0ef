"""The expression grammar of constraints, launches and the DSL: text to tree and back, never `eval`.

Normal form: one space around binary operators and comparisons, strings in double quotes, `True`,
`False` and `None`, parentheses only where the tree needs them. `parse(to_text(tree)) == tree`.
"""

from __future__ import annotations

import json
import math

from kb.planner.evaluation import dotted, evaluate
from kb.planner.nodes import (
    Attribute,
    Binary,
    BinaryOperator,
    Boolean,
    BooleanOperator,
    Call,
    Compare,
    Conditional,
    Expr,
    Index,
    Literal,
    Name,
    Sequence,
    SequenceKind,
    Unary,
    UnaryOperator,
    children,
)
from kb.planner.parsing import LEVELS, Parser, unquoted
from kb.space import Scalar

__all__ = [
    "evaluate",
    "names",
    "parse",
    "quoted",
    "scalar_text",
    "to_text",
    "unquoted",
]

CONDITIONAL, OR, AND, NOT, COMPARE, NEGATE, POWER, ATOM = 1, 2, 3, 4, 5, 8, 9, 10
"""How tightly each form binds; a child that binds less than its place asks gets parentheses."""


def parse(text: str, *, where: str = "") -> Expr:
    """The tree of `text`; else SyntaxProblem with `where`, line:column and a hint."""
    return Parser(text, where).read()


def to_text(expr: Expr) -> str:
    """The one normal text of `expr`."""
    return _text(expr, CONDITIONAL)


def names(expr: Expr) -> frozenset[str]:
    """Every free name, dotted ones in full: `target.sms`; `Q.shape[2]` gives `Q.shape`."""
    found: set[str] = set()
    pending = [expr]
    while pending:
        node = pending.pop()
        path = dotted(node)
        if path is None:
            pending.extend(children(node))
        else:
            found.add(path)
    return frozenset(found)


def quoted(text: str) -> str:
    """`text` as a string of the grammar, in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def scalar_text(value: Scalar) -> str:
    """A value as the grammar writes it."""
    return quoted(value) if isinstance(value, str) else repr(value)


def _level(expr: Expr) -> int:
    match expr:
        case Conditional():
            return CONDITIONAL
        case Boolean(operator=operator):
            return OR if operator is BooleanOperator.OR else AND
        case Unary(operator=operator):
            return NOT if operator is UnaryOperator.NOT else NEGATE
        case Compare():
            return COMPARE
        case Binary(operator=operator):
            return LEVELS[operator]
        case Literal(value=value) if _is_negative(value):
            return NEGATE
    return ATOM


def _is_negative(value: Scalar) -> bool:
    return isinstance(value, int | float) and math.copysign(1, value) < 0


def _text(expr: Expr, needed: int) -> str:
    body = _body(expr)
    return body if _level(expr) >= needed else f"({body})"


def _body(expr: Expr) -> str:
    match expr:
        case Literal(value=value):
            return scalar_text(value)
        case Name(name=name):
            return name
        case Attribute(value=value, name=name):
            return f"{_owner(value)}.{name}"
        case Index(value=value, index=index):
            return f"{_owner(value)}[{_text(index, CONDITIONAL)}]"
        case Unary(operator=UnaryOperator.NOT, operand=operand):
            return f"not {_text(operand, NOT)}"
        case Unary(operand=operand):
            return f"-{_text(operand, NEGATE)}"
        case Binary(operator=BinaryOperator.POWER, left=left, right=right):
            return f"{_text(left, ATOM)} ** {_text(right, NEGATE)}"
        case Binary(operator=operator, left=left, right=right):
            level = LEVELS[operator]
            return f"{_text(left, level)} {operator} {_text(right, level + 1)}"
        case Compare(first=first, links=links):
            tail = "".join(f" {link} {_text(operand, COMPARE + 1)}" for link, operand in links)
            return _text(first, COMPARE + 1) + tail
        case Boolean(operator=operator, operands=operands):
            level = (OR if operator is BooleanOperator.OR else AND) + 1
            return f" {operator} ".join(_text(operand, level) for operand in operands)
        case Conditional(then=then, condition=condition, otherwise=otherwise):
            head = f"{_text(then, OR)} if {_text(condition, OR)}"
            return f"{head} else {_text(otherwise, CONDITIONAL)}"
        case Sequence(kind=kind, items=items):
            return _sequence(kind, items)
        case Call(function=function, arguments=arguments):
            return f"{function}({_listed(arguments)})"


def _owner(expr: Expr) -> str:
    """The part before `.` or `[`: a number there gets parentheses (`1.x` is a number)."""
    return f"({_body(expr)})" if isinstance(expr, Literal) else _text(expr, ATOM)


def _sequence(kind: SequenceKind, items: tuple[Expr, ...]) -> str:
    if kind is SequenceKind.LIST:
        return f"[{_listed(items)}]"
    return f"({_listed(items)},)" if len(items) == 1 else f"({_listed(items)})"


def _listed(items: tuple[Expr, ...]) -> str:
    return ", ".join(_text(item, CONDITIONAL) for item in items)
