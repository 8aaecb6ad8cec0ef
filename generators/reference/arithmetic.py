"""Elementwise operations of the reference interpreter: tables from operation to NumPy function."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from generators.reference.values import (
    Array,
    EvaluationError,
    Pointer,
    Tile,
    as_tile,
    common,
    is_constant,
    is_float,
    tile,
)
from kb.ops import COMPARISONS, OpKind

Function = Callable[..., Any]


def _floor_divided(x: Array, y: Array) -> Array:
    return np.floor_divide(x, np.where(y == 0, np.ones_like(y), y))


def _truncated(x: Array, y: Array) -> Array:
    """Quotient rounded towards zero, as C and Triton round."""
    safe = np.where(y == 0, np.ones_like(y), y)
    if np.issubdtype(x.dtype, np.floating):
        return np.trunc(x / safe)
    return (x - np.fmod(x, safe)) // safe


def _remainder(x: Array, y: Array) -> Array:
    return np.fmod(x, np.where(y == 0, np.ones_like(y), y))


def _modulo(x: Array, y: Array) -> Array:
    return np.mod(x, np.where(y == 0, np.ones_like(y), y))


def _ceil_divided(x: Array, y: Array) -> Array:
    return -_floor_divided(-x, y)


def _high_product(x: Array, y: Array) -> Array:
    wide = x.astype(np.uint64) * y.astype(np.uint64)
    return wide >> np.uint64(32)


BINARY: dict[str, Function] = {
    OpKind.ADD: np.add, OpKind.SUB: np.subtract, OpKind.MUL: np.multiply, OpKind.DIV: np.divide,
    OpKind.FLOOR_DIV: _floor_divided, OpKind.MOD: _modulo, OpKind.POW: np.power,
    OpKind.MAXIMUM: np.fmax, OpKind.MINIMUM: np.fmin, OpKind.CEIL_DIV: _ceil_divided,
    OpKind.BIT_AND: np.bitwise_and, OpKind.BIT_OR: np.bitwise_or, OpKind.BIT_XOR: np.bitwise_xor,
    OpKind.SHIFT_LEFT: np.left_shift, OpKind.SHIFT_RIGHT: np.right_shift, OpKind.EQ: np.equal,
    OpKind.NE: np.not_equal, OpKind.LT: np.less, OpKind.LE: np.less_equal, OpKind.GT: np.greater,
    OpKind.GE: np.greater_equal, OpKind.AND: np.logical_and, OpKind.OR: np.logical_or,
    OpKind.ATAN2: np.arctan2, OpKind.UMULHI: _high_product,
}  # fmt: skip
TRUNCATING: dict[str, Function] = {OpKind.FLOOR_DIV: _truncated, OpKind.MOD: _remainder}
"""Integer division of the dialects that round towards zero."""

CONSTANT: dict[str, Function] = {
    OpKind.ADD: operator.add, OpKind.SUB: operator.sub, OpKind.MUL: operator.mul,
    OpKind.DIV: operator.truediv, OpKind.FLOOR_DIV: operator.floordiv, OpKind.MOD: operator.mod,
    OpKind.POW: operator.pow, OpKind.MAXIMUM: max, OpKind.MINIMUM: min,
    OpKind.CEIL_DIV: lambda x, y: -(-x // y), OpKind.BIT_AND: operator.and_,
    OpKind.BIT_OR: operator.or_, OpKind.BIT_XOR: operator.xor,
    OpKind.SHIFT_LEFT: lambda x, y: x << min(y, 64), OpKind.SHIFT_RIGHT: operator.rshift,
    OpKind.EQ: operator.eq, OpKind.NE: operator.ne, OpKind.LT: operator.lt,
    OpKind.LE: operator.le, OpKind.GT: operator.gt, OpKind.GE: operator.ge,
    OpKind.AND: lambda x, y: x and y, OpKind.OR: lambda x, y: x or y,
}  # fmt: skip
"""The same on compile-time values, as Python computes them."""

_TRUTHS = COMPARISONS | {OpKind.AND, OpKind.OR}
_FLOATING = frozenset({OpKind.DIV, OpKind.ATAN2})

_COUNTING = frozenset(
    {OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.FLOOR_DIV, OpKind.MOD, OpKind.CEIL_DIV}
)
"""Arithmetic in which truths count as integers."""

UNARY: dict[str, Function] = {
    OpKind.EXP: np.exp, OpKind.EXP2: np.exp2, OpKind.LOG: np.log, OpKind.LOG2: np.log2,
    OpKind.SQRT: np.sqrt, OpKind.RSQRT: lambda x: 1.0 / np.sqrt(x), OpKind.SIN: np.sin,
    OpKind.COS: np.cos, OpKind.TAN: np.tan, OpKind.SINH: np.sinh, OpKind.COSH: np.cosh,
    OpKind.TANH: np.tanh, OpKind.ERF: np.vectorize(math.erf, otypes=[np.float64]),
    OpKind.SIGMOID: lambda x: 1.0 / (1.0 + np.exp(-x)), OpKind.FLOOR: np.floor,
    OpKind.CEIL: np.ceil,
}  # fmt: skip
"""Functions of one real number."""

EXTERN: dict[str, Function] = {
    "expm1": np.expm1, "log1p": np.log1p, "log10": np.log10, "cbrt": np.cbrt, "rint": np.rint,
    "nearbyint": np.rint, "trunc": np.trunc, "round": lambda x: np.trunc(x + np.copysign(0.5, x)),
    "acos": np.arccos, "asin": np.arcsin, "atan": np.arctan, "acosh": np.arccosh,
    "asinh": np.arcsinh, "atanh": np.arctanh, "pow": np.power, "atan2": np.arctan2,
    "fmod": np.fmod, "hypot": np.hypot, "copysign": np.copysign, "div_rn": np.divide,
    "div_rz": np.divide, "fast_dividef": np.divide, "fast_expf": np.exp, "fast_tanhf": np.tanh,
    "fast_logf": np.log, "fast_log2f": np.log2, "fast_sinf": np.sin, "fast_cosf": np.cos,
    "fast_powf": np.power, "floor": np.floor, "ceil": np.ceil, "nextafter": np.nextafter,
    "isinf": np.isinf, "finitef": np.isfinite, "isfinited": np.isfinite, "signbit": np.signbit,
}  # fmt: skip
"""Library functions by their short name."""


def binary(kind: str, one: object, other: object, *, truncating: bool = False) -> object:
    """An operator on two values; constants stay constants."""
    if is_constant(one) and is_constant(other) and kind in CONSTANT:
        if truncating and isinstance(one, int) and isinstance(other, int) and kind == OpKind.DIV:
            return float(one / other)
        return CONSTANT[kind](one, other)
    if kind in (OpKind.EQ, OpKind.NE) and not (_numeric(one) and _numeric(other)):
        return (one == other) is (kind == OpKind.EQ)
    if isinstance(one, Pointer) or isinstance(other, Pointer):
        return _moved(kind, one, other)
    if kind in (OpKind.AND, OpKind.OR):
        return _logical(kind, one, other)
    dtype = common(one, other)
    if kind in _FLOATING and not is_float(dtype):
        dtype = "f32"
    if dtype == "i1" and kind in _COUNTING:
        dtype = "i32"
    x, y = as_tile(one, dtype).data, as_tile(other, dtype).data
    integral = not is_float(dtype)
    function = TRUNCATING[kind] if truncating and integral and kind in TRUNCATING else BINARY[kind]
    with np.errstate(all="ignore"):
        found = function(*_widened(x, y, dtype))
    return tile(found, "i1" if kind in _TRUTHS else dtype)


def _numeric(value: object) -> bool:
    return isinstance(value, Tile | Pointer | bool | int | float)


def _widened(x: Array, y: Array, dtype: str) -> tuple[Array, Array]:
    """Half precision computes in single and rounds once; booleans count as integers."""
    if dtype == "f16":
        return x.astype(np.float32), y.astype(np.float32)
    return x, y


def _logical(kind: str, one: object, other: object) -> object:
    if is_constant(one):
        short = not one if kind == OpKind.AND else bool(one)
        return one if short else other
    if is_constant(other):
        settles = not other if kind == OpKind.AND else bool(other)
        return other if settles else one
    return tile(BINARY[kind](as_tile(one).data, as_tile(other).data), "i1")


def _moved(kind: str, one: object, other: object) -> object:
    """A pointer moved by elements, or two pointers compared or subtracted."""
    if isinstance(one, Pointer) and isinstance(other, Pointer):
        if kind in COMPARISONS:
            return tile(BINARY[kind](one.offsets, other.offsets), "i1")
        if kind == OpKind.SUB:
            return tile(one.offsets - other.offsets, "i64")
    held, by = (one, other) if isinstance(one, Pointer) else (other, one)
    if not isinstance(held, Pointer) or kind not in (OpKind.ADD, OpKind.SUB):
        raise EvaluationError(f"`{kind}` on a pointer.", hint="Pointers move by whole elements.")
    step = as_tile(by).data.astype(np.int64)
    offsets = held.offsets + step if kind == OpKind.ADD else held.offsets - step
    return Pointer(held.buffer, held.dtype, offsets)


def unary(function: Function, value: object) -> object:
    """A function of one real number, computed in single precision for half and for integers."""
    if isinstance(value, int | float):
        return float(function(np.float64(value)))
    held = as_tile(value)
    dtype = held.dtype if is_float(held.dtype) else "f32"
    data = held.data if dtype == "f64" else held.data.astype(np.float32)
    with np.errstate(all="ignore"):
        return tile(function(data), dtype)


def negated(value: object) -> object:
    """Minus a value."""
    if isinstance(value, int | float):
        return -value
    held = as_tile(value)
    with np.errstate(all="ignore"):
        return tile(np.negative(held.data), held.dtype)


def absolute(value: object) -> object:
    """Magnitude."""
    if isinstance(value, int | float):
        return abs(value)
    held = as_tile(value)
    return tile(np.abs(held.data), held.dtype)


def inverted(value: object) -> object:
    """Bits inverted; a truth is negated."""
    if isinstance(value, bool | int):
        return not value if isinstance(value, bool) else ~value
    held = as_tile(value)
    return tile(np.invert(held.data), held.dtype)


def negation(value: object) -> object:
    """`not`: of a constant as Python has it, of a tile in every element."""
    if not isinstance(value, Tile):
        return not value
    return tile(value.data == 0, "i1")


def selected(condition: object, one: object, other: object) -> object:
    """`one` where the condition holds, `other` elsewhere."""
    chosen = as_tile(condition).data != 0
    if isinstance(one, Pointer) and isinstance(other, Pointer):
        return Pointer(one.buffer, one.dtype, np.where(chosen, one.offsets, other.offsets))
    dtype = common(one, other)
    return tile(np.where(chosen, as_tile(one, dtype).data, as_tile(other, dtype).data), dtype)


def fused(x: object, y: object, z: object) -> object:
    """x * y + z, rounded once."""
    dtype = common(as_tile(x, common(x, y)), z)
    a, b, c = (as_tile(value, dtype).data.astype(np.float64) for value in (x, y, z))
    return tile(a * b + c, dtype)


def clamped(x: object, low: object, high: object) -> object:
    """x kept between two bounds."""
    return binary(OpKind.MINIMUM, binary(OpKind.MAXIMUM, x, low), high)
