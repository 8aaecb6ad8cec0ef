"""Array parameters as pointers with extents and strides: addresses and masks of accesses."""

from __future__ import annotations

from dataclasses import dataclass, field

from generators.lower.builder import Builder
from generators.lower.roads import Block
from kb.errors import CannotEmit
from kb.ir import Op
from kb.ops import OpKind


@dataclass(frozen=True, slots=True)
class LoweredParameter:
    """A parameter of the lowered kernel and what the host passes for it.

    `source` is pointer, shape, stride, scalar, descriptor or constexpr; `tensor` and `axis` say of
    which array, `block` what a descriptor describes. Of a list of arrays it is table (their
    addresses), shape_table or stride_table (one number per array), count or element (their dtype).
    """

    name: str
    source: str
    tensor: str = ""
    axis: int = 0
    block: Block | None = None


@dataclass(slots=True)
class View:
    """An array as the lowered kernel sees it: a pointer and, on demand, extents and strides."""

    name: str
    pointer: str
    rank: int
    extents: dict[int, str] = field(default_factory=dict)
    strides: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TiledPart:
    """An array cut into tiles of `shape`; `made` is the operation that cut it."""

    view: View
    shape: tuple[str, ...]
    made: Op


class Views:
    """Every array of the program; extents and strides become parameters at their first use."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.of: dict[str, View] = {}
        self.extra: list[LoweredParameter] = []

    def parameter(self, name: str, rank: int) -> None:
        """Register an array parameter."""
        self.of[name] = View(name, name, rank)

    def extent(self, view: View, axis: int) -> str:
        """Number of elements along an axis."""
        return self._extra(view.extents, view, axis, "shape")

    def stride(self, view: View, axis: int) -> str:
        """Distance in elements between neighbours along an axis."""
        return self._extra(view.strides, view, axis, "stride")

    def member(self, name: str, rank: int, index: str) -> View:
        """One array of a list: its address, extents and strides come from tables."""
        b = self.builder
        native = b.add(OpKind.POINTER_TYPE, [("dtype", self._table(name, "element", "dtype"))])
        address = self._entry(self._table(name, "table", ""), index)
        pointer = b.add(OpKind.CAST, [("x", address), ("dtype", native)], hint=f"{name}_member")
        part = View(name, pointer, rank)
        for axis in range(rank):
            for source, known in (("shape", part.extents), ("stride", part.strides)):
                table = self._table(name, f"{source}_table", f"{source}_{axis}", axis)
                known[axis] = self._entry(table, index)
            # An extent counts in 32 bits, as those of arrays that are parameters do.
            narrow = b.add(OpKind.DTYPE, (), [("name", "i32")])
            operands = [("x", part.extents[axis]), ("dtype", narrow)]
            part.extents[axis] = b.add(OpKind.CAST, operands, hint=f"{name}_extent_{axis}")
        return part

    def count(self, name: str) -> str:
        """How many arrays a list holds."""
        return self._table(name, "count", "count")

    def _entry(self, table: str, index: str) -> str:
        place = self.builder.add(OpKind.ADD, [("lhs", table), ("rhs", index)])
        return self.builder.add(OpKind.LOAD, [("pointer", place)])

    def _table(self, name: str, source: str, suffix: str, axis: int = 0) -> str:
        written = f"{name}_{suffix}" if suffix else name
        if all(parameter.name != written for parameter in self.extra):
            self.extra.append(LoweredParameter(written, source, name, axis))
        return written

    def _extra(self, known: dict[int, str], view: View, axis: int, source: str) -> str:
        axis %= view.rank
        if axis not in known:
            name = f"{view.name}_{source}_{axis}"
            known[axis] = name
            self.extra.append(LoweredParameter(name, source, view.name, axis))
        return known[axis]

    def sliced(self, view: View, axis: int, start: str, stop: str) -> View:
        """The part of an array between `start` and `stop` along an axis."""
        b = self.builder
        step = b.binary(OpKind.MUL, b.add(OpKind.CAST, [("x", start), ("dtype", _int64(b))],
                                          [("spelling", "triton.language.cast")]),
                        self.stride(view, axis))  # fmt: skip
        pointer = b.binary(OpKind.ADD, view.pointer, step, f"{view.name}_part")
        self.stride(view, axis)
        part = View(view.name, pointer, view.rank, view.extents.copy(), view.strides)
        part.extents[axis % view.rank] = b.binary(OpKind.SUB, stop, start)
        return part


def _int64(builder: Builder) -> str:
    return builder.add(OpKind.DTYPE, (), [("name", "i64")])


@dataclass(frozen=True, slots=True)
class Address:
    """Where a tile lies: pointers, the mask of lanes inside (None: all), the axes that it keeps."""

    pointer: str
    mask: str | None
    kept: tuple[str, ...]


@dataclass(slots=True)
class Addressing:
    """Turns tile-index and element-index accesses into pointers."""

    builder: Builder
    views: Views

    def tile(
        self, view: View, index: list[str], shape: list[str], order: list[int], checked: bool
    ) -> Address:
        """Address of the tile `index` of a partition of `view` into tiles of `shape`.

        Axes of extent one are dropped; `order[k]` is the storage axis of view axis k.
        """
        b = self.builder
        kept = [k for k, extent in enumerate(shape) if b.constants.get(extent) != 1]
        pointer, masks = view.pointer, []
        for k in (k for k in range(len(shape)) if k not in kept):
            pointer = self._shifted(view, pointer, index[k], order[k])
        for position, k in enumerate(kept):
            lanes = self._lanes(view, index[k], shape[k], order[k])
            spread = b.expand(lanes, position, len(kept))
            step = b.binary(OpKind.MUL, spread, self.views.stride(view, order[k]))
            pointer = b.binary(OpKind.ADD, pointer, step)
            if checked:
                inside = b.binary(OpKind.LT, lanes, self.views.extent(view, order[k]))
                masks.append(b.expand(inside, position, len(kept)))
        return Address(pointer, self._all(masks), tuple(shape[k] for k in kept))

    def _shifted(self, view: View, pointer: str, index: str, axis: int) -> str:
        """The pointer moved to one index of an axis, in 64 bits."""
        b = self.builder
        if b.constants.get(index) == 0:
            return pointer
        wide = b.add(OpKind.CAST, [("x", index), ("dtype", _int64(b))],
                     [("spelling", "triton.language.cast")])  # fmt: skip
        step = b.binary(OpKind.MUL, wide, self.views.stride(view, axis))
        return b.binary(OpKind.ADD, pointer, step)

    def _lanes(self, view: View, index: str, extent: str, axis: int) -> str:
        """Element indices of a tile along one axis."""
        b = self.builder
        zero = b.constant(0)
        lanes = b.add(OpKind.ARANGE, [("start", zero), ("size", extent)])
        hint = f"{view.name.lower()}_lanes_{axis}"
        if b.constants.get(index) == 0:
            return b.add(OpKind.COPY, [("x", lanes)], hint=hint)
        return b.binary(OpKind.ADD, b.binary(OpKind.MUL, index, extent), lanes, hint)

    def _all(self, masks: list[str]) -> str | None:
        result: str | None = None
        for mask in masks:
            result = mask if result is None else self.builder.binary(OpKind.BIT_AND, result, mask)
        return result

    def elements(
        self, view: View, index: list[str], mask: str | None, checked: bool, single: list[bool]
    ) -> Address:
        """Address of single elements: one index tile per axis, all of shapes that broadcast.

        `single` marks axes indexed by a scalar: they bound the extent of the first other axis.
        """
        b = self.builder
        pointer, masks = view.pointer, [mask] if mask is not None else []
        if len(index) != view.rank:
            raise CannotEmit(
                f"{view.name} has {view.rank} axes and is indexed by {len(index)}.",
                where=str(b.span),
            )
        for axis, lanes in enumerate(index):
            step = b.binary(OpKind.MUL, lanes, self.views.stride(view, axis))
            pointer = b.binary(OpKind.ADD, pointer, step)
        if checked:
            masks += self._inside(view, index, single)
        return Address(pointer, self._all(masks), ())

    def _inside(self, view: View, index: list[str], single: list[bool]) -> list[str]:
        """Conditions that every index lies inside the array."""
        b = self.builder
        scalars = [axis for axis in range(view.rank) if single[axis]]
        whole = self._all([self._between(view, axis, index[axis]) for axis in scalars])
        if len(scalars) == view.rank:
            return [whole] if whole else []
        found = []
        for axis in (axis for axis in range(view.rank) if not single[axis]):
            extent = self.views.extent(view, axis)
            if whole is not None:
                operands = [("condition", whole), ("x", extent), ("y", b.constant(0))]
                extent, whole = b.add(OpKind.SELECT, operands), None
            low = b.binary(OpKind.GE, index[axis], b.constant(0))
            high = b.binary(OpKind.LT, index[axis], extent)
            found.append(b.binary(OpKind.BIT_AND, low, high))
        return found

    def _between(self, view: View, axis: int, lanes: str) -> str:
        b = self.builder
        low = b.binary(OpKind.GE, lanes, b.constant(0))
        high = b.binary(OpKind.LT, lanes, self.views.extent(view, axis))
        return b.binary(OpKind.BIT_AND, low, high)


def rank_of(
    name: str, ops: list[Op], tuples: dict[str, int], constants: dict[str, object]
) -> int | None:
    """Number of axes of an array parameter, from how it is indexed; None when nothing tells."""
    best: int | None = None
    names = {name}
    for op in ops:
        if op.kind == OpKind.ARRAY_SLICE and op.operand("array") in names:
            names.add(op.result)
    shapes = {op.result for op in ops if op.kind == OpKind.SHAPE and op.inputs[0] in names}
    for op in ops:
        if op.operand("array") in names:
            index = op.operand("shape") or op.operand("index")
            if index in tuples:
                best = max(best or 0, tuples[index])
            elif index is not None and op.kind in (OpKind.GATHER, OpKind.SCATTER):
                best = max(best or 0, 1)
        if op.kind == OpKind.SUBSCRIPT and op.inputs[0] in shapes and len(op.inputs) == 2:
            at = constants.get(op.inputs[1])
            if isinstance(at, int) and at >= 0:
                best = max(best or 0, at + 1)
        if op.kind == OpKind.UNPACK and op.inputs[0] in shapes:
            best = max(best or 0, len(op.results))
    return best
