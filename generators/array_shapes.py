"""Which axes of the arrays of a program have the same extent, and how flat side buffers are laid
out.

Two axes that are walked by the same tile index with the same tile extent are the same axis of the
problem. An array that is only stored has the shape of what its indices say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kb.errors import CannotEmit
from kb.ir import Kernel, Op, walk
from kb.ops import OpKind

Axis = tuple[str, int]
"""An array parameter and one of its axes."""

_LOOPS = frozenset({OpKind.FOR, OpKind.WHILE})
_TILED = frozenset({OpKind.LOAD_TILE, OpKind.STORE_TILE})
_ALONG = frozenset({OpKind.COPY, OpKind.CAST, OpKind.RESHAPE})


@dataclass(frozen=True, slots=True)
class Factor:
    """One axis of a flat buffer: how many elements of it lie apart, as parameter names, and the
    axis that it follows.
    """

    strides: tuple[str, ...]
    like: Axis
    tile: str


@dataclass(slots=True)
class ArrayShapes:
    """Facts about the arrays of one inlined program."""

    kernel: Kernel
    loaded: set[str] = field(default_factory=set)
    stored: dict[str, Op] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    keys: dict[Axis, tuple[str, str]] = field(default_factory=dict)
    producers: dict[str, Op] = field(default_factory=dict)
    resident: tuple[tuple[str, ...], ...] = ()
    streamed: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        ops = list(walk(self.kernel.entry.body))
        self.producers = {value.name: op for op in ops for value in op.results}
        names = set(self.kernel.entry.parameter_names)
        for op in ops:
            array = op.operand("array")
            if array is None or array not in names:
                continue
            if op.kind in (OpKind.STORE_TILE, OpKind.SCATTER):
                self.stored[array] = op
            else:
                self.loaded.add(array)
            if op.kind in _TILED:
                self._tiled(array, op)
        inside = {
            id(op) for loop in ops if loop.kind in _LOOPS for r in loop.regions for op in walk(r)
        }
        self.resident = tuple(self._loads(op for op in ops if id(op) not in inside))
        self.streamed = tuple(self._loads(op for op in ops if id(op) in inside))

    def _loads(self, ops: Iterator[Op]) -> Iterator[tuple[str, ...]]:
        """Extents of the tiles that some operations load."""
        for op in ops:
            if op.kind == OpKind.LOAD_TILE:
                yield tuple(map(self._word, self._items(op.operand("shape")) or ()))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Arrays that are stored and never loaded, in the order of the parameters."""
        only = set(self.stored) - self.loaded
        return tuple(name for name in self.kernel.entry.parameter_names if name in only)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Arrays that are loaded, in the order of the parameters."""
        return tuple(name for name in self.kernel.entry.parameter_names if name in self.loaded)

    def alike(self, axis: Axis) -> Axis | None:
        """The first axis of an input with the same extent, None when no input tells."""
        key = self.keys.get(axis)
        for name in self.inputs:
            for place in range(self.ranks.get(name, 0)):
                if key is not None and self.keys.get((name, place)) == key:
                    return name, place
        return None

    def shape(self, name: str) -> tuple[Axis, ...] | None:
        """For each axis of an array the input axis that it equals; None when one is not known."""
        found = [self.alike((name, place)) for place in range(self.ranks.get(name, 0))]
        known = [axis for axis in found if axis is not None]
        return tuple(known) if found and len(known) == len(found) else None

    def flat(self, name: str) -> tuple[Factor, ...]:
        """The axes of a one-dimensional buffer, outermost first.

        Raises CannotEmit when its index is not a sum of known tile indices times parameters.
        """
        store = self.stored[name]
        index = store.operand("index")
        terms = self._terms(index or "", ())
        factors: list[Factor] = []
        for value, strides in terms:
            made = self.producers.get(value)
            if made is not None and made.kind == OpKind.ARANGE:
                continue
            factors.append(self._factor(value, strides, store))
        return tuple(sorted(factors, key=lambda factor: -len(factor.strides)))

    def _factor(self, value: str, strides: tuple[str, ...], store: Op) -> Factor:
        for (name, place), (index, tile) in self.keys.items():
            if index != value or name not in self.loaded:
                continue
            if tile == "1":
                return Factor(strides, (name, place), tile)
            if tile in strides:
                rest = list(strides)
                rest.remove(tile)
                return Factor(tuple(rest), (name, place), tile)
        raise CannotEmit(
            "the layout of a flat output cannot be told from its index.",
            where=str(store.span),
            hint="Store it as a tensor with one axis per tile index.",
        )

    def _terms(self, value: str, strides: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
        """A sum of products as (index value, parameters that multiply it)."""
        pending = [(value, strides)]
        found: list[tuple[str, tuple[str, ...]]] = []
        while pending:
            name, held = pending.pop()
            op = self.producers.get(name)
            if op is not None and op.kind in (OpKind.COPY, OpKind.CAST, OpKind.SUBSCRIPT):
                pending.append((op.inputs[0], held))
            elif op is not None and op.kind == OpKind.ADD:
                pending += [(side, held) for side in op.inputs]
            elif op is not None and op.kind == OpKind.MUL:
                left, right = (self._parameters(side) for side in op.inputs)
                if right is not None:
                    pending.append((op.inputs[0], (*held, *right)))
                elif left is not None:
                    pending.append((op.inputs[1], (*held, *left)))
                else:
                    found.append((name, held))
            else:
                found.append((name, held))
        return found

    def _parameters(self, value: str) -> tuple[str, ...] | None:
        """The parameters whose product a value is."""
        if value in self.kernel.entry.parameter_names:
            return (value,)
        op = self.producers.get(value)
        if op is None or op.kind != OpKind.MUL:
            return None
        sides = [self._parameters(side) for side in op.inputs]
        return tuple(n for side in sides for n in side or ()) if None not in sides else None

    # -- tile accesses

    def _tiled(self, array: str, op: Op) -> None:
        index = self._items(op.operand("index"))
        if index is None:
            return
        shape = self._items(op.operand("shape")) or self._stored_shape(op)
        order = self._order(op, len(index))
        self.ranks[array] = max(self.ranks.get(array, 0), len(index))
        for place, value in enumerate(index):
            extent = self._word(shape[place]) if shape is not None and place < len(shape) else "?"
            self.keys.setdefault((array, order[place]), (self._word(value), extent))

    def _stored_shape(self, op: Op) -> tuple[str, ...] | None:
        """The extents that the stored value was last given."""
        value = op.operand("value")
        while value is not None:
            made = self.producers.get(value)
            if made is None or made.kind not in _ALONG:
                return None
            if made.kind == OpKind.RESHAPE:
                return self._items(made.operand("shape"))
            value = made.inputs[0]
        return None

    def _order(self, op: Op, rank: int) -> tuple[int, ...]:
        """Storage axis of each view axis."""
        items = self._items(op.operand("order"))
        if items is None or len(items) != rank:
            return tuple(range(rank))
        found = [self._constant(item) for item in items]
        numbers = [n for n in found if isinstance(n, int)]
        return tuple(numbers) if len(numbers) == rank else tuple(range(rank))

    def _items(self, value: str | None) -> tuple[str, ...] | None:
        op = self.producers.get(value or "")
        return op.inputs if op is not None and op.kind in (OpKind.TUPLE, OpKind.LIST) else None

    def _constant(self, value: str) -> object:
        op = self.producers.get(value)
        return op.attribute("value") if op is not None and op.kind == OpKind.CONST else None

    def _word(self, value: str) -> str:
        """A value by its constant, else by its name; copies are looked through."""
        op = self.producers.get(value)
        while op is not None and op.kind == OpKind.COPY:
            value = op.inputs[0]
            op = self.producers.get(value)
        constant = self._constant(value)
        return str(constant) if constant is not None else value
