"""Operations of cuTile on values, as Triton spells them."""

from __future__ import annotations

from generators.lower.lowering import Lowering, Rule
from generators.lower.residuals import TENSOR_FLOAT
from kb.errors import CannotEmit
from kb.ir import Op
from kb.ops import OpKind


def _subscript(low: Lowering, op: Op) -> str | None:
    base = low.names[op.inputs[0]]
    if base in low.lists and len(op.inputs) == 2:
        part = low.views.member(base, low.lists[base], low.names[op.inputs[1]])
        low.views.of[part.pointer] = part
        return part.pointer
    at = low.builder.constants.get(low.names[op.inputs[1]]) if len(op.inputs) == 2 else None
    if isinstance(at, int) and op.attribute("pattern") == "#":
        if base in low.shapes:
            return low.views.extent(low.shapes[base], at)
        if base in low.tuples:
            return low.tuples[base][at]
    low.copy(op)
    return None


def _builtin(low: Lowering, op: Op) -> str | None:
    """`len` of a list of arrays is what the host counts; every other function stays."""
    if op.inputs and op.inputs[0] in low.lists and op.attribute("spelling") == "len":
        return low.views.count(op.inputs[0])
    low.copy(op)
    return None


def _unpack(low: Lowering, op: Op) -> None:
    source = low.names[op.inputs[0]]
    items = low.tuples.get(source)
    if source in low.shapes:
        view = low.shapes[source]
        items = [low.views.extent(view, axis) for axis in range(view.rank)]
    if items is None or len(items) != len(op.results):
        low.copy(op)
        return
    for value, item in zip(op.results, items, strict=True):
        low.names[value.name] = item


def _dtype(low: Lowering, op: Op) -> str:
    name = op.attribute("name")
    if name == "tf32":
        low.residuals.append(TENSOR_FLOAT)
    return low.builder.add(OpKind.DTYPE, (), [("name", "f32" if name == "tf32" else name)])


def _enum(low: Lowering, op: Op) -> None:
    low.names[op.result] = op.result


def _cast(low: Lowering, op: Op) -> str:
    if op.operand("rounding"):
        low.residual(op, "rounding")
    value, dtype = low.names[str(op.operand("x"))], low.names[str(op.operand("dtype"))]
    scalar = low.extents.of(str(op.operand("x"))) == ()
    spelling = [("spelling", "triton.language.cast")] if scalar else []
    return low.builder.add(OpKind.CAST, [("x", value), ("dtype", dtype)], spelling)


def _mma(low: Lowering, op: Op) -> str:
    if op.operand("fast_acc"):
        low.residual(op, "fast_acc")
    operands = [(role, low.names[value]) for role, value in op.operands
                if role in ("lhs", "rhs", "acc")]  # fmt: skip
    precision = low.builder.constant("tf32" if low.tensor_float else "ieee")
    return low.builder.add(OpKind.MMA, [*operands, ("input_precision", precision)])


def _arange(low: Lowering, op: Op) -> str:
    b = low.builder
    size = low.names[str(op.operand("size"))]
    lanes = b.add(OpKind.ARANGE, [("start", b.constant(0)), ("size", size)])
    step, start = op.operand("step"), op.operand("start")
    if step is not None:
        lanes = b.binary(OpKind.MUL, lanes, low.names[step])
    if start is not None:
        lanes = b.binary(OpKind.ADD, lanes, low.names[start])
    dtype = op.operand("dtype")
    made = low.producers.get(str(dtype))
    if dtype is not None and (made is None or made.attribute("name") not in ("i32", "u32")):
        lanes = b.add(OpKind.CAST, [("x", lanes), ("dtype", low.names[dtype])])
    return lanes


def _permute(low: Lowering, op: Op) -> str:
    source = str(op.operand("x"))
    shape = low.extents.of(source)
    order = low.extents.axes(op, len(shape)) if shape else None
    if shape is None or order is None:
        raise CannotEmit("a permutation of a tile whose rank is not known.", where=str(op.span))
    value = low.names[source]
    if order == list(range(len(shape))):
        return value
    if len(shape) == 2:
        return low.builder.add(OpKind.TRANSPOSE, [("x", value)])
    axes = [("axes", low.builder.constant(axis)) for axis in order]
    return low.builder.add(OpKind.PERMUTE, [("x", value), *axes])


def _extract(low: Lowering, op: Op) -> str:
    """A part of a tile: along every axis that is cut, the lanes of the part are summed alone.

    The axis is split into (parts, extent); every other part counts as zero, so the sum is exact.
    """
    source = str(op.operand("x"))
    known, index = low.extents.of(source), low.items(op.operand("index"))
    wanted = low.extents.items(op.operand("shape"))
    if known is None or len(known) != len(index):
        raise CannotEmit("a part of a tile whose rank is not known.", where=str(op.span))
    value = low.names[source]
    shape = [low.extent_value(source, axis, extent) for axis, extent in enumerate(known)]
    for axis, extent in enumerate(wanted):
        target = low.names[extent]
        if known[axis] is not None and known[axis] == low.extents.extent(extent):
            continue
        value = _cut(low, value, (shape, axis), (index[axis], target))
        shape[axis] = target
    return value


def _cut(low: Lowering, value: str, place: tuple[list[str], int], part: tuple[str, str]) -> str:
    """One axis cut down to the part at an index."""
    b, (shape, axis), (index, extent) = low.builder, place, part
    count = b.binary(OpKind.FLOOR_DIV, shape[axis], extent)
    split = [*shape[:axis], count, extent, *shape[axis + 1 :]]
    parts = b.add(OpKind.RESHAPE, [("x", value), ("shape", b.tuple_of(split))])
    lanes = b.add(OpKind.ARANGE, [("start", b.constant(0)), ("size", count)])
    here = b.expand(b.binary(OpKind.EQ, lanes, index), axis, len(split))
    alone = b.add(OpKind.SELECT, [("condition", here), ("x", parts), ("y", b.constant(0))])
    return b.add(OpKind.REDUCE_SUM, [("x", alone), ("axis", b.constant(axis))])


def _cat(low: Lowering, op: Op) -> str:
    """Two tiles one after the other: joined in a new last axis that is then moved in front."""
    parts = low.items(op.operand("tiles"))
    sources = low.extents.items(op.operand("tiles"))
    axis = low.extents.constant(op.operand("axis"))
    shape = low.extents.of(sources[0])
    if len(parts) != 2 or shape is None or not isinstance(axis, int):
        raise CannotEmit("tiles joined that are not two of known rank.", where=str(op.span))
    b, rank, at = low.builder, len(shape), axis % len(shape)
    both = b.add(OpKind.JOIN, [("x", parts[0]), ("y", parts[1])])
    order = [*range(at), rank, *range(at, rank)]
    axes = [("axes", b.constant(place)) for place in order]
    moved = b.add(OpKind.PERMUTE, [("x", both), *axes])
    extents = [low.extent_value(sources[0], k, extent) for k, extent in enumerate(shape)]
    extents[at] = b.binary(OpKind.MUL, b.constant(2), extents[at])
    return b.add(OpKind.RESHAPE, [("x", moved), ("shape", b.tuple_of(extents))])


def _ones(low: Lowering, op: Op) -> str:
    operands = [(role, low.names[value]) for role, value in op.operands]
    operands.insert(1, ("value", low.builder.constant(1.0)))
    return low.builder.add(OpKind.FULL, operands)


def _item(low: Lowering, op: Op) -> str:
    return low.single(op.inputs[0])


def _isnan(low: Lowering, op: Op) -> str:
    value = low.names[op.inputs[0]]
    return low.builder.binary(OpKind.NE, value, value)


def _nothing(low: Lowering, op: Op) -> str:
    return low.names[op.inputs[0]]


def _skip(low: Lowering, op: Op) -> None:
    return None


def _function(low: Lowering, op: Op) -> str:
    """A function that Triton has in single precision only: other tiles go through it and back."""
    for role in ("ftz", "rounding"):
        if op.operand(role):
            low.residual(op, role)
    source = str(op.operand("x"))
    x, b = low.names[source], low.builder
    if low.dtypes.single(source) or source in low.entry.parameter_names:
        return b.add(op.kind, [("x", x)])
    spelling = [("spelling", "triton.language.cast")]
    single = b.add(OpKind.DTYPE, (), [("name", "f32")])
    wide = b.add(OpKind.CAST, [("x", x), ("dtype", single)], spelling)
    found = b.add(op.kind, [("x", wide)])
    if low.dtypes.of(source) in ("i32", "i64"):
        return found
    back = b.add(OpKind.DTYPE_OF, [("x", x)])
    return b.add(OpKind.CAST, [("x", found), ("dtype", back)], spelling)


def _tanh(low: Lowering, op: Op) -> str:
    """(1 - t) / (1 + t) with t = exp(-2 |x|), and the sign of x.

    Triton has it only in the device library, which neither the interpreter nor other vendors offer.
    """
    if op.operand("rounding"):
        low.residual(op, "rounding")
    b = low.builder
    x, one = low.names[op.inputs[0]], b.constant(1.0)
    single = b.add(OpKind.DTYPE, (), [("name", "f32")])
    spelling = [("spelling", "triton.language.cast")]
    wide = b.add(OpKind.CAST, [("x", x), ("dtype", single)], spelling)
    size = b.add(OpKind.ABS, [("x", wide)])
    small = b.add(OpKind.EXP, [("x", b.binary(OpKind.MUL, size, b.constant(-2.0)))], hint="small")
    above = b.add(OpKind.SUB, [("lhs", one), ("rhs", small)])
    below = b.add(OpKind.ADD, [("lhs", one), ("rhs", small)])
    whole = b.binary(OpKind.DIV, above, below, "magnitude")
    positive = b.binary(OpKind.GE, x, b.constant(0.0))
    minus = b.add(OpKind.NEG, [("x", whole)])
    found = b.add(OpKind.SELECT, [("condition", positive), ("x", whole), ("y", minus)])
    if low.dtypes.single(op.inputs[0]):
        return found
    back = b.add(OpKind.DTYPE_OF, [("x", x)])
    return b.add(OpKind.CAST, [("x", found), ("dtype", back)], spelling)


_FUNCTIONS = (
    OpKind.EXP, OpKind.EXP2, OpKind.LOG, OpKind.LOG2, OpKind.SQRT, OpKind.RSQRT, OpKind.SIN,
    OpKind.COS, OpKind.SIGMOID,
)  # fmt: skip

RULES: dict[str, Rule] = {
    OpKind.SUBSCRIPT: _subscript, OpKind.BUILTIN: _builtin, OpKind.UNPACK: _unpack,
    OpKind.DTYPE: _dtype, OpKind.ENUM: _enum, OpKind.CAST: _cast, OpKind.MMA: _mma,
    OpKind.MATMUL: _mma,
    OpKind.ARANGE: _arange, OpKind.TRANSPOSE: _permute, OpKind.PERMUTE: _permute,
    OpKind.EXTRACT: _extract, OpKind.CAT: _cat, OpKind.ONES: _ones, OpKind.ITEM: _item,
    OpKind.ISNAN: _isnan, OpKind.ASSUME_DIVISIBLE: _nothing, OpKind.STATIC_ASSERT: _skip,
    OpKind.DEVICE_ASSERT: _skip, **dict.fromkeys(_FUNCTIONS, _function), OpKind.TANH: _tanh,
}  # fmt: skip
