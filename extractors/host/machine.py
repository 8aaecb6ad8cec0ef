"""The state of one reading: heap, path, events, bounds."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from extractors.host.assume import Path, resolve
from extractors.host.events import CallRecord
from extractors.host.expr import choose
from extractors.host.heap import Content, Heap, merge_heaps
from extractors.host.limits import Limits, OutOfBounds
from extractors.host.tables import ON_DEVICE
from extractors.host.values import (
    ABSENT,
    NEVER,
    Choice,
    Expr,
    Frame,
    Func,
    Ref,
    Unknown,
    Value,
)
from kb.evidence import Lines


@dataclass(slots=True)
class TensorFact:
    """What is known of a tensor the host made: its name, extents, fill value, element type, what it
    was made from, whether it is all of that in another shape and where that may not be copied,
    where its axes were put in another order, and whether it holds random numbers."""

    name: str | None = None
    dims: tuple[Value, ...] | None = None
    like: Value = None
    base: Value = None
    reshaped: bool = False
    viewed: Lines | None = None
    turned: Lines | None = None
    fill: Value = None
    rank: int | None = None
    drawn: bool = False
    line: int = 0
    dtype: Value = None


@dataclass(slots=True)
class Machine:
    """Everything that changes while host code is read."""

    limits: Limits = field(default_factory=Limits)
    heap: Heap = field(default_factory=Heap)
    base: dict[int, Content] = field(default_factory=dict)
    path: Path = field(default_factory=Path)
    tensors: dict[Value, TensorFact] = field(default_factory=dict)
    ranks: dict[Value, int | None] = field(default_factory=dict)
    events: list[object] = field(default_factory=list)
    stack: tuple[str, ...] = ()
    budgets: tuple[Value, ...] = ()
    options: set[int] = field(default_factory=set)
    widened: set[Value] = field(default_factory=set)
    aliases: dict[Value, str] = field(default_factory=dict)
    asked: dict[Expr, list[ast.expr]] = field(default_factory=dict)
    kept: dict[str, list[Value]] = field(default_factory=dict)
    contiguous: dict[ast.AST, tuple[int, int]] = field(default_factory=dict)
    marked: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    registered: dict[ast.AST, tuple[int, int]] = field(default_factory=dict)
    by_function: set[str] = field(default_factory=set)
    operators: dict[str, Func] = field(default_factory=dict)
    device_questions: int = 0
    device_functions: set[str] = field(default_factory=set)
    muted: int = 0
    foreign: int = 0
    imports: int = 0
    site: tuple[int, int] = (1, 1)
    steps: int = 0
    depth: int = 0
    next_id: int = 1

    def fresh(self) -> int:
        """A number that was not given before."""
        self.next_id += 1
        return self.next_id

    def alloc(self, kind: str, content: Content, *, open_: bool = False) -> Ref:
        """A new mutable object."""
        ref = Ref(self.fresh(), kind, open_)
        self.heap[ref.oid] = content
        return ref

    def new_frame(self, parent: Frame | None, module: str, function: str) -> Frame:
        """An empty frame for the names of one call."""
        oid = self.fresh()
        self.heap[oid] = {}
        return Frame(oid, parent, module, function)

    def read(self, oid: int) -> Content:
        """The contents of a heap object on this path."""
        content = self.heap.get(oid)
        return self.base.get(oid, {}) if content is None else content

    def mapping(self, oid: int) -> dict[Value, Value]:
        """The contents of a frame, dict or record."""
        content = self.heap.get(oid)
        if content is None:
            content = self.base.get(oid)
        return content if isinstance(content, dict) else {}

    def items(self, ref: Ref) -> Value:
        """The contents of a list or set on this path: a tuple, or a Choice of tuples."""
        if ref.kind == "dict":
            return tuple(self.mapping(ref.oid))
        content = self.read(ref.oid)
        return (
            resolve(content, self.path)
            if not isinstance(content, dict)
            else tuple(content.values())
        )

    def put(self, oid: int, key: Value, value: Value) -> None:
        """Write one name, key or attribute."""
        content = dict(self.mapping(oid))
        content[key] = value
        if len(content) > self.limits.items:
            raise OutOfBounds(f"a table with more than {self.limits.items} entries")
        self.heap[oid] = content

    def tick(self) -> None:
        """Count one step."""
        self.steps += 1
        if self.steps > self.limits.steps:
            raise OutOfBounds(f"more than {self.limits.steps} steps of host code")

    def deeper(self) -> None:
        """Enter one level of nesting, which the caller leaves with `depth -= 1`.

        Raises OutOfBounds when that is one too many.
        """
        self.steps += 1
        limits = self.limits
        if self.steps > limits.steps:
            raise OutOfBounds(f"more than {limits.steps} steps of host code")
        if self.depth >= limits.depth:
            raise OutOfBounds(f"code nested deeper than {limits.depth} levels")
        self.depth += 1

    def emit(self, event: object) -> None:
        """Record an event, unless events are muted here."""
        if not self.muted and len(self.events) < self.limits.events:
            self.events.append(event)

    def emit_call(self, function: int, table: int) -> None:
        """Record the call of a function that is read by itself, with what it is given."""
        given = tuple((str(name), value) for name, value in self.mapping(table).items())
        self.emit(CallRecord(function=function, given=given, path=self.path, stack=self.stack))

    def implement(self, name: Value, key: Value, function: Value) -> None:
        """A function is what an operator of torch does on the GPU."""
        runs = not isinstance(key, str) or key.lower() in ON_DEVICE
        if isinstance(name, str) and runs and isinstance(function, Func):
            self.operators[f"torch.ops.{name.replace('::', '.')}"] = function

    def tensor(self, value: Value) -> TensorFact:
        """The facts of a tensor, created empty on first sight."""
        return self.tensors.setdefault(value, TensorFact())

    def unshaped(self, tensor: Value) -> Value:
        """The tensor that another one is in another shape."""
        while (fact := self.tensors.get(tensor)) is not None and fact.reshaped:
            tensor = fact.base
        return tensor

    def forget_ranks(self) -> None:
        """Forget how many axes arguments have: another function has others of the same name. What
        was said stays in `ranks`, None where functions say different things."""
        for value, fact in self.tensors.items():
            if isinstance(value, Expr) and value.op == "sym" and fact.rank is not None:
                agreed = self.ranks.get(value, fact.rank) == fact.rank
                self.ranks[value] = fact.rank if agreed else None
                fact.rank = None

    def branch(
        self,
        cond: Expr,
        then: Callable[[], Value],
        other: Callable[[], Value],
        *,
        shown: bool = True,
    ) -> tuple[Value, Value]:
        """Run both sides, each on its own copy of the heap, and merge the heaps."""
        (left, heap_left), (right, heap_right) = self.fork(cond, then, other, shown=shown)
        if left is NEVER:
            self.heap = heap_right
        elif right is NEVER:
            self.heap = heap_left
        else:
            self.heap = merge_heaps(cond, heap_left, heap_right, self.base, self.widened)
        return left, right

    def fork(
        self,
        cond: Expr,
        then: Callable[[], Value],
        other: Callable[[], Value],
        *,
        shown: bool = True,
    ) -> tuple[tuple[Value, Heap], tuple[Value, Heap]]:
        """Run both sides and give each result with its heap, unmerged."""
        before, path = self.heap, self.path
        try:
            self.heap, self.path = before.copy(), path.under(cond, True, shown)
            left = then(), self.heap
            self.heap, self.path = before.copy(), path.under(cond, False, shown)
            return left, (other(), self.heap)
        finally:
            self.heap, self.path = before, path

    def lift(self, compute: Callable[..., Value], *values: Value) -> Value:
        """`compute` on known alternatives: once for each leaf of the choices among `values`."""
        for one in values:
            if isinstance(one, (Choice, Unknown)):
                break
        else:
            return compute(*values)
        path = self.path
        resolved = [resolve(one, path) if isinstance(one, Choice) else one for one in values]
        for place, value in enumerate(resolved):
            if isinstance(value, Choice):
                before, after = resolved[:place], resolved[place + 1 :]
                return self._lift_sides(
                    value,
                    partial(self.lift, compute, *before, value.then, *after),
                    partial(self.lift, compute, *before, value.other, *after),
                )
            if isinstance(value, Unknown):
                return value
        return compute(*resolved)

    def _lift_sides(
        self, value: Choice, then: Callable[[], Value], other: Callable[[], Value]
    ) -> Value:
        self.tick()
        if self.depth > self.limits.depth:
            raise OutOfBounds("choices nested too deeply")
        self.depth += 1
        try:
            left, right = self.branch(value.cond, then, other)
        finally:
            self.depth -= 1
        return merge(value.cond, left, right)


def merge(cond: Expr, left: Value, right: Value) -> Value:
    """One value from two branches; a branch that never returns does not count."""
    if left is NEVER:
        return right
    if right is NEVER:
        return left
    return choose(cond, left, right)


def present(value: Value) -> Value:
    """The value of a name that some path left unbound: where it is unbound, nothing reads it."""
    if isinstance(value, Choice) and value.partial:
        then, other = present(value.then), present(value.other)
        if then is ABSENT:
            return other
        if other is ABSENT:
            return then
        return choose(value.cond, then, other)
    return value
