"""The expression tree: frozen nodes. `kb.planner.expressions` reads and writes them as text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kb.space import Scalar


class UnaryOperator(StrEnum):
    """Operators with one operand."""

    NEGATE = "-"
    NOT = "not"


class BinaryOperator(StrEnum):
    """Arithmetic with two operands."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    FLOOR_DIVIDE = "//"
    MODULO = "%"
    POWER = "**"


class Comparison(StrEnum):
    """Links of a comparison chain."""

    EQUAL = "=="
    UNEQUAL = "!="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    IN = "in"
    NOT_IN = "not in"


class BooleanOperator(StrEnum):
    """`and`, `or`: short circuit, any number of operands."""

    AND = "and"
    OR = "or"


class SequenceKind(StrEnum):
    """How a sequence was written; both evaluate to a tuple."""

    LIST = "list"
    TUPLE = "tuple"


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, string, boolean or None; numbers are finite."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Name:
    """An axis, problem size, parameter or record such as `target`."""

    name: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """`value.name`."""

    value: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Index:
    """`value[index]`."""

    value: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Unary:
    """`operator operand`; a negated number literal is folded into the literal."""

    operator: UnaryOperator
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """`left operator right`."""

    operator: BinaryOperator
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Compare:
    """`first link link …`: a chain; each link compares with the operand before it."""

    first: Expr
    links: tuple[tuple[Comparison, Expr], ...]


@dataclass(frozen=True, slots=True)
class Boolean:
    """`a and b and c`; at least two operands."""

    operator: BooleanOperator
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Conditional:
    """`then if condition else otherwise`."""

    then: Expr
    condition: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Sequence:
    """`[a, b]` or `(a, b)`."""

    kind: SequenceKind
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """`function(arguments)`; only the functions of `kb.planner.evaluation` are known."""

    function: str
    arguments: tuple[Expr, ...]


Expr = (
    Literal
    | Name
    | Attribute
    | Index
    | Unary
    | Binary
    | Compare
    | Boolean
    | Conditional
    | Sequence
    | Call
)
"""Any node."""


def children(expr: Expr) -> tuple[Expr, ...]:
    """The nodes directly below `expr`, in source order."""
    match expr:
        case Literal() | Name():
            return ()
        case Attribute(value=value):
            return (value,)
        case Index(value=value, index=index):
            return (value, index)
        case Unary(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return (left, right)
        case Compare(first=first, links=links):
            return (first, *(operand for _, operand in links))
        case Boolean(operands=operands):
            return operands
        case Conditional(then=then, condition=condition, otherwise=otherwise):
            return (then, condition, otherwise)
        case Sequence(items=items):
            return items
        case Call(arguments=arguments):
            return arguments


def depth(expr: Expr) -> int:
    """Longest path from `expr` down to a leaf, in nodes."""
    deepest = 0
    pending = [(expr, 1)]
    while pending:
        node, level = pending.pop()
        deepest = max(deepest, level)
        pending.extend((child, level + 1) for child in children(node))
    return deepest
