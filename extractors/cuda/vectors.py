"""Structs that are short vectors: a type and a number as template arguments, elements by index, and
methods whose bodies all move the elements from or to a pointer, or set them to one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from math import prod

from extractors.cuda import nodes as n
from extractors.cuda.tiled_moves import TensorMover
from extractors.cuda.values import UNKNOWN, Kind, Memory, Pointing, Slot, Val
from kb.dialects.cuda import HALVES
from kb.dialects.cuda_libraries import POINTED
from kb.ops import NAMED, OpKind


class Move(StrEnum):
    """What every body of a method does with the elements."""

    LOAD = "load"
    STORE = "store"
    FILL = "fill"
    COPY = "copy"


class VectorReader(TensorMover):
    """Methods of short vectors."""

    def vector_of(self, kind: Kind) -> Kind | None:
        """Element type and number of elements of a struct that is a short vector."""
        types = [a for a in kind.arguments if isinstance(a, Kind)]
        counts = [a for a in kind.arguments if isinstance(a, Val)]
        if len(types) != 1 or len(counts) != 1 or len(kind.arguments) != 2:
            return None
        records = self.library.records(kind.record)
        if not any(m.name.replace(" ", "") == "operator[]" for r in records for m in r.methods):
            return None
        count = counts[0]
        extent = str(count.const) if count.const is not None else count.text or count.name
        self.frame.scopes[0].setdefault(extent, count)
        return replace(self._number(types[0]), shape=(extent,))

    def _number(self, kind: Kind) -> Kind:
        """A type that only the instantiation tells, as an element of a short vector a number."""
        head, _, member = kind.record.partition("::")
        if member and head in self.symbols:
            return Kind(f"dtypeof({head}.{member})")
        return kind

    def pointing(self, node: n.Expr) -> Pointing | None:
        """What a pointer points at; a method without arguments that gives the address of the own
        elements points at them."""
        found = super().pointing(node)
        match node:
            case n.Call(function=n.Field(operand=operand, name=name), arguments=()) if not found:
                where = self.place(operand)
                vector = self.vector_of(where.kind) if isinstance(where, Slot) else None
                if vector is None or not isinstance(where, Slot):
                    return None
                records = self.library.records(where.kind.record)
                if self._points_inside(where.kind.record, name, records):
                    return Pointing(replace(where, kind=vector), vector.element)
        return found

    def _points_inside(self, record: str, name: str, records: Sequence[n.Record]) -> bool:
        """Whether every body of a method only returns the address of a field, or an array."""
        fields = {f.name for r in records for f in r.fields}
        last = record.rpartition("::")[2]
        bodies = [m.body for r in records for m in r.methods if m.name == name]
        bodies += [f.body for f in self.library.functions(name) if f.owner == last]
        return bool(bodies) and all(_returns_address(body, fields) for body in bodies)

    def vector_method(
        self, node: n.Call, name: str, where: Slot | Memory, records: Sequence[n.Record]
    ) -> Val | None:
        """A load, a store or a fill of all elements; None when the bodies do not agree on one."""
        vector = self.vector_of(where.kind)
        move = self._move(where.kind.record, name, records) if vector is not None else None
        if vector is None or move is None or len(node.arguments) != 1:
            return None
        value = self.read(node.arguments[0])
        if move is Move.FILL:
            value = self.convert(value, vector.element, node.at)
            operands = [("x", value.name)]
            self.store(where, self.one(OpKind.BROADCAST, operands, node.at, vector), node.at)
            return Val("")
        if value.kind == UNKNOWN and value.name:
            value = replace(value, kind=Kind(to=UNKNOWN))
        if value.kind.to is None or value.kind.to.shape:
            return None
        element = self._number(value.kind.to)
        if element.record:
            return None
        moved = replace(vector, dtype=element.dtype)
        pointer = replace(value, kind=replace(value.kind, to=moved))
        target = Memory(pointer, pointer.kind.to or vector)
        if move is Move.LOAD:
            loaded = self.load(target, node.at)
            self.store(where, self.convert(loaded, vector, node.at), node.at)
            return Val("")
        held = self.load(where, node.at)
        held = held if held.kind.shape else replace(held, kind=vector)
        attributes = self.access(target)
        operands = [("pointer", pointer.name), ("value", held.name)]
        self.writer.emit(OpKind.STORE, operands, node.at, (), attributes)
        return Val("")

    def half_of(self, node: n.Call, name: str, hint: str) -> Val | None:
        """One element of a pair, by the functions of the language for that; None for any other."""
        index = HALVES.get(name.removeprefix("::"))
        if index is None or len(node.arguments) != 1:
            return None
        pair = self.read(node.arguments[0])
        number = self.constant(index, node.at)
        operands = [("x", pair.name), ("index", number.name)]
        return self.one(OpKind.EXTRACT, operands, node.at, pair.kind.element, hint)

    def made_of(self, node: n.Call, function: n.Name, hint: str) -> Val | None:
        """What a type of a library is made of: the elements of a vector, also those that a function
        finds behind a pointer; of a type that nobody can read, the values that it is given."""
        shape = POINTED.get(function.text.removeprefix("::"))
        if shape is not None and len(node.arguments) == 1:
            count = prod(shape)
            at = [n.Constant(node.at, i, "i32") for i in range(count)]
            values = [self.read(n.Index(node.at, node.arguments[0], one)) for one in at]
            kind = replace(values[0].kind, shape=(str(count),)) if len(shape) == 1 else UNKNOWN
        elif len(node.arguments) > 1 and self.is_type(function):
            kind = self.kind(n.CType(function.text, function.arguments), self.frame)
            whole = kind.shape in ((), (str(len(node.arguments)),))
            if not whole or kind.to is not None or self.library.records(kind.record):
                return None
            values = [self.read(argument) for argument in node.arguments]
        else:
            return None
        if kind.shape:
            return self.one(OpKind.VECTOR, [("item", v.name) for v in values], node.at, kind, hint)
        read = dict.fromkeys(("read", v.name) for v in values)
        what = [("what", f"{NAMED}{function.text}"[:120])]
        (made,) = self.writer.emit(OpKind.OPAQUE, [*read], node.at, [(hint, kind)], what)
        return Val(made, kind)

    def vector_copy(self, node: n.Call, function: n.Name) -> Val | None:
        """A static method that moves all elements from behind its second argument to behind its
        first; None when a body does anything else."""
        name = function.text.rpartition("::")[2]
        kind = self.kind(function.scope, self.frame) if function.scope is not None else UNKNOWN
        vector = self.vector_of(kind) if kind.record and len(node.arguments) == 2 else None
        if vector is None:
            return None
        if self._move(kind.record, name, self.library.records(kind.record)) is not Move.COPY:
            return None
        ends = [self.read(argument) for argument in node.arguments]
        if any(end.kind.to is None or end.kind.to.shape or end.kind.to.record for end in ends):
            return None
        moved = [replace(end, kind=replace(end.kind, to=vector)) for end in ends]
        loaded = self.load(Memory(moved[1], vector), node.at)
        self.store(Memory(moved[0], vector), loaded, node.at)
        return Val("")

    def _move(self, record: str, name: str, records: Sequence[n.Record]) -> Move | None:
        """What all bodies of a method do; None when one does something else, or there is none."""
        key = (record, name)
        if key not in self._moves:
            fields = {f.name for r in records for f in r.fields}
            last = record.rpartition("::")[2]
            bodies = [m for r in records for m in r.methods if m.name == name]
            bodies += [f for f in self.library.functions(name) if f.owner == last]
            known = [f for f in bodies if len(f.parameters) in (1, 2) and not f.template[2:]]
            moves = {_moves(f, fields) if len(f.parameters) == 1 else _copies(f) for f in known}
            self._moves[key] = moves.pop() if len(moves) == 1 else None
        found = self._moves[key]
        return Move(found) if found else None


def _moves(function: n.Definition, fields: set[str]) -> Move | None:
    """Load: the parameter's pointee goes into a field. Store: a field goes there. Fill: the value
    itself goes into a field."""
    parameter = function.parameters[0]
    found: set[Move] = set()
    given = {parameter.name}
    for one in n.inside(function.body):
        if isinstance(one, n.Variable) and one.value is not None and _names(one.value) & given:
            given.add(one.name)
        if not isinstance(one, n.Assign):
            continue
        to, taken = _names(one.target), _names(one.value)
        if taken & given and not parameter.type.pointers:
            given |= to - fields
        if parameter.type.pointers:
            if to & fields and taken & given:
                found.add(Move.LOAD)
            elif to & given and taken & fields:
                found.add(Move.STORE)
        elif to & fields and taken & given:
            found.add(Move.FILL)
    return found.pop() if len(found) == 1 else None


def _copies(function: n.Definition) -> Move | None:
    """Copy: all that a body writes lies behind the first parameter, and comes from behind the
    second."""
    to, source = ({one.name} for one in function.parameters)
    if not all(one.type.pointers == 1 for one in function.parameters):
        return None
    assigned = [one for one in n.inside(function.body) if isinstance(one, n.Assign)]
    written = [one for one in assigned if not isinstance(one.target, n.Name)]
    for one in written:
        target, taken = _names(one.target), _names(one.value)
        if not (target & to and taken & source) or (target & source or taken & to):
            return None
        if one.operator or not (_lies_behind(one.target) and _lies_behind(one.value)):
            return None
    calls = any(isinstance(one, n.Call) for one in n.inside(function.body))
    return Move.COPY if written and not calls else None


def _lies_behind(node: n.Expr) -> bool:
    """True for what one address leads to, as it lies there."""
    return isinstance(node, n.Index) or (isinstance(node, n.Unary) and node.operator == "*")


def _returns_address(body: n.Block, fields: set[str]) -> bool:
    one = body.body[0] if len(body.body) == 1 else None
    value = one.value if isinstance(one, n.Leave) else None
    address = isinstance(value, n.Unary) and value.operator == "&"
    if value is None or not (address or isinstance(value, n.Cast | n.Name | n.Field)):
        return False
    return bool(_names(value) & fields) and not any(isinstance(x, n.Call) for x in n.inside(value))


def _names(node: n.Expr) -> set[str]:
    return {one.text for one in n.inside(node) if isinstance(one, n.Name)}
