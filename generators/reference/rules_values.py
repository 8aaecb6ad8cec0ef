"""What each operation on values and numbers does, in every dialect."""

from __future__ import annotations

import numpy as np

from generators.reference import arithmetic, shapes
from generators.reference.machine import Frame, Handler, Machine, scalar_range
from generators.reference.values import (
    ArrayView,
    Block,
    DType,
    Enumerated,
    EvaluationError,
    FunctionRef,
    Pointer,
    PointerType,
    Range,
    Section,
    Tile,
    as_tile,
    from_constant,
    integer,
    integers,
    is_constant,
    is_float,
    tile,
)
from kb.ir import Op
from kb.ops import OpKind as K


def _first(machine: Machine, frame: Frame, op: Op) -> object:
    return frame[op.inputs[0]]


def _items(machine: Machine, frame: Frame, op: Op) -> object:
    return tuple(frame[value] for value in op.inputs)


def _function(machine: Machine, frame: Frame, op: Op) -> object:
    return FunctionRef(str(op.attribute("callee", "")), str(op.attribute("native", "")))


def _unpack(machine: Machine, frame: Frame, op: Op) -> object:
    found = frame[op.inputs[0]]
    if not isinstance(found, tuple | list):
        raise EvaluationError("what is unpacked is no tuple.")
    return tuple(found)


def _subscript(machine: Machine, frame: Frame, op: Op) -> object:
    base = machine.value(frame, op, "x")
    index = [frame[value] for role, value in op.operands if role == "index"]
    pattern = str(op.attribute("pattern"))
    if isinstance(base, tuple | list):
        if pattern == "#":
            return base[integer(index[0], op.span)]
        bounds = iter(integers(tuple(index), op.span))
        words = [next(bounds) if part else None for part in pattern.split(":")]
        return tuple(base[slice(*words)])
    return shapes.subscripted(base, pattern, index, op.span)


def _shape(machine: Machine, frame: Frame, op: Op) -> object:
    base = frame[op.inputs[0]]
    if isinstance(base, ArrayView):
        return tuple(from_constant(extent, "i32") for extent in base.data.shape)
    return shapes.shape_of(base)


def _dtype_of(machine: Machine, frame: Frame, op: Op) -> object:
    base = frame[op.inputs[0]]
    if isinstance(base, Pointer):
        return PointerType(base.dtype)
    if isinstance(base, Block):
        return DType(base.base.dtype)
    if isinstance(base, ArrayView):
        return DType(base.dtype)
    return DType(as_tile(base).dtype)


def _attribute(machine: Machine, frame: Frame, op: Op) -> object:
    base, name = frame[op.inputs[0]], op.attribute("name")
    if name == "element_ty" and isinstance(base, PointerType):
        return DType(base.element)
    if name == "type" and isinstance(base, Pointer):
        return PointerType(base.dtype)
    if name == "T":
        return shapes.permuted(base, ())
    if name == "value":
        return base
    if name == "ndim":
        return base.data.ndim if isinstance(base, ArrayView) else len(shapes.shape_of(base))
    if name == "scalar" and isinstance(base, DType):
        return base
    if name == "dtype" and isinstance(base, Tile):
        return DType(base.dtype)
    if name == "primitive_bitwidth" and isinstance(base, DType):
        return int("".join(filter(str.isdigit, base.name))[:2])
    raise EvaluationError(f"attribute `{name}` is not evaluated.")


def _block_id(machine: Machine, frame: Frame, op: Op) -> object:
    return from_constant(machine.block[machine.whole(frame, op, "axis")], "i32")


def _num_blocks(machine: Machine, frame: Frame, op: Op) -> object:
    return from_constant(machine.grid[machine.whole(frame, op, "axis")], "i32")


def _range(machine: Machine, frame: Frame, op: Op) -> object:
    low, high = machine.value(frame, op, "low", 0), machine.value(frame, op, "high")
    step = machine.value(frame, op, "step", 1)
    first, last, by = integers((low, high, step), op.span)
    return Range(first, last, by, scalar_range((low, high, step)))


def _call(machine: Machine, frame: Frame, op: Op) -> object:
    given = {role: frame[value] for role, value in op.operands}
    return machine.call(str(op.attribute("callee")), given)


# -- arithmetic


def _binary(machine: Machine, frame: Frame, op: Op) -> object:
    one, other = machine.value(frame, op, "lhs"), machine.value(frame, op, "rhs")
    return arithmetic.binary(op.kind, one, other, truncating=machine.truncating)


def _unary(machine: Machine, frame: Frame, op: Op) -> object:
    return arithmetic.unary(arithmetic.UNARY[op.kind], frame[op.inputs[0]])


def _extern(machine: Machine, frame: Frame, op: Op) -> object:
    name = str(op.attribute("spelling")).rpartition(".")[2]
    function = arithmetic.EXTERN.get(name)
    if function is None:
        raise EvaluationError(f"library function `{name}` is not evaluated.")
    values = [as_tile(frame[value]) for value in op.inputs]
    data = [value.data.astype(np.float64) for value in values]
    found = function(*data)
    return tile(found, "i1" if found.dtype == bool else values[0].dtype)


def _is(machine: Machine, frame: Frame, op: Op) -> object:
    same = frame[op.inputs[0]] is frame[op.inputs[1]]
    return same is (op.kind == K.IS)


def _in(machine: Machine, frame: Frame, op: Op) -> object:
    held = frame[op.inputs[1]]
    if not isinstance(held, tuple | list | str):
        raise EvaluationError("membership in what is no tuple.")
    return (frame[op.inputs[0]] in held) is (op.kind == K.IN)


def _select(machine: Machine, frame: Frame, op: Op) -> object:
    return arithmetic.selected(*(machine.value(frame, op, r) for r in ("condition", "x", "y")))


def _cast(machine: Machine, frame: Frame, op: Op) -> object:
    value, wanted = machine.value(frame, op, "x"), machine.value(frame, op, "dtype")
    if wanted is None:
        return as_tile(value)
    if machine.flag(frame, op, "bitcast"):
        return _bitcast(machine, frame, op)
    if isinstance(value, Pointer):
        if isinstance(wanted, PointerType) and wanted.element == value.dtype:
            return value
        raise EvaluationError("a pointer cast to another type is not evaluated.")
    if isinstance(wanted, PointerType):
        raise EvaluationError("an address made of a number is not evaluated.")
    return as_tile(value, machine.dtype(frame, op))


def _bitcast(machine: Machine, frame: Frame, op: Op) -> object:
    held, dtype = as_tile(machine.value(frame, op, "x")), machine.dtype(frame, op)
    if {held.dtype, dtype} & {"bf16", "tf32", "f8e4m3", "f8e5m2"} and held.dtype != dtype:
        raise EvaluationError(f"bits of {held.dtype} as {dtype} are not evaluated.")
    storage = as_tile(0, dtype).data.dtype
    return Tile(np.ascontiguousarray(held.data).view(storage).reshape(held.shape), dtype)


def _builtin(machine: Machine, frame: Frame, op: Op) -> object:
    name = str(op.attribute("spelling", "")).rpartition(".")[2]
    value = frame[op.inputs[0]]
    if name in ("float", "int", "bool") and is_constant(value) and value is not None:
        return {"float": float, "int": int, "bool": bool}[name](value)
    if name == "len" and isinstance(value, tuple | list):
        return len(value)
    if name == "tuple" and isinstance(value, tuple | list):
        return tuple(value)
    if name in ("constexpr", "static_eval", "ensure_constant"):
        return value
    if name == "to_tensor":
        return as_tile(value)
    if name == "next_power_of_2":
        return 1 << max(0, integer(value, op.span) - 1).bit_length()
    if isinstance(value, DType) and name.startswith("is_"):
        return _dtype_test(name, value.name)
    raise EvaluationError(f"`{name or 'this built-in'}` is not evaluated.")


def _dtype_test(name: str, dtype: str) -> bool:
    exact = {"is_fp16": "f16", "is_bf16": "bf16", "is_fp32": "f32", "is_fp64": "f64"}
    if name in exact:
        return dtype == exact[name]
    if name == "is_floating":
        return is_float(dtype)
    if name == "is_int":
        return not is_float(dtype)
    if name.startswith(("is_int", "is_uint")) and name[-1].isdigit():
        return dtype == name[3] + name.lstrip("is_unt")
    raise EvaluationError(f"`{name}` is not evaluated.")


def _clamp(machine: Machine, frame: Frame, op: Op) -> object:
    return arithmetic.clamped(*(machine.value(frame, op, r) for r in ("x", "low", "high")))


def _nothing(machine: Machine, frame: Frame, op: Op) -> object:
    return None


def _asserted(machine: Machine, frame: Frame, op: Op) -> object:
    condition = machine.value(frame, op, "condition")
    holds = np.all(condition.data) if isinstance(condition, Tile) else condition
    if not bool(holds):
        raise EvaluationError("an assertion of the program does not hold.")
    return None


HANDLERS: dict[str, Handler] = {
    K.CONST: lambda m, f, op: op.attribute("value"),
    K.DTYPE: lambda m, f, op: DType(str(op.attribute("name"))),
    K.ENUM: lambda m, f, op: Enumerated(str(op.attribute("name"))),
    K.FUNCTION: _function, K.TUPLE: _items, K.LIST: _items, K.UNDEF: _nothing, K.COPY: _first,
    K.UNPACK: _unpack, K.SUBSCRIPT: _subscript, K.ATTRIBUTE: _attribute, K.SHAPE: _shape,
    K.DTYPE_OF: _dtype_of, K.CALL: _call, K.BUILTIN: _builtin, K.RANGE: _range,
    K.STATIC_RANGE: _range, K.STATIC_ITERATE: _first, K.BLOCK_ID: _block_id,
    K.POINTER_TYPE: lambda m, f, op: PointerType(m.dtype(f, op)), K.NUM_BLOCKS: _num_blocks,
    K.FMA: lambda m, f, op: arithmetic.fused(*(f[v] for v in op.inputs)), K.POS: _first,
    K.NEG: lambda m, f, op: arithmetic.negated(f[op.inputs[0]]),
    K.ABS: lambda m, f, op: arithmetic.absolute(f[op.inputs[0]]),
    K.CLAMP: _clamp, K.BIT_NOT: lambda m, f, op: arithmetic.inverted(f[op.inputs[0]]),
    K.NOT: lambda m, f, op: arithmetic.negation(f[op.inputs[0]]),
    K.ISNAN: lambda m, f, op: tile(np.isnan(as_tile(f[op.inputs[0]]).data), "i1"),
    K.IS: _is, K.IS_NOT: _is, K.IN: _in, K.NOT_IN: _in, K.SELECT: _select, K.CAST: _cast,
    K.BITCAST: _bitcast, K.EXTERN_MATH: _extern, K.MULTIPLE_OF: _first, K.MAX_CONTIGUOUS: _first,
    K.MAX_CONSTANCY: _first, K.ASSUME_DIVISIBLE: _first, K.ASSUME: _nothing,
    K.STATIC_ASSERT: _asserted, K.DEVICE_ASSERT: _asserted, K.STATIC_PRINT: _nothing,
    K.DEVICE_PRINT: _nothing, K.BARRIER: _nothing, K.GRID_WAIT: _nothing, K.GRID_LAUNCH: _nothing,
    K.SLICE: lambda m, f, op: Section(m.whole(f, op, "start"), m.whole(f, op, "length")),
    **dict.fromkeys(arithmetic.BINARY, _binary), **dict.fromkeys(arithmetic.UNARY, _unary),
}  # fmt: skip
"""Operations on values that know no dialect."""
