"""Writes operations into the region that is open; hands out value names."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from kb.errors import InputError
from kb.ir import Literal, Op, Region, Span, Value

MAX_OPS = 20_000
"""Operations that one function may hold; past that the file is refused, not truncated."""


@dataclass(slots=True)
class OpenRegion:
    """A region being written."""

    arguments: tuple[Value, ...] = ()
    ops: list[Op] = field(default_factory=list)

    @property
    def region(self) -> Region:
        """The finished region."""
        return Region(self.arguments, tuple(self.ops))


class RegionWriter:
    """One per function."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._open: list[OpenRegion] = []
        self._count = 0
        self._ops = 0

    @contextmanager
    def region(self, arguments: Sequence[Value] = ()) -> Iterator[OpenRegion]:
        """Open a region; operations go there until the block ends."""
        opened = OpenRegion(tuple(arguments))
        self._open.append(opened)
        try:
            yield opened
        finally:
            self._open.pop()

    @contextmanager
    def reopen(self, opened: OpenRegion) -> Iterator[OpenRegion]:
        """Write on at the end of a region that was closed."""
        self._open.append(opened)
        try:
            yield opened
        finally:
            self._open.pop()

    def value(self, hint: str = "") -> Value:
        """A fresh value name."""
        self._count += 1
        return Value(f"{hint}.{self._count}")

    def add(
        self,
        kind: str,
        operands: Sequence[tuple[str, str]],
        node: ast.AST,
        attributes: Sequence[tuple[str, Literal]] = (),
        hint: str = "",
        regions: tuple[Region, ...] = (),
    ) -> str:
        """Append an operation with one result and return the result."""
        return self.add_many(kind, operands, node, attributes, (hint,), regions)[0]

    def add_many(
        self,
        kind: str,
        operands: Sequence[tuple[str, str]],
        node: ast.AST,
        attributes: Sequence[tuple[str, Literal]] = (),
        hints: Sequence[str] = (),
        regions: tuple[Region, ...] = (),
    ) -> tuple[str, ...]:
        """Append an operation with one result per hint."""
        results = tuple(self.value(hint) for hint in hints)
        op = Op(str(kind), tuple(operands), tuple(attributes), results, regions, self.span(node))
        self.append(op)
        return tuple(value.name for value in results)

    def finish(self, kind: str, operands: Sequence[tuple[str, str]], node: ast.AST) -> None:
        """Append an operation without results, such as a terminator."""
        self.append(Op(str(kind), tuple(operands), span=self.span(node)))

    def append(self, op: Op) -> None:
        """Append a finished operation; InputError when the function outgrows the bound."""
        self._ops += 1
        if self._ops > MAX_OPS:
            raise InputError(
                f"a function holds more than {MAX_OPS} operations.",
                where=str(op.span),
                hint="Read a smaller file, or split the kernel.",
            )
        self._open[-1].ops.append(op)

    def span(self, node: ast.AST) -> Span:
        """Where a node stands."""
        line = getattr(node, "lineno", 0)
        return Span(
            line,
            getattr(node, "col_offset", 0),
            getattr(node, "end_lineno", line) or line,
            self.path,
        )
