"""Compile-time sizes of a lowered program as numbers, and as text that a host can work out."""

from __future__ import annotations

from collections.abc import Mapping

from kb.ir import Literal, Op
from kb.ops import BINARY_BY_KIND, OpKind

MAX_DEPTH = 20
"""Nesting of an expression that is followed."""

_BINARY = (OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.FLOOR_DIV, OpKind.MOD)


def text_of(value: str, static: Mapping[str, Op | None], depth: int = 0) -> str | None:
    """A size over compile-time parameters in the grammar of the planner; None for another value."""
    if value not in static or depth > MAX_DEPTH:
        return None
    op = static[value]
    if op is None:
        return value
    if op.kind == OpKind.CONST:
        number = op.attribute("value")
        return str(number) if isinstance(number, int) and not isinstance(number, bool) else None
    if op.kind not in (*_BINARY, OpKind.CEIL_DIV) or len(op.inputs) != 2:
        return None
    sides = [text_of(side, static, depth + 1) for side in op.inputs]
    if None in sides:
        return None
    if op.kind == OpKind.CEIL_DIV:
        return f"cdiv({sides[0]}, {sides[1]})"
    return f"({sides[0]} {BINARY_BY_KIND[op.kind].symbol} {sides[1]})"


def number_of(
    value: str, static: Mapping[str, Op | None], known: Mapping[str, Literal], depth: int = 0
) -> int | None:
    """A size as a number, where the parameters in it are known."""
    if value not in static or depth > MAX_DEPTH:
        return None
    op = static[value]
    found = known.get(value) if op is None else op.attribute("value")
    if op is None or op.kind == OpKind.CONST:
        return found if isinstance(found, int) and not isinstance(found, bool) else None
    if op.kind not in (*_BINARY, OpKind.CEIL_DIV) or len(op.inputs) != 2:
        return None
    left, right = (number_of(side, static, known, depth + 1) for side in op.inputs)
    if left is None or right is None:
        return None
    match op.kind:
        case OpKind.ADD:
            return left + right
        case OpKind.SUB:
            return left - right
        case OpKind.MUL:
            return left * right
    if right == 0:
        return None
    match op.kind:
        case OpKind.FLOOR_DIV:
            return left // right
        case OpKind.MOD:
            return left % right
    return -(-left // right)
