"""Small launches of a kernel, derived from its program: extents, scalars, constants and a grid.

Both sides of a comparison compute on the same numbers, so a launch need not mean anything; it must
stay inside its arrays, reach what the kernel does, and leave finite numbers behind.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from generators.compile_model import Argument, ArgumentKind, Scalar, Signature
from generators.lower.extents import Extents
from generators.reference.machine import Machine
from generators.reference.rules_values import HANDLERS
from generators.reference.values import STORAGE, Array, DType, EvaluationError, is_constant
from generators.signatures import candidates
from generators.usage import Role, Usage
from kb.analysis.inline import inline
from kb.ir import Kernel, Op, walk
from kb.ops import OpKind

MAX_EXTENT = 32
"""Largest tile extent of a small launch."""

MAX_ARRAY = 1 << 22
"""Elements of one array."""

FLAT = 1 << 16
"""Elements behind a pointer: more than small strides and counts reach."""

_MANY = {1: 40, 2: 40, 3: 40, 4: 12}
_FEW = 8
_LONG = 37
_FACTORS = (2, 2, 1, 4)
_COUNTS = (16, 24, 37, 4, 3, 2, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One launch: the grid and a value for every parameter."""

    grid: tuple[int, int, int]
    arguments: dict[str, object]

    def fresh(self) -> dict[str, object]:
        """The arguments with arrays that may be written."""
        return {name: _copied(value) for name, value in self.arguments.items()}


def _copied(value: object) -> object:
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value.copy() if isinstance(value, np.ndarray) else value


@dataclass(slots=True)
class _Axis:
    """What is known of one axis of an array: tile extents, and whether only index 0 is used."""

    extents: set[int] = field(default_factory=set)
    moves: bool = False


def cases(kernel: Kernel, seed: int, count: int, fixed: dict[str, Scalar]) -> Iterator[Case]:
    """At most `count` launches; `fixed` sets parameters, and `grid_0` and so on, by name."""
    flat = inline(kernel)
    signatures = [s for s in candidates(kernel) if _largest(s) <= MAX_EXTENT]
    chance = random.Random(seed)
    for attempt in range(count):
        if not signatures:
            return
        signature = _mixed(kernel, signatures[attempt % len(signatures)], chance, attempt, fixed)
        try:
            yield _Deriver(flat, signature, chance, fixed).case()
        except EvaluationError:
            continue


def _largest(signature: Signature) -> float:
    values = [a.value for a in signature.arguments if isinstance(a.value, int | float)]
    return max((float(value) for value in values), default=0.0)


def _mixed(
    kernel: Kernel, signature: Signature, chance: random.Random, attempt: int,
    fixed: dict[str, Scalar],
) -> Signature:  # fmt: skip
    """Flags and factors drawn anew; what is fixed and what sizes tiles stays."""
    arguments = []
    usage = Usage(kernel)
    for argument in signature.arguments:
        if argument.name in fixed and argument.kind is ArgumentKind.CONSTEXPR:
            argument = replace(argument, value=fixed[argument.name])
        elif isinstance(argument.value, bool) and attempt >= 2:
            argument = replace(argument, value=chance.random() < 0.5)
        elif isinstance(argument.value, int) and not isinstance(argument.value, bool):
            if Role.EXTENT not in usage.of(kernel.entry.name, argument.name).roles:
                argument = replace(argument, value=chance.choice(_FACTORS))
        arguments.append(argument)
    return replace(signature, arguments=tuple(arguments))


@dataclass(slots=True)
class _Deriver:
    kernel: Kernel
    signature: Signature
    chance: random.Random
    fixed: dict[str, Scalar]
    known: dict[str, object] = field(default_factory=dict)
    axes: dict[str, dict[int, _Axis]] = field(default_factory=dict)
    grid_axes: set[int] = field(default_factory=set)
    extents: Extents = field(init=False)

    def __post_init__(self) -> None:
        static = (p.name for p in self.kernel.entry.parameters)
        self.extents = Extents(self.kernel.entry.body, frozenset(static))

    def case(self) -> Case:
        """Arguments and grid."""
        arguments: dict[str, object] = {}
        for argument in self.signature.arguments:
            if argument.kind is ArgumentKind.CONSTEXPR:
                arguments[argument.name] = argument.value
            elif argument.kind is ArgumentKind.DTYPE:
                arguments[argument.name] = DType(argument.dtype)
            elif argument.kind is ArgumentKind.SCALAR:
                arguments[argument.name] = self._scalar(argument)
        self.known.update({k: v for k, v in arguments.items() if not self._runtime(k)})
        self._walk()
        for argument in self.signature.arguments:
            if argument.kind is ArgumentKind.ARRAY:
                arguments[argument.name] = self._array(argument)
            elif argument.kind is ArgumentKind.ARRAY_LIST:
                arguments[argument.name] = [self._array(argument) for _ in range(2)]
            elif argument.kind is ArgumentKind.POINTER:
                arguments[argument.name] = self._filled((FLAT,), argument.dtype)
        return Case(self._grid(), arguments)

    def _runtime(self, name: str) -> bool:
        found = (a for a in self.signature.arguments if a.kind is ArgumentKind.SCALAR)
        return any(argument.name == name for argument in found)

    def _scalar(self, argument: Argument) -> Scalar:
        if argument.name in self.fixed:
            return self.fixed[argument.name]
        if argument.dtype[0] == "f":
            return self.chance.choice((0.5, 0.25, 1.0))
        return self.chance.choice(_COUNTS)

    def _grid(self) -> tuple[int, int, int]:
        sizes = []
        for axis, size in enumerate((3, 4, 2)):
            given = self.fixed.get(f"grid_{axis}", size if axis in self.grid_axes else 1)
            sizes.append(int(str(given)))
        return (sizes[0], sizes[1], sizes[2])

    # -- what the program says of its arrays

    def _walk(self) -> None:
        machine = Machine(self.kernel, (1, 1, 1), HANDLERS)
        for op in walk(self.kernel.entry.body):
            if op.kind == OpKind.BLOCK_ID:
                axis = self.known.get(op.inputs[0])
                self.grid_axes.add(axis if isinstance(axis, int) else 0)
            elif op.operand("array") is not None:
                self._access(op)
            elif len(op.results) == 1 and not op.regions and self._settled(op):
                try:
                    self.known[op.result] = HANDLERS[op.kind](machine, self.known, op)
                except (EvaluationError, LookupError, TypeError, ValueError, ArithmeticError):
                    continue

    def _settled(self, op: Op) -> bool:
        if op.kind in (OpKind.TUPLE, OpKind.LIST):
            for value in op.inputs:
                self.known.setdefault(value, _Unknown(value))
            return True
        return op.kind in HANDLERS and all(
            is_constant(self.known.get(value, _Unknown(value))) for value in op.inputs
        )

    def _access(self, op: Op) -> None:
        array = str(op.operand("array"))
        shape = self._items(op.operand("shape"))
        index = self._items(op.operand("index"))
        order = self._items(op.operand("order")) or list(range(len(index)))
        if op.kind == OpKind.STORE_TILE:
            shape = self._stored(str(op.operand("value")), len(index))
        for position, at in enumerate(index):
            place = order[position] if position < len(order) else position
            axis = self.axes.setdefault(array, {}).setdefault(_int(place, position), _Axis())
            extent = shape[position] if position < len(shape) else None
            if isinstance(extent, int):
                axis.extents.add(extent)
            axis.moves |= at != 0

    def _stored(self, value: str, rank: int) -> list[object]:
        """Extents of a stored tile, one per axis of the array."""
        written = self.extents.of(value) or ()
        shape: list[object] = [1] * (rank - len(written))
        for extent in written:
            shape.append(self.known.get(extent) if isinstance(extent, str) else extent)
        return shape

    def _items(self, value: str | None) -> list[object]:
        if value is None:
            return []
        found = self.known.get(value, _Unknown(value))
        return list(found) if isinstance(found, tuple) else [found]

    # -- arrays

    def _array(self, argument: Argument) -> Array:
        shape = []
        for axis in range(argument.rank):
            known = self.axes.get(argument.name, {}).get(axis, _Axis(moves=True))
            shape.append(self._extent(argument, axis, known))
        if math.prod(shape) > MAX_ARRAY:
            raise EvaluationError(f"an array of shape {shape}.", where=argument.name)
        return self._filled(tuple(shape), argument.dtype)

    def _extent(self, argument: Argument, axis: int, known: _Axis) -> int:
        given = self.fixed.get(f"{argument.name}_{axis}")
        if given is not None:
            return int(str(given))
        largest = max(known.extents, default=0)
        if largest <= 1:
            if largest == 1 and not known.moves:
                return 1
            if largest != 1 and argument.rank <= 2:
                return _LONG
            return _MANY.get(argument.rank, _FEW)
        if not known.moves:
            return largest
        return 2 * largest + (5 if self.seeded_odd else 0)

    @property
    def seeded_odd(self) -> bool:
        """Extents that the tile does not divide."""
        return not bool(self.fixed.get("even"))

    def _filled(self, shape: tuple[int, ...], dtype: str) -> Array:
        generator = np.random.default_rng(self.chance.randrange(1 << 30))
        if dtype[0] in "iu":
            top = int(str(self.fixed.get("below", 4)))
            values = generator.integers(0, 2 if dtype == "i1" else top, shape)
            values = np.sort(values) if self.fixed.get("sorted") else values
            return values.astype(STORAGE[dtype])
        numbers = generator.uniform(0.1, 1.0, shape)
        if self.chance.random() < 0.7:
            numbers *= np.where(generator.random(shape) < 0.4, -1.0, 1.0)
        return numbers.astype(STORAGE[dtype])


@dataclass(frozen=True, slots=True)
class _Unknown:
    """A value that only a run knows."""

    name: str


def _int(value: object, default: int) -> int:
    return value if isinstance(value, int) else default
