"""The tile program: a kernel as dialect-neutral, structured SSA. Frozen records, standard library
only.

A program is an entry function with its device helpers. A function body is a region; a region is a
list of
operations that ends in one terminator (`yield`, `return`, `break`, `continue`). Control flow is
structured:
`for`, `while`, `if` hold regions and hand values over explicitly. Every operation has its source
span.

Value names read `name.N` (or `.N` for an unnamed step): the part before the dot is the spelling
hint that an
emitter may reuse, it never carries meaning; `alpha_digest` ignores it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

Literal = int | float | bool | str | None
"""What a constant or an attribute may hold."""


Origin = tuple[str, tuple[int, int]]
"""A file, and first and last line in it."""


class Place(tuple[int, int]):
    """First and last line of a call, for what a helper of another file does there; `origin` is
    where that stands, `through` the calls in other files that lead there. Equal to the bare lines,
    and to a place of the same origin that the same calls lead to."""

    origin: Origin
    through: tuple[Origin, ...]

    def __new__(
        cls, lines: Iterable[int], origin: Origin | None = None, through: tuple[Origin, ...] = ()
    ) -> Place:
        """The lines with their origin; the bare lines without one, as copies of records need."""
        if origin is None:
            return tuple(lines)  # type: ignore[return-value]
        made = super().__new__(cls, lines)
        made.origin = origin
        made.through = through
        return made

    def __eq__(self, other: object) -> bool:
        """Equal lines, of one origin and way when both have one."""
        same = not isinstance(other, Place) or (
            (other.origin, other.through) == (self.origin, self.through)
        )
        return same and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        """The opposite."""
        return not self == other

    __hash__ = tuple.__hash__

    def __reduce__(self) -> tuple[type, tuple[tuple[int, ...]]]:
        """Kept as bare lines: origins are told by decisions."""
        return (tuple, (tuple(self),))


@dataclass(frozen=True, slots=True)
class Span:
    """Where an operation was read: 1-based lines, 0-based column, in the file at `path`.

    `origin` is where the text stands when the span is the call of a helper in another file, and
    `through` are the calls in such files on the way from there.
    `call` is the line that calls the helper in which it stands, 0 when it stands in the kernel
    itself, or in a helper whose loops are places of their own. `via` are the lines of helpers that
    call further ones, on the way from there. `declared` is where names of the type are declared
    that the operation moves.
    """

    line: int
    column: int = 0
    end_line: int = 0
    path: str = ""
    call: int = 0
    via: tuple[int, ...] = ()
    origin: Origin | None = field(default=None, compare=False)
    through: tuple[Origin, ...] = field(default=(), compare=False)
    declared: tuple[Origin, ...] = field(default=(), compare=False)

    @property
    def lines(self) -> tuple[int, int]:
        """First and last line, inclusive."""
        lines = (self.line, max(self.line, self.end_line))
        return lines if self.origin is None else Place(lines, self.origin, self.through)

    @property
    def head(self) -> tuple[int, int]:
        """The first line alone."""
        lines = (self.line, self.line)
        if self.origin is None:
            return lines
        path, (first, _) = self.origin
        return Place(lines, (path, (first, first)), self.through)

    def __str__(self) -> str:
        head = f"{self.path}:" if self.path else ""
        return f"{head}{self.line}:{self.column}"


class TypeKind(StrEnum):
    """What sort of thing a value is."""

    TILE = "tile"
    SCALAR = "scalar"
    ARRAY = "array"
    POINTER = "pointer"
    DTYPE = "dtype"
    TUPLE = "tuple"
    CONST = "const"
    UNKNOWN = "unknown"


class MemorySpace(StrEnum):
    """Where the bytes of a value live."""

    REGISTER = "register"
    SHARED = "shared"
    GLOBAL = "global"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class TileType:
    """Type of a value: `dtype` is a name (`f32`) or `dtypeof(Q)`; `shape` counts elements,
    outermost first.

    Extents are integers or expressions over constexpr parameters (`TILE_M`, `2 * TILE_D`); `?` is
    unknown.
    """

    kind: TypeKind
    dtype: str = "?"
    shape: tuple[str, ...] = ()
    space: MemorySpace = MemorySpace.NONE

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __str__(self) -> str:
        extents = f"[{', '.join(self.shape)}]" if self.shape else ""
        place = f"@{self.space}" if self.space is not MemorySpace.NONE else ""
        return f"{self.kind}<{self.dtype}>{extents}{place}"


@dataclass(frozen=True, slots=True)
class Value:
    """One SSA value; its type is filled in by inference and None until then."""

    name: str
    type: TileType | None = None

    @property
    def hint(self) -> str:
        """Spelling hint: the source variable, empty for an unnamed step."""
        return self.name.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Op:
    """One step: `kind` names a row of kb.ops, operands go by role, attributes are literals."""

    kind: str
    operands: tuple[tuple[str, str], ...] = ()
    attributes: tuple[tuple[str, Literal], ...] = ()
    results: tuple[Value, ...] = ()
    regions: tuple[Region, ...] = ()
    span: Span = field(default=Span(0), compare=True)
    inputs: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Operand values in order."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", tuple([value for _, value in self.operands]))

    def operand(self, role: str) -> str | None:
        """The value that plays `role`, None when the operand is absent."""
        for name, value in self.operands:
            if name == role:
                return value
        return None

    def attribute(self, name: str, default: Literal = None) -> Literal:
        """The attribute called `name`."""
        for key, value in self.attributes:
            if key == name:
                return value
        return default

    @property
    def result(self) -> str:
        """Name of the only result; ValueError when there is not exactly one."""
        (value,) = self.results
        return value.name


@dataclass(frozen=True, slots=True)
class Region:
    """Operations in order, the last one a terminator; `arguments` are the values handed in."""

    arguments: tuple[Value, ...] = ()
    ops: tuple[Op, ...] = ()

    @property
    def terminator(self) -> Op | None:
        """The op that leaves the region, None in an empty one."""
        return self.ops[-1] if self.ops else None


class ParameterKind(StrEnum):
    """How a parameter is bound: an array or pointer, a runtime scalar, a compile-time value, or not
    told."""

    ARRAY = "array"
    SCALAR = "scalar"
    CONSTEXPR = "constexpr"
    UNTOLD = "untold"


UNNAMED = "unnamed"
"""How a parameter is called that its author gave no name; underscores behind tell several apart."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function: its name is interface and kept; `annotation` is a dtype name or
    empty.

    `span` is where the source declares it, `Span(0)` when unknown; it is a note for reports, left
    out of comparisons, of the text form and of the graph form. `struct` names the parameter that it
    is a field of, where an analysis takes a struct apart; a program that is kept has no such ones.
    """

    name: str
    kind: ParameterKind
    annotation: str = ""
    default: Literal = None
    has_default: bool = False
    span: Span = field(default=Span(0), compare=False)
    struct: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel entry or a device helper. `options` are decorator arguments such as occupancy
    hints."""

    name: str
    parameters: tuple[Parameter, ...]
    body: Region
    span: Span
    options: tuple[tuple[str, Literal], ...] = ()
    decorated: bool = True

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(parameter.name for parameter in self.parameters)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A tile program: the entry function, its helpers by first call, and the dialect that it was
    read from."""

    entry: Function
    helpers: tuple[Function, ...] = ()
    dialect: str = ""

    @property
    def name(self) -> str:
        """Name of the entry function."""
        return self.entry.name

    @property
    def functions(self) -> tuple[Function, ...]:
        """Entry first, then helpers."""
        return (self.entry, *self.helpers)

    def helper(self, name: str) -> Function | None:
        """The helper called `name`."""
        for function in self.helpers:
            if function.name == name:
                return function
        return None


def walk(region: Region) -> Iterator[Op]:
    """Every op of a region and of the regions inside it, in program order (an op before its
    regions)."""
    pending: list[Iterator[Op]] = [iter(region.ops)]
    while pending:
        op = next(pending[-1], None)
        if op is None:
            pending.pop()
            continue
        yield op
        if op.regions:
            pending.append(op_of_regions(op))


def op_of_regions(op: Op) -> Iterator[Op]:
    """The top-level ops of all regions of `op`, in order."""
    for region in op.regions:
        yield from region.ops


def kernel_ops(kernel: Kernel) -> Iterator[Op]:
    """Every op of every function."""
    for function in kernel.functions:
        yield from walk(function.body)


def alpha_digest(kernel: Kernel) -> str:
    """sha256 of the program with values numbered in order and spans, spellings and helper names
    left out."""
    state = hashlib.sha256()
    names = {function.name: f"@{index}" for index, function in enumerate(kernel.functions)}
    for function in kernel.functions:
        numbers: dict[str, str] = {}
        for parameter in function.parameters:
            state.update(f"({parameter.name}:{parameter.kind}:{parameter.default!r})".encode())
            numbers[parameter.name] = f"%{parameter.name}"
        _digest_region(function.body, numbers, names, state)
    return state.hexdigest()


_BRANCH, _END = "if", "yield"
"""Operations by name: this file needs the standard library only."""


def _digest_region(
    region: Region, numbers: dict[str, str], names: dict[str, str], state: hashlib._Hash,
    order: tuple[int, ...] = (),
) -> None:  # fmt: skip
    """Feed one region to the hash; regions nest as deep as the reader allowed, which is bounded.
    `order` is that of what its end hands on."""
    for value in region.arguments:
        numbers[value.name] = f"%{len(numbers)}"
    for op in region.ops:
        state.update(f"{op.kind}(".encode())
        handed = order if op is region.ops[-1] and op.kind == _END else ()
        for role, name in [op.operands[i] for i in handed] or op.operands:
            state.update(f"{role}={numbers.get(name, name)},".encode())
        for key, literal in op.attributes:
            if key not in SPELLING:
                shown = names.get(str(literal), literal) if key == "callee" else literal
                state.update(f"{key}={shown!r},".encode())
        inside = _order(op, numbers)
        for result in (op.results[i] for i in inside):
            numbers[result.name] = f"%{len(numbers)}"
        for inner in op.regions:
            state.update(b"{")
            _digest_region(inner, numbers, names, state, inside if op.kind == _BRANCH else ())
            state.update(b"}")
        state.update(b")")


def _order(branch: Op, numbers: dict[str, str]) -> tuple[int, ...]:
    """The results of a branch in an order that its own order does not decide: by where its sides
    make what they hand on; those of any other operation as they are."""
    if branch.kind != _BRANCH or len(branch.results) < 2:
        return tuple(range(len(branch.results)))
    ends = [r for r in branch.regions if r.ops and r.ops[-1].kind == _END]
    places = [
        {op.results[i].name: (at, rank) for at, op in enumerate(r.ops)
         for rank, i in enumerate(_order(op, numbers))}
        for r in ends
    ]  # fmt: skip

    def key(index: int) -> list[tuple[tuple[int, int], str]]:
        handed = [r.ops[-1].operands[index][1] for r in ends]
        return [
            (inside[name], "") if name in inside else ((-1, 0), numbers.get(name, name))
            for name, inside in zip(handed, places, strict=True)
        ]

    return tuple(sorted(range(len(branch.results)), key=key))


SPELLING = frozenset({"spelling", "constant_name"})
"""Attributes that only say how the source was spelled; they never change what a program
computes."""
