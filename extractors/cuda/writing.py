"""Writes operations with types and places of C++; what stands in another file keeps the line of
the call that leads there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from extractors.cuda.nodes import Place
from extractors.cuda.values import Kind, Val
from extractors.writer import OpenRegion, RegionWriter
from kb.errors import InputError
from kb.ir import Literal, Op, Origin, Region, Span, Value
from kb.ops import OpKind

MAX_OPERATIONS = 24_000
"""Operations of one kernel with its helpers in place; a larger one stays opaque."""

MAX_AGAIN = 2_500
"""Operations of a kernel past which a large helper that was read in place before is not again."""

_TYPED = frozenset({OpKind.LOAD, OpKind.POINTER_CAST})
"""Operations that take what they move to be of a type."""

SMALL = 400
"""Operations of a helper that is read in place wherever it is called."""

MAX_IN_PLACE = 14_000
"""Operations of a kernel past which calls of helpers stay calls that are not understood."""


Declared = Callable[[Kind], tuple[Place, ...]]
"""Where names of a type are declared."""


def _nowhere(_: Kind) -> tuple[Place, ...]:
    return ()


def _lines(at: Place) -> Origin:
    return at.path, (at.line, max(at.line, at.end_line))


class TypedWriter(RegionWriter):
    """A region writer whose operations carry their types."""

    def __init__(self, path: str, declared: Declared = _nowhere) -> None:
        super().__init__(path)
        self.declared = declared
        self.site: list[Place] = []
        self.count = 0
        self.home = (0, 0)
        """First and last line of the kernel."""

    def place(self, at: Place) -> Span:
        """The span of a place: its own in the kernel's file, else the innermost call there; in a
        helper, with the line of the kernel that leads there and those of helpers between."""
        origin: Origin | None = None
        through: tuple[Origin, ...] = ()
        if at.path != self.path:
            if at.path and at.line > 0:
                origin = _lines(at)
                through = tuple([_lines(s) for s in self.site if s.path not in ("", self.path)])
            at = next((s for s in reversed(self.site) if s.path == self.path), at)
        call = self.site[0] if self.site and not self.home[0] <= at.line <= self.home[1] else at
        called = call.line if call.path == at.path and call != at else 0
        between = [s.line for s in self.site[1:] if called and s.path == at.path and s != at]
        led = origin if at.path == self.path else None
        led_by = through if led is not None else ()
        return Span(at.line, at.column, at.end_line, at.path, called, tuple(between), led, led_by)

    def emit(
        self,
        kind: str,
        operands: Sequence[tuple[str, str]],
        at: Place,
        results: Sequence[tuple[str, Kind]] = (),
        attributes: Sequence[tuple[str, Literal]] = (),
        regions: tuple[Region, ...] = (),
    ) -> tuple[str, ...]:
        """Append an operation; one result per (hint, kind). InputError past MAX_OPERATIONS."""
        self.count += 1
        span = self.place(at)
        if kind in _TYPED and results and (named := self.declared(results[0][1])):
            span = replace(span, declared=tuple([_lines(one) for one in named]))
        operands = [
            (role, value or self._nothing(span))
            for role, value in operands
            if value or role != "read"
        ]
        if self.count > MAX_OPERATIONS:
            raise InputError(
                f"the kernel with its helpers has more than {MAX_OPERATIONS} operations.",
                where=str(span), hint="Split the kernel.",
            )  # fmt: skip
        values = tuple(Value(self.value(hint).name, kind_.tile()) for hint, kind_ in results)
        self._open[-1].ops.append(
            Op(str(kind), tuple(operands), tuple(attributes), values, regions, span)
        )
        return tuple(value.name for value in values)

    @contextmanager
    def trial(self) -> Iterator[OpenRegion]:
        """Open a region that may be thrown away: what goes there does not count."""
        before = self.count
        with self.region() as opened:
            yield opened
        self.count = before

    def declare(self, places: Sequence[Place]) -> None:
        """Say where what the last operation takes is declared."""
        if places:
            op = self._open[-1].ops[-1]
            span = replace(op.span, declared=tuple([_lines(one) for one in places]))
            self._open[-1].ops[-1] = replace(op, span=span)

    def declare_since(self, first: int, place: Place) -> None:
        """Say where what threads do together is declared, from the given operation on."""
        ops = self._open[-1].ops
        for at, op in enumerate(ops[first:], first):
            if op.attribute("scope") is not None and not op.span.declared:
                ops[at] = replace(op, span=replace(op.span, declared=(_lines(place),)))

    def _nothing(self, span: Span) -> str:
        """The value of an expression that gives none, where one is wanted."""
        value = self.value("")
        attributes = (("what", "the value of nothing"),)
        self._open[-1].ops.append(Op(OpKind.OPAQUE, (), attributes, (value,), (), span))
        return value.name

    def one(
        self, kind: str, operands: Sequence[tuple[str, str]], at: Place, of: Kind, hint: str = "",
        attributes: Sequence[tuple[str, Literal]] = (),
    ) -> Val:  # fmt: skip
        """An operation with one result."""
        return Val(self.emit(kind, operands, at, ((hint, of),), attributes)[0], of)

    @property
    def current(self) -> OpenRegion:
        """The region that is open."""
        return self._open[-1]
