"""State of one kernel being read, and the steps that every part of the reader needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.combined import literal
from extractors.cuda.kinds import INTEGERS, Typing
from extractors.cuda.library import Library
from extractors.cuda.values import (
    BOOL,
    INT,
    UNKNOWN,
    Binding,
    Closure,
    Frame,
    Kind,
    Memory,
    Mode,
    Pointing,
    Slot,
    Val,
    Where,
)
from extractors.cuda.writing import TypedWriter
from kb.ir import Literal
from kb.ops import EFFECT, OpKind

_FLOATS = frozenset({"f16", "bf16", "f32", "f64", "tf32", "f8e4m3", "f8e5m2"})
_RANK = ("i1", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f8e5m2", "f8e4m3", "bf16",
         "f16", "f32", "f64")  # fmt: skip


class Core(Typing):
    """Reads expressions of one kernel into the region that its writer has open."""

    def __init__(self, library: Library, path: str, frame: Frame) -> None:
        self.library = library
        self.writer = TypedWriter(path, self.places_of)
        self.passed = None
        self.noted = {}
        self.frame = frame
        self.names: dict[str, Val] = {}
        self.kinds: dict[str, Kind] = {}
        self.made: dict[str, tuple[n.Place, ...]] = {}
        self.trail: list[n.Definition] = []
        self.agreed: dict[tuple[Kind, str], int | None] = {}
        self.counting: list[tuple[n.Definition, dict[str, int | Kind]]] = []
        self.read_once: dict[n.Place, int] = {}
        self.entry: n.Definition | None = None
        self.symbols: dict[str, Val] = {}
        self.built: dict[str, Val] = {}
        self.traits: dict[str, n.Record] = {}
        self.asked: dict[str, Kind] = {}
        self.put: dict[str, tuple[Val, str]] = {}
        self.looked: set[tuple[n.Place, str]] = set()
        self.given: set[str] = set()
        self.making: set[n.Place] = set()
        self.sizes: dict[str, tuple[n.Expr, Frame]] = {}
        self.whole: set[str] = set()
        self.counted: set[str] = set()
        self.flags: dict[str, Val] = {}
        self.told: dict[tuple[object, ...], n.Record] = {}
        self.divided: dict[str, tuple[Kind, tuple[str, ...]]] = {}
        self.parts: dict[tuple[str, str], dict[str, Val]] = {}
        self.lanes: dict[str, tuple[Val, ...]] = {}
        self.layouts: dict[str, tuple[Mode, ...]] = {}
        self.tuples: dict[str, tuple[Val, ...]] = {}
        self.tiles: dict[str, n.Call] = {}
        self._moves: dict[tuple[str, str], str | None] = {}
        self.ends = False
        self.leaves = False
        self.closing: n.Place | None = None
        self.left = False
        self._count = 0

    # -- what the other parts provide

    def read(self, node: n.Expr, hint: str = "") -> Val:
        """The value of an expression."""
        raise NotImplementedError

    def statement(self, node: n.Stmt) -> bool:
        """Read one statement; True when nothing after it is reached."""
        raise NotImplementedError

    def place(self, node: n.Expr) -> Where | None:
        """Where an expression lies, None when it is no place."""
        raise NotImplementedError

    def load(self, where: Where, at: n.Place, hint: str = "") -> Val:
        """What lies at a place."""
        raise NotImplementedError

    def store(self, where: Where, value: Val, at: n.Place) -> None:
        """Put a value at a place."""
        raise NotImplementedError

    def call(self, node: n.Call, hint: str) -> Val:
        """The value of a call."""
        raise NotImplementedError

    def fold(self, node: n.Fold, hint: str) -> Val:
        """The value of a fold over a pack."""
        raise NotImplementedError

    def assigned(self, node: object) -> set[str]:
        """Variables made before a piece of code that it may write."""
        raise NotImplementedError

    def choice_with_effects(self, node: n.Choice, condition: Val) -> Val:
        """The value of a choice one side of which writes variables."""
        raise NotImplementedError

    # -- names

    def key(self, name: str) -> str:
        """A name for a new variable that no other one has."""
        self._count += 1
        return f"{name}#{self._count}"

    def bind(self, name: str, binding: Binding) -> None:
        """Let a name of the source stand for something in the open block."""
        self.frame.bind(name, binding)

    @contextmanager
    def block(self) -> Iterator[None]:
        """Names bound inside end with it."""
        self.frame.scopes.append({})
        try:
            yield
        finally:
            self.frame.scopes.pop()

    @contextmanager
    def inside(self, frame: Frame, site: n.Place | None = None) -> Iterator[None]:
        """Read in another frame, which a call at some place leads to."""
        outer, self.frame = self.frame, frame
        self.writer.site += [site] if site is not None else []
        try:
            yield
        finally:
            self.frame = outer
            if site is not None:
                self.writer.site.pop()

    # -- operations

    def one(
        self, kind: OpKind, operands: Sequence[tuple[str, str]], at: n.Place, of: Kind,
        hint: str = "", attributes: Sequence[tuple[str, Literal]] = (),
    ) -> Val:  # fmt: skip
        """An operation with one result; a lane of what was reduced lane by lane is that lane."""
        if kind is OpKind.EXTRACT and operands[0][1] in self.lanes:
            index = literal(self.writer.current.ops, operands[1][1])
            if isinstance(index, int):
                return self.lanes[operands[0][1]][index]
        return self.writer.one(kind, operands, at, of, hint, attributes)

    def constant(
        self, value: int | float | bool | str | None, at: n.Place, kind: Kind = INT, hint: str = ""
    ) -> Val:
        """A literal."""
        made = self.one(OpKind.CONST, (), at, kind, hint, [("value", value)])
        plain = value if isinstance(value, int | float) else None
        return replace(made, const=plain, static=True)

    def opaque(
        self, what: str, read: Sequence[n.Expr], at: n.Place, hint: str = "", kind: Kind = UNKNOWN,
        whole: n.Expr | n.Stmt | None = None,
    ) -> Val:  # fmt: skip
        """What is not understood: kept with the values that it reads; what it may write is new.

        `whole` is the code that may write when `read` does not say it all."""
        operands: list[tuple[str, str]] = []
        for expression in read:
            for value in self.visible(expression):
                if ("read", value.name) not in operands:
                    operands.append(("read", value.name))
        written = self.assigned(whole if whole is not None else tuple(read))
        changed = [key for key in self.kinds if key in written]
        results = [(hint, kind), *((_hint(k), self.kinds.get(k, UNKNOWN)) for k in changed)]
        attributes = [("what", what[:120])]
        found = self.writer.emit(OpKind.OPAQUE, operands, at, results, attributes)
        for key, name in zip(changed, found[1:], strict=True):
            self.names[key] = Val(name, self.kinds.get(key, UNKNOWN))
        return Val(found[0], kind)

    def address(
        self, where: Where | None, name: str, read: Sequence[n.Expr], at: n.Place, hint: str
    ) -> Val:
        """Where a variable lies. Of a struct that the kernel is given, or of one in it, that is
        asked for by instructions that take it whole, such as a map of a tensor: it stands for
        itself."""
        if isinstance(where, Slot) and where.key in self.given and where.kind.to is None:
            if where.kind.record:
                return self.load(where, at, hint)
        return self.opaque(f"address of a variable{name}", read, at, hint)

    def visible(self, node: n.Expr) -> Iterator[Val]:
        """Values of the variables that an expression mentions, and those that the lambdas do that
        it mentions."""
        pending, opened = list(n.inside(node)), set[int]()
        for one in pending:
            if isinstance(one, n.Name):
                found = self.frame.find(one.text)
                if isinstance(found, Closure) and id(found.function) not in opened:
                    opened.add(id(found.function))
                    pending += n.inside(found.function.body)
                if isinstance(found, Val) and found.name:
                    yield found
                slot = found.where if isinstance(found, Pointing) else found
                key = slot.key if isinstance(slot, Slot) else ""
                if isinstance(found, Memory):
                    yield found.address
                if key in self.divided:
                    yield from (v for k, v in self.names.items() if k.startswith(f"{key}."))
                elif key in self.names:
                    yield self.names[key]

    def axis(self, kind: OpKind, axis: int, at: n.Place) -> Val:
        """An index or an extent of the grid along one axis."""
        number = self.constant(axis, at)
        return self.one(kind, [("axis", number.name)], at, Kind("u32"))

    def dtype_value(self, kind: Kind, at: n.Place) -> str:
        """The dtype operand of a cast."""
        known = self.symbols.get(kind.dtype[8:-1]) if kind.dtype.startswith("dtypeof(") else None
        if known is not None:
            return known.name
        return self.one(OpKind.DTYPE, (), at, UNKNOWN, attributes=[("name", kind.dtype)]).name

    def cast(self, value: Val, kind: Kind, at: n.Place, hint: str = "") -> Val:
        """A conversion; nothing when nothing changes, a new literal for a literal."""
        if kind.dtype == "?" or kind.to is not None or kind.record or value.kind.to is not None:
            return value
        if value.kind.dtype == kind.dtype or kind.dtype == "void":
            return value
        if value.const is not None and kind.scalar and kind.dtype in INTEGERS | _FLOATS:
            number = float(value.const) if kind.dtype in _FLOATS else int(value.const)
            if kind.dtype == "i1":
                return self.constant(bool(value.const), at, kind, hint)
            return self.constant(number, at, kind, hint)
        operands = [("x", value.name), ("dtype", self.dtype_value(kind, at))]
        of = replace(kind, shape=kind.shape or value.kind.shape)
        made = self.one(OpKind.CAST, operands, at, of, hint)
        return replace(made, static=value.static)

    def convert(self, value: Val, kind: Kind, at: n.Place, hint: str = "") -> Val:
        """What an assignment to a variable of a kind does to a value. Integers of one size are
        taken for each other."""
        if kind.dtype == "?" or kind.to is not None or value.kind.record or kind.record:
            return value
        mine, theirs = value.kind.dtype, kind.dtype
        if mine in INTEGERS and theirs in INTEGERS and theirs != "i1" and mine != "i1":
            if value.const is None and value.kind.bits == kind.bits:
                return replace(value, kind=replace(value.kind, dtype=theirs))
        if mine == "?" and value.name and theirs in INTEGERS and not value.kind.shape:
            return self.cast(value, kind, at, hint)
        if mine == "?" or (value.kind.shape and not kind.shape):
            return value
        return self.cast(value, kind, at, hint)


def promoted(left: Kind, right: Kind) -> str:
    """Element type of an arithmetic result; an unknown one gives way to wide floats."""
    one, other = left.dtype, right.dtype
    if one in _RANK and other in _RANK:
        wide = max(one, other, key=_RANK.index)
        return "i32" if _RANK.index(wide) < _RANK.index("i32") else wide
    for wide in ("f64", "f32"):
        if wide in (one, other):
            return wide
    if one == "?" or other == "?":
        return "?"
    return one if one not in INTEGERS else other


def is_integer(kind: Kind) -> bool:
    """True for a whole number of known type."""
    return kind.dtype in INTEGERS and kind.to is None and not kind.record


def is_float(kind: Kind) -> bool:
    """True for a floating point number of known type."""
    return kind.dtype in _FLOATS and kind.to is None and not kind.record


def pure(kinds: Sequence[str]) -> bool:
    """True when none of the operations does anything but compute."""
    return all(kind not in EFFECT for kind in kinds)


def _hint(key: str) -> str:
    return key.partition("#")[0]


__all__ = ["BOOL", "INTEGERS", "Core", "is_float", "is_integer", "promoted", "pure"]


def widens(value: Val, other: Val, dtype: str) -> bool:
    """Whether a number of fewer bits, or of a type that a template leaves open, is made a float to
    be computed with another one; a literal says nothing of that."""
    narrow = value.kind.dtype in ("f16", "bf16") or value.kind.dtype.startswith("dtypeof(")
    return narrow and dtype == "f32" and other.const is None and not value.kind.shape


def joined_kind(left: Val, right: Val) -> Kind:
    if left.kind.to is not None or left.kind.record:
        return left.kind
    if right.kind.to is not None or right.kind.record:
        return right.kind
    shape = left.kind.shape or right.kind.shape
    if left.kind == right.kind:
        return left.kind
    return Kind(promoted(left.kind, right.kind), shape)
