"""Casts of every form, and sizes of types."""

from __future__ import annotations

from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.aggregates import AggregateReader
from extractors.cuda.values import UNKNOWN, Kind, Val
from kb.ops import NAMED, OpKind


class ConversionReader(AggregateReader):
    """Values as other types."""

    def is_type(self, name: n.Name) -> bool:
        """Whether a name stands for a type."""
        raise NotImplementedError

    def unknown(self, function: n.Name) -> str:
        """What a call that nobody knows is kept as: of a type, its name."""
        of_type = self.is_type(function) or self.library.records(function.text)
        return f"{NAMED if of_type else ''}{function.text}"

    def converted(self, node: n.Cast, hint: str) -> Val:
        """A cast: of a pointer, of bits, or of a value."""
        kind = self.kind(node.type, self.frame)
        value = self.read(node.operand, hint)
        if kind.to is not None:
            if value.kind.to is None:
                return replace(
                    self.one(OpKind.BITCAST, [("x", value.name)], node.at, kind, hint), kind=kind
                )
            return self.pointer_cast(value, kind, node.at, hint)
        if value.kind.to is not None or node.form in ("bit", "reinterpret"):
            return self.one(OpKind.BITCAST, [("x", value.name)], node.at, kind, hint)
        if kind.record or kind == UNKNOWN:
            if node.form in ("static", "c", "construct"):
                attributes = [("spelling", "constructor")]
                operands = [("x", value.name)]
                return self.one(OpKind.CAST, operands, node.at, kind, hint, attributes)
            return self.opaque(f"cast to {node.type.name}", (node.operand,), node.at, hint)
        return self.cast(value, kind, node.at, hint)

    def static_number(self, written: n.CType) -> Val | None:
        """The number that a type stands for; None for any other type."""
        raise NotImplementedError

    def braced(self, node: n.Braces, hint: str) -> Val:
        """A value in braces; one number of a written type is a cast, whatever it was before."""
        if node.type is None:
            return self.braces(node, UNKNOWN, node.at, hint)
        number = self.static_number(node.type) if not node.items else None
        if number is not None:
            return number
        kind = self.kind(node.type, self.frame)
        cast = kind.scalar and kind.to is None and not kind.record and kind != UNKNOWN
        if cast and len(node.items) == 1 and not isinstance(node.items[0], n.Braces):
            return self.converted(n.Cast(node.at, node.type, node.items[0], "construct"), hint)
        return self.braces(node, kind, node.at, hint)

    def size(self, node: n.SizeOf, hint: str) -> Val:
        """Bytes of a type; of one that only the instantiation tells, an operation."""
        kind = UNKNOWN
        if node.type is not None:
            kind = self.kind(node.type, self.frame)
        elif node.operand is not None:
            where = self.place(node.operand)
            kind = where.kind if where is not None else UNKNOWN
            if isinstance(node.operand, n.Name) and where is None:
                kind = self.kind(n.CType(node.operand.text), self.frame)
        if kind.bits is not None:
            return self.constant(max(kind.bits // 8, 1), node.at, Kind("u64"), hint)
        dtype = self.dtype_value(kind, node.at)
        made = self.one(OpKind.SIZE_OF, [("dtype", dtype)], node.at, Kind("u64"), hint)
        return replace(made, static=True)
