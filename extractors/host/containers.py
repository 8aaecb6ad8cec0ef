"""Methods of lists, dictionaries, sets and records."""

from __future__ import annotations

import ast
from operator import itemgetter
from typing import Any, cast

from extractors.host.attributes import Attributes
from extractors.host.expr import choose, make
from extractors.host.machine import present
from extractors.host.values import ABSENT, Choice, Ref, Unknown, Value

Kwargs = dict[str, Value]


class Containers(Attributes):
    """What mutable values do."""

    def container_method(
        self, owner: Ref, name: str, args: tuple[Value, ...], kwargs: Kwargs, node: ast.AST
    ) -> Value:
        """A method of a list, dictionary or set."""
        if owner.kind == "dict":
            return self._dict_method(owner, name, args, kwargs)
        if owner.kind in ("list", "set"):
            return self._list_method(owner, name, args, kwargs, node)
        if owner.kind == "record" and name == "all_kwargs":
            return self.machine.alloc("dict", dict(self.point_of(owner)))
        return Unknown(f"the method `{name}` is not in the source")

    def _dict_method(self, owner: Ref, name: str, args: tuple[Value, ...], kwargs: Kwargs) -> Value:
        machine = self.machine
        table = machine.mapping(owner.oid)
        if name in ("get", "setdefault", "pop") and args:
            default = args[1] if len(args) > 1 else None
            found = machine.lift(lambda key: self.dict_get(owner, key, default), args[0])
            if name == "setdefault" and not isinstance(self.resolve(args[0]), (Ref, Unknown)):
                machine.put(
                    owner.oid, self.resolve(args[0]), found if found is not None else default
                )
            if name == "pop" and args[0] in table:
                machine.heap[owner.oid] = {
                    key: value for key, value in table.items() if key != args[0]
                }
            return found
        if owner.open and name in ("items", "keys", "values", "popitem"):
            return make("memo", f"table {owner.oid}")
        rows = {
            "items": tuple((key, present(value)) for key, value in table.items()),
            "keys": tuple(table),
            "values": tuple(present(value) for value in table.values()),
        }
        if name in rows:
            return machine.alloc("list", rows[name])
        if name == "update":
            more = self.resolve(args[0]) if args else machine.alloc("dict", {})
            joined = self.merged(Ref(owner.oid, "dict"), more)
            unknown: dict[Value, Value] = {key: joined for key in table}  # noqa: C420
            known = machine.mapping(joined.oid) if isinstance(joined, Ref) else unknown
            after: dict[Value, Value] = dict(known)
            after.update(kwargs)
            machine.heap[owner.oid] = after
            return None
        if name == "copy":
            return machine.alloc("dict", dict(table))
        if name == "clear":
            machine.heap[owner.oid] = {}
        return None

    def _list_method(
        self, owner: Ref, name: str, args: tuple[Value, ...], kwargs: Kwargs, node: ast.AST
    ) -> Value:
        machine = self.machine
        if name in ("append", "add") and args:
            if name == "append" or args[0] not in self._known(owner):
                self.append(owner, args[0])
            return None
        if name in ("extend", "update") and args:
            rows = self.sequence(args[0])
            if isinstance(rows, Choice):
                machine.heap[owner.oid] = machine.lift(
                    lambda a, b: (*a, *b), machine.items(owner), rows
                )
            elif isinstance(rows, tuple):
                for item in rows:
                    self.append(owner, item)
            else:
                machine.heap[owner.oid] = rows
            return None
        if name == "copy":
            return machine.alloc(owner.kind, machine.items(owner))
        if name == "index" and args:
            known = self._known(owner)
            return (
                known.index(args[0])
                if args[0] in known
                else Unknown("an item that is not in the list")
            )
        if name == "count" and args:
            return self._known(owner).count(args[0])
        return self._reordered(owner, name, args, kwargs, node)

    def _reordered(
        self, owner: Ref, name: str, args: tuple[Value, ...], kwargs: Kwargs, node: ast.AST
    ) -> Value:
        machine = self.machine
        content = machine.items(owner)
        if name == "pop" and isinstance(content, tuple) and content:
            at = args[0] if args else -1
            if isinstance(at, int) and -len(content) <= at < len(content):
                row = list(content)
                value = row.pop(at)
                machine.heap[owner.oid] = tuple(row)
                return value
        if (
            name == "insert"
            and len(args) == 2
            and isinstance(content, tuple)
            and isinstance(args[0], int)
        ):
            row = list(content)
            row.insert(args[0], args[1])
            machine.heap[owner.oid] = tuple(row)
            return None
        if name == "reverse" and isinstance(content, tuple):
            machine.heap[owner.oid] = content[::-1]
            return None
        if name == "sort":
            machine.heap[owner.oid] = machine.lift(
                lambda row: self.sort_row(row, kwargs, node), content
            )
            return None
        if name in ("union", "intersection", "difference") and args:
            symbol = {"union": "|", "intersection": "&", "difference": "-"}[name]
            return self.operate(symbol, owner, self.set_of(args[0]))
        return Unknown(f"the method `{name}` of a {owner.kind} is not modelled")

    def _known(self, owner: Ref) -> tuple[Value, ...]:
        content = self.machine.items(owner)
        return content if isinstance(content, tuple) else ()

    def set_of(self, value: Value) -> Value:
        """A set of the items of a sequence."""
        rows = self.sequence(value)
        return self.machine.lift(
            lambda row: (
                self.machine.alloc("set", tuple(dict.fromkeys(row)))
                if isinstance(row, tuple)
                else row
            ),
            rows,
        )

    def sort_row(self, row: Value, kwargs: Kwargs, node: ast.AST) -> Value:
        """A known sequence in order, by `key` where one is given."""
        if not isinstance(row, tuple):
            return row if isinstance(row, Unknown) else Unknown("an order of unknown items")
        rank = kwargs.get("key")
        keys = [item if rank is None else self.call(rank, (item,), {}, node) for item in row]
        try:
            places: list[Any] = sorted(
                zip(cast("list[Any]", keys), range(len(row)), strict=True),
                key=itemgetter(0),
                reverse=kwargs.get("reverse") is True,
            )
        except TypeError:
            return Unknown("items that do not compare")
        return tuple(row[at] for _, at in places)

    def point_of(self, value: Value) -> tuple[tuple[str, Value], ...]:
        """A configuration as ordered (axis, value) pairs; empty when it is none."""
        value = self.resolve(value)
        if isinstance(value, Ref) and value.kind in ("record", "dict"):
            return self._named_point(value)
        if isinstance(value, tuple):
            return tuple((str(place), item) for place, item in enumerate(value))
        if isinstance(value, (int, float, str)) or value is None:
            return (("value", value),)
        return ()

    def _named_point(self, value: Ref) -> tuple[tuple[str, Value], ...]:
        rows: list[tuple[str, Value]] = []
        for key, item in self.machine.mapping(value.oid).items():
            item = present(item)
            if item is ABSENT or key in ("class of", "open"):
                continue
            if key == "pre_hook":
                continue
            if key == "kwargs" and isinstance(item, Ref) and item.kind == "dict":
                rows.extend(
                    (str(name), present(one))
                    for name, one in self.machine.mapping(item.oid).items()
                )
            elif isinstance(item, Choice):
                rows.append((str(key), choose(item.cond, item.then, item.other)))
            else:
                rows.append((str(key), item))
        return tuple(rows)
