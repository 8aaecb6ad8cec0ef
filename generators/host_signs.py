"""Which parameters of a kernel its host keeps from being negative."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from generators.launch_point import LaunchPoint
from kb.dsl.model import Document
from kb.ir import Kernel, ParameterKind
from kb.planner.expressions import parse
from kb.planner.nodes import (
    Attribute,
    Binary,
    BinaryOperator,
    Call,
    Compare,
    Comparison,
    Conditional,
    Expr,
    Index,
    Literal,
    Name,
)

_SIZES = frozenset({"shape", "ndim", "element_size", "sms"})
_CALLS = frozenset({"cdiv", "next_power_of_two", "len", "abs", "prod", "sum", "min", "max"})
_KEEP = frozenset(
    {BinaryOperator.ADD, BinaryOperator.MULTIPLY, BinaryOperator.FLOOR_DIVIDE,
     BinaryOperator.MODULO}
)  # fmt: skip


def natural_parameters(document: Document, kernel: Kernel, point: LaunchPoint) -> frozenset[str]:
    """Parameters bound to sizes and their products, and scalars that a constraint keeps from zero
    up: such a constraint becomes a check of the host.
    """
    bound = dict(point.bindings)
    tuned = dict(point.values)
    found = {name for name, value in tuned.items() if value >= 0}
    found |= {name for name, text in bound.items() if _natural(parse(text), tuned)}
    scalars = {p.name for p in kernel.entry.parameters if p.kind is not ParameterKind.CONSTEXPR}
    return frozenset(found | (set(_kept(document)) & scalars & set(bound)))


def _kept(document: Document) -> Iterator[str]:
    for constraint in document.space.constraints:
        match parse(constraint.expression):
            case Compare(
                first=Name(name=name),
                links=((Comparison.GREATER_EQUAL | Comparison.GREATER, Literal(value=int(low))),),
            ) if low >= 0:
                yield name


def _natural(expr: Expr, tuned: Mapping[str, int]) -> bool:
    """True for sizes, numbers from zero up, and what they add and multiply to."""
    match expr:
        case Literal(value=value):
            return isinstance(value, int) and value >= 0
        case Name(name=name):
            return tuned.get(name, -1) >= 0
        case Attribute(name=name):
            return name in _SIZES
        case Index(value=value):
            return _natural(value, tuned)
        case Binary(operator=operator, left=left, right=right) if operator in _KEEP:
            return _natural(left, tuned) and _natural(right, tuned)
        case Call(function=function, arguments=arguments) if function in _CALLS:
            return all(_natural(argument, tuned) for argument in arguments)
        case Conditional(then=then, otherwise=otherwise):
            return _natural(then, tuned) and _natural(otherwise, tuned)
    return False
