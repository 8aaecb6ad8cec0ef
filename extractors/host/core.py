"""The interpreter's common ground: what its parts (expressions, statements, calls) offer one
another."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from extractors.host.assume import resolve, truth
from extractors.host.events import KernelSignature, MadeConfig, SearchRecord, TargetProfile
from extractors.host.machine import Machine
from extractors.host.modules import ModuleLoader
from extractors.host.registries import Row
from extractors.host.values import (
    Choice,
    Expr,
    Frame,
    Func,
    Module,
    Ref,
    Unknown,
    Value,
)
from kb.evidence import Lines

MAX_PLACES = 16
"""Places of one condition that are remembered."""


@dataclass
class Core:
    """State shared by all parts of the interpreter; the methods here are filled in by those
    parts.

    `handlers`: the method for each kind of expression (`_eval_Name`) and statement (`_do_If`).
    `nested`: how many conditions held at each entry into a function that is being read.
    `leading`: names of the definitions of the analysed files that may lead to a kernel of the main
    one. `analysed`: the main module, whose kernels are asked for, and modules that launch them.
    `late`: what modules made for names asked of them when they were asked first.
    `tried`: functions of that file that were handed random arrays while `trial` was set: by a test
    or benchmark, an entry function that takes no arrays itself.
    """

    handlers: ClassVar[dict[type[ast.AST], Callable[..., Any]]] = {}

    machine: Machine
    kernels: Mapping[str, KernelSignature]
    loader: ModuleLoader | None = None
    profile: TargetProfile | None = None
    modules: dict[str, Module] = field(default_factory=dict)
    searches: dict[int, SearchRecord] = field(default_factory=dict)
    made: dict[int, MadeConfig] = field(default_factory=dict)
    calls: list[tuple[str, Lines, tuple[str, ...]]] = field(default_factory=list)
    sites: list[Lines] = field(default_factory=list)
    called: set[int] = field(default_factory=set)
    nested: dict[int, tuple[int, ...]] = field(default_factory=dict)
    roots: set[int] = field(default_factory=set)
    entered: dict[int, int] = field(default_factory=dict)
    leading: set[str] = field(default_factory=set)
    trial: bool = True
    tried: dict[int, Func] = field(default_factory=dict)
    recognised: dict[int, str | None] = field(default_factory=dict)
    notes: list[tuple[str, Lines | None]] = field(default_factory=list)
    unread: list[tuple[str, str, Lines]] = field(default_factory=list)
    refusals: dict[ast.stmt, ast.expr] = field(default_factory=dict)
    registered: dict[str, tuple[Row, ...] | None] = field(default_factory=dict)
    main: str = ""
    late: dict[tuple[str, str], Value] = field(default_factory=dict)
    analysed: set[str] = field(default_factory=set)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        names = ((name.partition("_")[2].partition("_")[2], name) for name in dir(cls))
        cls.handlers = {
            getattr(ast, kind): getattr(cls, name)
            for kind, name in names
            if name.startswith(("_eval_", "_do_")) and hasattr(ast, kind)
        }

    def eval(self, node: ast.expr, frame: Frame) -> Value:
        """The value of an expression."""
        raise NotImplementedError

    def call(
        self, target: Value, args: tuple[Value, ...], kwargs: dict[str, Value], node: ast.AST
    ) -> Value:
        """The value of a call."""
        raise NotImplementedError

    def attribute(self, owner: Value, name: str, node: ast.AST) -> Value:
        """The value of `owner.name`."""
        raise NotImplementedError

    def subscript(self, owner: Value, key: Value, node: ast.AST) -> Value:
        """The value of `owner[key]`."""
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Value, frame: Frame) -> None:
        """Bind a value to an assignment target."""
        raise NotImplementedError

    def run_body(self, body: list[ast.stmt], frame: Frame) -> Value:
        """Run a function body and give what it returns."""
        raise NotImplementedError

    def loaded(self, value: Value) -> Value:
        """A name that was imported, read from its module now; anything else as it is."""
        raise NotImplementedError

    def module_value(self, name: str, package: str) -> Value:
        """A module of the package by absolute name, or a library."""
        raise NotImplementedError

    def resolve(self, value: Value) -> Value:
        """The alternative of a choice that this path takes."""
        return resolve(value, self.machine.path)

    def test(self, value: Value) -> bool | Expr | Unknown:
        """The truth of a value on this path."""
        value = self.resolve(value)
        if isinstance(value, Ref) and value.kind in ("list", "set", "dict"):
            if value.open:
                return Unknown("the contents of a table filled by earlier calls")
            content = self.machine.items(value)
            if isinstance(content, tuple):
                return bool(content)
            value = content
        if isinstance(value, Choice):
            value = self.machine.lift(self._leaf_truth, value)
        verdict = truth(value)
        if isinstance(verdict, Expr):
            decided = self.machine.path.decide(verdict)
            return verdict if decided is None else decided
        return verdict

    def _leaf_truth(self, value: Value) -> Value:
        if isinstance(value, Ref) and value.kind in ("list", "set", "dict") and not value.open:
            content = self.machine.items(value)
            return bool(content) if isinstance(content, tuple) else truth(content)
        return truth(value)

    def where(self, node: ast.AST) -> Lines:
        """Lines in the analysed file: of the node, or of the call that led into a sibling
        module."""
        return self.machine.site if self.machine.foreign else lines_of(node)

    def asks(self, cond: Expr, node: ast.expr, frame: Frame) -> None:
        """Remember where the analysed file asks for a condition."""
        if frame.module in self.analysed:
            places = self.machine.asked.setdefault(cond, [])
            if len(places) < MAX_PLACES and node not in places:
                places.append(node)

    def note(self, message: str, node: ast.AST | None = None) -> None:
        """A diagnostic, kept once."""
        if self.machine.foreign:
            return
        row = (message, lines_of(node) if node is not None else None)
        if row not in self.notes and len(self.notes) < 200:
            self.notes.append(row)


def lines_of(node: ast.AST) -> Lines:
    """First and last line of a node."""
    first = getattr(node, "lineno", 1)
    return first, getattr(node, "end_lineno", None) or first


def function_lines(func: Func) -> Lines:
    """Where a function stands."""
    return lines_of(func.node)
