"""Shape operations of the reference interpreter: making tiles, bending and cutting them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from generators.reference.values import (
    MAX_ELEMENTS,
    Array,
    EvaluationError,
    Pointer,
    Tile,
    as_tile,
    integers,
    promoted,
    tile,
)
from kb.ir import Span


def full(shape: tuple[int, ...], value: object, dtype: str) -> Tile:
    """A tile of one value."""
    count = 1
    for extent in shape:
        count *= max(0, extent)
    if count > MAX_ELEMENTS or any(extent < 0 for extent in shape):
        raise EvaluationError(f"a tile of shape {shape}.", hint="Use smaller tiles.")
    return tile(np.broadcast_to(as_tile(value, dtype).data.reshape(()), shape), dtype)


def bent(value: object, change: Callable[[Array], Array]) -> Tile | Pointer:
    """A tile, or a tile of pointers, with its data re-arranged."""
    if isinstance(value, Pointer):
        return Pointer(value.buffer, value.dtype, change(value.offsets))
    held = as_tile(value)
    return Tile(change(held.data), held.dtype)


def shape_of(value: object) -> tuple[int, ...]:
    """Extents of a tile; a constant has none."""
    if isinstance(value, Pointer):
        return value.offsets.shape
    return as_tile(value).shape


def reshaped(value: object, shape: tuple[int, ...]) -> Tile | Pointer:
    """The same elements in another shape, row by row; -1 stands for what remains."""
    return bent(value, lambda data: data.reshape(shape))


def broadcast(value: object, shape: tuple[int, ...]) -> Tile | Pointer:
    """A tile repeated along its axes of extent one."""
    return bent(value, lambda data: np.broadcast_to(data, shape))


def permuted(value: object, axes: Sequence[int]) -> Tile | Pointer:
    """Axis k of the result is axis axes[k] of the tile; no axes: the last two change places."""
    if not axes:
        rank = len(shape_of(value))
        axes = [*range(rank - 2), rank - 1, rank - 2] if rank > 1 else range(rank)
    return bent(value, lambda data: np.transpose(data, tuple(axes)))


def swapped(value: object, one: int, other: int) -> Tile | Pointer:
    """Two axes exchanged."""
    return bent(value, lambda data: np.swapaxes(data, one, other))


def expanded(value: object, axes: tuple[int, ...]) -> Tile | Pointer:
    """New axes of extent one."""
    return bent(value, lambda data: np.expand_dims(data, axes))


def joined(tiles: Sequence[object], axis: int) -> Tile:
    """Tiles one after the other."""
    held = [as_tile(value) for value in tiles]
    dtype = held[0].dtype
    for other in held[1:]:
        dtype = promoted(dtype, other.dtype)
    return tile(np.concatenate([value.data for value in held], axis), dtype)


def stacked(one: object, other: object) -> Tile:
    """Two tiles side by side in a new last axis."""
    x, y = as_tile(one), as_tile(other)
    data = np.stack(np.broadcast_arrays(x.data, y.data), axis=-1)
    return tile(data, promoted(x.dtype, y.dtype))


def parts(value: object) -> tuple[Tile, Tile]:
    """The two halves of a last axis of extent two."""
    held = as_tile(value)
    if not held.shape or held.shape[-1] != 2:
        raise EvaluationError("split needs a last axis of extent two.", hint="Reshape first.")
    return Tile(held.data[..., 0], held.dtype), Tile(held.data[..., 1], held.dtype)


def extracted(value: object, index: tuple[int, ...], shape: tuple[int, ...]) -> Tile:
    """The part `index` of a tile that is cut into parts of `shape`."""
    held = as_tile(value)
    return Tile(held.data[_part(held, index, shape)], held.dtype)


def inserted(value: object, index: tuple[int, ...], part: object) -> Tile:
    """A tile with one of its parts replaced."""
    held, new = as_tile(value), as_tile(part)
    data = held.data.copy()
    data[_part(held, index, new.shape)] = as_tile(new, held.dtype).data
    return Tile(data, held.dtype)


def _part(held: Tile, index: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    if len(index) != len(shape) or len(shape) != len(held.shape):
        raise EvaluationError(f"part {index} of shape {shape} in a tile of shape {held.shape}.")
    cut = tuple(slice(at * n, (at + 1) * n) for at, n in zip(index, shape, strict=True))
    if any(s.start < 0 or s.stop > n for s, n in zip(cut, held.shape, strict=True)):
        raise EvaluationError(f"part {index} lies outside a tile of shape {held.shape}.")
    return cut


def subscripted(value: object, pattern: str, index: list[object], span: Span) -> object:
    """`x[None, :]` on a tile, by the pattern of the subscript."""
    words = pattern.rstrip(",").split(",")
    if any(word not in (":", "None", "...", "#") for word in words):
        raise EvaluationError(f"subscript [{pattern}] of a tile.", where=str(span))
    at = iter(index)
    key: list[Any] = []
    for word in words:
        if word == "#":
            key.append(integers(next(at), span)[0])
        else:
            key.append({":": slice(None), "None": None, "...": Ellipsis}[word])
    return bent(value, lambda data: data[tuple(key)])
