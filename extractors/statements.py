"""Statements of a kernel as structured SSA: carried values of loops, results of branches, early
exits."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from extractors.expressions import ExpressionReader
from extractors.liveness import Liveness, Names
from extractors.writer import OpenRegion
from kb.ir import ParameterKind, Region, Value
from kb.ops import OpKind

Carried = tuple[str, ...]


class StatementReader:
    """Reads the body of one function through an expression reader."""

    def __init__(self, expressions: ExpressionReader) -> None:
        self.expressions = expressions
        self.writer = expressions.writer
        self.live = Liveness()
        self._loops: list[Carried] = []

    @property
    def names(self) -> dict[str, str]:
        """The current value of every variable."""
        return self.expressions.names

    def function_body(self, body: Sequence[ast.stmt], node: ast.AST) -> Region:
        """The whole body; a missing return is written out."""
        with self.writer.region() as opened:
            if not self._block(body, frozenset()):
                self.writer.finish(OpKind.RETURN, (), node)
        return opened.region

    def _block(self, body: Sequence[ast.stmt], live_out: Names) -> bool:
        """Read statements in order; True when the block was left by return, break or continue."""
        for index, statement in enumerate(body):
            live = self.live.live_after(body[index + 1 :], live_out)
            if self._statement(statement, live):
                return True
        return False

    def _statement(self, node: ast.stmt, live: Names) -> bool:
        match node:
            case ast.Assign(targets=targets, value=value):
                self._assign(targets, value, node)
            case ast.AugAssign(target=target, op=op, value=value):
                self._augmented(target, op, value, node)
            case ast.AnnAssign():
                self._annotated(node)
            case ast.Expr(value=value):
                if not isinstance(value, ast.Constant):
                    self.expressions.read(value)
            case ast.If():
                return self._if(node, live)
            case ast.For():
                self._for(node, live)
            case ast.While():
                self._while(node, live)
            case ast.Return(value=value):
                operands = [("value", self.expressions.read(value))] if value else []
                self.writer.finish(OpKind.RETURN, operands, node)
                return True
            case ast.Break() | ast.Continue():
                kind = OpKind.BREAK if isinstance(node, ast.Break) else OpKind.CONTINUE
                self._leave(kind, self._loops[-1] if self._loops else (), node)
                return True
            case ast.Assert(test=test):
                operands = [("condition", self.expressions.read(test))]
                self.writer.add_many(OpKind.STATIC_ASSERT, operands, node, [("spelling", "assert")])
            case ast.Raise():
                self._raise(node)
            case ast.Pass():
                pass
            case ast.With(body=body):
                self._entered(node)
                return self._block(body, live)
            case _:
                self._unread(node)
        return False

    def _entered(self, node: ast.With) -> None:
        """Contexts that a block is run in: one opaque op for all, then the block where it
        stands."""
        heads: list[ast.stmt] = [ast.Expr(item.context_expr) for item in node.items]
        given = [item.optional_vars for item in node.items if item.optional_vars is not None]
        bound = sorted({n.id for one in given for n in ast.walk(one) if isinstance(n, ast.Name)})
        reads = sorted(self.live.exposed(heads) & self.names.keys())
        values = self.writer.add_many(
            OpKind.OPAQUE,
            [("read", self.names[name]) for name in reads],
            node.items[0].context_expr,
            [("what", "statement With")],
            bound,
        )
        self.names.update(zip(bound, values, strict=True))

    def _raise(self, node: ast.Raise) -> None:
        """No compiler knows `raise`: a kernel that reaches one does not compile."""
        false = self.expressions.read(ast.copy_location(ast.Constant(False), node))
        attributes = [("message", f"line {node.lineno} is never reached")]
        self.writer.add_many(OpKind.STATIC_ASSERT, [("condition", false)], node, attributes)

    def _unread(self, node: ast.stmt) -> None:
        """A statement that the tile program has no word for: one opaque op that defines what it
        assigns."""
        assigned = sorted(self.live.assigned([node]))
        reads = sorted(self.live.exposed([node]) & self.names.keys())
        values = self.writer.add_many(
            OpKind.OPAQUE,
            [("read", self.names[name]) for name in reads],
            node,
            [("what", f"statement {type(node).__name__}")],
            assigned,
        )
        self.names.update(zip(assigned, values, strict=True))

    # -- assignments

    def _assign(self, targets: Sequence[ast.expr], value: ast.expr, node: ast.stmt) -> None:
        first = targets[0]
        if isinstance(first, ast.Name):
            self._bind(first, self._assigned(first.id, value, node), node)
        elif isinstance(first, ast.Tuple | ast.List) and isinstance(value, ast.Tuple):
            self._parallel(first.elts, value.elts, node)
        else:
            self._bind(first, self.expressions.read(value), node)
        for target in targets[1:]:
            source = ast.Name(id=first.id, ctx=ast.Load()) if isinstance(first, ast.Name) else value
            self._bind(target, self.expressions.read(ast.copy_location(source, node)), node)

    def _assigned(self, name: str, value: ast.expr, node: ast.stmt) -> str:
        """The value that a plain assignment binds.

        Where assignment makes a tensor of a compile-time constant, another name for a parameter is
        another value.
        """
        read = self.expressions.read(value, name)
        known = self.expressions.kinds.get(read)
        constant = known is ParameterKind.CONSTEXPR
        if isinstance(value, ast.Name) and constant and self.expressions.dialect.assignment_copies:
            return self.writer.add(OpKind.COPY, [("x", read)], node, hint=name)
        return read

    def _parallel(
        self, targets: Sequence[ast.expr], values: Sequence[ast.expr], node: ast.stmt
    ) -> None:
        if len(targets) != len(values) or any(
            isinstance(t, ast.Starred) for t in (*targets, *values)
        ):
            self._unread(node)
            return
        read = [
            self.expressions.read(value, target.id if isinstance(target, ast.Name) else "")
            for target, value in zip(targets, values, strict=True)
        ]
        for target, result in zip(targets, read, strict=True):
            self._bind(target, result, node)

    def _bind(self, target: ast.expr, value: str, node: ast.stmt) -> None:
        match target:
            case ast.Name(id=name):
                self.names[name] = value
            case ast.Tuple(elts=elements) | ast.List(elts=elements) if all(
                isinstance(element, ast.Name) for element in elements
            ):
                hints = [element.id for element in elements if isinstance(element, ast.Name)]
                results = self.writer.add_many(OpKind.UNPACK, [("x", value)], node, hints=hints)
                self.names.update(zip(hints, results, strict=True))
            case _:
                self._unread(node)

    def _augmented(
        self, target: ast.expr, op: ast.operator, value: ast.expr, node: ast.stmt
    ) -> None:
        if not isinstance(target, ast.Name):
            self._unread(node)
            return
        left = ast.copy_location(ast.Name(id=target.id, ctx=ast.Load()), node)
        combined = ast.copy_location(ast.BinOp(left=left, op=op, right=value), node)
        combined.end_lineno = getattr(node, "end_lineno", node.lineno)
        self.names[target.id] = self.expressions.read(combined, target.id)

    def _annotated(self, node: ast.AnnAssign) -> None:
        """`x: constexpr = value` fixes the value at compile time; other annotations say nothing."""
        if node.value is None:
            return
        if not isinstance(node.target, ast.Name):
            self._unread(node)
            return
        name = node.target.id
        value = self.expressions.read(node.value)
        if self.expressions.is_constexpr(node.annotation):
            value = self.writer.add(
                OpKind.COPY, [("x", value)], node, [("binding", "constexpr")], name
            )
        else:
            value = self.writer.add(OpKind.COPY, [("x", value)], node, hint=name)
        self.names[name] = value

    # -- control flow

    def _if(self, node: ast.If, live: Names) -> bool:
        condition = self.expressions.read(node.test)
        before = dict(self.names)
        outcomes = [self._branch(branch, before, live) for branch in (node.body, node.orelse)]
        (then, _, then_left), (other, _, other_left) = outcomes
        if then_left and other_left:
            self.writer.add_many(
                OpKind.IF, [("condition", condition)], node, regions=(then.region, other.region)
            )
            return True
        assigned = self.live.assigned(node.body) | self.live.assigned(node.orelse)
        results = tuple(_ordered(assigned & live, before))
        for opened, names, left in outcomes:
            if not left:
                self._close(opened, names, results, node)
        values = self.writer.add_many(
            OpKind.IF, [("condition", condition)], node, hints=results,
            regions=(then.region, other.region),
        )  # fmt: skip
        self.expressions.names = dict(before)
        self.names.update(zip(results, values, strict=True))
        return False

    def _branch(
        self, body: Sequence[ast.stmt], before: dict[str, str], live: Names
    ) -> tuple[OpenRegion, dict[str, str], bool]:
        self.expressions.names = dict(before)
        with self.writer.region() as opened:
            left = self._block(body, live)
        return opened, self.names, left

    def _close(
        self, opened: OpenRegion, names: dict[str, str], results: Carried, node: ast.stmt
    ) -> None:
        """Hand the values of `results` over at the end of a branch."""
        with self.writer.reopen(opened):
            operands = [("value", self._current(name, names, node)) for name in results]
            self.writer.finish(OpKind.YIELD, operands, node)

    def _current(self, name: str, names: dict[str, str], node: ast.stmt) -> str:
        if name not in names:
            return self.writer.add(OpKind.UNDEF, (), node, hint=name)
        return names[name]

    def _carried(self, body: Sequence[ast.stmt], head: Names, live: Names) -> Carried:
        assigned = self.live.assigned(body)
        wanted = assigned & (self.live.exposed(body) | head | live)
        return tuple(_ordered(wanted, self.names))

    def _for(self, node: ast.For, live: Names) -> None:
        if node.orelse:
            self._unread(node)
            return
        iterable = self.expressions.read(node.iter)
        targets = _target_names(node.target)
        carried = tuple(n for n in self._carried(node.body, frozenset(), live) if n not in targets)
        operands = [("iterable", iterable)]
        operands += [("init", self._current(name, self.names, node)) for name in carried]
        arguments = (self.writer.value(targets[0] if len(targets) == 1 else ""),
                     *(self.writer.value(name) for name in carried))  # fmt: skip
        region = self._loop_body(node, arguments, carried, live)
        values = self.writer.add_many(OpKind.FOR, operands, node, hints=carried, regions=(region,))
        self.names.update(zip(carried, values, strict=True))

    def _loop_body(
        self, node: ast.For, arguments: tuple[Value, ...], carried: Carried, live: Names
    ) -> Region:
        outer = dict(self.names)
        live_out = live | self.live.exposed(node.body)
        with self.writer.region(arguments) as opened:
            self.names.update(zip(carried, (a.name for a in arguments[1:]), strict=True))
            self._bind(node.target, arguments[0].name, node)
            self._loops.append(carried)
            if not self._block(node.body, live_out):
                self._leave(OpKind.YIELD, carried, node)
            self._loops.pop()
        self.expressions.names = outer
        return opened.region

    def _while(self, node: ast.While, live: Names) -> None:
        if node.orelse:
            self._unread(node)
            return
        head = self.live.exposed([ast.copy_location(ast.Expr(value=node.test), node)])
        carried = self._carried(node.body, head, live)
        operands = [("init", self._current(name, self.names, node)) for name in carried]
        outer = dict(self.names)
        regions = []
        for part in ("test", "body"):
            arguments = tuple(self.writer.value(name) for name in carried)
            with self.writer.region(arguments) as opened:
                self.expressions.names = dict(outer)
                self.names.update(zip(carried, (a.name for a in arguments), strict=True))
                if part == "test":
                    condition = [("condition", self.expressions.read(node.test))]
                    self.writer.finish(OpKind.YIELD, condition, node.test)
                else:
                    self._loops.append(carried)
                    if not self._block(node.body, live | head | self.live.exposed(node.body)):
                        self._leave(OpKind.YIELD, carried, node)
                    self._loops.pop()
            regions.append(opened.region)
        self.expressions.names = outer
        values = self.writer.add_many(
            OpKind.WHILE, operands, node, hints=carried, regions=tuple(regions)
        )
        self.names.update(zip(carried, values, strict=True))

    def _leave(self, kind: str, carried: Carried, node: ast.stmt) -> None:
        operands = [("value", self._current(name, self.names, node)) for name in carried]
        self.writer.finish(kind, operands, node)


def _ordered(wanted: Names, bound: dict[str, str]) -> list[str]:
    """Names in the order in which they were first bound, then the others by name, as Triton orders
    what is new in both branches."""
    found = [name for name in bound if name in wanted]
    return found + sorted(wanted - set(found))


def _target_names(target: ast.expr) -> tuple[str, ...]:
    return tuple(n.id for n in ast.walk(target) if isinstance(n, ast.Name))
