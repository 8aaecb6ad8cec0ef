"""Memory operations of cuTile on pointers of Triton: addresses, masks, padding, atomics."""

from __future__ import annotations

from generators.lower.descriptors import Tiled
from generators.lower.lowering import Lowering, Rule
from generators.lower.roads import Road
from generators.lower.views import TiledPart, View
from kb.errors import CannotEmit
from kb.ir import Op
from kb.ops import ATOMICS, OpKind

_HINTS = ("latency", "allow_tma", "memory_order", "memory_scope")


def _hints(low: Lowering, op: Op) -> None:
    for role in _HINTS:
        # A descriptor is the copy engine; a tile that must not use it goes by pointers.
        answered = role == "allow_tma" and low.manner.road is not Road.POINTERS
        if op.operand(role) and not answered:
            low.residual(op, role)


def _load(low: Lowering, pointer: str, mask: str | None, padding: str) -> str:
    operands = [("pointer", pointer)]
    if mask is not None:
        operands += [("mask", mask), ("padding", padding)]
    return low.builder.add(OpKind.LOAD, operands)


def _units(low: Lowering, rank: int) -> list[str]:
    """A shape of ones: what an empty shape stands for."""
    return [low.builder.constant(1) for _ in range(rank)]


def _load_tile(low: Lowering, op: Op) -> str:
    view, index = low.view(op), low.items(op.operand("index"))
    written = low.items(op.operand("shape"))
    shape = written or _units(low, len(index))
    order = low.order(op, len(shape))
    access = _tiled(low, op, op, view, (index, shape, order))
    if low.descriptors.serves(access):
        _hints(low, op)
        low.undetermined(op)
        loaded, kept = low.descriptors.load(access)
        return _whole(low, loaded, kept, shape)
    _hints(low, op)
    address = low.addressing.tile(view, index, shape, order, low.checked(op))
    padding = low.padding(op) if address.mask else ""
    loaded = _load(low, address.pointer, address.mask, padding)
    if not written:
        return loaded
    return _whole(low, loaded, address.kept, shape)


def _tiled(
    low: Lowering, op: Op, padded: Op, view: View, place: tuple[list[str], list[str], list[int]]
) -> Tiled:
    """An access of a tile; `padded` is the operation that says what lies outside the array."""
    sources = low.extents.items(op.operand("index"))
    return Tiled(op, view, place[0], sources, place[1], place[2], low.padding_mode(padded))


def _whole(low: Lowering, loaded: str, kept: tuple[str, ...], shape: list[str]) -> str:
    """What was loaded without its unit axes, with them."""
    if len(kept) == len(shape):
        return loaded
    kind = OpKind.RESHAPE if kept else OpKind.BROADCAST_TO
    full = low.builder.add(kind, [("x", loaded), ("shape", low.builder.tuple_of(shape))])
    low.loaded[full] = (loaded, kept)
    return full


def _reshape(low: Lowering, op: Op) -> str:
    """A reshape that only drops the unit axes of a load is the load."""
    source = low.names[op.inputs[0]]
    target = tuple(low.items(op.operand("shape")))
    if source in low.loaded and _same_extents(low, low.loaded[source][1], target):
        return low.loaded[source][0]
    shape = low.builder.tuple_of(target)
    if not target:
        return low.single(op.inputs[0])
    kind = OpKind.BROADCAST_TO if low.extents.of(op.inputs[0]) == () else OpKind.RESHAPE
    return low.builder.add(kind, [("x", source), ("shape", shape)])


def _same_extents(low: Lowering, one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    constants = low.builder.constants
    return len(one) == len(other) and all(
        a == b or (a in constants and constants.get(a) == constants.get(b))
        for a, b in zip(one, other, strict=True)
    )


def _store_tile(low: Lowering, op: Op) -> None:
    view, index = low.view(op), low.items(op.operand("index"))
    shape = _stored_shape(low, op, len(index))
    _hints(low, op)
    order = low.order(op, len(shape))
    access = _tiled(low, op, op, view, (index, shape, order))
    if low.descriptors.serves(access):
        _store_described(low, access)
        return
    address = low.addressing.tile(view, index, shape, order, low.checked(op))
    _write(low, op, (address.pointer, address.mask), _bent(low, op, shape, address.kept))


def _store_described(low: Lowering, access: Tiled) -> None:
    source = str(access.op.operand("value"))
    known, shape = low.extents.of(source), access.shape
    if known == ():
        low.descriptors.store_number(access, low.names[source])
    elif known is not None and len(known) == len(shape) and access.order == sorted(access.order):
        low.descriptors.store_whole(access, low.names[source])
    else:
        kept = tuple(shape[k] for k in low.descriptors.kept(access)[0])
        low.descriptors.store_kept(access, _bent(low, access.op, shape, kept))


def _bent(low: Lowering, op: Op, shape: list[str], kept: tuple[str, ...]) -> str:
    """The stored value without the unit axes that its address has not."""
    source = str(op.operand("value"))
    value, known = low.names[source], low.extents.of(source)
    if known == () or len(kept) == len(shape) == len(known or ()):
        return value
    if not kept:
        return low.single(source)
    return low.builder.add(OpKind.RESHAPE, [("x", value), ("shape", low.builder.tuple_of(kept))])


def _write(low: Lowering, op: Op, address: tuple[str, str | None], value: str) -> None:
    operands = [("pointer", address[0]), ("value", value)]
    operands += [("mask", address[1])] if address[1] else []
    low.builder.append(Op(OpKind.STORE, tuple(operands), span=op.span))


def _stored_shape(low: Lowering, op: Op, rank: int) -> list[str]:
    """Extents of a stored tile; what the program does not write out is asked of the tile."""
    value = str(op.operand("value"))
    shape = low.extents.of(value)
    if shape is None:
        # A tile whose rank depends on a constant has that of its array, or the store is no store.
        return [low.asked(value, axis) for axis in range(rank)]
    lead = rank - len(shape)
    found = _units(low, lead)
    for axis, extent in enumerate(shape):
        if isinstance(extent, str):
            found.append(low.names[extent])
        elif isinstance(extent, int):
            found.append(low.builder.constant(extent))
        else:
            found.append(low.asked(value, axis))
    return found


def _gather(low: Lowering, op: Op) -> str:
    _hints(low, op)
    pointer, mask = _elements(low, op)
    return _load(low, pointer, mask, low.padding(op))


def _elements(low: Lowering, op: Op) -> tuple[str, str | None]:
    mask = op.operand("mask")
    low.descriptors.by_pointers(op, low.view(op), "elements with indices of their own")
    single = [low.extents.of(item) == () for item in low.extents.items(op.operand("index"))]
    address = low.addressing.elements(
        low.view(op), low.items(op.operand("index")),
        low.names[mask] if mask else None, low.checked(op), single,
    )  # fmt: skip
    return address.pointer, address.mask


def _scatter(low: Lowering, op: Op) -> None:
    _hints(low, op)
    pointer, mask = _elements(low, op)
    index = [*low.extents.items(op.operand("index")), op.operand("mask") or ""]
    here = low.extents.met([item for item in index if item])
    source = str(op.operand("value"))
    value, shape = low.names[source], low.extents.of(source)
    if here is not None and shape:
        if not here:
            value = low.single(source)
        elif len(here) < len(shape):
            pointer = low.raised(pointer, len(here), len(shape))
            mask = low.raised(mask, len(here), len(shape)) if mask else None
        else:
            value = low.raised(value, len(shape), len(here))
    _write(low, op, (pointer, mask), value)


def _atomic(low: Lowering, op: Op) -> str:
    pointer, mask = _elements(low, op)
    if mask and op.kind == OpKind.ATOMIC_CAS:
        raise CannotEmit(
            "a compare-and-swap with a bounds check.", where=str(op.span),
            hint="Triton's takes no mask: leave check_bounds out where all indices are inside.",
        )  # fmt: skip
    operands = [("pointer", pointer)]
    operands += [(r, low.names[v]) for r, v in op.operands if r in ("expected", "value")]
    operands += [("mask", mask)] if mask else []
    _hints(low, op)
    return low.builder.add(op.kind, operands)


# -- tiled views


def _tiled_view(low: Lowering, op: Op) -> None:
    if op.operand("traversal"):
        raise CannotEmit("a tiled view with steps of its own.", where=str(op.span))
    low.names[op.result] = op.result
    low.parts[op.result] = TiledPart(low.view(op), tuple(low.items(op.operand("shape"))), op)


def _part(low: Lowering, op: Op) -> TiledPart:
    part = low.parts.get(low.names.get(str(op.operand("view")), ""))
    if part is None:
        raise CannotEmit("a tiled view that is not made in sight.", where=str(op.span))
    _hints(low, op)
    return part


def _part_access(low: Lowering, op: Op, part: TiledPart) -> Tiled:
    order = list(range(len(part.shape)))
    place = (low.items(op.operand("index")), list(part.shape), order)
    return _tiled(low, op, part.made, part.view, place)


def _view_load(low: Lowering, op: Op) -> str:
    part = _part(low, op)
    access = _part_access(low, op, part)
    low.undetermined(part.made)
    if low.descriptors.serves(access):
        loaded, kept = low.descriptors.load(access)
    else:
        address = low.addressing.tile(
            part.view, access.index, access.shape, access.order, low.checked(op)
        )
        padding = low.padding(part.made) if address.mask else ""
        loaded, kept = _load(low, address.pointer, address.mask, padding), address.kept
    return _whole(low, loaded, kept, list(part.shape))


def _view_store(low: Lowering, op: Op) -> None:
    part = _part(low, op)
    access = _part_access(low, op, part)
    if low.descriptors.serves(access):
        _store_described(low, access)
        return
    address = low.addressing.tile(
        part.view, access.index, access.shape, access.order, low.checked(op)
    )
    value = _bent(low, op, access.shape, address.kept)
    if op.kind == OpKind.VIEW_ATOMIC_ADD:
        operands = [("pointer", address.pointer), ("value", value)]
        operands += [("mask", address.mask)] if address.mask else []
        low.builder.add(OpKind.ATOMIC_ADD, operands)
    else:
        _write(low, op, (address.pointer, address.mask), value)


def _view_num_tiles(low: Lowering, op: Op) -> str:
    part = low.parts.get(low.names.get(str(op.operand("view")), ""))
    axis = low.builder.constants.get(low.names[str(op.operand("axis"))])
    if part is None or not isinstance(axis, int):
        raise CannotEmit("tiles of a view that is not made in sight.", where=str(op.span))
    extent = low.views.extent(part.view, axis)
    return low.builder.binary(OpKind.CEIL_DIV, extent, part.shape[axis])


# -- arrays


def _shape(low: Lowering, op: Op) -> None:
    view = low.views.of.get(low.names.get(op.inputs[0], op.inputs[0]))
    if view is None:
        low.copy(op)
        return
    low.names[op.result] = op.result
    low.shapes[op.result] = view


def _array_slice(low: Lowering, op: Op) -> str:
    axis = low.builder.constants.get(low.names[str(op.operand("axis"))])
    if not isinstance(axis, int):
        raise CannotEmit("a slice along an axis that is not constant.", where=str(op.span))
    start, stop = (low.names[str(op.operand(role))] for role in ("start", "stop"))
    part = low.views.sliced(low.view(op), axis, start, stop)
    low.views.of[part.pointer] = part
    return part.pointer


def _num_tiles(low: Lowering, op: Op) -> str:
    axis = low.builder.constants.get(low.names[str(op.operand("axis"))])
    shape = low.items(op.operand("shape"))
    if not isinstance(axis, int):
        raise CannotEmit("tiles counted along an axis that is not constant.", where=str(op.span))
    storage = low.order(op, len(shape))[axis]
    view: View = low.view(op)
    return low.builder.binary(OpKind.CEIL_DIV, low.views.extent(view, storage), shape[axis])


def _dtype_of(low: Lowering, op: Op) -> str | None:
    view = low.views.of.get(low.names[op.inputs[0]])
    if view is None:
        low.copy(op)
        return None
    dtype = low.builder.add(OpKind.DTYPE_OF, [("x", view.pointer)])
    return low.builder.add(OpKind.ATTRIBUTE, [("x", dtype)], [("name", "element_ty")])


RULES: dict[str, Rule] = {
    OpKind.LOAD_TILE: _load_tile, OpKind.STORE_TILE: _store_tile, OpKind.GATHER: _gather,
    OpKind.SCATTER: _scatter, OpKind.SHAPE: _shape, OpKind.ARRAY_SLICE: _array_slice,
    OpKind.NUM_TILES: _num_tiles, OpKind.DTYPE_OF: _dtype_of, OpKind.RESHAPE: _reshape,
    OpKind.TILED_VIEW: _tiled_view, OpKind.VIEW_LOAD: _view_load, OpKind.VIEW_STORE: _view_store,
    OpKind.VIEW_ATOMIC_ADD: _view_store, OpKind.VIEW_NUM_TILES: _view_num_tiles,
    **dict.fromkeys(ATOMICS - {OpKind.DESCRIPTOR_ATOMIC_ADD, OpKind.VIEW_ATOMIC_ADD}, _atomic),
}  # fmt: skip
