"""Variables of a kernel: registers, arrays, references, pointers to registers, shared memory."""

from __future__ import annotations

from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.fields import spelled_out
from extractors.cuda.structs import StructReader
from extractors.cuda.values import (
    UNKNOWN,
    Closure,
    Fixed,
    Frame,
    Kind,
    Memory,
    Named,
    Slot,
    Val,
)
from kb.ir import Literal, MemorySpace
from kb.ops import OpKind

_PLACES = (n.Name, n.Field, n.Index)

_GROUPS = ("thread_block_tile", "thread_block", "coalesced_group", "grid_group", "cluster_group")


class DeclarationReader(StructReader):
    """Binds names to what they stand for."""

    def declare(self, node: n.Variable) -> None:
        """A variable with what it starts with."""
        written = node.type
        if "__shared__" in node.storage:
            self._shared(node)
            return
        if isinstance(node.value, n.Lambda):
            self.bind(node.name, Closure(node.value, self._here()))
            return
        if "static" in node.storage and node.value is not None and written.const:
            self.bind(node.name, Fixed(node.value, self._here(), node.at))
            return
        value = node.value
        if value is None and node.arguments is not None and len(node.arguments) == 1:
            value = node.arguments[0]
        group = self.group(value) if value is not None else None
        if group is not None:
            self.divided_into(group, node.at, node.name)
            self.bind(node.name, group)
            return
        if written.reference and node.value is not None and self._reference(node, node.value):
            return
        if value is not None and (self._points(node, value) or self._named_anew(node, value)):
            return
        self._register(node, value)

    def _here(self) -> Frame:
        """The frame as it is now: later names of the block are not seen."""
        return replace(self.frame, scopes=[*self.frame.scopes])

    def _reference(self, node: n.Variable, value: n.Expr) -> bool:
        where = self.place(value)
        if where is None:
            return False
        self.bind(node.name, where)
        return True

    def _points(self, node: n.Variable, value: n.Expr) -> bool:
        """A pointer to a variable in registers is another name for it."""
        if not node.type.pointers and node.type.name != "auto":
            return False
        if not isinstance(value, n.Unary | n.Cast | n.Name | n.Field | n.Binary):
            return False
        found = self.pointing(value)
        if found is None:
            return False
        if node.type.name == "auto" and not node.type.pointers and isinstance(value, n.Name):
            return False
        kind = self.kind(node.type, self.frame).to if node.type.name != "auto" else None
        self.bind(node.name, replace(found, kind=kind or found.kind))
        return True

    def _named_anew(self, node: n.Variable, value: n.Expr) -> bool:
        """A tensor made of the registers of another one is another name for it."""
        plain = not node.type.pointers and not node.type.reference and isinstance(value, n.Call)
        where = self.tensor_place(value) if plain and isinstance(value, n.Call) else None
        if not isinstance(where, Slot) or not where.kind.shape or where.kind.to is not None:
            return False
        self.bind(node.name, where)
        return True

    def _register(self, node: n.Variable, value: n.Expr | None) -> None:
        kind = self.kind(node.type, self.frame)
        if node.arguments is not None or value is None:
            if self._struct(node, kind):
                return
        key = self.key(node.name)
        read = self._initial(node, value, kind)
        told = kind == UNKNOWN or (kind == Kind(to=UNKNOWN) and node.type.name == "auto")
        if read is not None and told and (kind == UNKNOWN or read.kind.to is not None):
            kind = read.kind
        if read is not None and self.kept(node.name, kind, read, node.at, self.frame):
            return
        if read is not None and kind.to is not None and read.kind == UNKNOWN and read.name:
            read = replace(read, kind=kind)
        if read is not None and kind.to is not None and read.kind.to is not None:
            space = read.kind.space
            kind = replace(kind, space=space)
            read = replace(self.pointer_cast(read, kind, node.at, node.name), kind=kind)
        self.kinds[key] = kind
        self.made[key] = (node.at,)
        if read is not None:
            read = self.convert(read, kind, node.at, node.name)
            constexpr = "constexpr" in node.storage or node.type.const
            if not constexpr:
                read = replace(read, const=None, static=False)
            if constexpr and kind.to is None and not kind.shape and not kind.record:
                del self.kinds[key]
                text = self.spelled(value, self.frame) if value is not None else "?"
                plain = text if text.isalnum() or text == "?" else f"({text})"
                known = read.static or "constexpr" in node.storage
                text = "" if plain == "?" else plain
                self.bind(node.name, replace(read, text=text, static=known, at=node.at))
                return
            self.names[key] = read
        self.bind(node.name, Slot(key, kind))

    def _struct(self, node: n.Variable, kind: Kind) -> bool:
        """A struct that its constructor or its members begin; False when it stays whole."""
        if node.arguments and (record := self.told_by(kind, self._calls_of(node.name))):
            self.told[spelled_out(kind)] = record
        key = self.key(node.name)
        if not self.divide(key, kind):
            return False
        if node.arguments and not self.constructed(key, kind, node.arguments, node.at):
            del self.divided[key]
            return False
        if not node.arguments:
            self.begun(key, kind, node.at)
        self.bind(node.name, Slot(key, kind))
        return True

    def _calls_of(self, name: str) -> list[n.Call]:
        """The calls of methods of a variable in the function that declares it."""
        around = self.trail[-1] if self.trail else self.entry
        calls = (one for one in n.inside(around.body if around else ()) if isinstance(one, n.Call))
        return [
            one
            for one in calls
            if isinstance(one.function, n.Field) and isinstance(one.function.operand, n.Name)
            if one.function.operand.text == name
        ]

    def _initial(self, node: n.Variable, value: n.Expr | None, kind: Kind) -> Val | None:
        """What a variable starts with. A field of unknown type in shared memory that a pointer
        starts with is an array."""
        if isinstance(value, n.Braces) and value.type is None:
            return self.braces(value, kind, node.at, node.name)
        if kind.to is not None and isinstance(value, n.Field) and not self.in_registers(value):
            where = self.place(value)
            if isinstance(where, Memory) and where.kind == UNKNOWN:
                if where.address.kind.space is MemorySpace.SHARED:
                    return self.pointer_cast(where.address, kind, node.at, node.name)
                return self.load(where, node.at, node.name)
        if value is not None:
            pointer = self.as_pointer(value) if kind.to is not None else None
            return pointer or self.read(value, node.name)
        if node.arguments:
            items = [("item", self.read(one).name) for one in node.arguments]
            return self.one(OpKind.VECTOR, items, node.at, kind, node.name)
        return None

    def _shared(self, node: n.Variable) -> None:
        """An array in shared memory: its extents are operands, its layout is row by row."""
        kind = self.kind(node.type, self.frame)
        extents = [e for e in kind.shape if e != "?"]
        items = [("item", self.extent_value(e, node.at).name) for e in extents]
        shape = self.one(OpKind.TUPLE, items, node.at, UNKNOWN)
        operands = [("shape", shape.name)]
        attributes: list[tuple[str, Literal]] = [("space", "shared")]
        if kind.dtype != "?":
            operands.append(("dtype", self.dtype_value(kind, node.at)))
        elif kind.record:
            attributes.append(("record", kind.record))
        if "extern" in node.storage:
            attributes.append(("extent", "launch"))
        pointer = Kind(to=kind, space=MemorySpace.SHARED)
        made = self.one(OpKind.ALLOCATE, operands, node.at, pointer, node.name, attributes)
        self.bind(node.name, Memory(made, kind, False, len(node.type.extents)))

    def alias(self, node: n.Alias) -> None:
        """A name for a type."""
        self.bind(node.name, Named(node.type, self._here(), node.at))

    def unpack(self, node: n.Unpack) -> None:
        """`auto [a, b] = value`: the fields of a struct, or the elements of a vector."""
        where = self.place(node.value) if isinstance(node.value, _PLACES) else None
        value = None if where is not None else self.read(node.value)
        kind = where.kind if where is not None else value.kind if value is not None else UNKNOWN
        if self._fields(node, kind, value):
            return
        value = value or self.read(node.value)
        for name, part in zip(node.names, self._elements(node, value), strict=True):
            key = self.key(name)
            self.kinds[key] = part.kind
            self.names[key] = part
            self.bind(name, Slot(key, part.kind))

    def _elements(self, node: n.Unpack, value: Val) -> list[Val]:
        """The elements of a vector, or of what is not known any better."""
        if value.kind.shape != (str(len(node.names)),):
            results = [(name, UNKNOWN) for name in node.names]
            made = self.writer.emit(OpKind.UNPACK, [("x", value.name)], node.at, results)
            return [Val(result) for result in made]
        kind = value.kind.element
        places = [self.constant(at, node.at, Kind("i32")) for at in range(len(node.names))]
        slots = [Slot("", kind, (place,)) for place in places]
        return [
            self._taken(value, where, node.at, name)
            for name, where in zip(node.names, slots, strict=True)
        ]

    def _fields(self, node: n.Unpack, kind: Kind, value: Val | None) -> bool:
        """Bind every name to a field of a struct without bases; False for what is none."""
        record = self.meant(kind) if kind.record and kind.to is None and not kind.shape else None
        own = [f.name for f in record.fields if "static" not in f.storage] if record else []
        if record is None or record.open or len(own) != len(node.names):
            return False
        whole = node.value
        if value is not None and not isinstance(whole, n.Name):
            whole = n.Name(node.at, ", ".join(node.names))
            self.bind(whole.text, value)
        written = n.CType("auto", reference=node.type.reference and node.type.const)
        for name, field in zip(node.names, own, strict=True):
            self.declare(n.Variable(node.at, name, written, n.Field(node.at, whole, field)))
        return True
