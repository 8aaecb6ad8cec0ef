"""What the operations on pointers do: masked accesses, blocks, tensor descriptors, atomics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from generators.reference import memory
from generators.reference.machine import Frame, Handler, Machine
from generators.reference.values import (
    Array,
    ArrayView,
    Block,
    EvaluationError,
    Pointer,
    Tile,
    as_tile,
    integers,
)
from kb.ir import Op
from kb.ops import OpKind as K


def _pointer(machine: Machine, frame: Frame, op: Op, role: str = "pointer") -> Pointer:
    found = machine.value(frame, op, role)
    if isinstance(found, Pointer):
        return found
    raise EvaluationError(f"{role} is no pointer.", hint="Pass a NumPy array for it.")


def _flat(pointer: Pointer, mask: object) -> tuple[ArrayView, memory.Elements]:
    """A tile of pointers as elements of its buffer; every lane that counts must lie inside."""
    view = ArrayView(pointer.buffer, pointer.dtype)
    index = (Tile(pointer.offsets, "i64"),)
    return view, memory.elements(view, index, mask, False)


def _load(machine: Machine, frame: Frame, op: Op) -> object:
    target = machine.value(frame, op, "pointer")
    if isinstance(target, Block):
        axes = integers(machine.value(frame, op, "boundary_check", ()), op.span)
        return _read_block(machine, target, axes)
    pointer = _pointer(machine, frame, op)
    view, at = _flat(pointer, machine.value(frame, op, "mask"))
    other = machine.value(frame, op, "padding")
    padding = memory.Padding(number=other, poison=machine.poison)
    return memory.gathered(view, at, padding)


def _store(machine: Machine, frame: Frame, op: Op) -> object:
    target, value = machine.value(frame, op, "pointer"), machine.value(frame, op, "value")
    if isinstance(target, Block):
        axes = integers(machine.value(frame, op, "boundary_check", ()), op.span)
        _write_block(target, value, axes)
        return None
    view, at = _flat(_pointer(machine, frame, op), machine.value(frame, op, "mask"))
    memory.scattered(view, at, value)
    return None


def _atomic(machine: Machine, frame: Frame, op: Op) -> object:
    view, at = _flat(_pointer(machine, frame, op), machine.value(frame, op, "mask"))
    value, expected = machine.value(frame, op, "value"), machine.value(frame, op, "expected")
    return memory.atomic(op.kind, view, at, value, expected)


# -- blocks


def _block(machine: Machine, frame: Frame, op: Op) -> object:
    def numbers(role: str) -> tuple[int, ...]:
        return integers(machine.value(frame, op, role), op.span)

    block = numbers("block_shape")
    offsets = numbers("offsets") if op.operand("offsets") else (0,) * len(block)
    base = _pointer(machine, frame, op, "base")
    padding = str(machine.value(frame, op, "padding_option") or "zero")
    return Block(base, numbers("shape"), numbers("strides"), block, offsets, padding)


def _advance(machine: Machine, frame: Frame, op: Op) -> object:
    held = machine.value(frame, op, "pointer")
    if not isinstance(held, Block):
        raise EvaluationError("advance of what is no block pointer.")
    by = integers(machine.many(frame, op, "offsets"), op.span)
    return replace(held, offsets=tuple(a + b for a, b in zip(held.offsets, by, strict=True)))


def _lanes(block: Block, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Element offsets of a block, and which lanes lie inside the tensor along `axes`."""
    rank = len(block.block)
    offsets = np.asarray(block.base.offsets)
    valid = np.ones((1,) * rank, bool)
    for axis in range(rank):
        lane = np.arange(block.block[axis]) + block.offsets[axis]
        lane = lane.reshape([-1 if k == axis else 1 for k in range(rank)])
        offsets = offsets + lane * block.strides[axis]
        if axis in axes:
            valid = valid & (lane >= 0) & (lane < block.shape[axis])
    return offsets, np.broadcast_to(valid, block.block)


def _read_block(machine: Machine, block: Block, axes: tuple[int, ...]) -> Tile:
    offsets, valid = _lanes(block, axes)
    pointer = replace(block.base, offsets=offsets)
    view, at = _flat(pointer, Tile(valid, "i1"))
    mode = "padding.nan" if block.padding == "nan" else "padding.zero"
    return memory.gathered(view, at, memory.Padding(mode))


def _write_block(block: Block, value: object, axes: tuple[int, ...]) -> None:
    offsets, valid = _lanes(block, axes)
    view, at = _flat(replace(block.base, offsets=offsets), Tile(valid, "i1"))
    memory.scattered(view, at, as_tile(value))


def _described(machine: Machine, frame: Frame, op: Op) -> Block:
    held = machine.value(frame, op, "descriptor")
    if not isinstance(held, Block):
        raise EvaluationError("descriptor is no tensor descriptor.")
    return replace(held, offsets=integers(machine.value(frame, op, "offsets"), op.span))


def _descriptor_load(machine: Machine, frame: Frame, op: Op) -> object:
    block = _described(machine, frame, op)
    return _read_block(machine, block, tuple(range(len(block.block))))


def _descriptor_store(machine: Machine, frame: Frame, op: Op) -> object:
    block = _described(machine, frame, op)
    axes = tuple(range(len(block.block)))
    value = machine.value(frame, op, "value")
    if op.kind == K.DESCRIPTOR_ATOMIC_ADD:
        there = _read_block(machine, block, axes)
        value = Tile(there.data + as_tile(value, there.dtype).data, there.dtype)
    _write_block(block, value, axes)
    return None


HANDLERS: dict[str, Handler] = {
    K.LOAD: _load, K.STORE: _store, K.BLOCK_POINTER: _block, K.DESCRIPTOR: _block,
    K.ADVANCE: _advance, K.DESCRIPTOR_LOAD: _descriptor_load,
    K.DESCRIPTOR_STORE: _descriptor_store, K.DESCRIPTOR_ATOMIC_ADD: _descriptor_store,
    **dict.fromkeys(memory.ATOMIC, _atomic), K.ATOMIC_XCHG: _atomic, K.ATOMIC_CAS: _atomic,
}  # fmt: skip
"""Operations whose target is a pointer or a descriptor."""
