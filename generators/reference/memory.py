"""Arrays by tile index and by element index: how cuTile reads and writes global memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from generators.reference.values import (
    Array,
    ArrayView,
    EvaluationError,
    Section,
    Tile,
    as_tile,
    is_float,
    rounded,
    tile,
)
from kb.ops import OpKind

_PADDING = {
    "padding.zero": 0.0, "padding.neg_zero": -0.0, "padding.nan": np.nan,
    "padding.neg_inf": -np.inf, "padding.pos_inf": np.inf,
}  # fmt: skip
_EXTREME = {"padding.neg_inf": "min", "padding.pos_inf": "max"}
POISON = 0x2AAAAAAA
"""What poisoned integers read as; masked to the width of the dtype."""


@dataclass(frozen=True, slots=True)
class Padding:
    """What lanes outside an array read as: a mode of the dialect, or a number."""

    mode: str = "padding.undetermined"
    number: object = None
    poison: bool = False

    def fill(self, dtype: str) -> Array:
        """The value as one element."""
        if self.number is not None:
            return as_tile(self.number, dtype).data
        if self.mode == "padding.undetermined":
            if not self.poison:
                return np.asarray(as_tile(0, dtype).data)
            return as_tile(np.nan if is_float(dtype) else POISON, dtype).data
        if self.mode in _EXTREME and not is_float(dtype):
            info = np.iinfo(rounded(np.zeros(()), dtype).dtype)
            return np.asarray(getattr(info, _EXTREME[self.mode]), info.dtype)
        return as_tile(_PADDING[self.mode], dtype).data


@dataclass(frozen=True, slots=True)
class Window:
    """One tile of an array in view order: the part inside, and where it lies in the tile."""

    inside: tuple[slice, ...]
    place: tuple[slice, ...]
    whole: bool
    extents: tuple[int, ...]


def window(shape: tuple[int, ...], starts: tuple[int, ...], extents: tuple[int, ...]) -> Window:
    """The intersection of a tile at `starts` with an array of `shape`."""
    inside, place = [], []
    for size, start, extent in zip(shape, starts, extents, strict=True):
        low, high = max(0, start), min(size, start + extent)
        high = max(low, high)
        inside.append(slice(low, high))
        place.append(slice(low - start, high - start))
    whole = all(p.start == 0 and p.stop == n for p, n in zip(place, extents, strict=True))
    return Window(tuple(inside), tuple(place), whole, extents)


def read_window(view: ArrayView, found: Window, extents: tuple[int, ...], padding: Padding) -> Tile:
    """A tile; lanes outside the array hold the padding."""
    data = np.empty(extents, view.data.dtype)
    data[...] = padding.fill(view.dtype)
    if not _empty(found):
        data[found.place] = view.data[found.inside]
    return Tile(data, view.dtype)


def write_window(view: ArrayView, found: Window, value: Tile) -> None:
    """Write the lanes of a tile that lie inside the array."""
    if not _empty(found):
        view.data[found.inside] = rounded(value.data[found.place], view.dtype)


def _empty(found: Window) -> bool:
    return any(part.start >= part.stop for part in found.inside)


def ordered_view(view: ArrayView, order: tuple[int, ...]) -> ArrayView:
    """The array with axis k of the view being storage axis order[k]."""
    if order == tuple(range(len(order))):
        return view
    return ArrayView(view.data.transpose(order), view.dtype)


def checked(found: Window, check: bool, strict: bool) -> Window:
    """Raises EvaluationError when an access that promises to stay inside does not."""
    if strict and any(
        inside.start >= inside.stop and extent == 1
        for inside, extent in zip(found.inside, found.extents, strict=True)
    ):
        raise EvaluationError(
            "a single row outside its array, which is undefined.", hint="Use a smaller grid."
        )
    if not check and not found.whole:
        raise EvaluationError(
            "a tile without a bounds check lies outside its array.",
            hint="Check bounds, or use sizes that the tile divides.",
        )
    return found


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of an array by index: broadcast indices, and which lanes count."""

    index: tuple[Array, ...]
    valid: Array


def elements(view: ArrayView, index: tuple[object, ...], mask: object, check: bool) -> Elements:
    """Indices of single elements; lanes outside the array are left out when `check`."""
    if len(index) != view.data.ndim:
        raise EvaluationError(
            f"an array of {view.data.ndim} axes indexed by {len(index)}.", hint="Index every axis."
        )
    lanes = [as_tile(item).data.astype(np.int64) for item in index]
    wanted = as_tile(True if mask is None else mask).data != 0
    *spread, valid = np.broadcast_arrays(*lanes, wanted)
    inside = np.ones(valid.shape, bool)
    for lane, size in zip(spread, view.data.shape, strict=True):
        inside &= (lane >= 0) & (lane < size)
    if not check and bool(np.any(valid & ~inside)):
        raise EvaluationError(
            "an element without a bounds check lies outside its array.", hint="Check bounds."
        )
    return Elements(tuple(spread), valid & inside)


def gathered(view: ArrayView, at: Elements, padding: Padding) -> Tile:
    """The elements; the lanes left out hold the padding."""
    fill = np.broadcast_to(padding.fill(view.dtype), at.valid.shape)
    if view.data.size == 0:
        return Tile(fill, view.dtype)
    safe = tuple(np.where(at.valid, lane, 0) for lane in at.index)
    return Tile(np.where(at.valid, view.data[safe], fill), view.dtype)


def scattered(view: ArrayView, at: Elements, value: object) -> None:
    """Write elements; of two lanes with one index the last wins."""
    data = np.broadcast_to(as_tile(value, view.dtype).data, at.valid.shape)
    view.data[tuple(lane[at.valid] for lane in at.index)] = data[at.valid]


def outer_index(index: tuple[object, ...]) -> tuple[object, ...]:
    """Sections and one sparse axis as indices of an outer product."""
    lanes = []
    for item in index:
        if isinstance(item, Section):
            lanes.append(np.arange(item.start, item.start + item.length))
        else:
            lanes.append(np.atleast_1d(as_tile(item).data))
    rank = len(lanes)
    return tuple(
        tile(lane.reshape([-1 if axis == k else 1 for axis in range(rank)]), "i64")
        for k, lane in enumerate(lanes)
    )


ATOMIC: dict[str, Any] = {
    OpKind.ATOMIC_ADD: np.add, OpKind.ATOMIC_MAX: np.maximum, OpKind.ATOMIC_MIN: np.minimum,
    OpKind.ATOMIC_AND: np.bitwise_and, OpKind.ATOMIC_OR: np.bitwise_or,
    OpKind.ATOMIC_XOR: np.bitwise_xor,
}  # fmt: skip


def atomic(kind: str, view: ArrayView, at: Elements, value: object, expected: object) -> Tile:
    """Read, change, write, lane after lane; returns what stood there before."""
    new = np.broadcast_to(as_tile(value, view.dtype).data, at.valid.shape)
    hoped = None
    if expected is not None:
        hoped = np.broadcast_to(as_tile(expected, view.dtype).data, at.valid.shape)
    before = np.zeros(at.valid.shape, view.data.dtype)
    for lane in zip(*np.nonzero(at.valid), strict=True) if at.valid.ndim else _single(at):
        place = tuple(int(axis[lane]) for axis in at.index)
        old = view.data[place]
        before[lane] = old
        if hoped is not None:
            view.data[place] = new[lane] if old == hoped[lane] else old
        elif kind == OpKind.ATOMIC_XCHG:
            view.data[place] = new[lane]
        else:
            with np.errstate(all="ignore"):
                view.data[place] = rounded(np.asarray(ATOMIC[kind](old, new[lane])), view.dtype)
    return Tile(before, view.dtype)


def _single(at: Elements) -> list[tuple[int, ...]]:
    return [()] if bool(at.valid) else []
