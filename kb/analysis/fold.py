"""Literals computed from literals: what stays known after a helper is bound to constants."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

from kb.ir import Literal, Op
from kb.ops import OpKind

_BINARY: dict[str, Callable[..., Literal]] = {
    OpKind.ADD: operator.add, OpKind.SUB: operator.sub, OpKind.MUL: operator.mul,
    OpKind.DIV: operator.truediv, OpKind.FLOOR_DIV: operator.floordiv, OpKind.MOD: operator.mod,
    OpKind.EQ: operator.eq, OpKind.NE: operator.ne, OpKind.LT: operator.lt,
    OpKind.LE: operator.le, OpKind.GT: operator.gt, OpKind.GE: operator.ge,
    OpKind.MAXIMUM: max, OpKind.MINIMUM: min, OpKind.IS: lambda a, b: a is b,
    OpKind.IS_NOT: lambda a, b: a is not b, OpKind.BIT_AND: operator.and_,
    OpKind.BIT_OR: operator.or_,
}  # fmt: skip
_PASS = frozenset({OpKind.COPY, OpKind.POS})


def fold(op: Op, known: Mapping[str, Literal]) -> Literal:
    """The literal that an operation gives when its operands are literals, else None."""
    if len(op.results) != 1:
        return None
    if op.kind == OpKind.CONST:
        return op.attribute("value")
    if op.kind in (OpKind.AND, OpKind.OR):
        return _logic(op, known)
    values = [known.get(name) for name in op.inputs]
    if not values or any(value is None for value in values):
        return None
    if op.kind in _PASS:
        return values[0]
    if op.kind == OpKind.NOT:
        return not values[0]
    first = values[0]
    if op.kind == OpKind.NEG and isinstance(first, int | float):
        return -first
    function = _BINARY.get(op.kind)
    return _apply(function, values) if function and len(values) == 2 else None


def _logic(op: Op, known: Mapping[str, Literal]) -> Literal:
    """`and` and `or` are decided by one side when that side settles them."""
    settles = op.kind == OpKind.OR
    values = [known.get(name) for name in op.inputs]
    if any(value is not None and bool(value) is settles for value in values):
        return settles
    return None if any(value is None for value in values) else not settles


def _apply(function: Callable[..., Literal], values: list[Literal]) -> Literal:
    try:
        result = function(*values)
    except (ArithmeticError, TypeError, ValueError):
        return None
    if isinstance(result, float) and math.isnan(result):
        return None
    return result
