"""What the operations on arrays do: accesses by tile and by element, views, slices, atomics."""

from __future__ import annotations

from generators.reference import memory
from generators.reference.machine import Frame, Handler, Machine
from generators.reference.memory import Padding
from generators.reference.values import (
    ArrayView,
    Enumerated,
    EvaluationError,
    Tile,
    TiledView,
    as_tile,
    from_constant,
    integers,
)
from kb.ir import Op
from kb.ops import OpKind as K


def _array(machine: Machine, frame: Frame, op: Op, role: str = "array") -> ArrayView:
    found = machine.value(frame, op, role)
    if isinstance(found, ArrayView):
        return found
    raise EvaluationError(f"{role} is no array.", hint="Pass a NumPy array.")


def _padding(machine: Machine, frame: Frame, op: Op, default: str) -> Padding:
    found = machine.value(frame, op, "padding")
    if isinstance(found, Enumerated):
        return Padding(found.name, None, machine.poison)
    if found is not None:
        return Padding(number=found)
    return Padding(default, None, machine.poison)


def _order(machine: Machine, frame: Frame, op: Op, rank: int) -> tuple[int, ...]:
    found = machine.value(frame, op, "order")
    if found is None or found == "C":
        return tuple(range(rank))
    if found == "F":
        return tuple(range(rank))[::-1]
    return integers(found, op.span)


def _window(
    machine: Machine, frame: Frame, op: Op, shape: tuple[int, ...]
) -> tuple[ArrayView, memory.Window]:
    array = _array(machine, frame, op)
    index = integers(machine.value(frame, op, "index"), op.span)
    if not len(index) == len(shape) == array.data.ndim:
        raise EvaluationError(
            f"a tile of {len(shape)} axes at {len(index)} indices of {array.data.ndim} axes."
        )
    view = memory.ordered_view(array, _order(machine, frame, op, len(shape)))
    starts = tuple(at * extent for at, extent in zip(index, shape, strict=True))
    found = memory.window(view.data.shape, starts, shape)
    check = machine.flag(frame, op, "check_bounds", True)
    return view, memory.checked(found, check, machine.strict)


def _load_tile(machine: Machine, frame: Frame, op: Op) -> object:
    written = integers(machine.value(frame, op, "shape"), op.span)
    shape = written or (1,) * _array(machine, frame, op).data.ndim
    view, found = _window(machine, frame, op, shape)
    padding = _padding(machine, frame, op, "padding.undetermined")
    held = memory.read_window(view, found, shape, padding)
    return held if written else Tile(held.data.reshape(()), held.dtype)


def _stored(value: object, rank: int) -> Tile:
    held = as_tile(value)
    missing = rank - len(held.shape)
    return Tile(held.data.reshape((1,) * missing + held.shape), held.dtype) if missing > 0 else held


def _store_tile(machine: Machine, frame: Frame, op: Op) -> object:
    rank = _array(machine, frame, op).data.ndim
    value = _stored(machine.value(frame, op, "value"), rank)
    view, found = _window(machine, frame, op, value.shape)
    memory.write_window(view, found, value)
    return None


def _elements(machine: Machine, frame: Frame, op: Op) -> tuple[ArrayView, memory.Elements]:
    view = _array(machine, frame, op)
    index = machine.value(frame, op, "index")
    items = tuple(index) if isinstance(index, tuple | list) else (index,)
    mask = machine.value(frame, op, "mask")
    check = machine.flag(frame, op, "check_bounds", True)
    return view, memory.elements(view, items, mask, check)


def _gather(machine: Machine, frame: Frame, op: Op) -> object:
    view, at = _elements(machine, frame, op)
    return memory.gathered(view, at, _padding(machine, frame, op, "padding.zero"))


def _scatter(machine: Machine, frame: Frame, op: Op) -> object:
    view, at = _elements(machine, frame, op)
    memory.scattered(view, at, machine.value(frame, op, "value"))
    return None


def _advanced(machine: Machine, frame: Frame, op: Op) -> tuple[ArrayView, memory.Elements]:
    view = _array(machine, frame, op)
    index = memory.outer_index(machine.many(frame, op, "index"))
    return view, memory.elements(view, index, None, True)


def _load_advanced(machine: Machine, frame: Frame, op: Op) -> object:
    view, at = _advanced(machine, frame, op)
    return memory.gathered(view, at, _padding(machine, frame, op, "padding.undetermined"))


def _store_advanced(machine: Machine, frame: Frame, op: Op) -> object:
    view, at = _advanced(machine, frame, op)
    memory.scattered(view, at, machine.value(frame, op, "value"))
    return None


def _atomic(machine: Machine, frame: Frame, op: Op) -> object:
    view, at = _elements(machine, frame, op)
    value, expected = machine.value(frame, op, "value"), machine.value(frame, op, "expected")
    return memory.atomic(op.kind, view, at, value, expected)


def _num_tiles(machine: Machine, frame: Frame, op: Op) -> object:
    array, axis = _array(machine, frame, op), machine.whole(frame, op, "axis")
    shape = integers(machine.value(frame, op, "shape"), op.span)
    view = memory.ordered_view(array, _order(machine, frame, op, len(shape)))
    return from_constant(-(-view.data.shape[axis] // shape[axis]), "i32")


def _array_slice(machine: Machine, frame: Frame, op: Op) -> object:
    array, axis = _array(machine, frame, op), machine.whole(frame, op, "axis")
    size = array.data.shape[axis]
    start, stop = machine.whole(frame, op, "start"), machine.whole(frame, op, "stop", size)
    if not 0 <= start <= size or stop > size:
        raise EvaluationError(f"a slice {start}:{stop} of an axis of {size}.")
    key = [slice(None)] * array.data.ndim
    key[axis] = slice(start, max(start, stop))
    return ArrayView(array.data[tuple(key)], array.dtype)


# -- tiled views


def _tiled_view(machine: Machine, frame: Frame, op: Op) -> object:
    shape = integers(machine.value(frame, op, "shape"), op.span)
    given = machine.value(frame, op, "traversal")
    steps = shape if given is None else integers(given, op.span)
    padding = _padding(machine, frame, op, "padding.undetermined")
    return TiledView(_array(machine, frame, op), shape, steps, padding.mode)


def _tile_of(machine: Machine, frame: Frame, op: Op) -> tuple[TiledView, memory.Window]:
    view = machine.value(frame, op, "view")
    if not isinstance(view, TiledView):
        raise EvaluationError("view is no tiled view.")
    index = integers(machine.value(frame, op, "index"), op.span)
    starts = tuple(at * step for at, step in zip(index, view.steps, strict=True))
    found = memory.window(view.array.data.shape, starts, view.shape)
    check = machine.flag(frame, op, "check_bounds", True)
    return view, memory.checked(found, check, machine.strict)


def _view_load(machine: Machine, frame: Frame, op: Op) -> object:
    view, found = _tile_of(machine, frame, op)
    padding = Padding(view.padding, None, machine.poison)
    return memory.read_window(view.array, found, view.shape, padding)


def _view_store(machine: Machine, frame: Frame, op: Op) -> object:
    view, found = _tile_of(machine, frame, op)
    value = _stored(machine.value(frame, op, "value"), len(view.shape))
    if op.kind == K.VIEW_ATOMIC_ADD:
        fill = Padding("padding.zero")
        there = memory.read_window(view.array, found, view.shape, fill)
        value = Tile(there.data + as_tile(value, there.dtype).data, there.dtype)
    memory.write_window(view.array, found, value)
    return None


def _view_num_tiles(machine: Machine, frame: Frame, op: Op) -> object:
    view, axis = machine.value(frame, op, "view"), machine.whole(frame, op, "axis")
    if not isinstance(view, TiledView):
        raise EvaluationError("view is no tiled view.")
    return from_constant(-(-view.array.data.shape[axis] // view.steps[axis]), "i32")


HANDLERS: dict[str, Handler] = {
    K.LOAD_TILE: _load_tile, K.STORE_TILE: _store_tile, K.GATHER: _gather, K.SCATTER: _scatter,
    K.LOAD_ADVANCED: _load_advanced, K.STORE_ADVANCED: _store_advanced, K.NUM_TILES: _num_tiles,
    K.ARRAY_SLICE: _array_slice, K.TILED_VIEW: _tiled_view, K.VIEW_LOAD: _view_load,
    K.VIEW_STORE: _view_store, K.VIEW_ATOMIC_ADD: _view_store, K.VIEW_NUM_TILES: _view_num_tiles,
    **dict.fromkeys(memory.ATOMIC, _atomic), K.ATOMIC_XCHG: _atomic, K.ATOMIC_CAS: _atomic,
}  # fmt: skip
"""Operations whose target is an array."""
