"""What each operation on whole tiles does: making and bending them, reductions, scans, products."""

from __future__ import annotations

import numpy as np

from generators.reference import reductions, shapes
from generators.reference.machine import Frame, Handler, Machine
from generators.reference.values import (
    DType,
    EvaluationError,
    FunctionRef,
    Tile,
    as_tile,
    integer,
    integers,
    is_float,
    tile,
)
from kb.ir import Op
from kb.ops import OpKind as K

_FILL: dict[str, int] = {K.ZEROS: 0, K.ONES: 1}


# -- shapes


def _full(machine: Machine, frame: Frame, op: Op) -> object:
    shape = integers(machine.value(frame, op, "shape"), op.span)
    value = _FILL[op.kind] if op.kind in _FILL else machine.value(frame, op, "value")
    default = as_tile(value).dtype
    return shapes.full(shape, value, machine.dtype(frame, op, default))


def _zeros_like(machine: Machine, frame: Frame, op: Op) -> object:
    held = as_tile(frame[op.inputs[0]])
    return Tile(np.zeros_like(held.data), held.dtype)


def _arange(machine: Machine, frame: Frame, op: Op) -> object:
    start, size = machine.value(frame, op, "start", 0), machine.whole(frame, op, "size")
    if machine.truncating:
        low = integer(start, op.span)
        return tile(np.arange(low, size), "i32")
    step = machine.value(frame, op, "step", 1)
    dtype = machine.dtype(frame, op, "i32")
    lanes = np.arange(size) * as_tile(step).data + as_tile(start).data
    return tile(lanes, dtype)


def _reshape(machine: Machine, frame: Frame, op: Op) -> object:
    shape = integers(machine.many(frame, op, "shape"), op.span)
    return shapes.reshaped(machine.value(frame, op, "x"), shape)


def _broadcast_to(machine: Machine, frame: Frame, op: Op) -> object:
    shape = integers(machine.many(frame, op, "shape"), op.span)
    return shapes.broadcast(machine.value(frame, op, "x"), shape)


def _broadcast(machine: Machine, frame: Frame, op: Op) -> object:
    one, other = machine.value(frame, op, "x"), machine.value(frame, op, "y")
    shape = np.broadcast_shapes(shapes.shape_of(one), shapes.shape_of(other))
    return (shapes.broadcast(one, shape), shapes.broadcast(other, shape))


def _permute(machine: Machine, frame: Frame, op: Op) -> object:
    value = machine.value(frame, op, "x")
    if op.operand("axis0") is not None:
        one, other = (machine.whole(frame, op, role) for role in ("axis0", "axis1"))
        return shapes.swapped(value, one, other)
    return shapes.permuted(value, integers(machine.many(frame, op, "axes"), op.span))


def _expand(machine: Machine, frame: Frame, op: Op) -> object:
    axes = integers(machine.value(frame, op, "axis"), op.span)
    return shapes.expanded(machine.value(frame, op, "x"), axes)


def _cat(machine: Machine, frame: Frame, op: Op) -> object:
    if op.operand("tiles") is not None:
        return shapes.joined(machine.many(frame, op, "tiles"), machine.whole(frame, op, "axis"))
    pair = [machine.value(frame, op, role) for role in ("x", "y")]
    return shapes.joined(pair, machine.whole(frame, op, "dim"))


def _join(machine: Machine, frame: Frame, op: Op) -> object:
    both = shapes.stacked(machine.value(frame, op, "x"), machine.value(frame, op, "y"))
    if op.kind == K.INTERLEAVE:
        return shapes.reshaped(both, (*both.shape[:-2], -1))
    return both


def _extract(machine: Machine, frame: Frame, op: Op) -> object:
    index, shape = (integers(machine.value(frame, op, r), op.span) for r in ("index", "shape"))
    return shapes.extracted(machine.value(frame, op, "x"), index, shape)


def _insert(machine: Machine, frame: Frame, op: Op) -> object:
    index = integers(machine.value(frame, op, "index"), op.span)
    return shapes.inserted(machine.value(frame, op, "x"), index, machine.value(frame, op, "value"))


def _flip(machine: Machine, frame: Frame, op: Op) -> object:
    axis = machine.whole(frame, op, "dim", -1)
    return shapes.bent(machine.value(frame, op, "x"), lambda data: np.flip(data, axis))


# -- reductions


def _axes(machine: Machine, frame: Frame, op: Op) -> int | tuple[int, ...] | None:
    found = machine.value(frame, op, "axis")
    if found is None:
        return None
    axes = integers(found, op.span)
    return axes[0] if len(axes) == 1 else axes


def _reduce(machine: Machine, frame: Frame, op: Op) -> object:
    value, axis = machine.value(frame, op, "x"), _axes(machine, frame, op)
    keep = machine.flag(frame, op, "keepdims")
    best = reductions.reduced(op.kind, value, axis, keep)
    if machine.flag(frame, op, "return_indices"):
        kind = K.ARGMAX if op.kind == K.REDUCE_MAX else K.ARGMIN
        return (best, reductions.position(kind, value, _one(axis), keep))
    return best


def _one(axis: int | tuple[int, ...] | None) -> int | None:
    return axis[0] if isinstance(axis, tuple) else axis


def _arg(machine: Machine, frame: Frame, op: Op) -> object:
    value, axis = machine.value(frame, op, "x"), _one(_axes(machine, frame, op))
    return reductions.position(op.kind, value, axis, machine.flag(frame, op, "keepdims"))


def _scan(machine: Machine, frame: Frame, op: Op) -> object:
    value, axis = machine.value(frame, op, "x"), machine.whole(frame, op, "axis")
    return reductions.scanned(op.kind, value, axis, machine.flag(frame, op, "reverse"))


def _combine(machine: Machine, frame: Frame, op: Op) -> reductions.Combine:
    function = machine.value(frame, op, "combine")
    if not isinstance(function, FunctionRef) or not function.callee:
        raise EvaluationError("a reduction with a function that is no helper.")
    callee = function.callee
    return lambda one, other: machine.apply(callee, (*one, *other))


def _fold(machine: Machine, frame: Frame, op: Op) -> object:
    value = machine.value(frame, op, "x")
    values = value if isinstance(value, tuple) else (value,)
    combine = _combine(machine, frame, op)
    if op.kind == K.SCAN:
        axis, reverse = machine.whole(frame, op, "axis"), machine.flag(frame, op, "reverse")
        found = reductions.run_through(values, axis, reverse, combine)
    else:
        along, keep = _one(_axes(machine, frame, op)), machine.flag(frame, op, "keepdims")
        found = reductions.folded(values, along, keep, combine)
    return found if isinstance(value, tuple) else found[0]


def _mma(machine: Machine, frame: Frame, op: Op) -> object:
    lhs, rhs, acc = (machine.value(frame, op, role) for role in ("lhs", "rhs", "acc"))
    out = machine.value(frame, op, "out_dtype")
    tensor = machine.value(frame, op, "input_precision") == "tf32"
    wanted = out.name if isinstance(out, DType) else None
    return reductions.contracted(lhs, rhs, acc, wanted, tensor)


def _matmul(machine: Machine, frame: Frame, op: Op) -> object:
    lhs, rhs = as_tile(machine.value(frame, op, "lhs")), as_tile(machine.value(frame, op, "rhs"))
    return reductions.contracted(lhs, rhs, None, lhs.dtype if is_float(lhs.dtype) else None, False)


def _softmax(machine: Machine, frame: Frame, op: Op) -> object:
    held = as_tile(machine.value(frame, op, "x"))
    axis = machine.whole(frame, op, "dim", 0)
    data = np.exp(held.data - held.data.max(axis, keepdims=True))
    return tile(data / data.sum(axis, keepdims=True), held.dtype)


def _sort(machine: Machine, frame: Frame, op: Op) -> object:
    axis, down = machine.whole(frame, op, "dim", -1), machine.flag(frame, op, "descending")
    return reductions.ordered(machine.value(frame, op, "x"), axis, down)


def _histogram(machine: Machine, frame: Frame, op: Op) -> object:
    bins, mask = machine.whole(frame, op, "num_bins"), machine.value(frame, op, "mask")
    return reductions.counted(machine.value(frame, op, "x"), bins, mask)


def _pick(machine: Machine, frame: Frame, op: Op) -> object:
    value, index = machine.value(frame, op, "x"), machine.value(frame, op, "index")
    return reductions.picked(value, index, machine.whole(frame, op, "axis"))


HANDLERS: dict[str, Handler] = {
    K.FULL: _full, K.ZEROS: _full, K.ONES: _full, K.ZEROS_LIKE: _zeros_like, K.ARANGE: _arange,
    K.RESHAPE: _reshape, K.PERMUTE: _permute, K.TRANSPOSE: _permute, K.EXPAND_DIMS: _expand,
    K.BROADCAST_TO: _broadcast_to, K.BROADCAST: _broadcast, K.CAT: _cat, K.JOIN: _join,
    K.INTERLEAVE: _join, K.SPLIT: lambda m, f, op: shapes.parts(f[op.inputs[0]]),
    K.EXTRACT: _extract, K.INSERT: _insert, K.FLIP: _flip,
    K.RAVEL: lambda m, f, op: shapes.reshaped(f[op.inputs[0]], (-1,)),
    K.ITEM: lambda m, f, op: shapes.reshaped(f[op.inputs[0]], ()),
    K.REDUCE_SUM: _reduce, K.REDUCE_MAX: _reduce, K.REDUCE_MIN: _reduce, K.REDUCE_PROD: _reduce,
    K.REDUCE_XOR: _reduce, K.REDUCE_OR: _reduce, K.ARGMAX: _arg, K.ARGMIN: _arg, K.REDUCE: _fold,
    K.CUMSUM: _scan, K.CUMPROD: _scan, K.SCAN: _fold, K.MMA: _mma, K.MATMUL: _matmul,
    K.SORT: _sort, K.HISTOGRAM: _histogram, K.TILE_GATHER: _pick, K.SOFTMAX: _softmax,
}  # fmt: skip
"""Operations on whole tiles."""
