"""What CuTe does with tensors: copies between memory and registers, matrix products, clears."""

from __future__ import annotations

from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.tiled_tensors import TensorReader
from extractors.cuda.values import Kind, Memory, Slot, Val
from kb.dialects import cute
from kb.ir import Literal, MemorySpace
from kb.ops import OpKind

_WARPS = {"wgmma": "warpgroup", "tcgen05.mma": "block"}


class TensorMover(TensorReader):
    """Reads the algorithms over tensors."""

    def tensor_call(self, node: n.Call, hint: str) -> Val | None:
        """The value of a call of CuTe; an algorithm gives none."""
        function = node.function
        given = node.arguments
        last = self.of_cute(function, len(given)) if isinstance(function, n.Name) else ""
        if last in cute.COPIES and len(given) in (2, 3):
            return self._tensor_copied(node)
        if last in cute.PRODUCTS and len(given) in (3, 4, 5):
            return self._multiplied(node)
        if last in cute.CLEARS and len(given) == 1:
            return self._filled(node, self.constant(0, node.at))
        if last in cute.FILLS and len(given) == 2:
            return self._filled(node, self.read(given[1]))
        return super().tensor_call(node, hint)

    def _end(self, node: n.Expr) -> Slot | Val | None:
        """A tensor at one end of a copy: registers, or a pointer; None when it is neither."""
        where = self._registers(node)
        if where is not None:
            return where
        place = self.place(node)
        if isinstance(place, Memory) and not isinstance(node, n.Name):
            return replace(place.address, kind=Kind(to=place.kind, space=place.address.kind.space))
        if isinstance(place, Slot) and place.path and place.kind.to is None and place.kind.scalar:
            return place
        value = self.read(node)
        return value if value.kind.to is not None else None

    def _tensor_copied(self, node: n.Call) -> Val | None:
        atom, bulk, told = cute.Atom(), None, None
        if len(node.arguments) == 3:
            first = node.arguments[0]
            atom, told = self.atom(self.tiled(first))
            bulk = first if isinstance(first, n.Call) else None
        source, target = (self._end(one) for one in node.arguments[-2:])
        if source is None or target is None:
            return None
        at = node.at
        if isinstance(source, Val) and isinstance(target, Val):
            spaces = (source.kind.space, target.kind.space)
            if bulk is not None and MemorySpace.SHARED in spaces:
                return self._by_engine(bulk, source, target, at)
            if atom.engine == "async" and target.kind.space is MemorySpace.SHARED:
                count = self.constant(atom.bits // 8 or 16, at)
                attributes: list[tuple[str, Literal]] = (
                    [("cache", atom.cache)] if atom.cache else []
                )
                operands = [
                    ("target", target.name),
                    ("pointer", source.name),
                    ("bytes", count.name),
                ]
                with self.led_from(at):
                    self.writer.emit(OpKind.ASYNC_COPY, operands, told or at, (), attributes)
                return Val("")
        wide: list[tuple[str, Literal]] = [("bits", atom.bits)] if atom.bits and told else []
        with self.led_from(at):
            value = self._loaded_from(source, target, atom, at, (wide, told or at))
            if isinstance(target, Slot):
                self.store(target, value, at)
            else:
                there = Memory(target, target.kind.to or value.kind)
                operands = [("pointer", target.name), ("value", value.name)]
                attributes = [*self.access(there), *wide]
                self.writer.emit(OpKind.STORE, operands, told or at, (), attributes)
        return Val("")

    def _loaded_from(
        self, source: Slot | Val, target: Slot | Val, atom: cute.Atom, at: n.Place,
        told: tuple[list[tuple[str, Literal]], n.Place],
    ) -> Val:  # fmt: skip
        """The value at the source of a copy."""
        if isinstance(source, Slot):
            return self.load(source, at)
        element = source.kind.to or Kind()
        shape = target.kind.shape if isinstance(target, Slot) else ("?",)
        kind = replace(element, shape=shape or ("?",))
        space = source.kind.space
        if atom.engine == "matrix" and space is MemorySpace.SHARED:
            opcode = "ldmatrix.trans" if atom.turned else "ldmatrix"
            attributes: list[tuple[str, Literal]] = [("opcode", opcode), ("space", "shared")]
            operands, results = [("pointer", source.name)], [("", kind)]
            made = self.writer.emit(OpKind.MATRIX_LOAD, operands, at, results, attributes)
            return Val(made[0], kind)
        attributes = [*self.access(Memory(source, element)), *told[0]]
        return self.one(
            OpKind.LOAD, [("pointer", source.name)], told[1], kind, attributes=attributes
        )

    def _by_engine(self, bulk: n.Call, source: Val, target: Val, at: n.Place) -> Val:
        """A copy by the copy engine: `tma.with(barrier)` names the barrier that it completes."""
        barriers = [self.read(one) for one in bulk.arguments[:1]]
        operands = [("target", target.name), ("pointer", source.name)]
        operands += [("barrier", one.name) for one in barriers if one.name]
        attributes: list[tuple[str, Literal]] = [("name", "cp.async.bulk.tensor")]
        self.writer.emit(OpKind.BULK_COPY, operands, at, (), attributes)
        return Val("")

    def _multiplied(self, node: n.Call) -> Val | None:
        """`gemm(product, a, b, c)`, perhaps with a result apart; registers or shared memory."""
        given = node.arguments
        tiled = self.tiled(given[0]) if len(given) > 3 else Kind()
        tensors = given[1:] if len(given) > 3 else given
        result = self._registers(tensors[0 if len(tensors) == 4 else -1])
        ends = [self._end(one) for one in tensors[-3:]]
        if result is None or None in ends:
            return None
        values = [self.load(one, node.at) if isinstance(one, Slot) else one for one in ends]
        atom, told = self.atom(tiled)
        engine = atom.engine
        attributes: list[tuple[str, Literal]] = [("opcode", engine)] if engine else []
        attributes += [("scope", _WARPS.get(engine, "warp"))] if engine else []
        if atom.shape:
            attributes.append(("shape", atom.shape))
        operands = [
            (role, value.name)
            for role, value in zip(("lhs", "rhs", "acc"), values, strict=True)
            if isinstance(value, Val)
        ]
        with self.led_from(node.at):
            results = (("", result.kind),)
            made = self.writer.emit(OpKind.MMA, operands, told or node.at, results, attributes)
        self.store(result, Val(made[0], result.kind), node.at)
        return Val("")

    def _filled(self, node: n.Call, value: Val) -> Val | None:
        """Every element of a tensor set to one value."""
        end = self._end(node.arguments[0])
        if isinstance(end, Slot):
            at = node.at
            kind = end.kind
            shape = self.one(OpKind.TUPLE, (), at, Kind())
            zero = value.const == 0
            operands = [("shape", shape.name), *([] if zero else [("value", value.name)])]
            if kind.dtype != "?":
                operands.append(("dtype", self.dtype_value(replace(kind, shape=()), at)))
            self.store(end, self.one(OpKind.ZEROS if zero else OpKind.FULL, operands, at, kind), at)
            return Val("")
        if end is None:
            return None
        self.store(Memory(end, end.kind.to or value.kind), value, node.at)
        return Val("")
