"""Which tile accesses a tensor descriptor of Triton serves, and the descriptors that serve them.

Source: Triton 3.6 documentation, `tl.make_tensor_descriptor`; NVIDIA, CUDA C++ Programming Guide,
Tensor Memory Access (alignment of base and strides, at most five axes).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from generators.lower.builder import Builder
from generators.lower.extents import Extents
from generators.lower.roads import Access, Block, Manner, Road
from generators.lower.static import number_of, text_of
from generators.lower.views import View, Views
from kb.ir import Op, walk
from kb.ops import ATOMICS, READS, WRITES, OpKind

MAX_AXES = 5
MIN_BYTES = 16
"""Bytes of the last axis of a block."""

MAX_ELEMENTS = 1 << 20
"""Elements of one tile in Triton."""

_MADE_LONG = frozenset({OpKind.CAST, OpKind.BITCAST, OpKind.REDUCE_SUM, *ATOMICS})
"""Operations whose result may have 64 bits."""

_PADDINGS = {"": "zero", "padding.undetermined": "zero", "padding.zero": "zero",
             "padding.nan": "nan"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tiled:
    """A tile access as the lowering sees it: one item per view axis, `order` to storage axes.

    `index` holds lowered values, `sources` those of the original, `shape` lowered extents.
    """

    op: Op
    view: View
    index: list[str]
    sources: tuple[str, ...]
    shape: list[str]
    order: list[int]
    padding: str = ""

    def stored(self, items: list[str]) -> list[str]:
        """Items of the view axes in the order of storage."""
        return [items[self.order.index(axis)] for axis in range(len(items))]


@dataclass(slots=True)
class Descriptors:
    """Decides for every access, makes descriptors where they are first needed, keeps account."""

    builder: Builder
    views: Views
    extents: Extents
    manner: Manner
    scalars: frozenset[str] = frozenset()
    accesses: list[Access] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    _made: dict[tuple[str, ...], tuple[str, list[Op]]] = field(default_factory=dict)
    _both: frozenset[str] = frozenset()
    _runtime: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        read, written = set[str](), set[str]()
        for op in walk(self.extents.body):
            array = self._array(op)
            if array is not None:
                if op.kind in READS or op.kind in ATOMICS:
                    read.add(array)
                if op.kind in WRITES or op.kind in ATOMICS:
                    written.add(array)
        self._both = frozenset(read & written)
        self._runtime = self.scalars - self.extents.parameters - read - written

    def _array(self, op: Op) -> str | None:
        """The parameter that an operation reads or writes; slices and views belong to theirs."""
        value = op.operand("array") or op.operand("view")
        while value is not None:
            made = self.extents.producers.get(value)
            if made is None or made.kind not in (OpKind.ARRAY_SLICE, OpKind.TILED_VIEW):
                return value
            value = made.operand("array") or made.inputs[0]
        return None

    def by_pointers(self, op: Op, view: View, reason: str) -> None:
        """Take account of an access that no tile describes."""
        self.accesses.append(
            Access(line=op.span.line, kind=op.kind, array=view.name, reason=reason)
        )

    def serves(self, access: Tiled) -> bool:
        """True when a descriptor serves the access; else it is written down why not."""
        reason = next(self._refusals(access), "")
        op = access.op
        found = Access(line=op.span.line, kind=op.kind, array=access.view.name, reason=reason)
        self.accesses.append(found)
        return found.described

    # -- what a descriptor cannot do

    def _refusals(self, access: Tiled) -> Iterator[str]:
        if self.manner.road is Road.POINTERS:
            yield "pointers are asked for"
        if self.extents.constant(access.op.operand("allow_tma")) is False:
            yield "the source forbids the copy engine for it"
        if access.op.kind in ATOMICS:
            yield "an atomic operation"
        if access.view.name in self._both:
            yield "the kernel reads and writes the array, and the copy engine keeps no order"
        if access.view.pointer != access.view.name:
            yield "a part of an array or of a list, whose start only the kernel knows"
        if len(access.shape) > MAX_AXES:
            yield f"{len(access.shape)} axes, a descriptor has {MAX_AXES} at most"
        if len(access.shape) != access.view.rank or sorted(access.order) != list(
            range(access.view.rank)
        ):
            yield "the tile has other axes than the array"
        if access.op.kind not in WRITES and access.padding not in _PADDINGS:
            word = access.padding.removeprefix("padding.") or "chosen at run time"
            yield f"padding {word}; a descriptor pads with zero or nan"
        if any(self.extents.of(source) != () for source in access.sources):
            yield "an index is a tile"
        yield from self._shape_refusals(access)

    def _shape_refusals(self, access: Tiled) -> Iterator[str]:
        static = self.builder.static
        if any(extent not in static or text_of(extent, static) is None for extent in access.shape):
            yield "an extent of the tile is known in the kernel only"
        numbers = [number_of(e, static, self.manner.known) for e in access.stored(access.shape)]
        last, size = numbers[-1], self.manner.element_bytes.get(access.view.name, 1)
        if last is not None and last * size < MIN_BYTES:
            least = "" if access.view.name in self.manner.element_bytes else "perhaps "
            yield f"the last axis of the tile has {last} elements, {least}less than 16 bytes"
        if any(n is not None and (n < 1 or n & (n - 1)) for n in numbers):
            yield "an extent of the tile is no power of two"
        known = [n for n in numbers if n is not None]
        if math.prod(known) > MAX_ELEMENTS:
            yield f"more than {MAX_ELEMENTS} elements in one tile"

    # -- making and using

    def described(self, access: Tiled) -> str:
        """The descriptor of an access: a parameter, or made before the loops around the access."""
        block = access.stored(access.shape)
        static = self.builder.static
        texts = tuple(str(text_of(extent, static)) for extent in block)
        padding = _PADDINGS.get(access.padding, "zero")
        key = (access.view.name, padding, *texts)
        held = self._made.get(key)
        if held is not None and self.builder.sees(held[1]):
            return held[0]
        if self.manner.road is Road.HOST:
            return self._handed(key, access.view, texts, padding)
        with self.builder.before_loops() as region:
            made = self._device(access.view, block, padding)
        self._made[key] = (made, region)
        return made

    def _handed(
        self, key: tuple[str, ...], view: View, texts: tuple[str, ...], padding: str
    ) -> str:
        same = sum(block.array == view.name for block in self.blocks)
        name = f"{view.name}_tiles" + (f"_{same}" if same else "")
        self.blocks.append(Block(name=name, array=view.name, extents=texts, padding=padding))
        self._made[key] = (name, self.builder.outermost)
        return name

    def _device(self, view: View, block: list[str], padding: str) -> str:
        b, axes = self.builder, range(view.rank)
        extents = [self.views.extent(view, axis) for axis in axes]
        strides = [self.views.stride(view, axis) for axis in axes[:-1]]
        lists = (extents, [*strides, b.constant(1)], [b.hoisted(extent) for extent in block])
        roles = ("shape", "strides", "block_shape")
        operands = [("base", view.pointer)]
        for role, items in zip(roles, lists, strict=True):
            operands.append((role, b.add(OpKind.LIST, [("item", item) for item in items])))
        if padding != "zero":
            operands.append(("padding_option", b.constant(padding)))
        texts = tuple(str(text_of(extent, b.static)) for extent in block)
        name = f"{view.name}_tiles"
        self.blocks.append(Block(name=name, array=view.name, extents=texts, padding=padding))
        return b.add(OpKind.DESCRIPTOR, operands, hint=name.lower())

    def offsets(self, access: Tiled) -> str:
        """First element of the tile along every storage axis, in 32 bits."""
        b = self.builder
        found = []
        for index, source, extent in zip(access.index, access.sources, access.shape, strict=True):
            if b.constants.get(index) == 0:
                found.append(b.constant(0))
                continue
            if self._long(source):
                narrow = b.add(OpKind.DTYPE, (), [("name", "i32")])
                operands = [("x", index), ("dtype", narrow)]
                index = b.add(OpKind.CAST, operands, [("spelling", "triton.language.cast")])
            found.append(b.binary(OpKind.MUL, index, extent))
        return b.add(OpKind.LIST, [("item", item) for item in access.stored(found)])

    def _long(self, source: str) -> bool:
        """True when an index may have 64 bits: memory, a cast or the caller may have made it."""
        pending, seen = [source], set[str]()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in self.extents.sources:
                pending += [self.extents.sources[value], self.extents.others.get(value, value)]
                continue
            op = self.extents.producers.get(value)
            if op is None:
                if value in self._runtime:
                    return True
            elif op.kind in READS or op.kind in _MADE_LONG:
                return True
            elif op.kind != OpKind.SHAPE:
                pending += op.inputs
        return False

    def kept(self, access: Tiled) -> tuple[list[int], list[int]]:
        """View axes of more than one element: in the order of the view, and of storage."""
        constants = self.builder.constants
        axes = [k for k, extent in enumerate(access.shape) if constants.get(extent) != 1]
        return axes, sorted(axes, key=lambda k: access.order[k])

    def load(self, access: Tiled) -> tuple[str, tuple[str, ...]]:
        """The tile without its unit axes, in the order of the view, and the extents it kept."""
        b = self.builder
        descriptor, offsets = self.described(access), self.offsets(access)
        operands = [("descriptor", descriptor), ("offsets", offsets)]
        value = b.add(OpKind.DESCRIPTOR_LOAD, operands, [("spelling", ".load")])
        wanted, lying = self.kept(access)
        if len(lying) < len(access.shape):
            shape = b.tuple_of([access.shape[k] for k in lying])
            value = b.add(OpKind.RESHAPE, [("x", value), ("shape", shape)])
        value = self._turned(value, [lying.index(k) for k in wanted])
        return value, tuple(access.shape[k] for k in wanted)

    def store_number(self, access: Tiled, value: str) -> None:
        """Store one number everywhere."""
        shape = self.builder.tuple_of(access.stored(access.shape))
        operands = [("x", value), ("shape", shape)]
        self.store_whole(access, self.builder.add(OpKind.BROADCAST_TO, operands))

    def store_kept(self, access: Tiled, value: str) -> None:
        """Store a tile without unit axes in the order of the view."""
        wanted, lying = self.kept(access)
        value = self._turned(value, [wanted.index(k) for k in lying])
        if len(lying) < len(access.shape):
            shape = self.builder.tuple_of(access.stored(access.shape))
            value = self.builder.add(OpKind.RESHAPE, [("x", value), ("shape", shape)])
        self.store_whole(access, value)

    def store_whole(self, access: Tiled, value: str) -> None:
        """Store a tile of all axes in the order of storage."""
        descriptor, offsets = self.described(access), self.offsets(access)
        operands = (("descriptor", descriptor), ("offsets", offsets), ("value", value))
        spelling = (("spelling", ".store"),)
        self.builder.append(Op(OpKind.DESCRIPTOR_STORE, operands, spelling, span=access.op.span))

    def _turned(self, value: str, order: list[int]) -> str:
        if order == list(range(len(order))):
            return value
        if len(order) == 2:
            return self.builder.add(OpKind.TRANSPOSE, [("x", value)])
        axes = [("axes", self.builder.constant(axis)) for axis in order]
        return self.builder.add(OpKind.PERMUTE, [("x", value), *axes])
