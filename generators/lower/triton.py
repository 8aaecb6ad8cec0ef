"""to_triton(kernel): a cuTile program as a Triton program that computes the same.

Arrays become pointers with extents and strides. What Triton cannot say (latency per load, occupancy, flush-to-zero,
approximate rounding, undetermined padding) is listed as a residual beside the program, never dropped in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from extractors.analysis.inline import inline
from generators.lower.builder import Builder
from generators.lower.cleanup import drop_unused
from generators.lower.split import split_loops
from generators.lower.views import Addressing, LoweredParameter, View, Views, rank_of
from kb.errors import CannotEmit
from kb.ir import Function, Kernel, Op, Parameter, ParameterKind, Region, Value, walk
from kb.ops import ATOMICS, TERMINATORS, OpKind

_DROPPED = {
    "latency": "prefetch_depth", "allow_tma": "copy_engine", "ftz": "denormal_mode",
    "rounding": "rounding_mode", "propagate_nan": "rounding_mode", "memory_order": "synchronization",
    "memory_scope": "synchronization", "fast_acc": "accum_dtype",
}  # fmt: skip
"""Operands that Triton has no word for, with the axis on which the decision is re-opened."""

_SAME = frozenset(
    {
        OpKind.CONST, OpKind.TUPLE, OpKind.LIST, OpKind.UNDEF, OpKind.COPY, OpKind.SUBSCRIPT,
        OpKind.RANGE, OpKind.STATIC_RANGE, OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV,
        OpKind.FLOOR_DIV, OpKind.MOD, OpKind.NEG, OpKind.POS, OpKind.ABS, OpKind.MAXIMUM,
        OpKind.MINIMUM, OpKind.CEIL_DIV, OpKind.BIT_AND, OpKind.BIT_OR, OpKind.BIT_XOR,
        OpKind.BIT_NOT, OpKind.SHIFT_LEFT, OpKind.SHIFT_RIGHT, OpKind.EQ, OpKind.NE, OpKind.LT,
        OpKind.LE, OpKind.GT, OpKind.GE, OpKind.AND, OpKind.OR, OpKind.NOT, OpKind.SELECT,
        OpKind.BITCAST, OpKind.EXP, OpKind.EXP2, OpKind.LOG, OpKind.LOG2, OpKind.SQRT,
        OpKind.RSQRT, OpKind.SIN, OpKind.COS, OpKind.TANH, OpKind.FLOOR, OpKind.CEIL,
        OpKind.FULL, OpKind.ZEROS, OpKind.RESHAPE, OpKind.PERMUTE, OpKind.EXPAND_DIMS,
        OpKind.BROADCAST_TO, OpKind.REDUCE_SUM, OpKind.REDUCE_MAX, OpKind.REDUCE_MIN,
        OpKind.ARGMAX, OpKind.ARGMIN, OpKind.CUMSUM, OpKind.CUMPROD, OpKind.BLOCK_ID,
        OpKind.NUM_BLOCKS, OpKind.DTYPE_OF, OpKind.UNPACK, OpKind.IS, OpKind.IS_NOT, OpKind.POW,
        OpKind.BUILTIN, OpKind.ATTRIBUTE, OpKind.TAN, OpKind.SINH, OpKind.COSH,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lowered:
    """A Triton program, what the host passes for each parameter, and what could not be carried over."""

    kernel: Kernel
    parameters: tuple[LoweredParameter, ...]
    residuals: tuple[str, ...]


def to_triton(kernel: Kernel) -> Lowered:
    """Lower a cuTile program.

    Raises CannotEmit, with the span, for an operation that Triton cannot express.
    """
    flat = inline(kernel)
    if flat.helpers:
        raise CannotEmit(
            f"helper `{flat.helpers[0].name}` cannot be inlined.", where=str(flat.helpers[0].span)
        )
    lowering = _Lowering(flat.entry)
    body = lowering.function()
    parameters = lowering.parameters()
    entry = Function(
        flat.entry.name,
        tuple(_declared(parameter, flat.entry) for parameter in parameters),
        body,
        flat.entry.span,
    )
    residuals = [*lowering.residuals, *(f"{key}: kernel hint {value}" for key, value in flat.entry.options)]
    lowered = Kernel(entry, (), "triton")
    finished = drop_unused(split_loops(lowered))
    return Lowered(finished, parameters, tuple(dict.fromkeys(residuals)))


def _declared(parameter: LoweredParameter, entry: Function) -> Parameter:
    if parameter.source == "constexpr":
        original = next(p for p in entry.parameters if p.name == parameter.name)
        return replace(original, annotation="")
    return Parameter(parameter.name, ParameterKind.UNTOLD)


@dataclass(slots=True)
class _Lowering:
    entry: Function
    builder: Builder = field(default_factory=Builder)
    residuals: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    tuples: dict[str, list[str]] = field(default_factory=dict)
    shapes: dict[str, View] = field(default_factory=dict)
    loaded: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    producers: dict[str, Op] = field(default_factory=dict)
    views: Views = field(init=False)
    addressing: Addressing = field(init=False)
    tensor_float: bool = False

    def __post_init__(self) -> None:
        self.views = Views(self.builder)
        self.addressing = Addressing(self.builder, self.views)
        ops = list(walk(self.entry.body))
        self.producers = {value.name: op for op in ops for value in op.results}
        arity = {op.result: len(op.operands) for op in ops if op.kind == OpKind.TUPLE}
        constants = {op.result: op.attribute("value") for op in ops if op.kind == OpKind.CONST}
        self.tensor_float = any(op.kind == OpKind.DTYPE and op.attribute("name") == "tf32" for op in ops)
        used = {value for op in ops for role, value in op.operands if role == "array"}
        used |= {op.inputs[0] for op in ops if op.kind == OpKind.SHAPE}
        for parameter in self.entry.parameters:
            self.names[parameter.name] = parameter.name
            if parameter.name in used:
                rank = rank_of(parameter.name, ops, arity, dict(constants))
                if rank is None:
                    raise CannotEmit(
                        f"the rank of {parameter.name} is not known.", where=str(self.entry.span)
                    )
                self.views.parameter(parameter.name, rank)

    def parameters(self) -> tuple[LoweredParameter, ...]:
        """Pointers and scalars in order, then extents and strides, then compile-time values."""
        runtime, static = [], []
        for parameter in self.entry.parameters:
            if parameter.kind is ParameterKind.CONSTEXPR:
                static.append(LoweredParameter(parameter.name, "constexpr"))
            elif parameter.name in self.views.of:
                runtime.append(LoweredParameter(parameter.name, "pointer", parameter.name))
            else:
                runtime.append(LoweredParameter(parameter.name, "scalar"))
        tensors = list(self.views.of)
        extra = sorted(self.views.extra, key=lambda p: (tensors.index(p.tensor), p.source, p.axis))
        return (*runtime, *extra, *static)

    def function(self) -> Region:
        """The lowered body."""
        with self.builder.region() as ops:
            self._ops(self.entry.body)
        return Region((), tuple(ops))

    # -- walking

    def _ops(self, region: Region) -> None:
        for op in region.ops:
            self.builder.span = op.span
            self._op(op)

    def _region(self, region: Region) -> Region:
        arguments = tuple(Value(value.name) for value in region.arguments)
        self.names.update({value.name: value.name for value in region.arguments})
        with self.builder.region() as ops:
            self._ops(region)
        return Region(arguments, tuple(ops))

    def _op(self, op: Op) -> None:
        special: Callable[[Op], str | None] | None = _SPECIAL.get(op.kind)
        if special is not None:
            made = special(self, op)
            if made is not None and op.results:
                self._name(op, made)
            return
        if op.kind in ATOMICS:
            self._name(op, self._atomic(op))
        elif op.kind in _SAME:
            self._copy(op)
        elif op.regions or op.kind in TERMINATORS:
            self._structured(op)
        else:
            raise CannotEmit(
                f"Triton cannot express `{op.kind}` as tilelore lowers it.",
                where=str(op.span),
                hint="Generate cuTile instead, or add its lowering.",
            )

    def _name(self, op: Op, made: str) -> None:
        """Let the lowered value keep the spelling of the original."""
        (value,) = op.results
        self.names[value.name] = made
        if value.hint and made.startswith("."):
            name = self.builder.named(made, value.hint)
            self.names[value.name] = name
            for known in (self.loaded, self.tuples):
                if made in known:
                    known[name] = known[made]  # type: ignore[assignment,index]

    def _copy(self, op: Op) -> None:
        operands = []
        for role, value in op.operands:
            if role in _DROPPED:
                self._residual(op, role)
            else:
                operands.append((role, self.names[value]))
        attributes = tuple((k, v) for k, v in op.attributes if k != "spelling")
        copied = replace(op, operands=tuple(operands), attributes=attributes)
        self.builder.append(copied)
        self.names.update({value.name: value.name for value in op.results})
        if op.kind == OpKind.CONST:
            self.builder.constants[op.result] = op.attribute("value")
        if op.kind == OpKind.TUPLE:
            self.tuples[op.result] = [value for _, value in operands]

    def _structured(self, op: Op) -> None:
        operands = tuple((role, self.names[value]) for role, value in op.operands)
        regions = tuple(self._region(region) for region in op.regions)
        self.builder.span = op.span
        self.builder.append(replace(op, operands=operands, regions=regions))
        self.names.update({value.name: value.name for value in op.results})

    def _residual(self, op: Op, role: str) -> None:
        value = op.operand(role)
        made = self.producers.get(value or "")
        shown = made.attribute("value", made.attribute("name")) if made else value
        self.residuals.append(f"{_DROPPED[role]}: {role}={shown} of `{op.kind}` at line {op.span.line}")

    # -- operands

    def _items(self, value: str | None) -> list[str]:
        """The elements of a tuple operand; a lone value counts as one."""
        if value is None:
            return []
        name = self.names[value]
        return self.tuples.get(name, [name])

    def _view(self, op: Op, role: str = "array") -> View:
        value = op.operand(role) or op.inputs[0]
        view = self.views.of.get(self.names.get(value, value))
        if view is None:
            raise CannotEmit("an array that is not a parameter.", where=str(op.span))
        return view

    def _order(self, op: Op, rank: int) -> list[int]:
        value = op.operand("order")
        if value is None:
            return list(range(rank))
        items = [self.builder.constants.get(item) for item in self._items(value)]
        if items in (["C"], ["F"]):
            return list(range(rank)) if items == ["C"] else list(range(rank))[::-1]
        if not all(isinstance(item, int) for item in items):
            raise CannotEmit("an axis order that is not constant.", where=str(op.span))
        return [int(str(item)) for item in items]

    def _checked(self, op: Op) -> bool:
        """False when the access says that nothing lies outside the array."""
        value = op.operand("check_bounds")
        return value is None or self.builder.constants.get(self.names[value]) is not False

    def _padding(self, op: Op) -> str:
        """The number that lanes outside the array read as."""
        value = op.operand("padding")
        made = self.producers.get(value) if value else None
        name = str(made.attribute("name")) if made and made.kind == OpKind.ENUM else ""
        numbers = {"padding.neg_inf": float("-inf"), "padding.pos_inf": float("inf"),
                   "padding.nan": float("nan")}  # fmt: skip
        if value is not None and made is not None and made.kind != OpKind.ENUM:
            return self.names[value]
        if op.kind == OpKind.LOAD_TILE and name in ("", "padding.undetermined"):
            self.residuals.append(
                f"boundary_handling: undetermined padding became zero at line {op.span.line}"
            )
        return self.builder.constant(numbers.get(name, 0.0))

    # -- memory

    def _load(self, pointer: str, mask: str | None, padding: str) -> str:
        operands = [("pointer", pointer)]
        if mask is not None:
            operands += [("mask", mask), ("padding", padding)]
        return self.builder.add(OpKind.LOAD, operands)

    def _load_tile(self, op: Op) -> str:
        view, shape = self._view(op), self._items(op.operand("shape"))
        for role in ("latency", "allow_tma", "memory_order"):
            if op.operand(role):
                self._residual(op, role)
        address = self.addressing.tile(
            view, self._items(op.operand("index")), shape, self._order(op, len(shape)), self._checked(op)
        )
        padding = self._padding(op) if address.mask else ""
        loaded = self._load(address.pointer, address.mask, padding)
        if len(address.kept) == len(shape):
            return loaded
        full = self.builder.add(
            OpKind.RESHAPE, [("x", loaded), ("shape", self.builder.tuple_of(shape))]
        )
        self.loaded[full] = (loaded, address.kept)
        return full

    def _reshape(self, op: Op) -> str:
        """A reshape that only drops the unit axes of a load is the load."""
        source = self.names[op.inputs[0]]
        target = tuple(self._items(op.operand("shape")))
        if source in self.loaded and self._same_extents(self.loaded[source][1], target):
            return self.loaded[source][0]
        return self.builder.add(
            OpKind.RESHAPE, [("x", source), ("shape", self.builder.tuple_of(target))]
        )

    def _same_extents(self, one: tuple[str, ...], other: tuple[str, ...]) -> bool:
        constants = self.builder.constants
        return len(one) == len(other) and all(
            a == b or (a in constants and constants.get(a) == constants.get(b))
            for a, b in zip(one, other, strict=True)
        )

    def _store_tile(self, op: Op) -> None:
        view, index = self._view(op), self._items(op.operand("index"))
        value = self.names[str(op.operand("value"))]
        shape = self._tile_shape(op)
        for role in ("latency", "allow_tma", "memory_order"):
            if op.operand(role):
                self._residual(op, role)
        order = self._order(op, len(shape))
        address = self.addressing.tile(view, index, shape, order, self._checked(op))
        if len(address.kept) != len(shape):
            kept = self.builder.tuple_of(address.kept)
            value = self.builder.add(OpKind.RESHAPE, [("x", value), ("shape", kept)])
        operands = [("pointer", address.pointer), ("value", value)]
        operands += [("mask", address.mask)] if address.mask else []
        self.builder.add(OpKind.STORE, operands)

    def _tile_shape(self, op: Op) -> list[str]:
        """Shape of a stored tile: from the reshape or load that made it."""
        value = str(op.operand("value"))
        for _ in range(8):
            made = self.producers.get(value)
            if made is None:
                break
            shape = made.operand("shape")
            if shape is not None and made.kind in (OpKind.RESHAPE, OpKind.FULL, OpKind.ZEROS,
                                                   OpKind.BROADCAST_TO, OpKind.LOAD_TILE):  # fmt: skip
                return self._items(shape)
            if made.kind not in (OpKind.CAST, OpKind.COPY) or not made.inputs:
                break
            value = made.inputs[0]
        raise CannotEmit("the shape of the stored tile is not written out.", where=str(op.span))

    def _gather(self, op: Op) -> str:
        if op.operand("latency"):
            self._residual(op, "latency")
        address = self._elements(op)
        return self._load(address[0], address[1], self._padding(op))

    def _elements(self, op: Op) -> tuple[str, str | None]:
        mask = op.operand("mask")
        address = self.addressing.elements(
            self._view(op), self._items(op.operand("index")),
            self.names[mask] if mask else None, self._checked(op),
        )  # fmt: skip
        return address.pointer, address.mask

    def _scatter(self, op: Op) -> None:
        pointer, mask = self._elements(op)
        operands = [("pointer", pointer), ("value", self.names[str(op.operand("value"))])]
        self.builder.add(OpKind.STORE, [*operands, ("mask", mask)] if mask else operands)

    def _atomic(self, op: Op) -> str:
        pointer, mask = self._elements(op)
        operands = [("pointer", pointer)]
        operands += [(r, self.names[v]) for r, v in op.operands if r in ("expected", "value")]
        if mask and op.kind != OpKind.ATOMIC_CAS:
            operands.append(("mask", mask))
        for role in ("memory_order", "memory_scope"):
            if op.operand(role):
                self._residual(op, role)
        return self.builder.add(op.kind, operands)

    # -- the rest

    def _shape(self, op: Op) -> None:
        view = self.views.of.get(self.names.get(op.inputs[0], op.inputs[0]))
        if view is None:
            self._copy(op)
            return
        self.names[op.result] = op.result
        self.shapes[op.result] = view

    def _subscript(self, op: Op) -> str | None:
        base = self.names[op.inputs[0]]
        at = self.builder.constants.get(self.names[op.inputs[1]]) if len(op.inputs) == 2 else None
        if isinstance(at, int) and op.attribute("pattern") == "#":
            if base in self.shapes:
                return self.views.extent(self.shapes[base], at)
            if base in self.tuples:
                return self.tuples[base][at]
        self._copy(op)
        return None

    def _unpack(self, op: Op) -> None:
        source = self.names[op.inputs[0]]
        items = self.tuples.get(source)
        if source in self.shapes:
            view = self.shapes[source]
            items = [self.views.extent(view, axis) for axis in range(view.rank)]
        if items is None or len(items) != len(op.results):
            self._copy(op)
            return
        for value, item in zip(op.results, items, strict=True):
            self.names[value.name] = item

    def _array_slice(self, op: Op) -> str:
        axis = self.builder.constants.get(self.names[str(op.operand("axis"))])
        if not isinstance(axis, int):
            raise CannotEmit("a slice along an axis that is not constant.", where=str(op.span))
        start, stop = (self.names[str(op.operand(role))] for role in ("start", "stop"))
        part = self.views.sliced(self._view(op), axis, start, stop)
        self.views.of[part.pointer] = part
        return part.pointer

    def _num_tiles(self, op: Op) -> str:
        axis = self.builder.constants.get(self.names[str(op.operand("axis"))])
        shape = self._items(op.operand("shape"))
        if not isinstance(axis, int):
            raise CannotEmit("tiles counted along an axis that is not constant.", where=str(op.span))
        storage = self._order(op, len(shape))[axis]
        return self.builder.binary(
            OpKind.CEIL_DIV, self.views.extent(self._view(op), storage), shape[axis]
        )

    def _dtype_of(self, op: Op) -> str | None:
        view = self.views.of.get(self.names[op.inputs[0]])
        if view is None:
            self._copy(op)
            return None
        dtype = self.builder.add(OpKind.DTYPE_OF, [("x", view.pointer)])
        return self.builder.add(OpKind.ATTRIBUTE, [("x", dtype)], [("name", "element_ty")])

    def _dtype(self, op: Op) -> str:
        name = op.attribute("name")
        if name == "tf32":
            self.residuals.append("mma_operand_precision: tf32 operands became input_precision")
        return self.builder.add(OpKind.DTYPE, (), [("name", "f32" if name == "tf32" else name)])

    def _enum(self, op: Op) -> None:
        self.names[op.result] = op.result

    def _cast(self, op: Op) -> str:
        if op.operand("rounding"):
            self._residual(op, "rounding")
        value, dtype = self.names[str(op.operand("x"))], self.names[str(op.operand("dtype"))]
        scalar = value in self.entry.parameter_names
        spelling = [("spelling", "triton.language.cast")] if scalar else []
        return self.builder.add(OpKind.CAST, [("x", value), ("dtype", dtype)], spelling)

    def _mma(self, op: Op) -> str:
        if op.operand("fast_acc"):
            self._residual(op, "fast_acc")
        operands = [(role, self.names[value]) for role, value in op.operands
                    if role in ("lhs", "rhs", "acc")]  # fmt: skip
        precision = self.builder.constant("tf32" if self.tensor_float else "ieee")
        return self.builder.add(OpKind.MMA, [*operands, ("input_precision", precision)])

    def _arange(self, op: Op) -> str:
        b = self.builder
        lanes = b.add(OpKind.ARANGE, [("start", b.constant(0)), ("size", self.names[str(op.operand("size"))])])
        step, start = op.operand("step"), op.operand("start")
        if step is not None:
            lanes = b.binary(OpKind.MUL, lanes, self.names[step])
        if start is not None:
            lanes = b.binary(OpKind.ADD, lanes, self.names[start])
        dtype = self.producers.get(str(op.operand("dtype")))
        if dtype is None or dtype.attribute("name") not in ("i32", "u32"):
            lanes = b.add(OpKind.CAST, [("x", lanes), ("dtype", self.names[str(op.operand("dtype"))])])
        return lanes

    def _transpose(self, op: Op) -> str:
        if len(op.inputs) > 1:
            raise CannotEmit("a transposition of named axes.", where=str(op.span))
        return self.builder.add(OpKind.TRANSPOSE, [("x", self.names[op.inputs[0]])])

    def _ones(self, op: Op) -> str:
        operands = [(role, self.names[value]) for role, value in op.operands]
        operands.insert(1, ("value", self.builder.constant(1.0)))
        return self.builder.add(OpKind.FULL, operands)

    def _item(self, op: Op) -> str:
        return self.builder.add(OpKind.REDUCE_SUM, [("x", self.names[op.inputs[0]])])

    def _isnan(self, op: Op) -> str:
        value = self.names[op.inputs[0]]
        return self.builder.binary(OpKind.NE, value, value)

    def _nothing(self, op: Op) -> str:
        return self.names[op.inputs[0]]

    def _skip(self, op: Op) -> None:
        return None


_SPECIAL: dict[str, Callable[[_Lowering, Op], str | None]] = {
    OpKind.LOAD_TILE: _Lowering._load_tile,
    OpKind.STORE_TILE: _Lowering._store_tile,
    OpKind.GATHER: _Lowering._gather,
    OpKind.SCATTER: _Lowering._scatter,
    OpKind.SHAPE: _Lowering._shape,
    OpKind.SUBSCRIPT: _Lowering._subscript,
    OpKind.UNPACK: _Lowering._unpack,
    OpKind.ARRAY_SLICE: _Lowering._array_slice,
    OpKind.NUM_TILES: _Lowering._num_tiles,
    OpKind.DTYPE_OF: _Lowering._dtype_of,
    OpKind.DTYPE: _Lowering._dtype,
    OpKind.ENUM: _Lowering._enum,
    OpKind.CAST: _Lowering._cast,
    OpKind.RESHAPE: _Lowering._reshape,
    OpKind.MMA: _Lowering._mma,
    OpKind.MATMUL: _Lowering._mma,
    OpKind.ARANGE: _Lowering._arange,
    OpKind.TRANSPOSE: _Lowering._transpose,
    OpKind.ONES: _Lowering._ones,
    OpKind.ITEM: _Lowering._item,
    OpKind.ISNAN: _Lowering._isnan,
    OpKind.ASSUME_DIVISIBLE: _Lowering._nothing,
    OpKind.STATIC_ASSERT: _Lowering._skip,
    OpKind.DEVICE_ASSERT: _Lowering._skip,
}
