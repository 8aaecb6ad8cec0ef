"""Structs that are made: constructors read in place, members set in braces or by default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.aggregates import designated
from extractors.cuda.calls import CallReader
from extractors.cuda.fields import spelled_out
from extractors.cuda.values import UNKNOWN, Frame, Kind, Named, Slot, Val


class StructReader(CallReader):
    """Makes structs whose fields are known."""

    def braces(self, node: n.Braces, kind: Kind, at: n.Place, hint: str = "") -> Val:
        """`Type{a, b}`: the constructor that takes them, else the fields in order."""
        if self.fields_of(kind):
            key = self.key(hint or "made")
            self.divide(key, kind)
            if self.constructed(key, kind, node.items, at) or self._listed(key, kind, node.items):
                return self.load(Slot(key, kind), at, hint)
        return super().braces(node, kind, at, hint)

    def _field(self, node: n.Field, hint: str) -> Val:
        """A field; a constant of its type that a variable is asked for is that constant."""
        where = self.place(node.operand) if isinstance(node.operand, n.Name) else None
        known = where is not None and where.kind.record and self._is_static(where.kind, node.name)
        value = self.constant_of(where.kind, node.name, node.at, hint) if where and known else None
        return value or super()._field(node, hint)

    def _is_static(self, kind: Kind, name: str) -> bool:
        records = self.library.records(kind.record)
        return any("static" in f.storage for r in records for f in r.fields if f.name == name)

    def converted(self, node: n.Cast, hint: str) -> Val:
        """`Type(x)` of a struct is its constructor, where there is one that takes an x."""
        if node.form in ("construct", "static", "c"):
            kind = self.kind(node.type, self.frame)
            if self.fields_of(kind):
                key = self.key(hint or "made")
                self.divide(key, kind)
                if self.constructed(key, kind, (node.operand,), node.at):
                    return self.load(Slot(key, kind), node.at, hint)
        return super().converted(node, hint)

    def _record(self, kind: Kind) -> n.Record:
        return self.meant(kind) or self.library.records(kind.record)[0]

    def begun(self, key: str, kind: Kind, at: n.Place) -> None:
        """A struct without an initial value: what its default constructor or its members say."""
        if self.constructed(key, kind, (), at):
            return
        record = self._record(kind)
        frame = self.of_record(record, kind.arguments, self.frame.depth)
        for one in record.fields:
            if one.value is not None and "static" not in one.storage:
                with self.inside(frame):
                    value = self.read(one.value, one.name)
                self.store(self._field_place(f"{key}.{one.name}"), value, at)

    def constructed(
        self, key: str, kind: Kind, arguments: Sequence[n.Expr], at: n.Place
    ) -> bool:  # fmt: skip
        """Read a constructor in place; False when none takes the arguments. One that only says
        `= default` has no body and is none."""
        record = self._record(kind)
        found = [m for m in record.methods if m.name == record.name]
        fitting = [m for m in found if len(m.parameters) == len(arguments)]
        if len(fitting) != 1:
            return False
        frame = self.of_record(record, kind.arguments, self.frame.depth)
        frame.bind("this", Slot(key, self.divided[key][0]))
        for name in self.divided[key][1]:
            frame.bind(name, self._field_place(f"{key}.{name}"))
        call = n.Call(at, n.Name(at, record.name), tuple(arguments))
        return self.helper(call, fitting, (), frame) is not None

    def _assign(self, node: n.Assign) -> Val:
        """An assignment; to a base of the struct that is made, what its constructor sets."""
        whole, base = self.frame.find("this"), self._base_begun(node.target)
        if isinstance(whole, Slot) and whole.key in self.divided and base is not None:
            if one := self.told_by(base, ()):
                self.told.setdefault(spelled_out(base), one)
            listed = node.value if isinstance(node.value, n.Braces) else None
            given = listed.items if listed and listed.type is None else (node.value,)
            if self.constructed(whole.key, base, given, node.at):
                return Val("")
        return super()._assign(node)

    def _base_begun(self, target: n.Expr) -> Kind | None:
        """The base that a constructor begins by a name that the struct gives it, if the files have
        it."""
        if not isinstance(target, n.Field) or not isinstance(target.operand, n.Unary):
            return None
        bound = self.frame.find(target.name)
        kind = self.kind(bound.type, bound.frame) if isinstance(bound, Named) else UNKNOWN
        known = kind.record and (self.meant(kind) or self.library.records(kind.record))
        return kind if known else None

    def as_pointer(self, node: n.Expr) -> Val | None:
        """The pointer that a struct, or one made on the spot, converts itself to; None when it is
        no struct or has no such operator."""
        if isinstance(node, n.Call) and isinstance(node.function, n.Name) and not node.arguments:
            made = self.kind(n.CType(node.function.text, node.function.arguments), self.frame)
            where: Slot | None = Slot(self.key("made"), made) if made.record else None
        else:
            found = self.frame.find(node.text) if isinstance(node, n.Name) else None
            where = found if isinstance(found, Slot) else None
        if where is None or not where.kind.record or where.kind.to is not None:
            return None
        names = {m.name for r in self.library.records(where.kind.record) for m in r.methods}
        name = next((one for one in (n.TO_POINTER, n.TO_CONST_POINTER) if one in names), None)
        if name is None:
            return None
        call = n.Field(node.at, node, name)
        return self.member(n.Call(node.at, call, ()), call, where)

    def _listed(self, key: str, kind: Kind, items: Sequence[n.Expr]) -> bool:
        """Fields set in order, or by their names; False when there are more items than fields, or a
        constructor."""
        record = self._record(kind)
        names = self.divided[key][1]
        if len(items) > len(names) or any(m.name == record.name for m in record.methods):
            return False
        for place, item in zip(names, items, strict=False):
            name, item = designated(item, place)
            if name not in names:
                return False
            where = self._field_place(f"{key}.{name}")
            if isinstance(item, n.Braces) and item.type is None:
                value = self.braces(item, where.kind, item.at, name)
            else:
                value = self.read(item, name)
            self.store(where, value, item.at)
        return True

    def kept(self, name: str, kind: Kind, read: Val, at: n.Place, frame: Frame) -> bool:
        """Bind a name to a struct taken apart that starts as a value; False when it stays whole."""
        if read.kind.to is not None or not self.fields_of(kind):
            return False
        known = (kind.record, read.name) in self.parts
        if not known and len(self.fields_of(kind)) > 1:
            return False
        key = self.key(name)
        self.divide(key, kind)
        self.decompose(key, replace(read, const=None, static=False), at)
        frame.bind(name, Slot(key, kind))
        return True
