"""Reductions, scans, sorting and contractions of the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from generators.reference.values import (
    Array,
    EvaluationError,
    Tile,
    as_tile,
    is_float,
    promoted,
    rounded,
    tile,
)
from kb.ops import OpKind

Values = tuple[object, ...]
Combine = Callable[[Values, Values], Values]

REDUCTIONS: dict[str, Any] = {
    OpKind.REDUCE_SUM: np.add.reduce, OpKind.REDUCE_PROD: np.multiply.reduce,
    OpKind.REDUCE_MAX: np.fmax.reduce, OpKind.REDUCE_MIN: np.fmin.reduce,
    OpKind.REDUCE_XOR: np.bitwise_xor.reduce, OpKind.REDUCE_OR: np.bitwise_or.reduce,
    OpKind.CUMSUM: np.add.accumulate, OpKind.CUMPROD: np.multiply.accumulate,
}  # fmt: skip
ORDERED: dict[str, Any] = {OpKind.ARGMAX: np.argmax, OpKind.ARGMIN: np.argmin}
_WIDENED = frozenset({"i1", "i8", "i16", "u8", "u16"})
_SUMS = frozenset({OpKind.REDUCE_SUM, OpKind.REDUCE_PROD, OpKind.CUMSUM, OpKind.CUMPROD})


def _summed_dtype(kind: str, dtype: str) -> str:
    """Sums of short integers are 32 bits wide."""
    if kind in _SUMS and dtype in _WIDENED:
        return "u32" if dtype[0] == "u" else "i32"
    return dtype


def reduced(kind: str, value: object, axis: int | tuple[int, ...] | None, keepdims: bool) -> Tile:
    """A reduction over one axis, several, or all."""
    held = as_tile(value)
    dtype = _summed_dtype(kind, held.dtype)
    data = held.data.astype(np.float64) if is_float(dtype) else rounded(held.data, dtype)
    axes = tuple(range(data.ndim)) if axis is None else axis
    with np.errstate(all="ignore"):
        return tile(REDUCTIONS[kind](data, axis=axes, keepdims=keepdims), dtype)


def position(kind: str, value: object, axis: int | None, keepdims: bool) -> Tile:
    """Index of the first extreme element."""
    data = as_tile(value).data
    return tile(ORDERED[kind](data, axis=axis, keepdims=keepdims), "i32")


def scanned(kind: str, value: object, axis: int, reverse: bool) -> Tile:
    """A running sum or product."""
    held = as_tile(value)
    dtype = _summed_dtype(kind, held.dtype)
    data = held.data.astype(np.float64) if is_float(dtype) else rounded(held.data, dtype)
    data = np.flip(data, axis) if reverse else data
    with np.errstate(all="ignore"):
        found = REDUCTIONS[kind](data, axis=axis)
    return tile(np.flip(found, axis) if reverse else found, dtype)


def _at(held: Tile, step: int, axis: int) -> Tile:
    return Tile(held.data.take(step, axis), held.dtype)


def folded(values: Values, axis: int | None, keepdims: bool, combine: Combine) -> Values:
    """A reduction with a function of the program, in order."""
    held = [as_tile(value) for value in values]
    if axis is None:
        held = [Tile(item.data.reshape(-1), item.dtype) for item in held]
    along = 0 if axis is None else axis
    count = held[0].shape[along]
    state: Values = tuple(_at(item, 0, along) for item in held)
    for step in range(1, count):
        state = combine(state, tuple(_at(item, step, along) for item in held))
    if keepdims and axis is not None:
        return tuple(
            Tile(np.expand_dims(as_tile(item).data, axis), as_tile(item).dtype) for item in state
        )
    return state


def run_through(values: Values, axis: int, reverse: bool, combine: Combine) -> Values:
    """A scan with a function of the program, in order."""
    held = [as_tile(value) for value in values]
    count = held[0].shape[axis]
    steps = range(count - 1, -1, -1) if reverse else range(count)
    state: Values | None = None
    columns: list[list[Array]] = [[] for _ in held]
    for step in steps:
        here = tuple(_at(item, step, axis) for item in held)
        state = here if state is None else combine(state, here)
        for column, item in zip(columns, state, strict=True):
            column.append(as_tile(item).data)
    if state is None:
        raise EvaluationError("a scan over nothing.", hint="Give the axis an extent.")
    ordered = [column[::-1] if reverse else column for column in columns]
    return tuple(
        tile(np.stack(column, axis), as_tile(item).dtype)
        for column, item in zip(ordered, state, strict=True)
    )


def contracted(lhs: object, rhs: object, acc: object, out: str | None, tensor_float: bool) -> Tile:
    """acc + lhs @ rhs, integers in 32 bits.

    Floats multiply exactly and sum in double precision before the one rounding to the accumulator,
    as reductions do: the order inside one product, which no dialect defines, then leaves no trace.
    """
    x, y = as_tile(lhs), as_tile(rhs)
    if is_float(x.dtype) and x.dtype != y.dtype and "f8" not in x.dtype[:2] + y.dtype[:2]:
        raise EvaluationError(f"a product of {x.dtype} and {y.dtype}.", hint="Cast one side.")
    base = as_tile(acc) if acc is not None else None
    whole = not is_float(x.dtype)
    dtype = base.dtype if base else out or ("i32" if whole else "f32")
    one, other = x.data, y.data
    if whole:
        product = np.matmul(one.astype(np.int64), other.astype(np.int64))
    else:
        if tensor_float and promoted(x.dtype, y.dtype) == "f32":
            one, other = rounded(one, "tf32"), rounded(other, "tf32")
        with np.errstate(all="ignore"):
            product = np.matmul(one.astype(np.float64), other.astype(np.float64))
    with np.errstate(all="ignore"):
        return tile(product if base is None else base.data + product, dtype)


def ordered(value: object, axis: int, descending: bool) -> Tile:
    """Sorted along an axis."""
    held = as_tile(value)
    data = np.sort(held.data, axis=axis)
    return Tile(np.flip(data, axis) if descending else data, held.dtype)


def counted(value: object, bins: int, mask: object) -> Tile:
    """How often each whole number below `bins` stands in a tile."""
    data = as_tile(value).data.reshape(-1)
    if mask is not None:
        data = data[np.broadcast_to(as_tile(mask).data, as_tile(value).shape).reshape(-1)]
    inside = data[(data >= 0) & (data < bins)]
    return tile(np.bincount(inside, minlength=bins), "i32")


def picked(value: object, index: object, axis: int) -> Tile:
    """Elements taken along an axis by index."""
    held = as_tile(value)
    at = as_tile(index).data.astype(np.int64)
    return Tile(np.take_along_axis(held.data, at, axis), held.dtype)
