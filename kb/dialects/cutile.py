"""NVIDIA cuTile (cuda-tile 1.7): native calls and the operations they stand for.

Source: signatures of the public module `cuda.tile`, version 1.7.0.
"""

from __future__ import annotations

from kb.dialects.model import Dialect, Row
from kb.dialects.python import BUILTINS
from kb.ops import OpKind as K

_M = "cuda.tile"
_ROUND = "* rounding=rounding_mode ftz=flush_to_zero"
_MEMORY = "latency allow_tma memory_order memory_scope"


def _same(kind: K, names: str, signature: str) -> tuple[Row, ...]:
    return tuple(Row(f"{_M}.{name}", kind, signature) for name in names.split())


def _atomic(kind: K, name: str) -> Row:
    return Row(f"{_M}.{name}", kind, "array index value * check_bounds memory_order memory_scope")


_ELEMENTWISE = (
    (K.LT, "less"), (K.LE, "less_equal"), (K.GT, "greater"), (K.GE, "greater_equal"),
    (K.EQ, "equal"), (K.NE, "not_equal"), (K.BIT_AND, "bitwise_and"), (K.BIT_OR, "bitwise_or"),
    (K.BIT_XOR, "bitwise_xor"), (K.SHIFT_LEFT, "bitwise_lshift"),
    (K.SHIFT_RIGHT, "bitwise_rshift"), (K.FLOOR_DIV, "floordiv"), (K.MOD, "mod"),
    (K.POW, "pow"), (K.CEIL_DIV, "cdiv"), (K.ATAN2, "atan2"),
)  # fmt: skip
_UNARY = (
    (K.NEG, "negative"), (K.BIT_NOT, "bitwise_not"), (K.ABS, "abs"), (K.LOG, "log"),
    (K.LOG2, "log2"), (K.SIN, "sin"), (K.COS, "cos"), (K.TAN, "tan"), (K.SINH, "sinh"),
    (K.COSH, "cosh"), (K.FLOOR, "floor"), (K.CEIL, "ceil"), (K.ISNAN, "isnan"),
    (K.PACK_BYTES, "pack_to_bytes"),
)  # fmt: skip

ROWS: tuple[Row, ...] = (
    Row(f"{_M}.bid", K.BLOCK_ID, "axis"),
    Row(f"{_M}.num_blocks", K.NUM_BLOCKS, "axis"),
    Row(f"{_M}.num_tiles", K.NUM_TILES, "array axis shape order"),
    Row(f"{_M}.load", K.LOAD_TILE,
        f"array index shape * order padding=padding_mode check_bounds {_MEMORY}"),
    Row(f"{_M}.store", K.STORE_TILE, f"array index value=tile * order check_bounds {_MEMORY}"),
    Row(f"{_M}.gather", K.GATHER,
        "array index=indices * mask padding=padding_value check_bounds latency"),
    Row(f"{_M}.scatter", K.SCATTER, "array index=indices value * mask check_bounds latency"),
    Row(f"{_M}.load_advanced_indexing", K.LOAD_ADVANCED,
        "array index=indices * padding=padding_mode latency allow_tma"),
    Row(f"{_M}.store_advanced_indexing", K.STORE_ADVANCED,
        "array index=indices value=tile * latency allow_tma"),
    Row(f"{_M}.Slice", K.SLICE, "start length"),
    Row(".slice", K.ARRAY_SLICE, "array axis start stop"),
    Row(".tiled_view", K.TILED_VIEW,
        "array shape=tile_shape * padding=padding_mode traversal=traversal_steps"),
    Row(".load", K.VIEW_LOAD, "view index * check_bounds latency allow_tma"),
    Row(".store", K.VIEW_STORE, "view index value=tile * check_bounds latency allow_tma"),
    Row(".atomic_store_add", K.VIEW_ATOMIC_ADD, "view index value=tile"),
    Row(".num_tiles", K.VIEW_NUM_TILES, "view axis"),
    _atomic(K.ATOMIC_ADD, "atomic_add"), _atomic(K.ATOMIC_MAX, "atomic_max"),
    _atomic(K.ATOMIC_MIN, "atomic_min"), _atomic(K.ATOMIC_AND, "atomic_and"),
    _atomic(K.ATOMIC_OR, "atomic_or"), _atomic(K.ATOMIC_XOR, "atomic_xor"),
    _atomic(K.ATOMIC_XCHG, "atomic_xchg"),
    Row(f"{_M}.atomic_cas", K.ATOMIC_CAS,
        "array index expected value=desired * check_bounds memory_order memory_scope"),
    Row(f"{_M}.full", K.FULL, "shape value=fill_value dtype"),
    Row(f"{_M}.zeros", K.ZEROS, "shape dtype"),
    Row(f"{_M}.ones", K.ONES, "shape dtype"),
    Row(f"{_M}.arange", K.ARANGE, "size * dtype start step"),
    Row(f"{_M}.reshape", K.RESHAPE, "x shape"),
    Row(".reshape", K.RESHAPE, "x shape"),
    Row(f"{_M}.permute", K.PERMUTE, "x axes"),
    Row(".permute", K.PERMUTE, "x axes"),
    Row(f"{_M}.transpose", K.TRANSPOSE, "x axis0 axis1"),
    Row(".transpose", K.TRANSPOSE, "x axis0 axis1"),
    Row(f"{_M}.expand_dims", K.EXPAND_DIMS, "x axis"),
    Row(f"{_M}.broadcast_to", K.BROADCAST_TO, "x shape"),
    Row(f"{_M}.cat", K.CAT, "tiles axis"),
    Row(f"{_M}.extract", K.EXTRACT, "x index shape"),
    Row(".extract", K.EXTRACT, "x index shape"),
    Row(f"{_M}.insert", K.INSERT, "x index value"),
    Row(".insert", K.INSERT, "x index value"),
    Row(".item", K.ITEM, "x"),
    Row(".astype", K.CAST, "x dtype * rounding=rounding_mode"),
    Row(f"{_M}.astype", K.CAST, "x dtype * rounding=rounding_mode"),
    Row(f"{_M}.astile", K.CAST, "x * dtype"),
    Row(f"{_M}.bitcast", K.BITCAST, "x dtype"),
    Row(f"{_M}.unpack_from_bytes", K.UNPACK_BYTES, "x dtype"),
    Row(f"{_M}.where", K.SELECT, "condition=cond x y"),
    Row(f"{_M}.add", K.ADD, f"lhs=x rhs=y {_ROUND}"),
    Row(f"{_M}.sub", K.SUB, f"lhs=x rhs=y {_ROUND}"),
    Row(f"{_M}.mul", K.MUL, f"lhs=x rhs=y {_ROUND}"),
    Row(f"{_M}.truediv", K.DIV, f"lhs=x rhs=y {_ROUND}"),
    *(row for kind, name in _ELEMENTWISE for row in _same(kind, name, "lhs=x rhs=y")),
    *(row for kind, name in _UNARY for row in _same(kind, name, "x")),
    Row(f"{_M}.maximum", K.MAXIMUM, "lhs=x rhs=y * ftz=flush_to_zero propagate_nan"),
    Row(f"{_M}.minimum", K.MINIMUM, "lhs=x rhs=y * ftz=flush_to_zero propagate_nan"),
    Row(f"{_M}.exp", K.EXP, "x * rounding=rounding_mode"),
    Row(f"{_M}.sigmoid", K.SIGMOID, "x"),
    Row(f"{_M}.exp2", K.EXP2, "x * ftz=flush_to_zero"),
    Row(f"{_M}.tanh", K.TANH, "x * rounding=rounding_mode"),
    Row(f"{_M}.sqrt", K.SQRT, "x * rounding=rounding_mode ftz=flush_to_zero"),
    Row(f"{_M}.rsqrt", K.RSQRT, "x * ftz=flush_to_zero"),
    Row(f"{_M}.sum", K.REDUCE_SUM, "x axis * keepdims rounding=rounding_mode ftz=flush_to_zero"),
    Row(f"{_M}.prod", K.REDUCE_PROD, "x axis * keepdims rounding=rounding_mode ftz=flush_to_zero"),
    Row(f"{_M}.max", K.REDUCE_MAX, "x axis * keepdims ftz=flush_to_zero propagate_nan"),
    Row(f"{_M}.min", K.REDUCE_MIN, "x axis * keepdims ftz=flush_to_zero propagate_nan"),
    Row(f"{_M}.argmax", K.ARGMAX, "x axis * keepdims propagate_nan"),
    Row(f"{_M}.argmin", K.ARGMIN, "x axis * keepdims propagate_nan"),
    Row(f"{_M}.reduce", K.REDUCE, "x axis combine=func identity * keepdims"),
    Row(f"{_M}.scan", K.SCAN, "x axis combine=func identity * reverse"),
    Row(f"{_M}.cumsum", K.CUMSUM, "x axis * reverse rounding=rounding_mode ftz=flush_to_zero"),
    Row(f"{_M}.cumprod", K.CUMPROD, "x axis * reverse rounding=rounding_mode ftz=flush_to_zero"),
    Row(f"{_M}.mma", K.MMA, "lhs=x rhs=y acc * fast_acc=use_fast_acc"),
    Row(f"{_M}.matmul", K.MATMUL, "lhs=x rhs=y"),
    Row(f"{_M}.mma_scaled", K.MMA_SCALED, "lhs=x lhs_scale=x_scale rhs=y rhs_scale=y_scale acc"),
    Row(f"{_M}.assume_divisible_by", K.ASSUME_DIVISIBLE, "x divisor"),
    Row(f"{_M}.ensure_constant", K.BUILTIN, "x"),
    Row(f"{_M}.static_iter", K.STATIC_ITERATE, "iterable"),
    Row(f"{_M}.static_assert", K.STATIC_ASSERT, "condition message"),
    Row(f"{_M}.static_eval", K.BUILTIN, "x"),
    Row(f"{_M}.assert_", K.DEVICE_ASSERT, "condition=cond message"),
    Row(f"{_M}.printf", K.DEVICE_PRINT, "prefix=format *values"),
    Row(f"{_M}.print", K.DEVICE_PRINT, "*values * sep end"),
    Row(f"{_M}.grid_dependency_control_wait", K.GRID_WAIT, ""),
    Row(f"{_M}.grid_dependency_control_launch_dependents", K.GRID_LAUNCH, ""),
    *BUILTINS,
)  # fmt: skip

_DTYPES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "tfloat32": "tf32", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool_": "i1",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "float8_e8m0fnu": "f8e8m0",
    "float4_e2m1fn": "f4e2m1", "float8_e5m3fnu": "f8e5m3",
}  # fmt: skip
_HOST_DTYPES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int8": "i8",
    "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint32": "u32",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
}  # fmt: skip

CUTILE = Dialect(
    name="cutile",
    module=_M,
    alias="ct",
    rows=ROWS,
    dtypes={f"{_M}.{native}": name for native, name in _DTYPES.items()}
    | {
        f"{host}.{native}": name
        for host in ("torch", "numpy")
        for native, name in _HOST_DTYPES.items()
    },
    enums={f"{_M}.PaddingMode.{n}": f"padding.{n.lower()}"
           for n in ("ZERO", "NAN", "NEG_INF", "NEG_ZERO", "POS_INF", "UNDETERMINED")}
    | {f"{_M}.RoundingMode.{n}": f"rounding.{n.lower()}"
       for n in ("APPROX", "FULL", "RA", "RM", "RN", "RP", "RZ", "RZI")}
    | {f"{_M}.MemoryOrder.{n}": f"order.{n.lower()}"
       for n in ("ACQUIRE", "ACQ_REL", "RELAXED", "RELEASE", "WEAK")}
    | {f"{_M}.MemoryScope.{n}": f"scope.{n.lower()}"
       for n in ("BLOCK", "CLUSTER", "DEVICE", "NONE", "SYS")},
    kernel_decorators=frozenset({f"{_M}.kernel"}),
    helper_decorators=frozenset({f"{_M}.function"}),
    constexpr_annotations=frozenset({f"{_M}.Constant", f"{_M}.ConstantAnnotation"}),
    file="kb/dialects/cutile.py",
    kernel_mark=f"{_M}.kernel",
    constexpr_mark=f"{_M}.Constant",
    constexpr_typed=True,
)  # fmt: skip
