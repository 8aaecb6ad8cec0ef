"""Layouts of CuTe as they are written: shapes, strides and coordinates, and the names behind the
type of a tiled copy or product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass

from extractors.cuda import nodes as n
from extractors.cuda.engine import EngineReader
from extractors.cuda.type_traits import TRUTHS
from extractors.cuda.values import BOOL, Kind, Memory, Mode, Slot, Val
from kb.dialects import cute
from kb.ir import Literal
from kb.ops import OpKind

_MAX_WORDS = 400
_MAX_ALIASES = 96


class LayoutReader(EngineReader):
    """Reads shapes, strides and coordinates."""

    def of_cute(self, function: n.Name, count: int | None = None) -> str:
        """The name of a function of CuTe; empty for one of the file, or of another library."""
        bound = self.frame.find(function.text)
        return self.library.of_cute(function.text, count) if bound is None else ""

    def is_tensor(self, function: n.Name) -> bool:
        """Whether a name is of memory that has a layout, or of coordinates."""
        bound = self.frame.find(function.text)
        if isinstance(bound, Slot | Memory):
            of_memory = bound.kind.to is not None or bool(bound.kind.shape)
            return of_memory or bound.kind.record == cute.COORDINATES
        return isinstance(bound, Val) and bound.kind.record == cute.COORDINATES

    def gives_tensor(self, node: n.Expr) -> bool:
        """Whether a call gives a tensor, a part of one, or what its pointer is."""
        called = node.function if isinstance(node, n.Call) else None
        if isinstance(called, n.Field):
            return called.name in ("data", "get") or called.name in cute.PARTS | cute.RETILED
        if isinstance(called, n.Call):
            return self.gives_tensor(called)
        return isinstance(called, n.Name) and (self.is_tensor(called) or bool(self.of_cute(called)))

    def coordinates(self, given: Sequence[n.Expr]) -> Iterator[n.Expr | None]:
        """The coordinates of a tuple and those inside, None for a whole axis."""
        for one in given:
            if isinstance(one, n.Call) and self._is_tuple(one):
                yield from self.coordinates(one.arguments)
            elif _spelled(one) in cute.WHOLE:
                yield None
            else:
                yield one

    def _is_tuple(self, node: n.Call) -> bool:
        return isinstance(node.function, n.Name) and self.of_cute(node.function) in cute.TUPLES

    # -- layouts

    def _modes(self, given: Sequence[n.Expr], at: n.Place) -> Iterator[Mode]:
        """The axes of a layout: a shape and its strides, those of a shape alone one behind the
        other; none where the layout is not written out."""
        if len(given) == 1 and isinstance(given[0], n.Call):
            called = given[0].function
            if isinstance(called, n.Name) and self.of_cute(called) == "make_layout":
                given = given[0].arguments
        extents = [*self._values(given[0])] if given else []
        if len(given) == 2:
            strides = [*self._values(given[1])]
            if len(strides) == len(extents):
                yield from (Mode(e, s) for e, s in zip(extents, strides, strict=True))
            return
        stride: Val | None = self.constant(1, at) if extents else None
        for extent in extents:
            yield Mode(extent, stride)
            known = stride is not None and extent is not None
            stride = self._times(stride, extent, at) if known else None  # type: ignore[arg-type]

    def _values(self, node: n.Expr) -> Iterator[Val | None]:
        """The numbers of a shape or of strides; None for one with an inner structure."""
        for one in self._extents(node):
            if isinstance(one, n.CType):
                inner = one.name.rpartition("::")[2] in cute.TUPLE_TYPES
            else:
                inner = isinstance(one, n.Call) and self._is_tuple(one)
            yield None if inner else self._extent_number(one)

    def _extents(self, node: n.Expr) -> Iterator[n.Expr | n.CType]:
        """What stands in a shape, as it is written."""
        if isinstance(node, n.Call) and self._is_tuple(node):
            yield from node.arguments
        elif isinstance(node, n.Braces) and node.type is not None:
            if node.type.name.rpartition("::")[2] in cute.TUPLE_TYPES:
                yield from node.type.arguments

    def _extent_number(self, one: n.Expr | n.CType) -> Val:
        """A number of a shape: an expression, or a type that stands for one."""
        if isinstance(one, n.CType):
            return self.static_number(one) or self.argument(n.Name(_NOWHERE, one.name), self.frame)
        return self.read(one)

    def static_number(self, written: n.CType) -> Val | None:
        """`Int<4>` and `_4`; None for any other type."""
        last = written.name.rpartition("::")[2]
        if last[:1] == "_" and last[1:].isdigit():
            return self.constant(int(last[1:]), _NOWHERE)
        if last in TRUTHS and written.name.startswith("std::"):
            return self.constant(TRUTHS[last], _NOWHERE, BOOL)
        if last not in cute.STATIC or not written.arguments:
            return None
        inner = written.arguments[-1]
        if isinstance(inner, n.CType):
            return self.argument(n.Name(_NOWHERE, inner.name, inner.arguments), self.frame)
        return self.read(inner)

    def _times(self, left: Val, right: Val, at: n.Place) -> Val:
        if 1 in (left.const, right.const):
            return left if right.const == 1 else right
        operands = [("lhs", left.name), ("rhs", right.name)]
        return self.one(OpKind.MUL, operands, at, left.kind)

    def _plus(self, left: Val | None, right: Val, at: n.Place) -> Val:
        if left is None:
            return right
        operands = [("lhs", left.name), ("rhs", right.name)]
        return self.one(OpKind.ADD, operands, at, left.kind)

    def partition(
        self, what: str, operands: Sequence[tuple[str, str]], at: n.Place, kind: Kind | None = None,
        mode: str = "",
    ) -> Val:  # fmt: skip
        """What a layout gives."""
        attributes: list[tuple[str, Literal]] = [("what", what)]
        attributes += [("mode", mode)] if mode else []
        of = kind or Kind("i32")
        return self.one(OpKind.PARTITION, operands, at, of, attributes=attributes)

    # -- what the types say

    def atom(self, kind: Kind) -> tuple[cute.Atom, n.Place | None]:
        """What the alias behind a type, and those that it names, say of its atom, and where."""
        words = self._words_behind(kind.record) if kind.record else {}
        found = cute.atom(frozenset(words))
        alone = ((cute.atom(frozenset({word})), at) for word, at in words.items())
        told = (at for one, at in alone if one.engine or (one.bits and not found.engine))
        return found, next(told, None)

    def mixed(self, node: n.Expr) -> tuple[n.Place, n.Place] | None:
        """Where the type of what is made in braces is said to mix positions, and where that type
        itself is; None where it does not."""
        written = node.type if isinstance(node, n.Braces) else None
        if written is None:
            return None
        words = self._words_behind(f"{written.name}::{written.member}".removesuffix("::"))
        told = next((at for word, at in words.items() if cute.mixes(word)), None)
        return (told, next(iter(words.values()))) if told is not None else None

    @contextmanager
    def led_from(self, *places: n.Place) -> Iterator[None]:
        """Operations inside are told by what stands elsewhere, of what is done at a place; further
        ones are on the way from there."""
        before = len(self.writer.site)
        self.writer.site += places
        try:
            yield
        finally:
            del self.writer.site[before:]

    def kind_of_made(self, node: n.Call) -> Kind:
        """The type of a tiled copy or product that a call makes, which the call tells."""
        known = next((record for record, made in self.tiles.items() if made is node), None)
        record = known or self.key("tiled")
        self.tiles[record] = node
        return Kind(record=record)

    def _words_behind(self, name: str) -> dict[str, n.Place]:
        """Every name that an alias leads to, whichever struct of the files has it, each with the
        alias that says it."""
        found: dict[str, n.Place] = {}
        pending, seen = [name], set[str]()
        while pending and len(found) < _MAX_WORDS and len(seen) < _MAX_ALIASES:
            last = pending.pop().rpartition("::")[2]
            if last in seen or not last:
                continue
            seen.add(last)
            made = self.tiles.get(last)
            own = [n.Alias(made.at, last, n.CType(last, (made,)))] if made is not None else []
            for alias in own or self.library.aliases(last):
                inner = set(_names(alias.type))
                pending += sorted(inner)
                if _of_single_values(alias.type):
                    found[cute.SINGLE] = alias.at
                for word in inner:
                    found.setdefault(word, alias.at)
        return found


def _names(node: object) -> Iterator[str]:
    """Names of types and values in a written type."""
    pending: list[object] = [node]
    while pending:
        one = pending.pop()
        if isinstance(one, tuple):
            pending += one
        elif is_dataclass(one) and not isinstance(one, type):
            if isinstance(one, n.CType):
                yield one.name + ("::" + one.member if one.member else "")
                yield from (f"{one.name}<{a.value}>" for a in one.arguments
                            if isinstance(a, n.Constant))  # fmt: skip
            elif isinstance(one, n.Name):
                yield one.text
            pending += [getattr(one, part.name) for part in fields(one)]


def _of_single_values(written: n.CType) -> bool:
    """Whether a type is that of a tiled copy of which each thread moves single values."""
    made = written.arguments[0] if written.arguments else None
    if not isinstance(made, n.Call) or len(made.arguments) < 3:
        return False
    values = made.arguments[2]
    shape = values.type.arguments[:1] if isinstance(values, n.Braces) and values.type else ()
    numbers = [name for name in _names(shape) if name[:1] == "_"]
    return bool(numbers) and set(numbers) == {"_1"}


def _spelled(one: n.Expr) -> str:
    """The name, or the name of the type that is made on the spot."""
    if isinstance(one, n.Braces):
        return one.type.name if one.type is not None and not one.items else ""
    return one.text if isinstance(one, n.Name) else ""


def digits(one: n.Expr | n.CType) -> str:
    return str(one.value) if isinstance(one, n.Constant) else ""


_NOWHERE = n.Place(0, 0, 0, "")
