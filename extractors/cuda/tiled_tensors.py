"""Tensors of CuTe: a pointer and a layout over memory, or values in the registers of a thread.

A tensor over memory is a pointer of the tile program; what is known of its layout (an extent and a
stride for each axis) is kept beside it, and a part of it is the pointer moved along. A tensor in
registers is a variable of several elements, and another layout of it is another name for it. What a
layout gives that is not computed here (where the elements of a thread lie, which coordinates they
have, how many they are) is a `partition`, with what it depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.core import is_integer
from extractors.cuda.tiled_layouts import LayoutReader, digits
from extractors.cuda.values import UNKNOWN, Frame, Kind, Memory, Mode, Pointing, Slot, Val, Where
from kb.dialects import cute
from kb.ir import Literal
from kb.ops import OpKind

_RANK = 4
"""Axes that a fragment has at most: those of the atom, of its values, and of the tile."""


class TensorReader(LayoutReader):
    """Reads what CuTe's tensors are made of."""

    # -- what stands for a tensor

    def tensor_call(self, node: n.Call, hint: str) -> Val | None:
        """The value of a call of CuTe, or of a tensor at a place; None for any other call."""
        function = node.function
        if isinstance(function, n.Field):
            return self._of_method(node, function, hint)
        if isinstance(function, n.Call):
            return self._of_made(node, function, hint)
        if not isinstance(function, n.Name):
            return None
        if self.is_tensor(function):
            return self._at(node, hint)
        last = self.of_cute(function)
        return self._made(node, function, last, hint) if last else None

    def _of_made(self, node: n.Call, made: n.Call, hint: str) -> Val | None:
        """A part of a tensor that is made in place: `logical_divide(t, shape)(i, _)`."""
        called = self.of_cute(made.function) if isinstance(made.function, n.Name) else ""
        if called not in cute.SEEN_ANEW | cute.TILES:
            return None
        where, name = self.tensor_place(made), n.Name(made.at, "(tensor)")
        if where is None:
            value, key = self.read(made), self.key("tensor")
            if value.kind.to is None and value.kind.record != cute.COORDINATES:
                return None
            self.kinds[key], self.names[key] = value.kind, value
            where = Slot(key, value.kind)
        self.bind(name.text, where)
        return self.tensor_call(replace(node, function=name), hint)

    def static_member(
        self, head: str, name: str, at: n.Place, hint: str, scope: n.CType | None = None
    ) -> Val | None:
        """`decltype(size(tensor))::value` is the size of the tensor, `decltype(tag)::value` the
        number that a variable stands for."""
        asked = scope.arguments[0] if scope is not None and scope.arguments else None
        if scope is not None and scope.name[:9] == "decltype(" and name == "value":
            called = asked.function if isinstance(asked, n.Call) else None
            if isinstance(called, n.Name) and self.of_cute(called) in cute.EXTENTS:
                return self.read(asked, hint) if isinstance(asked, n.Call) else None
            held = self.frame.find(asked.text) if isinstance(asked, n.Name) else None
            value = self.load(held, at, hint) if isinstance(held, Slot) else held
            if isinstance(value, Val) and is_integer(value.kind):
                return value  # No number has members: it stands for a type that does.
        return super().static_member(head, name, at, hint, scope)

    def tensor_place(self, node: n.Call) -> Where | None:
        """Where an element, a part or another layout of a tensor lies; None for what is no place,
        and for a part of a tensor over memory, which is a pointer."""
        function = node.function
        if isinstance(function, n.Field):
            if function.name in cute.RETILED and len(node.arguments) == 1:
                return self._registers(node.arguments[0])
            held = self.place(function.operand) if function.name == "data" else None
            over = isinstance(held, Slot) and held.kind.to is not None and not held.kind.shape
            return held if over and isinstance(function.operand, n.Name) else None
        if not isinstance(function, n.Name):
            return None
        if self.is_tensor(function):
            return self._part_at(node, function)
        last = self.of_cute(function)
        if last in cute.SEEN_ANEW and node.arguments:
            return self._anew(node, function, last)
        return None

    def _anew(self, node: n.Call, function: n.Name, last: str) -> Slot | None:
        """A tensor in registers under another layout, perhaps of another element type."""
        first = node.arguments[0]
        if last == "make_tensor":
            led = self.pointing(first)
            where = led.where if led is not None and led.offset is None else None
            element = led.kind if led is not None else UNKNOWN
        else:
            where = self._registers(first)
            element = where.kind.element if where is not None else UNKNOWN
            written = function.arguments[0] if last == "recast" and function.arguments else None
            if isinstance(written, n.CType):
                element = self.kind(written, self.frame)
        if where is None:
            return None
        plain = replace(element, shape=())
        if plain.dtype == where.kind.dtype or plain == UNKNOWN:
            return replace(where, kind=replace(where.kind, shape=("?",) * _RANK))
        return Slot(where.key, replace(plain, shape=("?",) * _RANK), (*where.path, "as"))

    def _registers(self, node: n.Expr) -> Slot | None:
        """The variable of a tensor in registers; None for any other expression."""
        where = self.place(node)
        if isinstance(where, Slot) and where.kind.shape and where.kind.to is None:
            return where
        return None

    def tensor_pointing(self, node: n.Call) -> Pointing | None:
        """The registers that `tensor.data()` or a pointer made of it leads to."""
        function = node.function
        if isinstance(function, n.Field) and not node.arguments:
            if function.name == "get" and isinstance(function.operand, n.Call):
                return self.tensor_pointing(function.operand)
            where = self._registers(function.operand) if function.name == "data" else None
            return Pointing(where, replace(where.kind, shape=())) if where is not None else None
        if isinstance(function, n.Name) and len(node.arguments) == 1:
            last = self.of_cute(function)
            if last in cute.REGISTER_POINTERS | cute.POINTERS:
                led = self.pointing(node.arguments[0])
                written = function.arguments[0] if function.arguments else None
                if led is not None and isinstance(written, n.CType):
                    return replace(led, kind=self.kind(written, self.frame))
                return led
        return None

    # -- elements and parts

    def _part_at(self, node: n.Call, function: n.Name) -> Where | None:
        where = self.place(function)
        steps = [*self.coordinates(node.arguments)]
        if isinstance(where, Slot) and where.kind.shape and where.kind.to is None:
            path = [self.read(one) for one in steps if one is not None]
            left = where.kind.shape[len(path) :] or ("?",)
            kind = replace(where.kind, shape=left if None in steps else ())
            return Slot(where.key, kind, (*where.path, *path))
        if where is None or None in steps or where.kind.to is None:
            return None
        return Memory(self._along(self.load(where, node.at), steps, node.at), where.kind.to)

    def _at(self, node: n.Call, hint: str) -> Val:
        """An element of a tensor, a part of one over memory, or the coordinates of an element."""
        function = node.function
        assert isinstance(function, n.Name)
        where = self.tensor_place(node)
        if where is not None and where.kind.record != cute.COORDINATES:
            return self.load(where, node.at, hint)
        whole = self.read(function)
        steps = [*self.coordinates(node.arguments)]
        if whole.kind.record == cute.COORDINATES:
            rows = [("index", self.read(one).name) for one in steps if one is not None]
            return self.partition("coordinates", [("x", whole.name), *rows], node.at, whole.kind)
        return self._along(whole, steps, node.at)

    def _along(self, pointer: Val, steps: Sequence[n.Expr | None], at: n.Place) -> Val:
        """A pointer to where the fixed coordinates lead; the axes that stay keep their layout."""
        modes = self.layouts.get(pointer.name, ())
        fixed = [(i, self.read(one)) for i, one in enumerate(steps) if one is not None]
        fixed = [(i, value) for i, value in fixed if value.const != 0 or len(steps) == 1]
        known = len(modes) == len(steps) and all(modes[i].stride is not None for i, _ in fixed)
        offset: Val | None = None
        if known:
            for i, value in fixed:
                stride = modes[i].stride
                assert stride is not None
                offset = self._plus(offset, self._times(value, stride, at), at)
        elif fixed:
            operands = [("index", value.name) for _, value in fixed]
            offset = self.partition("offset", operands, at)
        moved = self.add(pointer, offset, at) if offset is not None else self._renamed(pointer, at)
        kept = [modes[i] for i, one in enumerate(steps) if one is None and i < len(modes)]
        self.layouts[moved.name] = tuple(kept)
        return moved

    def _renamed(self, pointer: Val, at: n.Place) -> Val:
        return self.one(OpKind.COPY, [("x", pointer.name)], at, pointer.kind)

    # -- what makes a tensor

    def _made(self, node: n.Call, function: n.Name, last: str, hint: str) -> Val | None:
        given, at = node.arguments, node.at
        if last == "make_tensor":
            return self._tensor(node, function, hint)
        if last in cute.POINTERS and len(given) == 1:
            return self.read(given[0], hint)
        if last in cute.FRAGMENTS and given:
            return self._fragment(self.tiled(given[0]), given[-1], last, at, hint)
        if last in cute.LIKE and len(given) == 1:
            return self._like(function, given[0], at, hint)
        if last in cute.TILED and given:
            return self.partition("atom", (), at, self.kind_of_made(node))
        if last in cute.EXTENTS and given and (last != "shape" or function.arguments):
            mode = ", ".join(digits(one) for one in function.arguments)
            return replace(self.partition("extent", (), at, mode=mode), static=True)
        if last in cute.IDENTITIES:
            return self.partition("coordinates", (), at, Kind(record=cute.COORDINATES))
        if last == "get" and len(given) == 1 and function.arguments:
            return self._got(function, given[0], at, hint)
        if last in cute.TUPLES:
            return self._tuple(given, at, hint)
        if last in cute.TILES and len(given) == 3:
            return self._tile(given, at)
        if last in cute.ATOMS_OF and given:
            return self._share(given[0], given[-1:], at)
        if last in cute.QUIET:
            return Val("")
        if last in cute.SEEN_ANEW and given:
            where = self.tensor_place(node)
            if where is not None:
                return self.load(where, at, hint)
            base = self.read(given[0])
            if base.kind.record == cute.COORDINATES:
                return base
            return self._renamed(base, at) if base.kind.to is not None else None
        return None

    def _tensor(self, node: n.Call, function: n.Name, hint: str) -> Val | None:
        """`make_tensor<T>(shape)` in registers, `make_tensor(pointer, layout)` over memory."""
        given, at = node.arguments, node.at
        if function.arguments and given and isinstance(function.arguments[0], n.CType):
            rank = len([*self._extents(given[0])]) or _RANK
            kind = replace(self.kind(function.arguments[0], self.frame), shape=("?",) * rank)
            return self.one(OpKind.UNDEF, (), at, kind, hint)
        if not given:
            return None
        where = self.tensor_place(node)
        if where is not None:
            return self.load(where, at, hint)
        pointer = self.read(given[0])
        if pointer.kind.to is None:
            return None
        attributes: list[tuple[str, Literal]] = [("view", "tensor")]
        mixed = next((place for one in given[1:] if (place := self.mixed(one))), None)
        attributes += [("layout", "swizzle")] if mixed else []
        with self.led_from(at, *(mixed or ())[1:]):
            operands, told = [("x", pointer.name)], mixed[0] if mixed else at
            made = self.one(OpKind.COPY, operands, told, pointer.kind, hint, attributes)
        self.layouts[made.name] = tuple(self._modes(given[1:], at))
        return made

    def _fragment(self, kind: Kind, of: n.Expr, name: str, at: n.Place, hint: str) -> Val:
        """Registers of a product for a tile of an operand, or of its accumulator."""
        dtype = "?"
        if name.endswith("_C"):
            dtype = self.atom(kind)[0].accumulator or "?"
        elif (where := self.place(of)) is not None or isinstance(of, n.Name):
            held = where.kind if where is not None else UNKNOWN
            dtype = (held.to or held).dtype
        return self.one(OpKind.UNDEF, (), at, Kind(dtype, ("?",) * _RANK), hint)

    def _like(self, function: n.Name, of: n.Expr, at: n.Place, hint: str) -> Val | None:
        where = self.place(of)
        kind = where.kind if where is not None else self.read(of).kind
        kind = kind.to if kind.to is not None and not kind.shape else kind
        if function.arguments and isinstance(function.arguments[0], n.CType):
            kind = replace(self.kind(function.arguments[0], self.frame), shape=kind.shape)
        shape = kind.shape or ("?",) * _RANK
        return self.one(OpKind.UNDEF, (), at, replace(kind, shape=shape), hint)

    def _tuple(self, given: Sequence[n.Expr], at: n.Place, hint: str) -> Val:
        values = [self.read(one) for one in given]
        items = [("item", value.name) for value in values if value.name]
        made = self.one(OpKind.TUPLE, items, at, UNKNOWN, hint)
        self.tuples[made.name] = tuple(values)
        return made

    def _got(self, function: n.Name, of: n.Expr, at: n.Place, hint: str) -> Val | None:
        if isinstance(of, n.Call) and not self.gives_tensor(of):
            return None
        value = self.read(of)
        mode = digits(function.arguments[0])
        if value.kind.record == cute.COORDINATES:
            return self.partition("coordinate", [("x", value.name)], at, mode=mode)
        items = self.tuples.get(value.name, ())
        return items[int(mode)] if mode.isdigit() and int(mode) < len(items) else None

    def _tile(self, given: Sequence[n.Expr], at: n.Place) -> Val | None:
        """A tile of a tensor over memory at a coordinate; axes of tiles come after the tile."""
        pointer = self.read(given[0])
        steps = [*self.coordinates(given[2:3])]
        if pointer.kind.record == cute.COORDINATES:
            return pointer
        if pointer.kind.to is None:
            return None
        modes = self.layouts.get(pointer.name, ())
        sizes = [*self._values(given[1])]
        if len(sizes) != len(modes) or len(steps) != len(modes):
            return self._along(self._renamed(pointer, at), steps, at)
        moved = [
            Mode(None, self._times(size, mode.stride, at))
            if size is not None and mode.stride is not None else Mode()
            for size, mode in zip(sizes, modes, strict=True)
        ]  # fmt: skip
        whole = self._renamed(pointer, at)
        self.layouts[whole.name] = tuple(moved)
        made = self._along(whole, steps, at)
        inner = [Mode(size, mode.stride) for size, mode in zip(sizes, modes, strict=True)]
        self.layouts[made.name] = (*inner, *self.layouts[made.name])
        return made

    def _share(self, of: n.Expr, threads: Sequence[n.Expr], at: n.Place) -> Val | None:
        """What a thread gets of a tensor: registers stay what they are."""
        where = self._registers(of)
        if where is not None:
            return self.load(where, at)
        whole = self.read(of)
        thread = [self.read(one) for one in threads]
        operands = [("thread", value.name) for value in thread if value.name]
        if whole.kind.record == cute.COORDINATES:
            return self.partition("coordinates", [("x", whole.name), *operands], at, whole.kind)
        if whole.kind.to is None:
            return None
        made = self.add(whole, self.partition("offset", operands, at), at)
        rest = self.layouts.get(whole.name, ())[2:]
        self.layouts[made.name] = (Mode(), Mode(), Mode(), *rest) if rest else ()
        return made

    def _base(self, written: n.CType, frame: Frame, hops: int) -> Kind:
        """A type; what every tensor is of is deduced where it is made."""
        if written.name in cute.TENSORS:
            return UNKNOWN
        asked = next(iter(written.arguments), None) if written.name[:9] == "decltype(" else None
        made = self._made_type(asked, frame, hops) if isinstance(asked, n.Call) else None
        return made or super()._base(written, frame, hops)

    def _of_trait(self, parameter: str, member: str, hops: int) -> Kind:
        """A member type of the struct that a type parameter stands for; of a copy or a product the
        name by which the struct has it, which leads to all that its alias says."""
        found = super()._of_trait(parameter, member, hops)
        tiled = found.record.startswith("decltype(") or (
            found.record in self.tiles or found.record.rpartition("::")[2] in cute.TILED_TYPES
        )
        return Kind(record=f"{parameter}::{member}") if tiled else found

    def _made_type(self, node: n.Call, frame: Frame, hops: int) -> Kind | None:
        """`decltype(make_tensor<T>(shape))`: as many elements of T as the shape says; a tiled copy
        or product that a function names by what makes it."""
        called = node.function
        if isinstance(called, n.Name) and self.of_cute(called) in cute.TILED:
            return self.kind_of_made(node)
        if not isinstance(called, n.Name) or not called.arguments or not node.arguments:
            return None
        element = called.arguments[0]
        if self.of_cute(called) != "make_tensor" or not isinstance(element, n.CType):
            return None
        rank = len([*self._extents(node.arguments[0])]) or _RANK
        return replace(self.kind(element, frame, hops + 1), shape=("?",) * rank)

    # -- methods

    def _of_method(self, node: n.Call, function: n.Field, hint: str) -> Val | None:
        name, given, at = function.name, node.arguments, node.at
        if not self.library.tensor_method(name):
            return None
        if name in cute.SLICES and len(given) == 1:
            thread = self.read(given[0])
            return self.partition(
                "thread", [("thread", thread.name)], at, self.tiled(function.operand)
            )
        if name in cute.PARTS and len(given) == 1:
            return self._share(given[0], (function.operand,), at)
        if name in cute.FRAGMENTS and len(given) == 1:
            return self._fragment(self.tiled(function.operand), given[0], name, at, hint)
        if name in cute.RETILED and len(given) == 1:
            return self.read(given[0], hint)
        if name == "data" and not given and isinstance(function.operand, n.Field):
            field = self.place(function.operand)
            if isinstance(field, Memory) and field.kind.shape:
                return self.decayed(field)
        if name in ("data", "get") and not given:
            held = self.place(function.operand) if isinstance(function.operand, n.Name) else None
            tensor = held is not None and held.kind.to is not None and not held.kind.shape
            if tensor or self.gives_tensor(function.operand):
                inner = self.read(function.operand)
                return inner if inner.kind.to is not None else None
        return None

    def tiled(self, node: n.Expr) -> Kind:
        """The type of a tiled copy or product, or of a thread's slice of one."""
        where = self.place(node)
        if where is not None:
            return where.kind
        bound = self.frame.find(node.text) if isinstance(node, n.Name) else None
        return bound.kind if isinstance(bound, Val) else UNKNOWN
