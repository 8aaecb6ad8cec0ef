"""Statements: assignment, branches that merge, loops, checks, definitions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from extractors.host.assignments import Assignments, as_load
from extractors.host.events import CheckRecord
from extractors.host.expr import binary, make, negate, sym
from extractors.host.heap import Heap, merge_heaps
from extractors.host.limits import OutOfBounds
from extractors.host.machine import merge
from extractors.host.values import NEVER, Choice, Expr, External, Frame, Ref, Unknown, Value
from extractors.syntax.nodes import each, walk


class Kind(Enum):
    """How a statement ends."""

    NORMAL = "normal"
    RETURN = "return"
    RAISE = "raise"
    BREAK = "break"
    CONTINUE = "continue"


@dataclass(frozen=True, slots=True)
class Flow:
    """How a piece of code ended, with the value it returned."""

    kind: Kind
    value: Value = None


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a branch: how it ended and the heap it left."""

    flow: Flow | Split
    heap: Heap


@dataclass(frozen=True, slots=True)
class Split:
    """A branch whose sides ended differently."""

    cond: Expr
    then: Arm
    other: Arm
    check: bool = False


NORMAL = Flow(Kind.NORMAL)
RAISED = Flow(Kind.RAISE)
_IMPORTS = (ast.Import, ast.ImportFrom)
_TYPES_ONLY = External("typing.TYPE_CHECKING")
"""False in every run; what is imported under it names types of parameters."""
AnyFlow = Flow | Split


class Statements(Assignments):
    """Execution of statements."""

    def run_body(self, body: list[ast.stmt], frame: Frame) -> Value:
        """Run a function body; what it returns, as a choice where paths return different things."""
        flow = self.run(body, frame)
        return self._result(flow)

    def _result(self, flow: AnyFlow) -> Value:
        if isinstance(flow, Flow):
            return NEVER if flow.kind is Kind.RAISE else flow.value
        values = []
        heaps = []
        for arm in (flow.then, flow.other):
            self.machine.heap = arm.heap
            values.append(self._result(arm.flow))
            heaps.append(self.machine.heap)
        self._join_heaps(flow.cond, values[0] is not NEVER, values[1] is not NEVER, heaps)
        return merge(flow.cond, values[0], values[1])

    def _join_heaps(self, cond: Expr, first: bool, second: bool, heaps: list[Heap]) -> None:
        machine = self.machine
        if first and second:
            machine.heap = merge_heaps(cond, heaps[0], heaps[1], machine.base, machine.widened)
        else:
            machine.heap = heaps[0] if first else heaps[1]

    def run(self, body: list[ast.stmt], frame: Frame) -> AnyFlow:
        """Run statements in order; what follows an early return runs only where there was none."""
        for place, statement in enumerate(body):
            flow = self.execute(statement, frame)
            if isinstance(flow, Flow) and flow.kind is Kind.NORMAL:
                continue
            rest = body[place + 1 :]
            if isinstance(flow, Flow) or not rest:
                return flow
            return self._resume(flow, lambda rest=rest: self.run(rest, frame))  # type: ignore[misc]
        return NORMAL

    def _resume(self, flow: AnyFlow, rest: Callable[[], AnyFlow]) -> AnyFlow:
        """Run `rest` on the arms that ended normally."""
        if isinstance(flow, Flow):
            return rest() if flow.kind is Kind.NORMAL else flow
        machine = self.machine
        path = machine.path
        arms = []
        machine.deeper()
        try:
            for holds, arm in ((True, flow.then), (False, flow.other)):
                machine.heap, machine.path = arm.heap, path.under(flow.cond, holds, not flow.check)
                arms.append(Arm(self._resume(arm.flow, rest), machine.heap))
        finally:
            machine.path = path
            machine.depth -= 1
        return self._settle(flow.cond, arms[0], arms[1], flow.check)

    def _settle(self, cond: Expr, then: Arm, other: Arm, check: bool = False) -> AnyFlow:
        """One flow from two arms where they ended the same way; else a split."""
        machine = self.machine
        left, right = then.flow, other.flow
        if isinstance(left, Flow) and isinstance(right, Flow) and left.kind is right.kind:
            machine.heap = merge_heaps(cond, then.heap, other.heap, machine.base, machine.widened)
            return Flow(left.kind, merge(cond, left.value, right.value))
        raises = [isinstance(side, Flow) and side.kind is Kind.RAISE for side in (left, right)]
        return Split(cond, then, other, check or any(raises))

    def execute(self, node: ast.stmt, frame: Frame) -> AnyFlow:
        """Run one statement."""
        handler = self.handlers.get(type(node))
        if handler is None:
            return NORMAL
        machine = self.machine
        machine.deeper()
        try:
            flow: AnyFlow | None = handler(self, node, frame)
            return flow or NORMAL
        finally:
            machine.depth -= 1

    def _do_Expr(self, node: ast.Expr, frame: Frame) -> AnyFlow:
        if isinstance(node.value, ast.Constant):
            return NORMAL
        value = self.eval(node.value, frame)
        return RAISED if value is NEVER else NORMAL

    def _do_Return(self, node: ast.Return, frame: Frame) -> AnyFlow:
        value = None if node.value is None else self.eval(node.value, frame)
        return RAISED if value is NEVER else Flow(Kind.RETURN, value)

    def _do_Raise(self, node: ast.Raise, frame: Frame) -> AnyFlow:
        shown = [guard for guard in self.machine.path.guards if guard.shown]
        if shown:
            last = shown[-1]
            cond = negate(last.cond) if last.holds else last.cond
            self._check(cond, node, drop=last.cond, asked=self.refusals.get(node))
        return RAISED

    def _do_Break(self, node: ast.Break, frame: Frame) -> AnyFlow:
        return Flow(Kind.BREAK)

    def _do_Continue(self, node: ast.Continue, frame: Frame) -> AnyFlow:
        return Flow(Kind.CONTINUE)

    def _do_Assert(self, node: ast.Assert, frame: Frame) -> AnyFlow:
        value = self.eval(node.test, frame)
        verdict = self.test(value)
        if verdict is False:
            return RAISED
        if isinstance(verdict, Expr):
            self._check(verdict, node)
            passed = Arm(NORMAL, self.machine.heap)
            return Split(verdict, passed, Arm(RAISED, self.machine.heap), True)
        return NORMAL

    def _check(
        self,
        cond: Value,
        node: ast.AST,
        drop: Expr | None = None,
        asked: ast.expr | None = None,
    ) -> None:
        """A condition that is demanded at a statement; `asked` is where a branch asks for it."""
        machine = self.machine
        path = machine.path
        lines = self.where(node)
        if drop is not None:
            path = path.without(drop)
        machine.emit(
            CheckRecord(
                cond=cond,
                lines=lines if asked is None else (self.where(asked)[0], lines[1]),
                path=path,
                stack=machine.stack,
                order=len(machine.events),
            )
        )

    def _do_Assign(self, node: ast.Assign, frame: Frame) -> AnyFlow:
        self.tell_rank(node, frame)
        value = self.eval(node.value, frame)
        if value is NEVER:
            return RAISED
        for target in node.targets:
            self.assign(target, value, frame)
        return NORMAL

    def _do_AnnAssign(self, node: ast.AnnAssign, frame: Frame) -> AnyFlow:
        if node.value is not None:
            self.assign(node.target, self.eval(node.value, frame), frame)
        return NORMAL

    def _do_AugAssign(self, node: ast.AugAssign, frame: Frame) -> AnyFlow:
        from_target = ast.copy_location(as_load(node.target), node)
        current, value = self.eval(from_target, frame), self.eval(node.value, frame)
        op = type(node.op).__name__
        current = self.resolve(current)
        if isinstance(current, Ref) and current.kind == "list" and op == "Add":
            for item in self._spread(value):
                self.append(current, item)
            return NORMAL
        joined = self._eval_operation(op, current, value)
        if isinstance(joined, Ref) and isinstance(current, Ref) and current.kind == "dict":
            self.machine.heap[current.oid] = self.machine.read(joined.oid)
            return NORMAL
        self.assign(node.target, joined, frame)
        return NORMAL

    def _do_If(self, node: ast.If, frame: Frame) -> AnyFlow:
        if isinstance(node.body[-1], ast.Raise):
            self.refusals[node.body[-1]] = node.test
        asked = self.eval(node.test, frame)
        if asked == _TYPES_ONLY and not isinstance(node.test, ast.BoolOp):
            self.run([one for one in node.body if isinstance(one, _IMPORTS)], frame)
            return self.run(node.orelse, frame)
        verdict = self.test(asked)
        if isinstance(verdict, bool):
            return self.run(node.body if verdict else node.orelse, frame)
        if isinstance(verdict, Unknown):
            self.note(f"a branch on an unknown condition: {verdict.reason}", node)
            verdict = sym(f"condition@{node.lineno}")
        self.asks(verdict, node.test, frame)
        return self._both(
            verdict, lambda: self.run(node.body, frame), lambda: self.run(node.orelse, frame)
        )

    def _both(
        self, cond: Expr, then: Callable[[], AnyFlow], other: Callable[[], AnyFlow]
    ) -> AnyFlow:
        (left, heap_left), (right, heap_right) = self.machine.fork(cond, then, other)
        first, second = _as_flow(left), _as_flow(right)
        return self._settle(cond, Arm(first, heap_left), Arm(second, heap_right))

    def _do_For(self, node: ast.For, frame: Frame) -> AnyFlow:
        return self._loop_over(node, frame, self.sequence(self.eval(node.iter, frame)))

    def _loop_over(self, node: ast.For, frame: Frame, rows: Value) -> AnyFlow:
        rows = self.resolve(rows)
        if isinstance(rows, Choice):
            return self._both(
                rows.cond,
                lambda: self._loop_over(node, frame, rows.then),
                lambda: self._loop_over(node, frame, rows.other),
            )
        if not isinstance(rows, tuple):
            product = self._product_of_extents(node, frame)
            return NORMAL if product else self._once(node, frame, node.target)
        if len(rows) > self.machine.limits.loop_rounds:
            raise OutOfBounds(f"a loop of more than {self.machine.limits.loop_rounds} rounds")
        return self._end_loop(self._rounds(node, frame, rows, 0))

    def _product_of_extents(self, node: ast.For, frame: Frame) -> bool:
        """`for i in range(n): size *= x.shape[i]`: the product of the first extents, which is
        assigned; False for any other loop."""
        match node:
            case ast.For(
                target=ast.Name(id=counter),
                iter=ast.Call(func=ast.Name(id="range"), args=[end]),
                body=[
                    ast.AugAssign(
                        target=ast.Name() as size,
                        op=ast.Mult(),
                        value=ast.Subscript(value=held, slice=ast.Name(id=index)),
                    )
                ],
                orelse=[],
            ) if index == counter:
                before, shape, count = (
                    self.resolve(self.eval(one, frame))
                    for one in (ast.copy_location(ast.Name(size.id, ast.Load()), size), held, end)
                )
                known = isinstance(before, (int, Expr)) and not isinstance(count, Unknown)
                if not isinstance(shape, Expr) or shape.op != "shape" or not known:
                    return False
                part = make("call", "slice", shape, None, count)
                self.assign(size, binary("*", before, make("call", "prod", part)), frame)
                return True
        return False

    def _rounds(self, node: ast.For, frame: Frame, rows: tuple[Value, ...], start: int) -> AnyFlow:
        for place in range(start, len(rows)):
            self.machine.tick()
            self.assign(node.target, rows[place], frame)
            flow = self._continued(self.run(node.body, frame))
            if isinstance(flow, Flow) and flow.kind is Kind.NORMAL:
                continue
            if isinstance(flow, Flow):
                return flow
            return self._resume(flow, lambda at=place + 1: self._rounds(node, frame, rows, at))  # type: ignore[misc]
        return self.run(node.orelse, frame) if node.orelse else NORMAL

    def _continued(self, flow: AnyFlow) -> AnyFlow:
        return self._mapped(flow, Kind.CONTINUE)

    def _end_loop(self, flow: AnyFlow) -> AnyFlow:
        return self._mapped(flow, Kind.BREAK)

    def _mapped(self, flow: AnyFlow, kind: Kind) -> AnyFlow:
        """`continue` ends a round normally, `break` a loop; sides that then agree merge."""
        if isinstance(flow, Flow):
            return NORMAL if flow.kind is kind else flow
        arms = []
        for arm in (flow.then, flow.other):
            self.machine.heap = arm.heap
            arms.append(Arm(self._mapped(arm.flow, kind), self.machine.heap))
        return self._settle(flow.cond, arms[0], arms[1], flow.check)

    def _once(self, node: ast.For | ast.While, frame: Frame, target: ast.expr | None) -> AnyFlow:
        """A loop whose rounds are not known: its body is read once, with everything it assigns
        unknown."""
        counted = _counted(node)
        unknown = {
            name: Unknown(
                f"`{name}` changes in the loop at line {node.lineno}", counted=name in counted
            )
            for name in assigned_names(node)
        }
        for name, value in unknown.items():
            self.machine.put(frame.oid, name, value)
        if isinstance(target, ast.Name):
            self.machine.put(frame.oid, target.id, sym(target.id))
        flow = self.run(node.body, frame)
        for name, value in unknown.items():
            self.machine.put(frame.oid, name, value)
        flow = self._end_loop(self._continued(flow))
        return NORMAL if isinstance(flow, Flow) else flow

    def _do_While(self, node: ast.While, frame: Frame) -> AnyFlow:
        for _ in range(self.machine.limits.loop_rounds):
            verdict = self.test(self.eval(node.test, frame))
            if verdict is False:
                return self.run(node.orelse, frame) if node.orelse else NORMAL
            if verdict is not True:
                return self._once(node, frame, None)
            flow = self._continued(self.run(node.body, frame))
            if isinstance(flow, Flow) and flow.kind is not Kind.NORMAL:
                return self._end_loop(flow)
            if isinstance(flow, Split):
                return self._once(node, frame, None)
        raise OutOfBounds(f"a loop of more than {self.machine.limits.loop_rounds} rounds")


def _as_flow(value: Value) -> AnyFlow:
    return value if isinstance(value, (Flow, Split)) else NORMAL


def assigned_names(node: ast.AST) -> list[str]:
    """Names that the code under a node assigns."""
    names = [item.id for item in each(node, ast.Name) if isinstance(item.ctx, ast.Store)]
    return list(dict.fromkeys(names))


def _counted(node: ast.For | ast.While) -> set[str]:
    """Names that a `while` loop takes further by an operation on themselves."""
    return {
        item.target.id
        for item in walk(node if isinstance(node, ast.While) else ast.Pass())
        if isinstance(item, ast.AugAssign) and isinstance(item.target, ast.Name)
    }
