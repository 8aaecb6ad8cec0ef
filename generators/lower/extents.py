"""Shapes of the tiles of a cuTile program, as far as the program writes them out.

An extent is a compile-time number, the name of a compile-time parameter, or None when it has to be
asked of the tile itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kb.ir import Literal, Op, Region, walk
from kb.ops import REDUCTIONS, OpKind

Extent = int | str | None
Shape = tuple[Extent, ...]
MAX_DEPTH = 400
"""Length of a chain of values that is followed."""

_WRITTEN = frozenset(
    {OpKind.RESHAPE, OpKind.FULL, OpKind.ZEROS, OpKind.ONES, OpKind.BROADCAST_TO,
     OpKind.LOAD_TILE, OpKind.EXTRACT}
)  # fmt: skip
_SCALARS = frozenset(
    {OpKind.CONST, OpKind.BLOCK_ID, OpKind.NUM_BLOCKS, OpKind.NUM_TILES, OpKind.DTYPE,
     OpKind.ITEM, OpKind.BUILTIN, OpKind.ENUM, OpKind.UNDEF, OpKind.RANGE}
)  # fmt: skip


@dataclass(slots=True)
class Extents:
    """Shapes by value name; `parameters` are the compile-time parameters of the kernel."""

    body: Region
    parameters: frozenset[str]
    producers: dict[str, Op] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    counters: dict[str, str] = field(default_factory=dict)
    sizes: frozenset[str] = frozenset()
    _known: dict[str, Shape | None] = field(default_factory=dict)
    _depth: int = 0

    def __post_init__(self) -> None:
        for op in walk(self.body):
            self.producers.update({value.name: op for value in op.results})
        for op in walk(self.body):
            self._carried(op)
        self.sizes = frozenset(self._tile_sizes())

    def _tile_sizes(self) -> Iterator[str]:
        """Values that some tile has as an extent."""
        for op in walk(self.body):
            if op.operand("shape") is not None:
                yield from self.items(op.operand("shape"))
            elif op.kind == OpKind.ARANGE:
                yield str(op.operand("size"))

    def _carried(self, op: Op) -> None:
        """Values of regions have the shape of what enters or leaves."""
        if op.kind == OpKind.UNPACK:
            items = self.items(op.inputs[0])
            if len(items) == len(op.results):
                self.sources.update(zip((v.name for v in op.results), items, strict=True))
        elif op.kind == OpKind.FOR:
            self.counters[op.regions[0].arguments[0].name] = op.inputs[0]
            pairs = zip(op.regions[0].arguments[1:], op.inputs[1:], strict=False)
            self.sources.update({argument.name: value for argument, value in pairs})
            self.sources.update(zip((v.name for v in op.results), op.inputs[1:], strict=False))
        elif op.kind == OpKind.WHILE:
            for region in op.regions:
                names = (argument.name for argument in region.arguments)
                self.sources.update(zip(names, op.inputs, strict=False))
            self.sources.update(zip((v.name for v in op.results), op.inputs, strict=False))
        elif op.kind in (OpKind.IF, OpKind.IF_EXPRESSION):
            for region in reversed(op.regions):
                last = region.terminator
                if last is None or last.kind != OpKind.YIELD:
                    continue
                for result, value in zip(op.results, last.inputs, strict=False):
                    if value in self.producers and self.producers[value].kind == OpKind.UNDEF:
                        continue
                    if result.name in self.sources:
                        self.others[result.name] = self.sources[result.name]
                    self.sources[result.name] = value

    def constant(self, value: str | None) -> Literal:
        """The literal that a value is, None when it is none."""
        made = self.producers.get(value or "")
        return made.attribute("value") if made and made.kind == OpKind.CONST else None

    def items(self, value: str | None) -> tuple[str, ...]:
        """Elements of a tuple in sight; a lone value counts as one."""
        made = self.producers.get(value or "")
        if made is not None and made.kind in (OpKind.TUPLE, OpKind.LIST):
            return made.inputs
        return (value,) if value is not None else ()

    def extent(self, value: str) -> Extent:
        """One extent."""
        if value in self.parameters:
            return value
        number = self.constant(value)
        return number if isinstance(number, int) else None

    def of(self, value: str) -> Shape | None:
        """Shape of a tile, `()` of a scalar, None when even the rank is not known."""
        if value not in self._known:
            if self._depth > MAX_DEPTH:
                return None
            self._known[value] = None
            self._depth += 1
            self._known[value] = self._found(value)
            self._depth -= 1
        return self._known[value]

    def _found(self, value: str) -> Shape | None:
        if value in self.sources:
            return _agreed(self.of(self.sources[value]), self._other(value))
        op = self.producers.get(value)
        if op is None or op.kind in _SCALARS:
            return ()
        if op.kind in _WRITTEN:
            return self._written(op)
        rule = _RULES.get(op.kind)
        if rule is not None:
            return rule(self, op)
        if op.kind in REDUCTIONS or op.kind in (OpKind.ARGMAX, OpKind.ARGMIN):
            return self._reduced(op)
        return self.met([v for role, v in op.operands if role in _DATA])

    def _other(self, value: str) -> Shape | None:
        """Shape of a branch result as the second branch has it, where there is one."""
        return self.of(self.others.get(value, self.sources[value]))

    def _written(self, op: Op) -> Shape | None:
        shape = tuple(self.extent(item) for item in self.items(op.operand("shape")))
        if -1 in shape:
            return tuple(None if extent == -1 else extent for extent in shape)
        return shape

    def met(self, values: list[str]) -> Shape | None:
        """The shape in which several values meet."""
        shape: Shape = ()
        for value in values:
            other = self.of(value)
            if other is None:
                return None
            rank = max(len(shape), len(other))
            one = (1,) * (rank - len(shape)) + shape
            two = (1,) * (rank - len(other)) + other
            shape = tuple(_wider(a, b) for a, b in zip(one, two, strict=True))
        return shape

    def _reduced(self, op: Op) -> Shape | None:
        shape = self.of(str(op.operand("x")))
        axis = self.constant(op.operand("axis"))
        if shape is None or op.operand("axis") is None or axis is None:
            return () if op.operand("axis") is None else None
        if not shape or not isinstance(axis, int):
            return () if not shape else None
        at = axis % len(shape)
        keep = self.constant(op.operand("keepdims")) is True
        return shape[:at] + ((1,) if keep else ()) + shape[at + 1 :]

    # -- single operations

    def subscripted(self, op: Op) -> Shape | None:
        """`x[:, None]`."""
        shape = self.of(str(op.operand("x")))
        words = str(op.attribute("pattern")).rstrip(",").split(",")
        if not set(words) <= {":", "None"}:
            return ()
        if shape is None:
            return None
        rest = iter(shape)
        return tuple(1 if word == "None" else next(rest, None) for word in words)

    def expanded(self, op: Op) -> Shape | None:
        """A new axis."""
        shape, axis = self.of(str(op.operand("x"))), self.constant(op.operand("axis"))
        if shape is None or not isinstance(axis, int):
            return None
        at = axis % (len(shape) + 1)
        return (*shape[:at], 1, *shape[at:])

    def permuted(self, op: Op) -> Shape | None:
        """Axes in another order."""
        shape = self.of(str(op.operand("x")))
        order = None if shape is None else self.axes(op, len(shape))
        return None if shape is None or order is None else tuple(shape[axis] for axis in order)

    def axes(self, op: Op, rank: int) -> list[int] | None:
        """The order of axes that a permutation or a transposition asks for."""
        if op.operand("axes") is not None:
            given = [self.constant(item) for item in self.items(op.operand("axes"))]
        elif op.operand("axis0") is not None:
            pair = [self.constant(op.operand(role)) for role in ("axis0", "axis1")]
            if not all(isinstance(axis, int) for axis in pair):
                return None
            one, other = (int(str(axis)) % rank for axis in pair)
            given = [{one: other, other: one}.get(axis, axis) for axis in range(rank)]
        else:
            given = [*range(rank - 2), rank - 1, rank - 2] if rank > 1 else list(range(rank))
        if not all(isinstance(axis, int) for axis in given):
            return None
        return [int(str(axis)) % rank for axis in given]

    def product(self, op: Op) -> Shape | None:
        """Rows of the left, columns of the right."""
        one, other = self.of(str(op.operand("lhs"))), self.of(str(op.operand("rhs")))
        if one is None or other is None or len(one) < 2 or len(other) < 2:
            return None
        return (*one[:-1], other[-1])

    def lanes(self, op: Op) -> Shape | None:
        """A counted run."""
        return (self.extent(str(op.operand("size"))),)

    def gathered(self, op: Op) -> Shape | None:
        """The shape in which the indices meet."""
        return self.met(list(self.items(op.operand("index"))))

    def joined(self, op: Op) -> Shape | None:
        """Tiles one after the other: the joined axis has to be asked for."""
        parts = self.items(op.operand("tiles"))
        shape, axis = self.of(parts[0]), self.constant(op.operand("axis"))
        if not shape or not isinstance(axis, int):
            return None
        at = axis % len(shape)
        return (*shape[:at], None, *shape[at + 1 :])

    def viewed(self, op: Op) -> Shape | None:
        """The tile of a tiled view."""
        made = self.producers.get(str(op.operand("view")))
        return None if made is None else self._written(made)


_DATA = frozenset({"x", "y", "z", "lhs", "rhs", "condition", "value", "low", "high", "init"})
_RULES: dict[str, Callable[[Extents, Op], Shape | None]] = {
    OpKind.SUBSCRIPT: Extents.subscripted, OpKind.EXPAND_DIMS: Extents.expanded,
    OpKind.PERMUTE: Extents.permuted, OpKind.TRANSPOSE: Extents.permuted,
    OpKind.MMA: Extents.product, OpKind.MATMUL: Extents.product, OpKind.ARANGE: Extents.lanes,
    OpKind.GATHER: Extents.gathered, OpKind.CAT: Extents.joined, OpKind.VIEW_LOAD: Extents.viewed,
}  # fmt: skip


def _agreed(one: Shape | None, other: Shape | None) -> Shape | None:
    """What two branches agree on; nothing when their ranks differ, the other where one is open."""
    if one is None or other is None:
        return one if other is None else other
    if len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


def _wider(one: Extent, other: Extent) -> Extent:
    """The extent of a broadcast: what is not one; a number or name rather than nothing."""
    if one == 1:
        return other
    if other == 1:
        return one
    return one if one is not None else other
