"""Items: what `owner[key]` gives."""

from __future__ import annotations

import ast
from functools import partial

from extractors.host import device
from extractors.host.core import Core, lines_of
from extractors.host.events import PickRecord
from extractors.host.expr import (
    choose,
    compare,
    make,
)
from extractors.host.limits import OutOfBounds
from extractors.host.machine import present
from extractors.host.operations import (
    absolute_index,
    slice_of,
)
from extractors.host.values import (
    ABSENT,
    BoundLaunch,
    Builtin,
    Choice,
    ClassValue,
    Expr,
    External,
    Frame,
    Iterator,
    KernelValue,
    Meta,
    Ref,
    Tuned,
    Unknown,
    Value,
)


class Items(Core):
    """Subscripts, slices and dictionary entries."""

    def _eval_Subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        owner = self.eval(node.value, frame)
        if isinstance(node.slice, ast.Slice):
            return self._sliced(owner, node.slice, frame)
        key = self.eval(node.slice, frame)
        owner = self.resolve(owner)
        if isinstance(owner, KernelValue):
            return BoundLaunch(owner, key)
        return self.machine.lift(lambda value, at: self.subscript(value, at, node), owner, key)

    def _sliced(self, owner: Value, node: ast.Slice, frame: Frame) -> Value:
        ends = [
            None if end is None else self.eval(end, frame)
            for end in (node.lower, node.upper, node.step)
        ]
        return self.machine.lift(lambda value, *cut: self._slice(value, cut), owner, *ends)

    def _slice(self, owner: Value, cut: tuple[Value, ...]) -> Value:
        if isinstance(owner, Ref) and owner.kind == "list" and not owner.open:
            content = self.machine.items(owner)
            return self.machine.lift(lambda row: self._list(slice_of(row, cut)), content)
        return slice_of(owner, cut)

    def _list(self, row: Value) -> Value:
        return self.machine.alloc("list", row) if isinstance(row, tuple) else row

    def subscript(self, owner: Value, key: Value, node: ast.AST) -> Value:
        """`owner[key]` for one known alternative of each."""
        machine = self.machine
        if isinstance(owner, Tuned):
            return self.axis(owner, str(key) if isinstance(key, int) else key)
        if isinstance(owner, Meta):
            return self.meta(owner, key)
        if isinstance(owner, Iterator):
            return Unknown("an iterator has no items by position")
        if isinstance(owner, KernelValue):
            return BoundLaunch(owner, key)
        if isinstance(owner, (tuple, str)):
            picked = absolute_index(owner, key)
            if isinstance(owner, tuple):
                self._picked(owner, key, node)
            return picked
        if isinstance(owner, Ref):
            return self._item(owner, key, node)
        if isinstance(owner, Expr):
            return self._symbolic_item(owner, key)
        if isinstance(owner, External) and owner.path == device.PROPERTIES and isinstance(key, str):
            return self.attribute(owner, key, node)
        if isinstance(owner, ClassValue) and isinstance(key, str):
            member = self.class_attribute(owner, key)
            return Unknown(f"`{owner.name}` has no `{key}`", True) if member is ABSENT else member
        if isinstance(owner, (External, Builtin)):
            return owner
        if isinstance(owner, Unknown):
            return owner
        return machine.lift(lambda item: item, Unknown("this value has no items"))

    def _item(self, owner: Ref, key: Value, node: ast.AST) -> Value:
        machine = self.machine
        if owner.kind == "dict":
            return self.dict_get(owner, key, ABSENT)
        if owner.kind == "list":
            if owner.open:
                return make("memo", f"list at line {lines_of(node)[0]}")
            return machine.lift(lambda row: self.subscript(row, key, node), machine.items(owner))
        if owner.kind == "record":
            method = self.attribute(owner, "__getitem__", node)
            if not isinstance(method, (Unknown, Expr)):
                return self.call(method, (key,), {}, node)
        return Unknown("this value has no items")

    def _symbolic_item(self, owner: Expr, key: Value) -> Value:
        if owner.op == "shape":
            return self.dim(owner.args[0], key)
        if owner.op == "strides":
            return make("stride", owner.args[0], key)
        if owner.op == "memo":
            return make("index", owner, key)
        place = _axis(owner, key)
        if place is not None:
            return self.dim(*place)
        if not isinstance(key, (int, str, Expr, Choice)):
            return self.view_of(owner)
        return make("index", owner, key)

    def _picked(self, owner: tuple[Value, ...], key: Value, node: ast.AST) -> None:
        records = [item for item in owner if isinstance(item, Ref) and item.oid in self.made]
        if len(records) == len(owner) and len(owner) > 0 and key == 0 and isinstance(key, int):
            m = self.machine
            order = len(m.events)
            points = tuple(self.point_of(item) for item in owner)
            m.emit(
                PickRecord(
                    points=points, lines=self.where(node), path=m.path, stack=m.stack, order=order
                )
            )

    def dict_get(self, owner: Ref, key: Value, default: Value) -> Value:
        """A dictionary entry: by value when the key is known, one case per key when it is not."""
        table = self.machine.mapping(owner.oid)
        if isinstance(key, Unknown):
            return key
        if isinstance(key, Ref):
            return Unknown("a mutable key")
        if key in table:
            return self._found(table[key], default)
        if owner.oid in self.machine.options:
            return (
                make("sym", key)
                if isinstance(key, str)
                else Unknown("an option with an unknown name")
            )
        if owner.open:
            return make("memo", f"table {owner.oid}", key)
        if isinstance(key, tuple) and any(isinstance(part, (Expr, Choice)) for part in key):
            return self._by_parts(owner, key, default)
        if isinstance(key, Expr):
            result: Value = (
                default if default is not ABSENT else Unknown("the key is not in the table")
            )
            for known in reversed(
                [item for item in table if isinstance(item, (int, str, float, type(None)))]
            ):
                result = choose(
                    compare("==", key, known), self._found(table[known], default), result
                )
            named = tuple(item for item in table if isinstance(item, External))
            if named and default is not ABSENT:
                entry = Unknown("which entry of the table is not known")
                result = choose(make("in", key, named), entry, result)
            return self.resolve(result)
        return default if default is not ABSENT else Unknown(f"the key {key!r} is not in the table")

    def _by_parts(self, owner: Ref, key: tuple[Value, ...], default: Value) -> Value:
        """A dictionary entry under a row of keys of which some are not known: one case per row of
        the table that may be it."""
        for place, part in enumerate(map(self.resolve, key)):
            if isinstance(part, Choice):
                rest = key[:place], key[place + 1 :]
                return self.machine.lift(partial(self._with_part, owner, rest, default), part)
        table = self.machine.mapping(owner.oid)
        result: Value = default if default is not ABSENT else Unknown("the key is not in the table")
        for row in reversed([item for item in table if isinstance(item, tuple)]):
            tests = [compare("==", own, part) for own, part in zip(key, row, strict=False)]
            if len(row) != len(key) or any(test is False for test in tests):
                continue
            entry = self._found(table[row], default)
            for test in reversed([one for one in tests if one is not True]):
                entry = choose(test, entry, result)
            result = entry
        return self.resolve(result)

    def _with_part(
        self, owner: Ref, rest: tuple[tuple[Value, ...], ...], default: Value, part: Value
    ) -> Value:
        return self.dict_get(owner, (*rest[0], part, *rest[1]), default)

    def _found(self, value: Value, default: Value) -> Value:
        if default is ABSENT:
            return self.resolve(present(value))
        if isinstance(value, Choice):
            then, other = self._found(value.then, default), self._found(value.other, default)
            return self.resolve(choose(value.cond, then, other))
        return default if value is ABSENT else value

    def _bounded(self, count: int) -> None:
        if count > self.machine.limits.items:
            raise OutOfBounds(f"a collection of more than {self.machine.limits.items} items")

    def point_of(self, value: Value) -> tuple[tuple[str, Value], ...]:
        raise NotImplementedError

    def axis(self, owner: Tuned, name: Value) -> Value:
        raise NotImplementedError

    def meta(self, owner: Meta, key: Value) -> Value:
        raise NotImplementedError

    def rank(self, tensor: Value) -> Value:
        raise NotImplementedError

    def dim(self, tensor: Value, index: Value) -> Value:
        raise NotImplementedError

    def view_of(self, tensor: Value) -> Value:
        raise NotImplementedError

    def class_attribute(self, cls: ClassValue, name: str) -> Value:
        raise NotImplementedError


def _axis(owner: Expr, key: Value) -> tuple[Value, int] | None:
    """The tensor and the axis of an item of a part of its shape: `x.shape[-2:][0]` is of the last
    axis but one."""
    match owner:
        case Expr(op="call", args=("slice", Expr(op="shape", args=(tensor,)), low, high, *step)):
            if step not in ([], [None], [1]) or not isinstance(key, int) or isinstance(key, bool):
                return None
            end = low if key >= 0 else high
            if end is None:
                return tensor, key
            if isinstance(end, int) and (end < 0) == (end + key < 0):
                return tensor, end + key
    return None
