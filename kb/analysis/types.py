"""Types of values: dtype with promotion, shape with symbolic extents. Unknown stays `?`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kb.analysis.accesses import view_of
from kb.analysis.declared_types import as_declared, carried_as, shaped
from kb.analysis.graph import COPIES, Graph, Node, is_view
from kb.analysis.values import Values
from kb.dialects.registry import reductions_widen
from kb.dtypes import either, parts
from kb.ir import Op, Parameter, ParameterKind, Region, TileType, TypeKind
from kb.ops import COMPARISONS, CONTRACTIONS, READS, REDUCTIONS, OpKind

UNKNOWN = TileType(TypeKind.UNKNOWN)

_SCALARS = {"int": "i32", "float": "f32", "bool": "i1"}
_SAME = COPIES | {
    OpKind.NEG, OpKind.POS, OpKind.ABS, OpKind.CLAMP, OpKind.BIT_NOT, OpKind.FLOOR, OpKind.CEIL,
    OpKind.CUMSUM, OpKind.CUMPROD, OpKind.SORT, OpKind.FLIP, OpKind.ZEROS_LIKE, OpKind.EXP,
    OpKind.EXP2, OpKind.LOG, OpKind.LOG2, OpKind.SQRT, OpKind.RSQRT, OpKind.SIN, OpKind.COS,
    OpKind.TAN, OpKind.TANH, OpKind.ERF, OpKind.SIGMOID, OpKind.SOFTMAX, OpKind.EXTERN_MATH,
    OpKind.ADVANCE, OpKind.SCAN,
}  # fmt: skip
_BINARY = frozenset(
    {
        OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FLOOR_DIV, OpKind.MOD, OpKind.POW,
        OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.CEIL_DIV, OpKind.BIT_AND, OpKind.BIT_OR,
        OpKind.BIT_XOR, OpKind.SHIFT_LEFT, OpKind.SHIFT_RIGHT, OpKind.ATAN2, OpKind.UMULHI,
        OpKind.FMA,
    }
)  # fmt: skip
_MOVING = frozenset({OpKind.ADD, OpKind.SUB})
_POINTERS = frozenset({TypeKind.ARRAY, TypeKind.POINTER})
_NARROW_FLOATS = frozenset({"bf16", "f16"})
_FLOATS = _NARROW_FLOATS | {"f32", "f64"}
_ORDER = ("i1", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f8e5m2", "f8e4m3", "bf16",
          "f16", "tf32", "f32", "f64")  # fmt: skip


@dataclass(eq=False, slots=True)
class Types:
    """Type of every value of a program, computed once in program order."""

    graph: Graph
    values: Values
    dialect: str = ""
    found: dict[str, TileType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for parameter in self.graph.function.parameters:
            self.found[parameter.name] = _parameter(parameter)
        self._region(self.graph.function.body)

    def of(self, value: str | None) -> TileType:
        """Type of a value; unknown when nothing tells."""
        return self.found.get(value, UNKNOWN) if value is not None else UNKNOWN

    def dtype(self, value: str | None) -> str:
        """Element type of a value."""
        return self.of(value).dtype

    def shape(self, value: str | None) -> tuple[str, ...]:
        """Extents of a value, outermost first; empty for a scalar."""
        return self.of(value).shape

    def wide(self, value: str | None) -> bool:
        """True for 32-bit floats, perhaps only where a choice at compile time says so."""
        return "f32" in parts(self.dtype(value))

    def named(self, value: str | None) -> str:
        """The dtype that a dtype-valued operand stands for."""
        node, asked = self.graph.producer(value), ""
        while node is not None and node.op.kind in (OpKind.COPY, OpKind.ATTRIBUTE):
            asked = str(node.op.attribute("name") or asked)
            value = node.op.inputs[0]
            node = self.graph.producer(value)
        if node is None:  # `x.type.element_ty` of what a pointer parameter points to
            return self._element(value) if value is not None and asked == "type" else "?"
        if node.op.kind == OpKind.DTYPE:
            return str(node.op.attribute("name"))
        if node.op.kind == OpKind.DTYPE_OF:
            return self._element(node.op.inputs[0])
        if node.op.kind in (OpKind.IF, OpKind.IF_EXPRESSION):
            ends = [self.named(end) for end in self.graph.feeds(value or "")]
            return either(ends)
        return "?"

    def _element(self, value: str) -> str:
        known = self.of(value)
        if known.kind in (TypeKind.ARRAY, TypeKind.POINTER):
            return known.dtype
        return known.dtype if known.dtype != "?" else f"dtypeof({value})"

    # -- program order

    def _region(self, region: Region) -> None:
        for op in region.ops:
            node = self.graph.defs.get(op.results[0].name) if op.results else None
            if op.regions:
                self._nested(op.regions, op.kind, node)
            elif node is not None and op.kind == OpKind.UNPACK:
                self._unpacked(node)
            elif node is not None:
                self.found[node.result] = self._type(node, op)

    def _unpacked(self, node: Node) -> None:
        """Elements of a tuple that is written out, and halves of a tile that is split; numbers
        that are drawn four at a time; what several tiles are scanned or reduced to together."""
        made = self.graph.producer(node.op.inputs[0]) if node.op.inputs else None
        if made is not None and made.op.kind in (OpKind.SPLIT, *_DRAWN):
            self.found |= {r.name: self.of(made.result) for r in node.op.results}
        elif made is not None and made.op.kind == OpKind.TUPLE:
            pairs = zip(node.op.results, made.op.inputs, strict=False)
            self.found |= {r.name: self.of(value) for r, value in pairs}
        elif made is not None and (made.op.kind in REDUCTIONS or made.op.kind == OpKind.SCAN):
            whole = self.graph.producer(made.op.inputs[0])
            items = whole.op.inputs if whole and whole.op.kind == OpKind.TUPLE else ()
            for result, item in zip(node.op.results, items, strict=False):
                kept = self.of(item) if made.op.kind == OpKind.SCAN else self._reduced(made, item)
                self.found[result.name] = kept

    def _nested(self, regions: tuple[Region, ...], kind: str, node: Node | None) -> None:
        if kind in (OpKind.FOR, OpKind.WHILE):
            body = regions[-1]
            offset = 1 if kind == OpKind.FOR else 0
            if offset and body.arguments:
                self.found[body.arguments[0].name] = TileType(TypeKind.SCALAR, "i32")
            inits = self.graph.inits(node) if node is not None else ()
            for inner in regions:
                for argument, init in zip(inner.arguments[offset:], inits, strict=False):
                    self.found[argument.name] = carried_as(self.of(init), argument)
        for inner in regions:
            self._region(inner)
        if kind in (OpKind.FOR, OpKind.WHILE) and self._widened(regions, offset):
            for inner in regions:
                self._region(inner)
        if node is None:
            return
        for result in node.op.results:
            ends = [self.of(value) for value in self.graph.feeds(result.name)]
            known = [end for end in ends if end.kind is not TypeKind.UNKNOWN]
            most = max(known, key=lambda t: len(t.shape)) if known else UNKNOWN
            self.found[result.name] = carried_as(most, result)

    def _widened(self, regions: tuple[Region, ...], offset: int) -> bool:
        """Give carried values that begin as one number the shape that the body makes of them."""
        ends = regions[-1].terminator
        changed = False
        for place, end in enumerate(ends.inputs if ends is not None else ()):
            for inner in regions:
                named = inner.arguments[place + offset : place + offset + 1]
                made = self.of(end)
                if named and made.shape and not self.of(named[0].name).shape:
                    self.found[named[0].name] = made
                    changed = True
        return changed

    # -- rules

    def _type(self, node: Node, written: Op) -> TileType:
        """What the rules say of a value, else what the source declares."""
        return as_declared(self._told(node), written)

    def _told(self, node: Node) -> TileType:
        op = node.op
        if op.kind in _SAME:
            return self.of(op.inputs[0]) if op.inputs else UNKNOWN
        if op.kind in _BINARY:
            return self._joined(op.inputs, moves=op.kind in _MOVING)
        if op.kind in COMPARISONS or op.kind in (OpKind.AND, OpKind.OR, OpKind.NOT, OpKind.ISNAN):
            return shaped("i1", self._broadcast(op.inputs))
        if op.kind in READS:
            return self._loaded(node)
        if op.kind in REDUCTIONS:
            return self._reduced(node)
        if op.kind in CONTRACTIONS:
            return self._contracted(node)
        rule = _RULES.get(op.kind)
        return rule(self, node) if rule is not None else UNKNOWN

    def _broadcast(self, values: tuple[str, ...]) -> tuple[str, ...]:
        shape: tuple[str, ...] = ()
        for value in values:
            shape = broadcast(shape, self.shape(value))
        return shape

    def _joined(self, values: tuple[str, ...], moves: bool = True) -> TileType:
        """A pointer is moved by whole numbers only: what is multiplied, or added to floats, is a
        number although nothing tells the parameter's type."""
        kinds = [self.of(value) for value in values]
        pointers = [kind for kind in kinds if kind.kind in _POINTERS]
        numbers = [k.dtype for k in kinds if k.kind not in (TypeKind.CONST, *_POINTERS)]
        shape = self._broadcast(values)
        if pointers and moves and not _FLOATS.intersection(numbers):
            return TileType(TypeKind.POINTER, pointers[0].dtype, shape)
        dtype = promote(numbers)
        if pointers and dtype in _NARROW_FLOATS:
            dtype = "?"  # the number may be wider
        return shaped(dtype, shape)

    def _loaded(self, node: Node) -> TileType:
        op = (view_of(self.graph, node) or node).op
        base = op.inputs[0]
        dtype = self._element(base)
        given = op.operand("shape")
        if given is not None:
            return shaped(dtype, self._extents(given))
        if op.kind == OpKind.GATHER:
            return shaped(dtype, self._broadcast(self.values.items(op.operand("index"))))
        shape = broadcast(self.shape(base), self.shape(op.operand("mask")))
        if not shape and op.kind == OpKind.DESCRIPTOR_LOAD:
            shape = ("?",) * len(self.values.items(op.operand("offsets")))
        return shaped(dtype, shape)

    def _extents(self, shape: str) -> tuple[str, ...]:
        return tuple(str(self.values.expr(item)) for item in self.values.items(shape))

    def _reduced(self, node: Node, value: str | None = None) -> TileType:
        base = self.of(value or node.op.inputs[0])
        axis = self.values.literal(node.op.operand("axis"))
        keep = bool(self.values.literal(node.op.operand("keepdims")))
        shape: tuple[str, ...] = ()
        if isinstance(axis, int) and base.shape and -base.rank <= axis < base.rank:
            place = axis % base.rank
            middle = ("1",) if keep else ()
            shape = base.shape[:place] + middle + base.shape[place + 1 :]
        dtype = base.dtype
        if node.op.kind in (OpKind.ARGMAX, OpKind.ARGMIN):
            dtype = "i32"
        elif node.op.kind in (OpKind.REDUCE_MAX, OpKind.REDUCE_MIN):
            narrow = dtype in ("f16", "bf16") or dtype.startswith("dtypeof(")
            dtype = "f32" if narrow and reductions_widen(self.dialect) else dtype
        return shaped(dtype, shape)

    def _contracted(self, node: Node) -> TileType:
        left, right = self.shape(node.op.operand("lhs")), self.shape(node.op.operand("rhs"))
        acc = self.of(node.op.operand("acc"))
        shape = (*left[:-1], right[-1]) if len(left) >= 2 and len(right) >= 2 else acc.shape
        if "?" in shape and len(shape) == len(acc.shape):
            shape = acc.shape
        named = node.op.operand("out_dtype")
        said = node.op.results[0].type if node.op.attribute("opcode") else None
        told = said.dtype if said is not None and said.dtype != "?" else acc.dtype
        dtype = self.named(named) if named else (told if told != "?" else "f32")
        return shaped(dtype, shape)

    def _cast(self, node: Node) -> TileType:
        dtype = node.op.operand("dtype")
        base = self.of(node.op.inputs[0])
        said = node.op.results[0].type
        plain = said.dtype if said is not None and said.dtype != "?" else base.dtype
        return TileType(base.kind, self.named(dtype) if dtype else plain, base.shape)

    def _filled(self, node: Node) -> TileType:
        dtype = node.op.operand("dtype")
        items = self.values.shape_items(node)
        return shaped(
            self.named(dtype) if dtype else "f32", tuple(str(self.values.expr(i)) for i in items)
        )

    def _arange(self, node: Node) -> TileType:
        dtype = node.op.operand("dtype")
        size = self.values.expr(node.result)
        lane = next((a for a in size.atoms() if a.args and a.kind == "lane"), None)
        extent = str(lane.args[0]) if lane is not None else "?"
        return shaped(self.named(dtype) if dtype else "i32", (extent,))

    def _reshaped(self, node: Node) -> TileType:
        items = self.values.shape_items(node)
        base = self.of(node.op.inputs[0])
        return TileType(base.kind, base.dtype, tuple(str(self.values.expr(i)) for i in items))

    def _turned(self, node: Node) -> TileType:
        base = self.of(node.op.inputs[0])
        axes = [v for role, v in node.op.operands if role in ("axes", "axis0", "axis1")]
        order = [self.values.literal(i) for a in axes for i in self.values.items(a)]
        if node.op.kind == OpKind.TRANSPOSE and len(order) != base.rank:
            return TileType(base.kind, base.dtype, (*base.shape[:-2], *reversed(base.shape[-2:])))
        if len(order) == base.rank and all(isinstance(i, int) and i < base.rank for i in order):
            return TileType(base.kind, base.dtype, tuple(base.shape[int(i or 0)] for i in order))
        return TileType(base.kind, base.dtype)

    def _subscript(self, node: Node) -> TileType:
        base = self.of(node.op.inputs[0])
        if not is_view(node.op):
            return UNKNOWN
        parts = str(node.op.attribute("pattern")).split(",")
        kept = list(base.shape)
        shape = tuple("1" if part == "None" else (kept.pop(0) if kept else "?") for part in parts)
        return TileType(base.kind, base.dtype, shape)

    def _expanded(self, node: Node) -> TileType:
        base = self.of(node.op.inputs[0])
        axis = self.values.literal(node.op.operand("axis"))
        place = axis % (base.rank + 1) if isinstance(axis, int) else 0
        return TileType(base.kind, base.dtype, (*base.shape[:place], "1", *base.shape[place:]))

    def _selected(self, node: Node) -> TileType:
        sides = (node.op.operand("x") or "", node.op.operand("y") or "")
        joined = self._joined(sides)
        shape = broadcast(joined.shape, self.shape(node.op.operand("condition")))
        return TileType(joined.kind, joined.dtype, shape)

    def pointed(self, node: Node) -> TileType:
        """A block pointer or descriptor: the element type of its base, the shape of its block."""
        shape = node.op.operand("block_shape")
        extents = self._extents(shape) if shape else ()
        return TileType(TypeKind.POINTER, self._element(node.op.inputs[0]), extents)

    def _gathered(self, node: Node) -> TileType:
        """Elements of a thread that stand side by side, or are seen as another type: every thread
        still has its own."""
        said, shape = node.op.results[0].type, self._broadcast(node.op.inputs)
        moved = any(self.of(value).kind in _POINTERS for value in node.op.inputs)
        return shaped(said.dtype, shape) if said is not None and shape and not moved else UNKNOWN

    def _split(self, node: Node) -> TileType:
        """Of a split tile, each half: the last axis is taken apart."""
        base = self.of(node.op.inputs[0])
        return shaped(base.dtype, base.shape[:-1]) if base.shape else UNKNOWN

    def _paired(self, node: Node) -> TileType:
        """Two tiles along a new last axis, or one after the other on the last one."""
        base = self._joined(node.op.inputs[:2])
        if not base.shape:
            return UNKNOWN
        if node.op.kind == OpKind.JOIN:
            return shaped(base.dtype, (*base.shape, "2"))
        return shaped(base.dtype, (*base.shape[:-1], f"2 * {base.shape[-1]}"))

    def _drawn(self, node: Node) -> TileType:
        """Random numbers, one for each element of the offsets."""
        return shaped(_DRAWN.get(node.op.kind, "f32"), self._broadcast(node.op.inputs))

    def _constant(self, node: Node) -> TileType:
        return TileType(TypeKind.CONST)

    def _block(self, node: Node) -> TileType:
        return TileType(TypeKind.SCALAR, "i32")


def _parameter(parameter: Parameter) -> TileType:
    if parameter.kind is ParameterKind.CONSTEXPR:
        return TileType(TypeKind.CONST)
    if parameter.kind is ParameterKind.SCALAR:
        return TileType(
            TypeKind.SCALAR, _SCALARS.get(parameter.annotation, parameter.annotation or "?")
        )
    told = parameter.annotation.split(" ", 1)[0] if parameter.annotation else ""
    return TileType(TypeKind.ARRAY, told if told in _ORDER else f"dtypeof({parameter.name})")


def broadcast(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    """Shape of an elementwise result: axes matched from the last; 1 gives way to every extent, one
    that is not known to one that is."""
    rank = max(len(left), len(right))
    first = ("1",) * (rank - len(left)) + left
    second = ("1",) * (rank - len(right)) + right
    return tuple(
        b if a == "1" or (a == "?" and b != "1") else a for a, b in zip(first, second, strict=True)
    )


def promote(dtypes: list[str]) -> str:
    """Element type of an elementwise result; a type that is not known gives way to 32-bit floats
    and wider; of several that are not known it may be any."""
    known = [dtype for dtype in dtypes if dtype in _ORDER]
    open_ = [dtype for dtype in dtypes if dtype not in _ORDER and dtype != "?"]
    best = max(known, key=_ORDER.index) if known else ""
    if best in ("f32", "f64"):
        return best
    if open_:
        return either(open_)
    return best or "?"


_DRAWN: dict[str, str] = {OpKind.PHILOX: "u32", OpKind.RANDINT4: "u32", OpKind.RAND4: "f32"}

_RULES: dict[str, Callable[[Types, Node], TileType]] = {
    OpKind.CAST: Types._cast, OpKind.FULL: Types._filled, OpKind.ZEROS: Types._filled,
    OpKind.ONES: Types._filled, OpKind.ARANGE: Types._arange, OpKind.RESHAPE: Types._reshaped,
    OpKind.BROADCAST_TO: Types._reshaped, OpKind.PERMUTE: Types._turned,
    OpKind.TRANSPOSE: Types._turned, OpKind.SUBSCRIPT: Types._subscript,
    OpKind.EXPAND_DIMS: Types._expanded, OpKind.SELECT: Types._selected,
    OpKind.SPLIT: Types._split, OpKind.JOIN: Types._paired, OpKind.INTERLEAVE: Types._paired,
    OpKind.CONST: Types._constant, OpKind.BLOCK_ID: Types._block, OpKind.NUM_BLOCKS: Types._block,
    OpKind.NUM_TILES: Types._block, OpKind.BLOCK_POINTER: lambda t, n: t.pointed(n),
    OpKind.DESCRIPTOR: lambda t, n: t.pointed(n),
    OpKind.ATTRIBUTE: lambda _, n: n.op.results[0].type or UNKNOWN,
    OpKind.EXTRACT: lambda t, n: t._reshaped(n) if n.op.operand("shape") else UNKNOWN,
    OpKind.VECTOR: Types._gathered, OpKind.BITCAST: Types._gathered,
    **dict.fromkeys((*_DRAWN, OpKind.RAND, OpKind.RANDN, OpKind.UINT_TO_UNIFORM), Types._drawn),
}  # fmt: skip
