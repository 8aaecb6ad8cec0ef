"""Statements as structured control flow: branches, and loops with their carried values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.core import pure
from extractors.cuda.declarations import DeclarationReader
from extractors.cuda.loops import Counted, contains_leave, counted
from extractors.cuda.packs import folded
from extractors.cuda.sequences import as_loop
from extractors.cuda.sides import any_of, as_choice, without_break
from extractors.cuda.values import BOOL, NULL, UNKNOWN, Kind, Slot, Val
from extractors.writer import OpenRegion
from kb.ir import Region, Value
from kb.ops import OpKind


class Loop:
    """A loop being read: its carried variables and what runs before the next iteration."""

    def __init__(self, carried: tuple[str, ...], after: tuple[n.Expr, ...] = ()) -> None:
        self.carried = carried
        self.after = after
        self.always: str | None = None


class ControlReader(DeclarationReader):
    """Statements of a function."""

    _loops: list[Loop]

    def statements(self, body: Sequence[n.Stmt]) -> bool:
        """Read statements in order; True when they end in return, break or continue."""
        outer = self.ends
        for number, one in enumerate(body, 1):
            last = outer if number == len(body) else self.leaves and _is_return(body[number])
            with self.ending(last, self.leaves):
                if self.statement(one):
                    return True
        return False

    @contextmanager
    def ending(self, ends: bool, leaves: bool) -> Iterator[None]:
        """Read what the kernel ends behind, or not, and whose return ends the kernel, or not."""
        before = self.ends, self.leaves
        self.ends, self.leaves = ends, leaves
        try:
            yield
        finally:
            self.ends, self.leaves = before

    def _done(self, value: n.Expr) -> bool:
        """A statement that computes; True when it is a call behind which the kernel ends and that
        ends it on every way."""
        before = self.closing
        self.closing = value.at if self.ends and isinstance(value, n.Call) else None
        self.read(value)
        self.closing = before
        left, self.left = self.left, False
        return left

    def fold(self, node: n.Fold, hint: str) -> Val:
        """A fold over a pack: operators where its arguments are known, else a loop."""
        made = folded(node, self.frame)
        if made is not None:
            return self.read(made, hint)
        told = as_loop(node, self.frame)
        if told is None:
            return self.opaque("Fold", (node.operand,), node.at, hint)
        with self.block():
            self.statements(told[0])
            return self.read(told[1], hint) if told[1] is not None else Val("")

    def statement(self, node: n.Stmt) -> bool:
        """Read one statement; True when nothing after it is reached."""
        match node:
            case n.Block(body=body):
                with self.block():
                    return self.statements(body)
            case n.Do(value=value):
                return self._done(value)
            case n.Variable():
                self.declare(node)
            case n.Alias():
                self.alias(node)
            case n.Unpack():
                self.unpack(node)
            case n.If():
                with self.block():
                    with self.ending(False, self.leaves):
                        self.statements(node.before)
                    return self._if(node)
            case n.For():
                with self.block(), self.ending(False, self.leaves):
                    self._for(node)
            case n.While():
                with self.ending(False, self.leaves):
                    self._while(node.condition, node.body, (), node.at, late=node.late)
            case n.Switch():
                return self._switch(node)
            case n.Leave():
                return self._leave(node)
            case n.Skipped(what=what, inner=inner):
                self.opaque(what, inner, node.at)
        return False

    def _leave(self, node: n.Leave) -> bool:
        if node.word == "return":
            if node.value is not None:
                self.read(node.value)
            self.writer.emit(OpKind.RETURN, (), node.at)
        elif not self._loops:
            self.opaque(node.word, (), node.at)
            return False
        else:
            self._exit(OpKind(node.word), node.at)
        return True

    def _exit(self, kind: OpKind, at: n.Place) -> None:
        """Hand the carried values over, after the step of a `for` unless the loop is left."""
        loop = self._loops[-1]
        if kind is not OpKind.BREAK:
            for step in loop.after:
                self.read(step)
        operands = [("value", self.current(key, at).name) for key in loop.carried]
        self.writer.emit(kind, operands, at)

    def current(self, key: str, at: n.Place) -> Val:
        """The value of a variable; undefined when nothing was stored in it."""
        if key not in self.names or not self.names[key].name:
            self.names[key] = self.nothing(key, at)
        return self.names[key]

    def _keys(self, found: set[str]) -> tuple[str, ...]:
        """Variables in the order in which they were made."""
        return tuple(key for key in self.kinds if key in found)

    # -- branches

    def _if(self, node: n.If) -> bool:
        chosen = as_choice(node)
        if chosen is not None and self._computes(chosen.value):
            self.read(chosen)
            return False
        condition = self.read(node.condition)
        if condition.const is not None or condition.kind == NULL:
            return self.statement(node.then if condition.const else node.other)
        keys = self._keys(self.assigned((node.then, node.other)))
        return self.branch(condition, (node.then, node.other), keys, node.at)

    def _computes(self, choice: n.Expr) -> bool:
        """Whether a choice at run time sets nothing, and its sides only read and compute."""
        if not isinstance(choice, n.Choice) or self.assigned((choice.then, choice.other)):
            return False
        before = self.names
        self.names = dict(before)
        with self.writer.region() as opened:
            for one in (choice.then, choice.other):
                self.read(one)
            whole = pure([op.kind for op in opened.ops if op.kind != OpKind.LOAD])
            static = whole and self.read(choice.condition).static
        self.names = before
        return whole and not static

    def branch(
        self, condition: Val, sides: tuple[n.Block, n.Block], keys: tuple[str, ...], at: n.Place
    ) -> bool:
        """A branch that hands over `keys`; True when both sides leave."""
        before = dict(self.names)
        outcomes: list[tuple[OpenRegion, dict[str, Val], bool]] = []
        for side in sides:
            self.names = dict(before)
            with self.writer.region() as opened:
                left = self.statement(side)
            outcomes.append((opened, self.names, left))
        operands = [("condition", condition.name)]
        if all(left for _, _, left in outcomes):
            regions = tuple(opened.region for opened, _, _ in outcomes)
            self.writer.emit(OpKind.IF, operands, at, (), (), regions)
            self.names = before
            return True
        for opened, names, left in outcomes:
            if not left:
                self.names = names
                with self.writer.reopen(opened):
                    values = [("value", self.current(key, at).name) for key in keys]
                    self.writer.emit(OpKind.YIELD, values, at)
        regions = tuple(opened.region for opened, _, _ in outcomes)
        going = [names for _, names, left in outcomes if not left]
        self.names = before
        self._finish(OpKind.IF, operands, at, keys, regions, going[0])
        return False

    def _finish(
        self, kind: OpKind, operands: list[tuple[str, str]], at: n.Place, keys: tuple[str, ...],
        regions: tuple[Region, ...], names: dict[str, Val],
    ) -> None:  # fmt: skip
        """The operation around regions; its results are the new values of `keys`."""
        kinds = [self.kinds.get(key, UNKNOWN) for key in keys]
        kinds = [
            names[key].kind if kind_ == UNKNOWN and key in names else kind_
            for key, kind_ in zip(keys, kinds, strict=True)
        ]
        results = [(key.partition("#")[0], kind_) for key, kind_ in zip(keys, kinds, strict=True)]
        made = self.writer.emit(kind, operands, at, results, (), regions)
        for key, name, kind_ in zip(keys, made, kinds, strict=True):
            self.names[key] = Val(name, kind_)

    def _switch(self, node: n.Switch) -> bool:
        """Cases that all end in a break are branches one after the other; others stay opaque."""
        cases = [(label, without_break(body)) for label, body in node.cases]
        merged: list[tuple[list[n.Expr | None], tuple[n.Stmt, ...]]] = []
        labels: list[n.Expr | None] = []
        for number, (label, body) in enumerate(cases):
            labels.append(label)
            if body is None and node.cases[number][1] and number + 1 < len(cases):
                return self._unswitched(node)
            if not node.cases[number][1] and number + 1 < len(cases):
                continue
            merged.append((labels, node.cases[number][1] if body is None else body))
            labels = []
        if any(contains_leave(body, ("break",)) for _, body in merged):
            return self._unswitched(node)
        name = self.key("case")
        self.bind(name, self.read(node.value))
        default = [body for names, body in merged if None in names]
        chain = n.Block(node.at, default[0] if default else ())
        for names, body in reversed([m for m in merged if None not in m[0]]):
            test = any_of(n.Name(node.at, name), [one for one in names if one is not None])
            chain = n.Block(node.at, (n.If(test.at, (), test, n.Block(node.at, body), chain),))
        return self.statement(chain)

    def _unswitched(self, node: n.Switch) -> bool:
        inner = tuple(e for _, body in node.cases for e in n.inside(body) if isinstance(e, n.Expr))
        self.opaque("switch with cases that run into each other", (node.value, *inner), node.at)
        return False

    # -- loops

    def _for(self, node: n.For) -> None:
        found = counted(node, self.assigned, lambda name: self._lasting(name, node.body))
        if found is None:
            self.statements(node.before)
            after = (node.after,) if node.after is not None else ()
            self._while(node.condition, node.body, after, node.at)
            if node.unroll is not None:
                ops = self.writer.current.ops
                ops[-1] = replace(ops[-1], attributes=(("unroll", node.unroll),))
            return
        others = tuple(v for v in node.before if v is not found.variable)
        self.statements(others)
        self._range(node, found)

    def _lasting(self, name: str, body: n.Block) -> bool:
        """Whether a struct that the kernel is given is not written by a piece of code."""
        bound = self.frame.find(name)
        given = isinstance(bound, Slot) and bound.key in self.given and bound.kind.to is None
        return isinstance(bound, Slot) and given and bound.key not in self.assigned(body)

    def _range(self, node: n.For, found: Counted) -> None:
        variable = found.variable
        kind = self.kind(variable.type, self.frame)
        low = self.read(variable.value) if variable.value is not None else self.constant(0, node.at)
        low = self.convert(low, kind, node.at)
        high, step = self.read(found.high), self.read(found.step)
        kind = low.kind if kind.dtype == "?" else kind
        if found.closed:
            sign = "-" if found.down else "+"
            high = self.arithmetic(sign, high, self.constant(1, node.at), node.at, "")
        if found.down:
            step = self.one(OpKind.NEG, [("x", step.name)], node.at, step.kind)
        operands = [("low", low.name), ("high", high.name), ("step", step.name)]
        fixed = low.static and high.static and step.static and node.unroll is not None
        rows = OpKind.STATIC_RANGE if fixed and node.unroll == 0 else OpKind.RANGE
        if node.unroll is not None and rows is OpKind.RANGE:
            operands.append(("loop_unroll_factor", self._factor(node).name))
        made = self.one(rows, operands, _asked(node), UNKNOWN)
        keys = self._keys(self.assigned((node.body, found.after)))
        self._do(node, found, made, kind, keys)

    def _factor(self, node: n.For) -> Val:
        if isinstance(node.unroll, str):
            return self.read(n.Name(node.at, node.unroll))
        return self.constant(node.unroll, node.at)

    def _do(
        self, node: n.For, found: Counted, made: Val, kind: Kind, keys: tuple[str, ...]
    ) -> None:
        operands = [("iterable", made.name)]
        operands += [("init", self.current(key, node.at).name) for key in keys]
        before = dict(self.names)
        name = found.variable.name
        first = Value(self.writer.value(name).name, kind.tile())
        arguments = (first, *self._arguments(keys))
        with self.writer.region(arguments) as opened, self.block():
            self.bind(name, Val(first.name, kind))
            self._enter(keys, arguments[1:])
            self._loops.append(Loop(keys, found.after))
            if not self.statement(node.body):
                self._exit(OpKind.YIELD, node.at)
            self._loops.pop()
        self.names = before
        self._finish(OpKind.FOR, operands, node.at, keys, (opened.region,), before)

    def _arguments(self, keys: tuple[str, ...]) -> tuple[Value, ...]:
        found = []
        for key in keys:
            kind = self._kind_of(key)
            found.append(Value(self.writer.value(key.partition("#")[0]).name, kind.tile()))
        return tuple(found)

    def _kind_of(self, key: str) -> Kind:
        kind = self.kinds.get(key, UNKNOWN)
        return self.names[key].kind if kind == UNKNOWN and key in self.names else kind

    def _enter(self, keys: tuple[str, ...], arguments: Sequence[Value]) -> None:
        for key, argument in zip(keys, arguments, strict=True):
            self.names[key] = Val(argument.name, self._kind_of(key))

    def _while(
        self, test: n.Expr | None, body: n.Block, after: tuple[n.Expr, ...], at: n.Place, *,
        late: bool = False,
    ) -> None:  # fmt: skip
        """A loop with a test before its body; one with the test after it carries the outcome."""
        parts = (test, body, after) if test is not None else (body, after)
        going = ""
        if late:
            going = self.key("again")
            self.kinds[going] = BOOL
            self.names[going] = self.constant(True, at, BOOL)
            self.names[going] = replace(self.names[going], const=None, static=False)
        keys = self._keys(self.assigned(parts))
        keys = (*keys, going) if late else keys
        operands = [("init", self.current(key, at).name) for key in keys]
        before = dict(self.names)
        regions: list[Region] = []
        for part in ("test", "do"):
            self.names = dict(before)
            arguments = self._arguments(keys)
            with self.writer.region(arguments) as opened:
                self._enter(keys, arguments)
                if part == "test":
                    self._test(test, going, at)
                else:
                    self._round(test, body, after, keys, going, at)
            regions.append(opened.region)
        self.names = before
        self._finish(OpKind.WHILE, operands, at, keys, tuple(regions), before)

    def _test(self, test: n.Expr | None, going: str, at: n.Place) -> None:
        if going:
            value = self.names[going]
        elif test is None:
            value = self.constant(True, at, BOOL)
        else:
            value = self.read(test)
        if not value.name and test is not None:
            value = self.opaque("condition", (test,), at, "", BOOL)
        self.writer.emit(OpKind.YIELD, [("condition", value.name)], at)

    def _round(
        self, test: n.Expr | None, body: n.Block, after: tuple[n.Expr, ...],
        keys: tuple[str, ...], going: str, at: n.Place,
    ) -> None:  # fmt: skip
        """One iteration of a `while`."""
        loop = Loop(keys, after)
        if going and test is not None:
            target = n.Name(at, going)
            self.frame.bind(going, Slot(going, BOOL))
            loop.after = (*after, n.Assign(at, "", target, test))
        self._loops.append(loop)
        if not self.statement(body):
            self._exit(OpKind.YIELD, at)
        self._loops.pop()


def _is_return(node: n.Stmt) -> bool:
    return isinstance(node, n.Leave) and node.word == "return" and node.value is None


def _asked(node: n.For) -> n.Place:
    """Where a loop begins, with the pragma before it."""
    if node.pragma is None:
        return node.at
    return replace(node.at, line=min(node.pragma, node.at.line), end_line=node.at.line)
