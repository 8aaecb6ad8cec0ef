"""Literals of collections, comprehensions and f-strings."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial

from extractors.host.expr import make
from extractors.host.expressions import Expressions
from extractors.host.machine import merge
from extractors.host.operations import text_of
from extractors.host.render import leaves
from extractors.host.values import Choice, Expr, Frame, Ref, Tuned, Unknown, Value

MAX_RANK = 8
"""Axes of a tensor that a row of arguments is filled up with."""


class Comprehensions(Expressions):
    """Everything that builds a collection."""

    def _eval_Tuple(self, node: ast.Tuple, frame: Frame) -> Value:
        return self._row(node.elts, frame)

    def _row(self, elements: list[ast.expr], frame: Frame, count: int | None = None) -> Value:
        """The items of a row. `count` is how many there must be, where that is known: extents or
        strides of a tensor of unknown rank that are spread into it make up for the rest."""
        if ast.Starred not in map(type, elements):
            row = tuple([self.eval(element, frame) for element in elements])
            self._bounded(len(row))
            return row
        parts: list[Value] = []
        ranks: dict[int, Value] = {}
        for element in elements:
            value = self.eval(element, frame)
            spread = isinstance(element, ast.Starred)
            parts.append(self.sequence(value) if spread else (value,))
            if spread and any(isinstance(one, Unknown) for one in leaves(parts[-1])):
                ranks[len(parts) - 1] = value
        if ranks and count is not None:
            rest = count - sum(len(part) for part in parts if isinstance(part, tuple))
            each, over = divmod(rest, len(ranks))
            if not over and 0 < each <= MAX_RANK:
                for place, value in ranks.items():
                    along = (partial(self._along, at) for at in range(each))
                    parts[place] = tuple(self.machine.lift(one, value) for one in along)
        cases = [place for place, part in enumerate(parts) if isinstance(part, Choice)]
        if len(cases) == 1:
            place = cases[0]
            return self.machine.lift(
                lambda part: self._joined([*parts[:place], part, *parts[place + 1 :]]),
                parts[place],
            )
        return self._joined(parts)

    def _along(self, axis: int, value: Value) -> Value:
        """One of the extents or strides of a tensor."""
        if isinstance(value, Expr) and value.op == "strides":
            return make("stride", value.args[0], axis)
        if isinstance(value, Expr) and value.op == "shape":
            return self.dim(value.args[0], axis)
        return Unknown("an item of a row of unknown length")

    def _joined(self, parts: list[Value]) -> Value:
        """One row of the rows in `parts`."""
        row: list[Value] = []
        for part in parts:
            if not isinstance(part, tuple):
                return part if isinstance(part, Unknown) else Unknown("a spread of unknown length")
            row.extend(part)
        self._bounded(len(row))
        return tuple(row)

    def sequence(self, value: Value) -> Value:
        """The items of an iterable as a tuple, a Choice of tuples, or Unknown."""
        value = self.resolve(value)
        if isinstance(value, tuple):
            return value
        if isinstance(value, str):
            return tuple(value)
        if isinstance(value, Ref) and value.kind in ("list", "set", "dict"):
            return (
                Unknown("the contents of a table filled by earlier calls")
                if value.open
                else self.machine.items(value)
            )
        if isinstance(value, Choice):
            return self.machine.lift(self.sequence, value)
        if isinstance(value, Unknown):
            return value
        if isinstance(value, Expr):
            return self.symbolic_sequence(value)
        if isinstance(value, Tuned):
            return Unknown("the number of items of a configuration is not known")
        return Unknown("a value that cannot be iterated")

    def symbolic_sequence(self, value: Expr) -> Value:
        """The extents or strides of a tensor whose rank is known."""
        if value.op == "shape":
            rank = self.machine.tensor(value.args[0]).rank
            if rank is not None:
                return tuple(self.dim(value.args[0], place) for place in range(rank))
        if value.op == "strides":
            count = self.rank(value.args[0])
            if isinstance(count, int):
                return tuple(make("stride", value.args[0], place) for place in range(count))
        return Unknown("a sequence whose length depends on the problem")

    def _eval_List(self, node: ast.List, frame: Frame) -> Value:
        row = self._row(node.elts, frame)
        return self.machine.alloc("list", row) if isinstance(row, tuple) else row

    def _eval_Set(self, node: ast.Set, frame: Frame) -> Value:
        row = self._row(node.elts, frame)
        return (
            self.machine.alloc("set", tuple(dict.fromkeys(row))) if isinstance(row, tuple) else row
        )

    def _eval_Dict(self, node: ast.Dict, frame: Frame) -> Value:
        table: dict[Value, Value] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.eval(value_node, frame)
            if key_node is None:
                value = self.resolve(value)
                if not isinstance(value, Ref) or value.kind != "dict" or value.open:
                    return Unknown("a dictionary spread from an unknown value")
                table.update(self.machine.mapping(value.oid))
                continue
            key = self.eval(key_node, frame)
            if isinstance(key, Unknown):
                return key
            table[key] = value
        self._bounded(len(table))
        return self.machine.alloc("dict", table)

    def _eval_JoinedStr(self, node: ast.JoinedStr, frame: Frame) -> Value:
        parts: list[str] = []
        for piece in node.values:
            value = self.eval(
                piece.value if isinstance(piece, ast.FormattedValue) else piece, frame
            )
            text = text_of(self.resolve(value))
            if not isinstance(text, str) or (
                isinstance(piece, ast.FormattedValue) and piece.format_spec
            ):
                return Unknown("a text that depends on the problem")
            parts.append(text)
        joined = "".join(parts)
        return (
            joined
            if len(joined) <= self.machine.limits.text
            else Unknown("a text that long is not kept")
        )

    def _eval_ListComp(self, node: ast.ListComp, frame: Frame) -> Value:
        return self._collect("list", node.elt, node.generators, frame)

    def _eval_GeneratorExp(self, node: ast.GeneratorExp, frame: Frame) -> Value:
        return self._collect("list", node.elt, node.generators, frame)

    def _eval_SetComp(self, node: ast.SetComp, frame: Frame) -> Value:
        return self._collect("set", node.elt, node.generators, frame)

    def _eval_DictComp(self, node: ast.DictComp, frame: Frame) -> Value:
        pair = ast.copy_location(ast.Tuple(elts=[node.key, node.value], ctx=ast.Load()), node)
        rows = self._collect("list", pair, node.generators, frame)
        return self.machine.lift(self.dict_of, rows)

    def dict_of(self, rows: Value) -> Value:
        """A dictionary from known pairs."""
        pairs = self.sequence(rows)
        if isinstance(pairs, Choice):
            return self.machine.lift(self.dict_of, pairs)
        if not isinstance(pairs, tuple) or any(
            not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs
        ):
            return (
                pairs if isinstance(pairs, Unknown) else Unknown("a dictionary from unknown pairs")
            )
        return self.machine.alloc("dict", dict(pairs))

    def _collect(
        self, kind: str, element: ast.expr, parts: list[ast.comprehension], frame: Frame
    ) -> Value:
        """The items a comprehension gives; its own frame sees the enclosing names."""
        machine = self.machine
        inner = machine.new_frame(frame, frame.module, frame.function)
        target = machine.alloc("list", ())
        failure = self._each(
            parts, 0, inner, lambda: self.append(target, self.eval(element, inner))
        )
        if isinstance(failure, Unknown):
            return failure
        if kind == "set":
            return machine.lift(
                lambda row: (
                    machine.alloc("set", tuple(dict.fromkeys(row)))
                    if isinstance(row, tuple)
                    else row
                ),
                machine.items(target),
            )
        return target

    def append(self, target: Ref, value: Value) -> None:
        """Add an item to a list, on every alternative of its contents."""
        content = self.machine.items(target)
        self.machine.heap[target.oid] = self._appended(content, value)

    def _appended(self, content: Value, value: Value) -> Value:
        if isinstance(content, Choice):
            from_then, from_other = (
                self._appended(content.then, value),
                self._appended(content.other, value),
            )
            return merge(content.cond, from_then, from_other)
        if not isinstance(content, tuple):
            return content
        self._bounded(len(content) + 1)
        return (*content, value)

    def _each(
        self, parts: list[ast.comprehension], at: int, frame: Frame, body: Callable[[], None]
    ) -> Value:
        if at == len(parts):
            body()
            return None
        rows = self.sequence(self.eval(parts[at].iter, frame))
        return self._each_row(parts, at, frame, body, rows)

    def _each_row(
        self,
        parts: list[ast.comprehension],
        at: int,
        frame: Frame,
        body: Callable[[], None],
        rows: Value,
    ) -> Value:
        rows = self.resolve(rows)
        if isinstance(rows, Choice):
            left, right = self.machine.branch(
                rows.cond,
                lambda: self._each_row(parts, at, frame, body, rows.then),
                lambda: self._each_row(parts, at, frame, body, rows.other),
            )
            return left if isinstance(left, Unknown) else right
        if not isinstance(rows, tuple):
            return (
                rows
                if isinstance(rows, Unknown)
                else Unknown("a comprehension over an unknown sequence")
            )
        for item in rows:
            self.machine.tick()
            self.assign(parts[at].target, item, frame)
            failure = self._filtered(parts, at, frame, body, 0)
            if isinstance(failure, Unknown):
                return failure
        return None

    def _filtered(
        self,
        parts: list[ast.comprehension],
        at: int,
        frame: Frame,
        body: Callable[[], None],
        test: int,
    ) -> Value:
        if test == len(parts[at].ifs):
            return self._each(parts, at + 1, frame, body)
        verdict = self.test(self.eval(parts[at].ifs[test], frame))
        if isinstance(verdict, Unknown):
            return verdict
        if isinstance(verdict, bool):
            return self._filtered(parts, at, frame, body, test + 1) if verdict else None
        left, _ = self.machine.branch(
            verdict, lambda: self._filtered(parts, at, frame, body, test + 1), lambda: None
        )
        return left
