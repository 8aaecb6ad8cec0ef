"""Places and accesses: variables in registers as values, everything behind an address as loads and
stores in elements of what the address points at."""

from __future__ import annotations

from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.core import is_integer
from extractors.cuda.local_pointers import LocalPointerReader
from extractors.cuda.values import UNKNOWN, Fixed, Kind, Memory, Slot, Val, Where
from kb.ir import Literal, MemorySpace
from kb.ops import OpKind

_FIELDS = {"x": 0, "y": 1, "z": 2, "w": 3}


class MemoryReader(LocalPointerReader):
    """Places of expressions; loads and stores."""

    # -- places

    def place(self, node: n.Expr) -> Where | None:
        """Where an expression lies, None when it is a computed value."""
        match node:
            case n.Name(text=text):
                found = self.frame.find(text)
                if isinstance(found, Slot | Memory):
                    return found
                return None
            case n.Field(operand=operand, name=name):
                return self._part(self.place(operand), node.at, name)
            case n.Index(operand=operand, index=index):
                return self._indexed(operand, index, node.at)
            case n.Unary(operator="*", operand=n.Name(text="this")):
                found = self.frame.find("this")
                return found if isinstance(found, Slot | Memory) else None
            case n.Unary(operator="*", operand=operand):
                return self._behind(operand, None, node.at)
            case n.Cast(operand=operand, form="const"):
                return self.place(operand)
            case n.Cast(type=written, operand=operand) if written.reference:
                return self._seen(self.place(operand), self.kind(written, self.frame), node.at)
            case n.Call(function=n.Name(text="std::move" | "std::forward"), arguments=(inner,)):
                return self.place(inner)
            case n.Call():
                return self.tensor_place(node) or self.returned_place(node)
        return None

    def tensor_place(self, node: n.Call) -> Where | None:
        """Where an element or a part of a tensor in registers lies."""
        raise NotImplementedError

    def returned_place(self, node: n.Call) -> Where | None:
        """The place that a function returns a reference to; None when it returns a value."""
        raise NotImplementedError

    def _seen(self, where: Where | None, kind: Kind, at: n.Place) -> Where | None:
        """What lies at a place, seen as another type; None where the types of a variable in
        registers do not tell how."""
        if isinstance(where, Slot):
            sizes = (where.kind.bits, kind.bits)
            if where.kind == kind:
                return where
            same = None in sizes or sizes[0] == sizes[1]
            return replace(where, kind=kind, path=(*where.path, "as")) if same else None
        if where is None:
            return None
        pointer = Kind(to=kind, space=where.address.kind.space)
        return Memory(self.pointer_cast(where.address, pointer, at), kind, where.volatile)

    def _part(self, where: Where | None, at: n.Place, name: str) -> Where | None:
        """A field of a place."""
        if where is None:
            return None
        kind = where.kind
        if kind.shape and not kind.record and name in _FIELDS:
            inner: Kind = kind.element
            step: Val | str = self.constant(_FIELDS[name], at)
        else:
            inner, step = self.field(kind, name), name
        if isinstance(where, Slot):
            return replace(where, kind=inner, path=(*where.path, step))
        if isinstance(step, Val):
            return self._moved(where, step, inner, at)
        return Memory(self._member(where.address, name, inner, at), inner)

    def part_of(self, where: Slot | Memory, name: str, at: n.Place) -> Slot | Memory:
        """A field of a struct in registers or in memory."""
        found = self._part(where, at, name)
        return found if found is not None else where

    def _member(self, address: Val, name: str, kind: Kind, at: n.Place) -> Val:
        pointer = Kind(to=kind, space=address.kind.space)
        operands = [("x", address.name)]
        return self.one(OpKind.ATTRIBUTE, operands, at, pointer, attributes=[("name", name)])

    def _moved(self, where: Memory, offset: Val, kind: Kind, at: n.Place) -> Memory:
        """An element of a vector in memory, counted in elements of the vector."""
        pointer = Kind(to=kind, space=where.address.kind.space)
        base = self.one(OpKind.POINTER_CAST, [("x", where.address.name)], at, pointer)
        moved = self.one(OpKind.ADD, [("lhs", base.name), ("rhs", offset.name)], at, pointer)
        return Memory(moved, kind, where.volatile)

    def _indexed(self, operand: n.Expr, index: n.Expr, at: n.Place) -> Where | None:
        where = self.place(operand)
        if self._open(where) and not isinstance(index, n.Constant):
            return self._behind(operand, index, at)
        held = isinstance(where, Slot) and (where.kind.shape or where.kind.to is None)
        if isinstance(where, Slot) and held and (where.kind.shape or not where.kind.record):
            if where.kind.shape or where.kind.dtype == "?":
                step = self.read(index)
                return replace(where, kind=where.kind.element, path=(*where.path, step))
            return None
        if isinstance(where, Slot) and where.kind.record and where.kind.to is None:
            fields = self.fields_of(where.kind)
            if len(fields) == 1 and fields[0][1].shape:
                name, inner = fields[0]
                path = (*where.path, name, self.read(index))
                return replace(where, kind=inner.element, path=path)
            step = self.read(index)
            return replace(where, kind=UNKNOWN, path=(*where.path, step))
        if isinstance(where, Memory) and where.kind.shape:
            return self._row(where, self.read(index), at)
        if isinstance(where, Memory) and self._in_shared(operand, where):
            return Memory(self.add(where.address, self.read(index), at), UNKNOWN)
        return self._behind(operand, index, at)

    def _in_shared(self, node: n.Expr, where: Memory) -> bool:
        """Whether a place of unknown type is a field, or part of one, of a struct in shared memory:
        what is indexed there is an array of the struct."""
        shared = where.address.kind.space is MemorySpace.SHARED
        return shared and where.kind == UNKNOWN and isinstance(node, n.Field | n.Index)

    def _open(self, where: Where | None) -> bool:
        """Whether a place is a field, of unknown type, of a struct whose type only the
        instantiation tells: what is indexed by a variable there is a pointer."""
        whole = self.kinds.get(where.key, UNKNOWN) if isinstance(where, Slot) else UNKNOWN
        if not isinstance(where, Slot) or where.kind != UNKNOWN or len(where.path) != 1:
            return False
        return isinstance(where.path[0], str) and whole.dtype.startswith("dtypeof(")

    def _row(self, where: Memory, index: Val, at: n.Place) -> Memory:
        """One index into an array that lies in memory: its address plus whole rows."""
        inner = where.kind.element
        pointer = Kind(to=inner, space=where.address.kind.space)
        offset = self.scaled(index, inner.shape, at)
        operands = [("lhs", where.address.name), ("rhs", offset.name)]
        moved = self.one(OpKind.ADD, operands, at, pointer)
        return Memory(moved, inner, where.volatile, max(where.array - 1, 0))

    def decayed(self, where: Memory) -> Val:
        """An array as the pointer to its first element."""
        pointer = Kind(to=where.kind.element, space=where.address.kind.space)
        return replace(where.address, kind=pointer)

    def scaled(self, index: Val, extents: tuple[str, ...], at: n.Place) -> Val:
        """An index times the elements of what one step skips."""
        for extent in extents:
            size = self.extent_value(extent, at)
            operands = [("lhs", index.name), ("rhs", size.name)]
            index = self.one(OpKind.MUL, operands, at, index.kind)
        return index

    def extent_value(self, extent: str, at: n.Place) -> Val:
        """The value of an extent: a number, or a name that stands for one."""
        if extent.isdigit():
            return self.constant(int(extent), at)
        found = self.frame.find(extent)
        if isinstance(found, Val):
            return found
        if isinstance(found, Slot) and found.key in self.names:
            return self.names[found.key]
        if isinstance(found, Fixed):
            with self.inside(found.frame):
                return self.read(found.value)
        if extent in self.sizes:
            size, frame = self.sizes[extent]
            with self.inside(frame):
                return self.read(size)
        return self.one(OpKind.OPAQUE, (), at, Kind("i32"), attributes=[("what", extent[:120])])

    def _behind(self, operand: n.Expr, index: n.Expr | None, at: n.Place) -> Where | None:
        """What a pointer points at, or an element from there on."""
        local = self.pointing(operand)
        if local is not None:
            return self.reached(local, index, at)
        base = self.read(operand)
        if base.kind == UNKNOWN and base.name and self._open(self.place(operand)):
            base = replace(base, kind=Kind(to=UNKNOWN))
        if base.kind.to is None:
            return None
        if index is not None:
            base = self.add(base, self.read(index), at)
        kind = base.kind.to or UNKNOWN
        return Memory(base, kind, array=kind.rows)

    # -- addresses

    def add(self, base: Val, offset: Val, at: n.Place, kind: OpKind = OpKind.ADD) -> Val:
        """A pointer moved by a number of what it points at, counted in elements."""
        target = base.kind.to or UNKNOWN
        offset = self.scaled(offset, target.shape, at)
        operands = [("lhs", base.name), ("rhs", offset.name)]
        return self.one(kind, operands, at, base.kind)

    def pointer_cast(self, value: Val, kind: Kind, at: n.Place, hint: str = "") -> Val:
        """The same address seen as another type."""
        space = value.kind.space if kind.space is MemorySpace.NONE else kind.space
        of = replace(kind, space=space)
        if value.kind == of:
            return value
        return self.one(OpKind.POINTER_CAST, [("x", value.name)], at, of, hint)

    # -- loads and stores

    def nothing(self, key: str, at: n.Place) -> Val:
        """The value of a variable that nothing was stored in, and where it is declared."""
        kind = self.kinds.get(key, UNKNOWN)
        value = self.one(OpKind.UNDEF, (), at, kind, key.partition("#")[0])
        self.writer.declare(self.made.get(key, ()))
        return value

    def load(self, where: Where, at: n.Place, hint: str = "") -> Val:
        """What lies at a place."""
        if isinstance(where, Memory):
            if where.array:
                return self.decayed(where)
            attributes = self.access(where)
            operands = [("pointer", where.address.name)]
            kind = self.only(where.kind)
            made = self.one(OpKind.LOAD, operands, at, kind, hint, attributes)
            return replace(made, kind=where.kind)
        where = self.resolved(where)
        if where.key in self.divided:
            whole = self.composed(where.key, at)
            return self._taken(whole, where, at, hint) if where.path else whole
        value = self.names.get(where.key)
        if value is None or not value.name:
            value = self.names[where.key] = self.nothing(where.key, at)
        if not where.path:
            return value
        return self._taken(value, where, at, hint)

    def _taken(self, value: Val, where: Slot, at: n.Place, hint: str) -> Val:
        """The part of a value that a path leads to."""
        for number, step in enumerate(where.path):
            last = number + 1 == len(where.path)
            kind = where.kind if last else UNKNOWN
            if isinstance(step, Val):
                operands = [("x", value.name), ("index", step.name)]
                inner = kind if last else value.kind.element
                value = self.one(OpKind.EXTRACT, operands, at, inner, hint if last else "")
            elif step == "as":
                same = value.kind.dtype == kind.dtype != UNKNOWN.dtype
                seen = OpKind.COPY if same and value.kind.shape and kind.shape else OpKind.BITCAST
                value = self.one(seen, [("x", value.name)], at, kind)
            else:
                inner = kind if last else self.field(value.kind, step)
                attributes = [("name", step), *self.qualified(value.kind, step)]
                while (put := self.put.get(value.name)) is not None and put[1] != step:
                    value = put[0]
                places = self.field_at(value.kind, step) if is_integer(inner) else ()
                value = self.one(
                    OpKind.ATTRIBUTE, [("x", value.name)], at, inner, hint if last else "",
                    attributes,
                )  # fmt: skip
                self.writer.declare(places)
        return value

    def access(self, where: Memory) -> list[tuple[str, Literal]]:
        """What an access says besides its address: the memory that it goes to."""
        space = where.address.kind.space
        found: list[tuple[str, Literal]] = []
        if space is not MemorySpace.NONE:
            found.append(("space", str(space)))
        if where.volatile:
            found.append(("volatile", True))
        return found

    def store(self, where: Where, value: Val, at: n.Place) -> None:
        """Put a value at a place."""
        if isinstance(where, Memory):
            value = self.convert(value, where.kind, at)
            operands = [("pointer", where.address.name), ("value", value.name)]
            self.writer.emit(OpKind.STORE, operands, at, (), self.access(where))
            return
        where = self.resolved(where)
        hint = where.key.partition("#")[0]
        if where.key in self.divided:
            if where.path:
                value = self._put(self.composed(where.key, at), where.path, value, at, hint)
            self.decompose(where.key, value, at)
            return
        if not where.path:
            if where.key not in self.names and where.kind.to is not None:
                where = self.pointing_to(where, value.kind.space)
            self.names[where.key] = self.convert(value, where.kind, at, hint)
            return
        value = self.convert(value, where.kind, at)
        self.names[where.key] = self._put(self._whole(where, at), where.path, value, at, hint)

    def _whole(self, where: Slot, at: n.Place) -> Val:
        return self.load(Slot(where.key, self.kinds.get(where.key, UNKNOWN)), at)

    def _put(
        self, base: Val, path: tuple[Val | str, ...], value: Val, at: n.Place, hint: str = ""
    ) -> Val:
        """The value in which the part at a path is replaced."""
        step, rest = path[0], path[1:]
        if step == "as":
            if not rest:
                return self.one(OpKind.BITCAST, [("x", value.name)], at, base.kind, hint)
            seen = self.one(OpKind.BITCAST, [("x", base.name)], at, UNKNOWN)
            put = self._put(seen, rest, value, at)
            return self.one(OpKind.BITCAST, [("x", put.name)], at, base.kind, hint)
        operands = [("x", base.name)]
        attributes: list[tuple[str, Literal]] = []
        if isinstance(step, Val):
            operands.append(("index", step.name))
        else:
            attributes.append(("name", step))
        if rest:
            inner_kind = base.kind.element if isinstance(step, Val) else UNKNOWN
            kind = OpKind.EXTRACT if isinstance(step, Val) else OpKind.ATTRIBUTE
            inner = self.one(kind, operands, at, inner_kind, attributes=attributes)
            value = self._put(inner, rest, value, at)
        operands.append(("value", value.name))
        made = self.one(OpKind.INSERT, operands, at, base.kind, hint, attributes)
        known = self.library.records(base.kind.record) if base.kind.record else ()
        apart = known and not any(one.open for one in known)
        if isinstance(step, str) and (apart or base.kind.dtype.startswith("dtypeof(")):
            self.put[made.name] = (base, step)
        return made
