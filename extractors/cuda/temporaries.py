"""Values that are made where a method of them is called, and values that may be missing."""

from __future__ import annotations

from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.binding import BindingReader
from extractors.cuda.values import BOOL, MISSING, UNKNOWN, Kind, Slot, Val
from kb.ops import OpKind


class TemporaryReader(BindingReader):
    """Methods of such values."""

    def held_as(self, node: n.Expr) -> n.Name | None:
        """A name that stands for the struct that an expression makes, which is read for that; None
        where it makes none that the files know."""
        names, count = dict(self.names), self.writer.count
        with self.writer.region() as opened:
            value = self.read(node)
        if not value.name or not self.library.records(value.kind.record):
            self.names, self.writer.count = names, count
            return None
        self.writer.current.ops.extend(opened.ops)
        name = n.Name(node.at, self.key("made"))
        if not self.kept(name.text, value.kind, value, node.at, self.frame):
            self.kinds[name.text], self.names[name.text] = value.kind, value
            self.bind(name.text, Slot(name.text, value.kind))
        return name

    def optional(self, node: n.Call, function: n.Field, hint: str) -> Val | None:
        """What is asked of a value that may be missing; None for any other method."""
        name, rest = function.name, len(node.arguments)
        if (name, rest) not in (("has_value", 0), ("value", 0), ("value_or", 1)):
            return None
        where = self.place(function.operand)
        if not isinstance(where, Slot) or where.kind.record.rpartition("::")[2] != "optional":
            return None
        inner = where.kind.arguments[0] if where.kind.arguments else UNKNOWN
        kind = inner if isinstance(inner, Kind) else UNKNOWN
        whole = self.load(where, node.at)
        value = replace(whole, kind=kind)
        if name == "value":
            return value
        if whole.kind == MISSING or (whole.kind.scalar and whole.kind != UNKNOWN):
            there = self.constant(whole.kind != MISSING, node.at, BOOL)
        else:
            none = self.constant(None, node.at, MISSING)
            operands = [("lhs", whole.name), ("rhs", none.name)]
            there = self.one(OpKind.NE, operands, node.at, BOOL)
        if not rest:
            return there
        if there.const is True:
            return value
        other = self.convert(self.read(node.arguments[0]), kind, node.at)
        if there.const is False:
            return other
        return self.selected(there, (value, other), kind, node.at, hint)
