"""Values of several elements: what stands in braces, zeros, and extents of arrays."""

from __future__ import annotations

from extractors.cuda import nodes as n
from extractors.cuda.core import pure
from extractors.cuda.memory import MemoryReader
from extractors.cuda.values import UNKNOWN, Fixed, Frame, Kind, Val
from kb.ops import OpKind


class AggregateReader(MemoryReader):
    """Aggregates and their extents."""

    def braces(self, node: n.Braces, kind: Kind, at: n.Place, hint: str = "") -> Val:
        """A value in braces: zeros for an empty one or `{0}` where there is room for more."""
        items = [i for i in node.items if not isinstance(i, n.Braces)]
        if kind.scalar and kind != UNKNOWN:
            if not node.items:
                return self.constant(0, at, kind, hint)
            return self.convert(self.read(items[0], hint), kind, at, hint) if items else \
                self.constant(0, at, kind, hint)  # fmt: skip
        zero = all(isinstance(i, n.Constant) and not i.value for i in items)
        if zero and len(items) == len(node.items) <= 1:
            return self.zeros(kind, at, hint)
        values = [self.braces(i, kind.element, at) if isinstance(i, n.Braces) else self.read(i)
                  for i in node.items]  # fmt: skip
        return self.one(OpKind.VECTOR, [("item", v.name) for v in values], at, kind, hint)

    def zeros(self, kind: Kind, at: n.Place, hint: str = "") -> Val:
        """A value whose every element is zero."""
        extents = [("item", self.extent_value(e, at).name) for e in kind.shape]
        shape = self.one(OpKind.TUPLE, extents, at, UNKNOWN)
        operands = [("shape", shape.name)]
        if kind.dtype != "?":
            operands.append(("dtype", self.dtype_value(kind, at)))
        return self.one(OpKind.ZEROS, operands, at, kind, hint)

    def extent(self, size: n.Expr | None, frame: Frame) -> str:
        """Extent of an array: a number or a name; what is computed is read where it is needed."""
        if size is None:
            return "?"
        if isinstance(size, n.Constant) and isinstance(size.value, int):
            return str(size.value)
        with self.inside(frame), self.writer.region() as opened:
            value = self.read(size)
        if isinstance(value.const, int):
            return str(int(value.const))
        if not pure([op.kind for op in opened.ops]):
            return "?"
        self.writer.current.ops.extend(opened.ops)
        text = self.spelled(size, frame) if value.static else "?"
        name = value.name if text == "?" else text
        frame.scopes[0].setdefault(name, value)
        return name

    def spelled(self, node: n.Expr, frame: Frame, depth: int = 0) -> str:
        """An expression over compile-time parameters as text, `?` when it is anything else."""
        match node:
            case n.Constant(value=int() as value):
                return str(value)
            case n.Name(text=text):
                found = frame.find(text)
                if isinstance(found, Val):
                    return str(found.const) if found.const is not None else found.text or "?"
                if isinstance(found, Fixed) and depth < 16:
                    inner = self.spelled(found.value, found.frame, depth + 1)
                    return inner if inner.isalnum() or inner == "?" else f"({inner})"
            case n.Binary(operator="+" | "-" | "*" | "/" | "%" as operator, left=left, right=right):
                sides = [self.spelled(side, frame, depth + 1) for side in (left, right)]
                if depth < 16 and "?" not in sides:
                    sign = "//" if operator == "/" else operator
                    return (
                        f"({sides[0]} {sign} {sides[1]})"
                        if depth
                        else f"{sides[0]} {sign} {sides[1]}"
                    )
            case n.Cast(operand=operand):
                return self.spelled(operand, frame, depth + 1)
        return "?"
