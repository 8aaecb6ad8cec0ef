"""Pointers to variables in registers: what they point at, and which part of it they reach."""

from __future__ import annotations

from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.fields import FieldReader
from extractors.cuda.values import Kind, Pointing, Slot, Val, Where
from kb.ops import OpKind


class LocalPointerReader(FieldReader):
    """Follows pointers that lead to no memory."""

    def place(self, node: n.Expr) -> Where | None:
        """Where an expression lies, None when it is a computed value."""
        raise NotImplementedError

    def tensor_pointing(self, node: n.Call) -> Pointing | None:
        """The registers that a call of a tensor's methods leads to."""
        raise NotImplementedError

    def reached(self, local: Pointing, index: n.Expr | None, at: n.Place) -> Where | None:
        """Part of a variable that a pointer to it reaches; seen as the pointer's type."""
        where = local.where
        first = index is None or (isinstance(index, n.Constant) and index.value == 0)
        if first and local.offset is None and where.kind == local.kind:
            return where
        if local.offset is not None:
            step = self._steps(local, index, at)
            return self._element(replace(where), local.kind, step) if step is not None else None
        number = where.kind.dtype == local.kind.dtype and not local.kind.shape
        if where.kind.shape and (number or where.kind.element == local.kind):
            step = self.read(index) if index is not None else self.constant(0, at)
            return replace(where, kind=where.kind.element, path=(*where.path, step))
        if index is None and where.kind.bits == local.kind.bits:
            return replace(where, kind=local.kind, path=(*where.path, "as"))
        step = self.read(index) if index is not None else self.constant(0, at)
        return replace(where, kind=local.kind, path=(*where.path, "as", step))

    def _element(self, where: Slot, kind: Kind, step: Val) -> Slot:
        if where.kind.dtype == kind.dtype and not kind.shape and len(where.kind.shape) == 1:
            return replace(where, kind=where.kind.element, path=(*where.path, step))
        return replace(where, kind=kind, path=(*where.path, "as", step))

    def _steps(self, local: Pointing, index: n.Expr | None, at: n.Place) -> Val | None:
        """How many of what a moved pointer points at lie before what it reaches; None when the
        types do not tell."""
        step, unit, kind = local.offset, local.unit, local.kind
        if step is None:
            return None
        if unit != kind:
            same = unit.dtype == kind.dtype and not unit.shape and kind.shape[:1] != ("?",)
            whole = kind.bits if not same else int(kind.shape[0]) if kind.shape else 1
            part = unit.bits if not same else 1
            if whole and part is None and unit.dtype.startswith("dtypeof("):
                return self._further(self._wholes(step, unit, whole, at), index, at)
            if whole and part and part > whole and part % whole == 0:
                times = self.constant(part // whole, at)
                operands = [("lhs", step.name), ("rhs", times.name)]
                return self._further(self.one(OpKind.MUL, operands, at, step.kind), index, at)
            if not whole or not part or whole % part:
                return None
            count = self.constant(whole // part, at)
            operands = [("lhs", step.name), ("rhs", count.name)]
            step = self.one(OpKind.FLOOR_DIV, operands, at, step.kind)
        return self._further(step, index, at)

    def _further(self, step: Val, index: n.Expr | None, at: n.Place) -> Val:
        """A number of elements and those of an index behind it."""
        if index is None or (isinstance(index, n.Constant) and index.value == 0):
            return step
        operands = [("lhs", step.name), ("rhs", self.read(index).name)]
        return self.one(OpKind.ADD, operands, at, step.kind)

    def _wholes(self, step: Val, unit: Kind, bits: int, at: n.Place) -> Val:
        """How many of so many bits lie before an element of a type that is left open: a pointer
        that is seen as one to them is aligned to them."""
        dtype = self.dtype_value(unit, at)
        size = self.one(OpKind.SIZE_OF, [("dtype", dtype)], at, Kind("u64"))
        count = self.constant(bits // 8, at)
        before = self.one(OpKind.MUL, [("lhs", step.name), ("rhs", size.name)], at, step.kind)
        return self.one(
            OpKind.FLOOR_DIV, [("lhs", before.name), ("rhs", count.name)], at, step.kind
        )

    def pointing(self, node: n.Expr) -> Pointing | None:
        """The variable in registers that a pointer points at."""
        match node:
            case n.Name(text=text):
                found = self.frame.find(text)
                if isinstance(found, Pointing):
                    return found
                if isinstance(found, Slot) and found.kind.shape:
                    return Pointing(found, found.kind.element)
            case n.Unary(operator="&", operand=operand):
                own = self.in_registers(operand)
                where = self.place(operand) if own else self.held_constant(operand)
                if isinstance(where, Slot):
                    return Pointing(where, where.kind)
            case n.Call():
                return self.tensor_pointing(node)
            case n.Cast(type=written, operand=operand):
                inner = self.pointing(operand)
                kind = self.kind(written, self.frame)
                if inner is not None and kind.to is not None:
                    return replace(inner, kind=kind.to)
            case n.Binary(operator="+", left=left, right=right):
                base = self.pointing(left)
                if base is None and (base := self.pointing(right)) is not None:
                    right = left
                if base is not None and base.offset is None:
                    return replace(base, offset=self.read(right), unit=base.kind)
                if base is not None and base.offset is not None and base.unit == base.kind:
                    return replace(base, offset=self._further(base.offset, right, node.at))
            case n.Field() | n.Index():
                part = self.place(node) if self.in_registers(node) else None
                if isinstance(part, Slot) and part.kind.shape:
                    return Pointing(part, part.kind.element)
        return None

    def in_registers(self, node: n.Expr) -> bool:
        """True when the variable that a place is part of holds a value, not an address."""
        while isinstance(node, n.Field | n.Index | n.Cast):
            node = node.operand
        if not isinstance(node, n.Name):
            return False
        found = self.frame.find(node.text)
        own = isinstance(found, Slot) and (found.kind.to is None or bool(found.kind.shape))
        return own or isinstance(found, Pointing)
