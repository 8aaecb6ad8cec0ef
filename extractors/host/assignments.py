"""Assignment: names, tuples, attributes, items."""

from __future__ import annotations

import ast

from extractors.host.comprehensions import Comprehensions
from extractors.host.events import CountRecord
from extractors.host.expr import distinct_atoms, make
from extractors.host.render import leaves
from extractors.host.values import Choice, Expr, Frame, Unknown, Value


class Assignments(Comprehensions):
    """Binding of values to targets."""

    def _spread(self, value: Value) -> tuple[Value, ...]:
        row = self.sequence(value)
        return row if isinstance(row, tuple) else (Unknown("items of an unknown sequence"),)

    def _eval_operation(self, op: str, left: Value, right: Value) -> Value:
        from_table = self._symbol(op)
        return self.operate(from_table, left, right)

    def _symbol(self, op: str) -> str:
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Value, frame: Frame) -> None:
        """Bind a value to a name, a tuple of targets, an attribute or an item."""
        if isinstance(target, ast.Name):
            self.bind(target.id, value, frame)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value, frame)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value, frame)
        elif isinstance(target, ast.Attribute):
            owner = self.eval(target.value, frame)
            self.machine.lift(lambda item: self.set_attribute(item, target.attr, value), owner)
        elif isinstance(target, ast.Subscript):
            owner = self.resolve(self.eval(target.value, frame))
            key: Value = Ellipsis
            if not isinstance(target.slice, ast.Slice):
                key = self.resolve(self.eval(target.slice, frame))
            self.machine.lift(lambda item: self.set_item(item, key, value, target), owner)

    def bind(self, name: str, value: Value, frame: Frame) -> None:
        """Give a name its value; `global` and `nonlocal` names go to the frame that owns them."""
        table = self.machine.mapping(frame.oid)
        outer = table.get(f"nonlocal {name}")
        at: Frame | None = frame
        if outer:
            at = frame.parent
            while (
                at is not None
                and at.parent is not None
                and name not in self.machine.mapping(at.oid)
            ):
                at = at.parent
        target = at or frame
        self.machine.put(target.oid, name, value)
        if isinstance(value, Expr) and value.op in ("index", "attr") and at is not None:
            self.machine.aliases.setdefault(value, name)
        fact = self.machine.tensors.get(value) if isinstance(value, Expr) else None
        if fact is not None and fact.name is None:
            fact.name = name

    def _unpack(self, targets: list[ast.expr], value: Value, frame: Frame) -> None:
        value = self.resolve(value)
        count = len(targets)
        if (
            isinstance(value, Expr)
            and value.op == "shape"
            and not any(isinstance(t, ast.Starred) for t in targets)
        ):
            if not self._asked_rank(value.args[0]):
                self.machine.tensor(value.args[0]).rank = count
                self.machine.emit(
                    CountRecord(
                        tensor=value.args[0],
                        rank=count,
                        lines=self.where(targets[0]),
                        path=self.machine.path,
                    )
                )
        for place, target in enumerate(targets):
            self.assign(target, self._part_of(value, place, targets, target), frame)

    def _asked_rank(self, tensor: Value) -> bool:
        """Whether a branch on the way here asks for a rank: it holds on this side only."""
        ranks = [
            atom.args[0]
            for guard in self.machine.path.guards
            if guard.shown
            for atom in distinct_atoms(guard.cond)
            if atom.op == "rank"
        ]
        return tensor in ranks

    def tell_rank(self, node: ast.Assign, frame: Frame) -> None:
        """`a, b, c = *x.shape, y`: so many targets, so many extents has the shape."""
        (target, *more), value = node.targets, node.value
        if more or not (isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)):
            return
        spread = [item for item in value.elts if isinstance(item, ast.Starred)]
        if len(spread) != 1 or any(isinstance(item, ast.Starred) for item in target.elts):
            return
        shape = self.resolve(self.eval(spread[0].value, frame))
        rank = len(target.elts) - len(value.elts) + 1
        for case in leaves(shape) if rank >= 0 else ():
            if isinstance(case, Expr) and case.op == "shape":
                tensor = self.machine.tensor(case.args[0])
                tensor.rank = rank if tensor.rank is None else tensor.rank

    def _part_of(
        self, value: Value, place: int, targets: list[ast.expr], target: ast.expr
    ) -> Value:
        return self.machine.lift(lambda item: self._element(item, place, targets, target), value)

    def _element(
        self, value: Value, place: int, targets: list[ast.expr], target: ast.expr
    ) -> Value:
        count = len(targets)
        star = next((at for at, item in enumerate(targets) if isinstance(item, ast.Starred)), None)
        if isinstance(value, Expr):
            if star is not None and place >= star:
                place = place - count if place > star else place
                if isinstance(targets[place], ast.Starred):
                    return make("call", "slice", value)
            return self.subscript(value, place, target)
        row = self.sequence(value) if not isinstance(value, tuple) else value
        if not isinstance(row, tuple):
            return (
                self.subscript(value, place, target)
                if not isinstance(row, (Unknown, Choice))
                else self._lift_part(row, place, targets, target)
            )
        if star is not None:
            extra = len(row) - count
            if place == star:
                return self.machine.alloc("list", row[star : star + extra + 1])
            place = place if place < star else place + extra
        elif len(row) != count:
            return Unknown(f"{len(row)} values for {count} names")
        return row[place] if 0 <= place < len(row) else Unknown("too few values to unpack")

    def _lift_part(
        self, row: Value, place: int, targets: list[ast.expr], target: ast.expr
    ) -> Value:
        if isinstance(row, Choice):
            return self.machine.lift(lambda item: self._element(item, place, targets, target), row)
        return row

    def set_attribute(self, owner: Value, name: str, value: Value) -> Value:
        raise NotImplementedError

    def set_item(self, owner: Value, key: Value, value: Value, node: ast.AST) -> None:
        raise NotImplementedError


def as_load(target: ast.expr) -> ast.expr:
    """The same target, read instead of written."""
    if isinstance(target, ast.Name):
        return ast.Name(id=target.id, ctx=ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(value=target.value, attr=target.attr, ctx=ast.Load())
    if isinstance(target, ast.Subscript):
        return ast.Subscript(value=target.value, slice=target.slice, ctx=ast.Load())
    return target
