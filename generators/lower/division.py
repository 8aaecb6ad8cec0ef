"""Integer quotients and remainders as cuTile rounds them: down, or up for a ceiling.

Triton rounds towards zero, in its compiler and in its interpreter alike, and `tl.cdiv` adds the
divisor before it does. Where both sides are proved not to be negative that is the same; a divisor
fixed at compile time is asserted to be positive; elsewhere the result is put right.
"""

from __future__ import annotations

from generators.lower.lowering import Lowering, Rule
from kb.ir import Op
from kb.ops import OpKind

_FLOATS = ("f32", "f64")


def _divided(low: Lowering, op: Op) -> str | None:
    lhs, rhs = op.inputs
    if low.dtypes.of(lhs) in _FLOATS or low.dtypes.of(rhs) in _FLOATS:
        return _floats(low, op)
    static = low.builder.static
    if all(low.names[side] in static for side in (lhs, rhs)):
        low.copy(op)
        return None
    positive = low.signs.natural(rhs) or _asserted(low, op, low.names[rhs])
    if positive and low.signs.natural(lhs):
        low.copy(op)
        return None
    return _corrected(low, op, positive=positive)


def _asserted(low: Lowering, op: Op, divisor: str) -> bool:
    """True for a divisor fixed at compile time, which the kernel then asserts to be positive."""
    if divisor not in low.builder.static:
        return False
    if divisor not in low.builder.constants:
        low.assert_positive(divisor, op)
        return True
    number = low.builder.constants[divisor]
    return isinstance(number, int) and number > 0


def _corrected(low: Lowering, op: Op, *, positive: bool) -> str:
    b, (lhs, rhs) = low.builder, (low.names[side] for side in op.inputs)
    rest = b.add(OpKind.MOD, [("lhs", lhs), ("rhs", rhs)], hint="remainder")
    up = op.kind == OpKind.CEIL_DIV
    zero = b.constant(0)
    if positive:
        wrong = b.binary(OpKind.GT if up else OpKind.LT, rest, zero)
    else:
        below = [b.binary(OpKind.LT, side, zero) for side in (rest, rhs)]
        apart = b.binary(OpKind.EQ if up else OpKind.NE, *below)
        wrong = b.binary(OpKind.BIT_AND, b.binary(OpKind.NE, rest, zero), apart)
    if op.kind == OpKind.MOD:
        return _chosen(low, wrong, b.binary(OpKind.ADD, rest, rhs), rest)
    whole = b.add(OpKind.FLOOR_DIV, [("lhs", lhs), ("rhs", rhs)], hint="quotient")
    step = OpKind.ADD if up else OpKind.SUB
    return _chosen(low, wrong, b.binary(step, whole, b.constant(1)), whole)


def _chosen(low: Lowering, condition: str, one: str, other: str) -> str:
    operands = [("condition", condition), ("x", one), ("y", other)]
    return low.builder.add(OpKind.SELECT, operands)


def _floats(low: Lowering, op: Op) -> str:
    """A quotient of floats is rounded after the division; a remainder has the divisor's sign."""
    if op.kind == OpKind.MOD:
        return _corrected(low, op, positive=False)
    b = low.builder
    quotient = b.add(OpKind.DIV, [(role, low.names[value]) for role, value in op.operands])
    return b.add(OpKind.CEIL if op.kind == OpKind.CEIL_DIV else OpKind.FLOOR, [("x", quotient)])


RULES: dict[str, Rule] = dict.fromkeys((OpKind.FLOOR_DIV, OpKind.MOD, OpKind.CEIL_DIV), _divided)
