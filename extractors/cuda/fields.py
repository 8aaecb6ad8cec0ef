"""Structs in registers as one variable per field, so that each field is a value of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.accessors import promised
from extractors.cuda.core import Core, is_integer
from extractors.cuda.packs import takes
from extractors.cuda.values import UNKNOWN, Kind, Slot, Val
from kb.ir import MemorySpace
from kb.ops import OpKind

MAX_FIELDS = 8
"""Fields of a struct that is taken apart; a larger one stays whole."""

MAX_TOLD = 12
"""The same, where a constructor says what every field begins with."""

MAX_DEPTH = 3
"""Structs in structs that are taken apart."""

Parts = dict[str, Val]


class FieldReader(Core):
    """Takes structs apart and puts them together again."""

    def fields_of(self, kind: Kind) -> tuple[tuple[str, Kind], ...]:
        """Fields of a struct that may be taken apart; none when its definition is not known, is a
        union, or has a base."""
        if not kind.record or kind.to is not None or kind.shape:
            return ()
        record = self.meant(kind)
        if record is None or record.open:
            return ()
        own = [f for f in record.fields if "static" not in f.storage]
        told = spelled_out(kind) in self.told
        if not 0 < len(own) <= (MAX_TOLD if told else MAX_FIELDS):
            return ()
        frame = self.of_record(record, kind.arguments, self.frame.depth)
        return tuple((f.name, self.kind(f.type, frame)) for f in own)

    def meant(self, kind: Kind) -> n.Record | None:
        """The definition of a struct: the only one, or the one that was found out for it."""
        known = self.library.records(kind.record)
        if len(known) == 1 and not known[0].specialised:
            return known[0]
        return self.told.get(spelled_out(kind))

    def told_by(self, kind: Kind, calls: Sequence[n.Call]) -> n.Record | None:
        """The definition, of several, of a struct that is made by a constructor: the closest that
        its arguments surely fit, else the most general that has all methods that are called."""
        known = self.library.records(kind.record)
        if len(known) < 2 or kind.shape or kind.to is not None:
            return None
        possible = sorted(self.fitting(known, kind.arguments), key=generality)
        return next((one for one in possible if _answers(one, calls)), None)

    def only(self, kind: Kind) -> Kind:
        """The type of the only field of a struct, of structs in structs the innermost; of others
        the type itself."""
        for _ in range(MAX_DEPTH):
            fields = self.fields_of(kind)
            if len(fields) != 1:
                break
            kind = fields[0][1]
        return kind

    def field(self, kind: Kind, name: str) -> Kind:
        """Kind of a field of a struct that the library knows."""
        for record in self.library.records(kind.record) if kind.record else ():
            for one in record.fields:
                if one.name == name:
                    return self.kind(
                        one.type, self.of_record(record, kind.arguments, self.frame.depth)
                    )
        return self._asked(name) if kind.dtype.startswith("dtypeof(") else UNKNOWN

    def field_at(self, kind: Kind, name: str) -> tuple[n.Place, ...]:
        """Where the only struct of a name declares a field, and where names of its type are."""
        known = self.library.records(kind.record) if kind.record else []
        found = [f for f in known[0].fields if f.name == name] if len(known) == 1 else []
        if not found:
            return ()
        frame = self.of_record(known[0], kind.arguments, self.frame.depth)
        return (found[0].at, *self.way_to(found[0].type, frame))

    def qualified(self, kind: Kind, name: str) -> list[tuple[str, str]]:
        """What the only struct of a name says of a pointer in it: what is behind it stays as it
        is, or nothing else leads there."""
        known = self.library.records(kind.record) if kind.record else []
        fields = known[0].fields if len(known) == 1 else ()
        written = next((f.type for f in fields if f.name == name and f.type.pointers), None)
        if written is None:
            return []
        restrict = written.restrict or promised(kind)
        words = [word for word, so in (("const", written.const), ("restrict", restrict)) if so]
        return [("qualified", " ".join(words))] if words else []

    def _asked(self, name: str) -> Kind:
        """A field of a struct whose type only the instantiation tells: the only struct that the
        library knows with all methods and fields that the function asks of it."""
        around = self.trail[-1] if self.trail else self.entry
        if name in self.asked or around is None or (around.at, name) in self.looked:
            return self.asked.get(name, UNKNOWN)
        self.looked.add((around.at, name))
        code = [*n.inside(around.body)]
        held = [one for one in code if isinstance(one, n.Variable)]
        names = {one.name for one in held if _is_named(one.value, name, set())}
        fields = [one for one in code if isinstance(one, n.Field)]
        fields = [one for one in fields if _is_named(one.operand, name, names)]
        members = {one.name for one in fields}
        called = [
            one.function.name for one in code if isinstance(one, n.Call)
            if isinstance(one.function, n.Field) and one.function in fields
        ]  # fmt: skip
        if called and len(members) > 1:
            having = {r.name: r for r in self.library.having(called[0])}
            found = [r for r in having.values() if members <= _members(r)]
            if len(found) == 1:
                self.asked[name] = Kind(record=found[0].name)
        return self.asked.get(name, UNKNOWN)

    def held_constant(self, node: n.Expr) -> Slot | None:
        """A variable for a number that is never written, as its address is asked for."""
        found = self.frame.find(node.text) if isinstance(node, n.Name) else None
        if not isinstance(found, Val) or not found.name or found.kind.to is not None:
            return None
        if found.kind == UNKNOWN or found.kind.record:
            return None
        key = self.key("held")
        self.kinds[key], self.names[key] = found.kind, found
        return Slot(key, found.kind)

    def divide(self, key: str, kind: Kind, depth: int = 0) -> bool:
        """Let every field of a variable be a variable; False when the struct stays whole."""
        fields = self.fields_of(kind) if depth < MAX_DEPTH else ()
        if not fields:
            return False
        self.divided[key] = (kind, tuple(name for name, _ in fields))
        self.kinds.pop(key, None)
        self.names.pop(key, None)
        for name, inner in fields:
            part = f"{key}.{name}"
            if spelled_out(kind) in self.told and (one := self.told_by(inner, ())):
                self.told.setdefault(spelled_out(inner), one)
            if not self.divide(part, inner, depth + 1):
                self.kinds[part] = inner
        return True

    def pointing_to(self, where: Slot, space: MemorySpace) -> Slot:
        """A pointer that points into the memory that its first value points into."""
        kind = replace(where.kind, space=space)
        self.kinds[where.key] = kind
        return replace(where, kind=kind)

    def resolved(self, where: Slot) -> Slot:
        """The variable of a field, where a place is part of one."""
        while where.path and where.key in self.divided:
            step = where.path[0]
            if not isinstance(step, str) or step not in self.divided[where.key][1]:
                break
            where = replace(where, key=f"{where.key}.{step}", path=where.path[1:])
        return where

    def composed(self, key: str, at: n.Place) -> Val:
        """A struct as one value, which remembers its parts; of one field, the value of that."""
        kind, names = self.divided[key]
        parts = {name: self.load(self._field_place(f"{key}.{name}"), at) for name in names}
        return self.joined(kind, parts, at, key.partition("#")[0])

    def joined(self, kind: Kind, parts: Parts, at: n.Place, hint: str = "") -> Val:
        """A struct made of the values of its fields."""
        if len(parts) == 1:
            made = replace(next(iter(parts.values())), kind=kind, const=None, static=False)
        else:
            items = [("item", value.name) for value in parts.values()]
            made = self.one(OpKind.VECTOR, items, at, kind, hint)
        self.parts[kind.record, made.name] = parts
        return made

    def selected(
        self, condition: Val, sides: tuple[Val, Val], kind: Kind, at: n.Place, hint: str
    ) -> Val:
        """One of two values; of structs whose parts are known, each part by itself."""
        held = [self.parts.get((kind.record, side.name), {}) for side in sides]
        if kind.record and held[0] and set(held[0]) == set(held[1]):
            chosen = {
                name: self.selected(condition, (part, held[1][name]), part.kind, at, "")
                for name, part in held[0].items()
            }
            return self.joined(kind, chosen, at, hint)
        operands = [("condition", condition.name), ("x", sides[0].name), ("y", sides[1].name)]
        return self.one(OpKind.SELECT, operands, at, kind, hint)

    def decompose(self, key: str, value: Val, at: n.Place) -> None:
        """Put a struct into the variables of its fields."""
        kind, names = self.divided[key]
        known = self.parts.get((kind.record, value.name), {})
        for name in names:
            where = self._field_place(f"{key}.{name}")
            part = known.get(name)
            if part is None and len(names) == 1 and not self._handed_over(value):
                part = self._only(value, where.kind, at)
            elif part is None:
                operands = [("x", value.name)]
                attributes = [("name", name)]
                part = self.one(OpKind.ATTRIBUTE, operands, at, where.kind, name, attributes)
                self.writer.declare(self.field_at(kind, name) if is_integer(where.kind) else ())
            self.store(where, part, at)

    def _handed_over(self, value: Val) -> bool:
        """Whether a value is a struct that the kernel is given."""
        held = (self.names[key].name for key in self.given if key in self.names)
        return bool(value.kind.record) and value.name in held

    def _only(self, value: Val, kind: Kind, at: n.Place) -> Val:
        """The only field of a struct: the same value, perhaps its bits seen anew."""
        if value.kind.record or value.kind == UNKNOWN or value.kind == kind:
            return replace(value, kind=kind)
        return replace(self.one(OpKind.BITCAST, [("x", value.name)], at, kind), kind=kind)

    def _field_place(self, key: str) -> Slot:
        kind = self.divided[key][0] if key in self.divided else self.kinds.get(key, UNKNOWN)
        return Slot(key, kind)


def _members(record: n.Record) -> set[str]:
    return {one.name for one in record.methods} | {one.name for one in record.fields}


def _is_named(node: object, name: str, names: set[str]) -> bool:
    """Whether an expression is a field of a name, or one of the names that stand for it."""
    return node.name == name if isinstance(node, n.Field) else (
        isinstance(node, n.Name) and node.text in names
    )  # fmt: skip


def spelled_out(kind: Kind) -> tuple[object, ...]:
    """A struct with its arguments as the numbers that they are, however often they were read."""
    given = [a.const if isinstance(a, Val) and a.const is not None else a for a in kind.arguments]
    return kind.record, *(a.text or a.name if isinstance(a, Val) else a for a in given)


def generality(record: n.Record) -> tuple[bool, int]:
    """The general definition of a struct first, then those that leave more open."""
    return bool(record.specialised), -len(record.template)


def _answers(record: n.Record, calls: Sequence[n.Call]) -> bool:
    """Whether a struct has a method for every call."""
    return all(
        any(m.name == one.function.name and takes(m, len(one.arguments)) for m in record.methods)
        for one in calls
        if isinstance(one.function, n.Field)
    )
