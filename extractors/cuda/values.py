"""What the reader knows of a value, a place and a name while it reads a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from extractors.cuda import nodes as n
from kb.dialects.cuda import BITS
from kb.ir import MemorySpace, TileType, TypeKind


@dataclass(frozen=True, slots=True)
class Kind:
    """A type resolved as far as it goes. `shape` are extents of a vector or array, `?` unknown;
    `to` is what a pointer, or each of an array of pointers, points at; `record` names a struct
    with its template `arguments`; `space` is where a pointer points; `rows` counts the axes of an
    array that a pointer points at."""

    dtype: str = "?"
    shape: tuple[str, ...] = ()
    to: Kind | None = None
    record: str = ""
    space: MemorySpace = MemorySpace.NONE
    arguments: tuple[Kind | Val, ...] = ()
    rows: int = 0

    @property
    def scalar(self) -> bool:
        """True for a number."""
        return self.to is None and not self.shape and not self.record

    @property
    def element(self) -> Kind:
        """What one index leaves."""
        if self.to is not None and not self.shape:
            return self.to
        return replace(self, shape=self.shape[1:], rows=max(self.rows - 1, 0))

    @property
    def bits(self) -> int | None:
        """Bits in memory, None when not known."""
        size = 64 if self.to is not None else BITS.get(self.dtype)
        for extent in self.shape:
            size = size * int(extent) if size is not None and extent.isdigit() else None
        return size

    def tile(self) -> TileType | None:
        """The type as the tile program writes it."""
        if self.to is not None:
            if self.shape:
                return None
            inner = self.to
            return TileType(TypeKind.POINTER, inner.dtype, inner.shape, self.space)
        if self.shape:
            return TileType(TypeKind.TILE, self.dtype, self.shape, MemorySpace.REGISTER)
        if self.record or self.dtype == "?":
            return None
        return TileType(TypeKind.SCALAR, self.dtype)


UNKNOWN = Kind()
NULL = Kind("null")
"""The type of `nullptr`, of which there is one value."""

MISSING = Kind(record="std::nullopt_t")
"""The type of what stands for a value that is missing."""

BOOL = Kind("i1")
INT = Kind("i32")


@dataclass(frozen=True, slots=True)
class Val:
    """A value of the program: its name, its kind, and the number that it surely is. `static` when
    it is known at compile time; `text` is then its expression over compile-time parameters. `at` is
    where a constant with a name of its own is declared."""

    name: str
    kind: Kind = UNKNOWN
    const: int | float | bool | None = None
    static: bool = False
    text: str = ""
    at: n.Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Mode:
    """One axis of a layout; None where its extent or its stride is not known."""

    extent: Val | None = None
    stride: Val | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """A variable in registers, or a part of one: `path` holds indices and names of fields."""

    key: str
    kind: Kind
    path: tuple[Val | str, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """A place behind an address; `array` counts the axes of an array that are not indexed yet."""

    address: Val
    kind: Kind
    volatile: bool = False
    array: int = 0


Where = Slot | Memory


@dataclass(frozen=True, slots=True)
class Pointing:
    """A pointer to something in registers: `kind` is what it points at, `where` what lies there,
    moved by `offset` of `unit`."""

    where: Slot
    kind: Kind
    offset: Val | None = None
    unit: Kind = UNKNOWN


@dataclass(frozen=True, slots=True)
class Closure:
    """A lambda with the frame that it was made in."""

    function: n.Lambda
    frame: Frame


@dataclass(frozen=True, slots=True)
class Callee:
    """The functions that a name handed on as an argument stands for."""

    candidates: tuple[n.Definition, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """A type, in the frame that it was written in; `at` is where an alias says so."""

    type: n.CType
    frame: Frame
    at: n.Place | None = None

    def names_itself(self, name: str) -> bool:
        """Whether `using Sum = Sum<T>` names the struct of the file, and not a parameter of a
        template that a helper hands on under its own name."""
        around = self.frame.find(name)
        return self.type.name == name and (around is None or around is self)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A constant that is read when it is used; `at` is where it is declared."""

    value: n.Expr
    frame: Frame
    at: n.Place | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A cooperative group: `scope` is warp, block, grid, cluster or tile, `size` when it is
    known."""

    scope: str
    size: str = ""


Binding = Slot | Memory | Pointing | Closure | Callee | Named | Fixed | Group | Val | Kind
"""What a name may stand for."""


@dataclass(slots=True)
class Frame:
    """Names of one function being read, by block; `caller` is the frame that called it, `places`
    are where the type is declared whose members it holds."""

    label: str
    owner: str = ""
    scopes: list[dict[str, Binding]] = field(default_factory=lambda: [{}])
    outer: Frame | None = None
    depth: int = 0
    places: tuple[n.Place, ...] = ()

    def find(self, name: str) -> Binding | None:
        """What a name stands for, innermost block first."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return self.outer.find(name) if self.outer is not None else None

    def bind(self, name: str, binding: Binding) -> None:
        """Let a name stand for something until the block ends."""
        self.scopes[-1][name] = binding


Read = Callable[[], Val]
