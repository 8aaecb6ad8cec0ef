"""The walk that lowers a cuTile program to Triton: names, constants, tuples, arrays, residuals.

What single operations become stands in accesses.py (memory) and tiles.py (everything else).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from generators.lower import residuals
from generators.lower.builder import Builder
from generators.lower.descriptors import Descriptors
from generators.lower.dtypes import Dtypes
from generators.lower.extents import Extent, Extents
from generators.lower.roads import Manner, Road
from generators.lower.signs import Signs
from generators.lower.views import Addressing, LoweredParameter, TiledPart, View, Views, rank_of
from kb.errors import CannotEmit
from kb.ir import Function, Op, ParameterKind, Region, Value, walk
from kb.ops import TERMINATORS, OpKind

_SAME = frozenset(
    {
        OpKind.CONST, OpKind.TUPLE, OpKind.LIST, OpKind.UNDEF, OpKind.COPY, OpKind.SUBSCRIPT,
        OpKind.RANGE, OpKind.STATIC_RANGE, OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV,
        OpKind.NEG, OpKind.POS, OpKind.ABS, OpKind.MAXIMUM,
        OpKind.MINIMUM, OpKind.BIT_AND, OpKind.BIT_OR, OpKind.BIT_XOR,
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

Rule = Callable[["Lowering", Op], str | None]
"""What an operation becomes: its lowered value, None when the rule names its results itself."""


@dataclass(slots=True)
class Lowering:
    entry: Function
    rules: Mapping[str, Rule]
    manner: Manner = field(default_factory=Manner)
    builder: Builder = field(default_factory=Builder)
    residuals: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    tuples: dict[str, list[str]] = field(default_factory=dict)
    shapes: dict[str, View] = field(default_factory=dict)
    loaded: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    producers: dict[str, Op] = field(default_factory=dict)
    parts: dict[str, TiledPart] = field(default_factory=dict)
    extents: Extents = field(init=False)
    dtypes: Dtypes = field(init=False)
    signs: Signs = field(init=False)
    lists: dict[str, int] = field(default_factory=dict)
    asserted: list[tuple[str, list[Op]]] = field(default_factory=list)
    views: Views = field(init=False)
    addressing: Addressing = field(init=False)
    descriptors: Descriptors = field(init=False)
    tensor_float: bool = False

    def __post_init__(self) -> None:
        self.views = Views(self.builder)
        self.addressing = Addressing(self.builder, self.views)
        static = (p.name for p in self.entry.parameters if p.kind is ParameterKind.CONSTEXPR)
        self.extents = Extents(self.entry.body, frozenset(static))
        self.dtypes = Dtypes(self.extents)
        self.signs = Signs(self.extents, self.manner.natural)
        self.descriptors = Descriptors(
            self.builder, self.views, self.extents, self.manner,
            frozenset(self.entry.parameter_names),
        )  # fmt: skip
        self.builder.static.update(dict.fromkeys(self.extents.parameters))
        ops = list(walk(self.entry.body))
        self.producers = {value.name: op for op in ops for value in op.results}
        arity = {op.result: len(op.operands) for op in ops if op.kind == OpKind.TUPLE}
        constants = {op.result: op.attribute("value") for op in ops if op.kind == OpKind.CONST}
        dtypes = (op.attribute("name") for op in ops if op.kind == OpKind.DTYPE)
        self.tensor_float = "tf32" in dtypes
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
            elif any(name in used for name in self._members(parameter.name, ops)):
                self.lists[parameter.name] = max(
                    rank_of(name, ops, arity, dict(constants)) or 0
                    for name in self._members(parameter.name, ops)
                )

    def _members(self, name: str, ops: list[Op]) -> list[str]:
        """The arrays that are taken out of a list."""
        return [op.result for op in ops if op.kind == OpKind.SUBSCRIPT and op.inputs[0] == name]

    def parameters(self) -> tuple[LoweredParameter, ...]:
        """Pointers and scalars in order, then extents and strides, then compile-time values."""
        runtime, static = [], []
        for parameter in self.entry.parameters:
            if parameter.kind is ParameterKind.CONSTEXPR:
                static.append(LoweredParameter(parameter.name, "constexpr"))
            elif parameter.name in self.lists:
                continue
            elif parameter.name in self.views.of:
                runtime.append(LoweredParameter(parameter.name, "pointer", parameter.name))
            else:
                runtime.append(LoweredParameter(parameter.name, "scalar"))
        runtime += [
            LoweredParameter(block.name, "descriptor", block.array, block=block)
            for block in self.descriptors.blocks
            if self.manner.road is Road.HOST
        ]
        tensors = [*self.lists, *self.views.of]
        extra = sorted(self.views.extra, key=lambda p: (tensors.index(p.tensor), p.source, p.axis))
        static += [parameter for parameter in extra if parameter.source == "element"]
        extra = [parameter for parameter in extra if parameter.source != "element"]
        return (*runtime, *extra, *static)

    def function(self) -> Region:
        """The lowered body."""
        with self.builder.region() as ops:
            self.ops(self.entry.body)
        return Region((), tuple(ops))

    # -- walking

    def ops(self, region: Region) -> None:
        for op in region.ops:
            self.builder.span = op.span
            self._op(op)

    def region(self, region: Region, *, inner: bool) -> Region:
        arguments = tuple(Value(value.name) for value in region.arguments)
        self.names.update({value.name: value.name for value in region.arguments})
        with self.builder.region(inner=inner) as ops:
            self.ops(region)
        return Region(arguments, tuple(ops))

    def _op(self, op: Op) -> None:
        special = self.rules.get(op.kind)
        if special is not None:
            made = special(self, op)
            if made is not None and op.results:
                self.name(op, made)
            return
        if op.kind in _SAME:
            self.copy(op)
        elif op.regions or op.kind in TERMINATORS:
            self._structured(op)
        else:
            raise CannotEmit(
                f"Triton cannot express `{op.kind}` as tilelore lowers it.",
                where=str(op.span),
                hint="Generate cuTile instead, or add its lowering.",
            )

    def name(self, op: Op, made: str) -> None:
        """Let the lowered value keep the spelling of the original."""
        (value,) = op.results
        self.names[value.name] = made
        if value.hint and made.startswith("."):
            name = self.builder.named(made, value.hint)
            self.names[value.name] = name
            if made in self.loaded:
                self.loaded[name] = self.loaded[made]
            if made in self.tuples:
                self.tuples[name] = self.tuples[made]

    def copy(self, op: Op) -> None:
        operands = []
        for role, value in op.operands:
            if role in residuals.OPERANDS:
                self.residual(op, role)
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
        inner = op.kind != OpKind.IF
        regions = tuple(self.region(region, inner=inner) for region in op.regions)
        self.builder.span = op.span
        self.builder.append(replace(op, operands=operands, regions=regions))
        self.names.update({value.name: value.name for value in op.results})

    def residual(self, op: Op, role: str) -> None:
        value = op.operand(role)
        made = self.producers.get(value or "")
        shown = made.attribute("value", made.attribute("name")) if made else value
        what = f"{role}={shown} of `{op.kind}` at line {op.span.line}"
        self.residuals.append(residuals.of_operand(role, what))

    def assert_positive(self, value: str, op: Op) -> None:
        """Let the kernel assert once that a compile-time number is positive."""
        if any(known == value and self.builder.sees(region) for known, region in self.asserted):
            return
        positive = self.builder.binary(OpKind.GT, value, self.builder.constant(0))
        self.builder.append(Op(OpKind.STATIC_ASSERT, (("condition", positive),), span=op.span))
        self.asserted.append((value, self.builder.innermost))
        if self.builder.innermost is self.builder.outermost:
            self.signs.assume(value)

    # -- operands

    def items(self, value: str | None) -> list[str]:
        """The elements of a tuple operand; a lone value counts as one."""
        if value is None:
            return []
        name = self.names[value]
        return self.tuples.get(name, [name])

    def view(self, op: Op, role: str = "array") -> View:
        value = op.operand(role) or op.inputs[0]
        view = self.views.of.get(self.names.get(value, value))
        if view is None:
            raise CannotEmit("an array that is not a parameter.", where=str(op.span))
        return view

    def order(self, op: Op, rank: int) -> list[int]:
        value = op.operand("order")
        if value is None:
            return list(range(rank))
        items = [self.builder.constants.get(item) for item in self.items(value)]
        if items in (["C"], ["F"]):
            return list(range(rank)) if items == ["C"] else list(range(rank))[::-1]
        if not all(isinstance(item, int) for item in items):
            raise CannotEmit("an axis order that is not constant.", where=str(op.span))
        return [int(str(item)) for item in items]

    def checked(self, op: Op) -> bool:
        """False when the access says that nothing lies outside the array."""
        value = op.operand("check_bounds")
        return value is None or self.builder.constants.get(self.names[value]) is not False

    def padding(self, op: Op) -> str:
        """The number that lanes outside the array read as."""
        value = op.operand("padding")
        made = self.producers.get(value) if value else None
        name = str(made.attribute("name")) if made and made.kind == OpKind.ENUM else ""
        numbers = {"padding.neg_inf": float("-inf"), "padding.pos_inf": float("inf"),
                   "padding.nan": float("nan")}  # fmt: skip
        if value is not None and (made is None or made.kind != OpKind.ENUM):
            return self.names[value]
        self.undetermined(op)
        return self.builder.constant(numbers.get(name, 0.0))

    def padding_mode(self, op: Op) -> str:
        """The padding by its name, empty without one, `?` when it is no constant."""
        value = op.operand("padding")
        if value is None:
            return ""
        made = self.producers.get(value)
        return str(made.attribute("name")) if made and made.kind == OpKind.ENUM else "?"

    def undetermined(self, op: Op) -> None:
        """Note that a padding which cuTile leaves open is decided here."""
        tiles = (OpKind.LOAD_TILE, OpKind.TILED_VIEW)
        if op.kind in tiles and self.padding_mode(op) in ("", "padding.undetermined"):
            self.residuals.append(residuals.of_padding(op.span.line))

    # -- shapes

    def asked(self, value: str, axis: int) -> str:
        """An extent asked of the lowered tile."""
        b = self.builder
        shape = b.add(OpKind.SHAPE, [("x", self.names[value])])
        operands = [("x", shape), ("index", b.constant(axis))]
        return b.add(OpKind.SUBSCRIPT, operands, [("pattern", "#")])

    def extent_value(self, value: str, axis: int, extent: Extent) -> str:
        """An extent as a value of the lowered program."""
        if isinstance(extent, int):
            return self.builder.constant(extent)
        return self.names[extent] if isinstance(extent, str) else self.asked(value, axis)

    def single(self, value: str) -> str:
        """The only element of a tile."""
        name = self.names[value]
        if name in self.loaded and not self.loaded[name][1]:
            return self.loaded[name][0]
        if self.extents.of(value) == ():
            return name
        return self.builder.add(OpKind.REDUCE_SUM, [("x", name)])

    def raised(self, value: str, rank: int, wanted: int) -> str:
        """A tile with axes of extent one in front, as many as it lacks."""
        if rank >= wanted or rank == 0:
            return value
        pattern = ",".join(["None"] * (wanted - rank) + [":"] * rank)
        return self.builder.add(OpKind.SUBSCRIPT, [("x", value)], [("pattern", pattern)])
