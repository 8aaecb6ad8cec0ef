"""Triton (3.6 to 3.9): native calls and the operations they stand for.

Source: signatures of the public module `triton.language`, version 3.9.0.
"""

from __future__ import annotations

from kb.dialects.model import Dialect, Row
from kb.dialects.python import BUILTINS
from kb.ops import OpKind as K

_M = "triton.language"
_MATH = f"{_M}.math"
_LIBDEVICE = (f"{_M}.extra.libdevice", f"{_M}.extra.cuda.libdevice")
_FORMER_LIBDEVICE = (f"{_M}.libdevice", _MATH)
"""Where CUDA's libdevice was up to version 2.3."""


def _named(kind: K, name: str, signature: str) -> tuple[Row, ...]:
    """A function that lives in the language, in its math module and as a method of a tile."""
    places = (f"{_M}.{name}", f"{_MATH}.{name}", f".{name}")
    return tuple(Row(place, kind, signature) for place in places)


_DTYPE_TESTS = (
    "is_floating", "is_int", "is_int_signed", "is_int_unsigned", "is_bf16", "is_fp16", "is_fp32",
    "is_fp64", "is_fp8", "is_int1", "is_int8", "is_int16", "is_int32", "is_int64", "is_uint8",
    "is_uint16", "is_uint32", "is_uint64", "is_ptr", "is_bool", "is_fp8e4nv", "is_fp8e5",
    "is_standard_floating", "is_constexpr",
)  # fmt: skip
_UNARY = (
    (K.EXP, "exp"), (K.EXP2, "exp2"), (K.LOG, "log"), (K.LOG2, "log2"), (K.SQRT, "sqrt"),
    (K.RSQRT, "rsqrt"), (K.SIN, "sin"), (K.COS, "cos"), (K.ERF, "erf"), (K.ABS, "abs"),
    (K.FLOOR, "floor"), (K.CEIL, "ceil"), (K.SIGMOID, "sigmoid"), (K.SQRT, "sqrt_rn"),
)  # fmt: skip
_LIBDEVICE_UNARY = {
    "tanh": K.TANH, "tan": K.TAN, "sinh": K.SINH, "cosh": K.COSH, "rsqrt": K.RSQRT,
    "exp": K.EXP, "exp2": K.EXP2, "log": K.LOG, "log2": K.LOG2, "sqrt": K.SQRT, "erf": K.ERF,
    "isnan": K.ISNAN, "floor": K.FLOOR, "ceil": K.CEIL, "abs": K.ABS, "sin": K.SIN, "cos": K.COS,
}  # fmt: skip
_EXTERN = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "erfc", "erfcx", "erfinv",
    "expm1", "fast_expf", "fast_tanhf", "lgamma", "log10", "log1p", "logb", "nearbyint", "rint",
    "round", "rcbrt", "tgamma", "trunc", "isinf", "finitef", "isfinited", "j0", "j1", "y0", "y1",
    "signbit", "ffs", "clz", "popc", "brev", "fast_logf", "fast_log2f", "fast_sinf", "fast_cosf",
    "llrint", "llround", "div_rd", "rsqrt_rn", "float_as_int", "int_as_float", "float2int_rn",
    "float2int_rd", "norm3d", "ceil", "floor",
)  # fmt: skip
_EXTERN_BINARY = (
    "pow", "atan2", "fmod", "remainder", "hypot", "copysign", "nextafter", "fdim", "div_rn",
    "div_rz", "div_ru", "fast_dividef", "fast_powf", "add_rn", "mul_rn", "sub_rn", "ldexp",
    "byte_perm",
)  # fmt: skip


_IN_MATH = {f"{_MATH}.{name}" for name in (*(n for _, n in _UNARY), "div_rn")}
"""What `math` still has: the operations of the language."""


def _libdevice(modules: tuple[str, ...]) -> tuple[Row, ...]:
    rows: list[Row] = []
    for module in modules:
        rows += [Row(f"{module}.{name}", kind, "x") for name, kind in _LIBDEVICE_UNARY.items()]
        rows += [
            Row(f"{module}.{name}", K.EXTERN_MATH, "x")
            for name in _EXTERN
            if name not in _LIBDEVICE_UNARY
        ]
        rows += [Row(f"{module}.{name}", K.EXTERN_MATH, "x y") for name in _EXTERN_BINARY]
    return tuple(row for row in rows if row.path not in _IN_MATH)


_FORMER = (
    *_libdevice(_FORMER_LIBDEVICE),
    Row(f"{_M}._experimental_descriptor_load", K.DESCRIPTOR_LOAD,
        "descriptor=desc_pointer offsets shape dtype"),
    Row(f"{_M}._experimental_descriptor_store", K.DESCRIPTOR_STORE,
        "descriptor=desc_pointer value offsets"),
)  # fmt: skip
"""What versions before 3.6 had."""


def _roundings() -> dict[str, str]:
    """Suffixes of CUDA's libdevice; functions that begin with `fast_` are approximations."""
    names = {*_EXTERN, *_EXTERN_BINARY, *_LIBDEVICE_UNARY}
    paths = {f"{module}.{name}": name for module in _LIBDEVICE for name in names}
    paths |= {f"{module}.{name}": name for module in (_M, _MATH) for name in ("div_rn", "sqrt_rn")}
    ends = {path: name.rpartition("_")[2] for path, name in paths.items()}
    found = {path: end for path, end in ends.items() if end in ("rn", "rz", "ru", "rd")}
    fast = {path: "approx" for path, name in paths.items() if name.startswith("fast_")}
    return {**found, **fast}


def _reduction(kind: K, name: str, extra: str = "") -> tuple[Row, ...]:
    signature = f"x=input axis {extra} keepdims=keep_dims"
    return (Row(f"{_M}.{name}", kind, signature), Row(f".{name}", kind, signature))


def _also_method(kind: K, name: str, signature: str) -> tuple[Row, ...]:
    """A function that tensors have as a method too."""
    return Row(f"{_M}.{name}", kind, f"x=input {signature}"), Row(
        f".{name}", kind, f"x {signature}"
    )


def _atomic(kind: K, name: str) -> Row:
    return Row(f"{_M}.{name}", kind, "pointer value=val mask sem scope")


ROWS: tuple[Row, ...] = (
    Row(f"{_M}.program_id", K.BLOCK_ID, "axis"),
    Row(f"{_M}.num_programs", K.NUM_BLOCKS, "axis"),
    Row(f"{_M}.range", K.RANGE,
        "low=arg1 high=arg2 step num_stages loop_unroll_factor disallow_acc_multi_buffer flatten "
        "warp_specialize disable_licm"),
    Row(f"{_M}.static_range", K.STATIC_RANGE, "low=arg1 high=arg2 step"),
    Row(f"{_M}.load", K.LOAD,
        "pointer mask padding=other * boundary_check padding_option cache_modifier "
        "eviction_policy volatile"),
    Row(f"{_M}.store", K.STORE,
        "pointer value mask * boundary_check cache_modifier eviction_policy"),
    Row(f"{_M}.make_block_ptr", K.BLOCK_POINTER, "base shape strides offsets block_shape order"),
    Row(f"{_M}.advance", K.ADVANCE, "pointer=base offsets"),
    Row(".advance", K.ADVANCE, "pointer=base offsets"),
    Row(f"{_M}.make_tensor_descriptor", K.DESCRIPTOR,
        "base shape strides block_shape padding_option"),
    Row(f"{_M}._experimental_make_tensor_descriptor", K.DESCRIPTOR,
        "base shape strides block_shape padding_option"),
    Row(f"{_M}.load_tensor_descriptor", K.DESCRIPTOR_LOAD, "descriptor=desc offsets"),
    Row(".load", K.DESCRIPTOR_LOAD, "descriptor offsets"),
    Row(f"{_M}.store_tensor_descriptor", K.DESCRIPTOR_STORE, "descriptor=desc offsets value"),
    Row(".store", K.DESCRIPTOR_STORE, "descriptor offsets value"),
    Row(".gather", K.DESCRIPTOR_GATHER, "descriptor x_offsets y_offset"),
    Row(".scatter", K.DESCRIPTOR_SCATTER, "descriptor value x_offsets y_offset"),
    Row(".atomic_add", K.DESCRIPTOR_ATOMIC_ADD, "descriptor offsets value"),
    _atomic(K.ATOMIC_ADD, "atomic_add"), _atomic(K.ATOMIC_MAX, "atomic_max"),
    _atomic(K.ATOMIC_MIN, "atomic_min"), _atomic(K.ATOMIC_AND, "atomic_and"),
    _atomic(K.ATOMIC_OR, "atomic_or"), _atomic(K.ATOMIC_XOR, "atomic_xor"),
    _atomic(K.ATOMIC_XCHG, "atomic_xchg"),
    Row(f"{_M}.atomic_cas", K.ATOMIC_CAS, "pointer expected=cmp value=val sem scope"),
    Row(f"{_M}.full", K.FULL, "shape value dtype"),
    Row(f"{_M}.zeros", K.ZEROS, "shape dtype"),
    Row(f"{_M}.zeros_like", K.ZEROS_LIKE, "x=input"),
    Row(f"{_M}.arange", K.ARANGE, "start size=end"),
    Row(f"{_M}.reshape", K.RESHAPE, "x=input *shape * can_reorder"),
    Row(".reshape", K.RESHAPE, "x *shape * can_reorder"),
    Row(f"{_M}.view", K.RESHAPE, "x=input *shape"),
    Row(".view", K.RESHAPE, "x *shape"),
    Row(f"{_M}.ravel", K.RAVEL, "x"),
    Row(".ravel", K.RAVEL, "x"),
    Row(f"{_M}.trans", K.TRANSPOSE, "x=input *axes"),
    Row(".trans", K.TRANSPOSE, "x *axes"),
    Row(f"{_M}.permute", K.PERMUTE, "x=input *axes"),
    Row(".permute", K.PERMUTE, "x *axes"),
    Row(f"{_M}.expand_dims", K.EXPAND_DIMS, "x=input axis"),
    Row(".expand_dims", K.EXPAND_DIMS, "x axis"),
    Row(f"{_M}.broadcast_to", K.BROADCAST_TO, "x=input *shape"),
    Row(".broadcast_to", K.BROADCAST_TO, "x *shape"),
    Row(f"{_M}.broadcast", K.BROADCAST, "x=input y=other"),
    Row(f"{_M}.cat", K.CAT, "x=input y=other can_reorder dim"),
    Row(f"{_M}.join", K.JOIN, "x=a y=b"),
    Row(f"{_M}.split", K.SPLIT, "x=a"),
    Row(".split", K.SPLIT, "x"),
    Row(f"{_M}.interleave", K.INTERLEAVE, "x=a y=b"),
    Row(f"{_M}.flip", K.FLIP, "x dim"),
    Row(".flip", K.FLIP, "x dim"),
    Row(".item", K.ITEM, "x"),
    Row(".to", K.CAST, "x dtype * rounding=fp_downcast_rounding bitcast"),
    Row(f"{_M}.cast", K.CAST, "x=input dtype rounding=fp_downcast_rounding bitcast"),
    Row(".cast", K.CAST, "x dtype rounding=fp_downcast_rounding bitcast"),
    Row(f"{_M}.to_tensor", K.BUILTIN, "x"),
    Row(f"{_M}.constexpr", K.BUILTIN, "x"),
    Row(f"{_M}.pointer_type", K.POINTER_TYPE, "dtype=element_ty space=address_space const"),
    Row(f"{_M}.where", K.SELECT, "condition x y"),
    Row(f"{_M}.add", K.ADD, "lhs=x rhs=y sanitize_overflow"),
    Row(f"{_M}.sub", K.SUB, "lhs=x rhs=y sanitize_overflow"),
    Row(f"{_M}.mul", K.MUL, "lhs=x rhs=y sanitize_overflow"),
    Row(f"{_M}.fdiv", K.DIV, "lhs=x rhs=y ieee_rounding approx"),
    Row(f"{_MATH}.fdiv", K.DIV, "lhs=x rhs=y ieee_rounding approx"),
    Row(f"{_M}.div_rn", K.DIV, "lhs=x rhs=y"),
    Row(f"{_MATH}.div_rn", K.DIV, "lhs=x rhs=y"),
    Row(f"{_M}.cdiv", K.CEIL_DIV, "lhs=x rhs=div"),
    Row("triton.cdiv", K.CEIL_DIV, "lhs=x rhs=y"),
    Row(f"{_M}.umulhi", K.UMULHI, "lhs=x rhs=y"),
    Row(f"{_MATH}.umulhi", K.UMULHI, "lhs=x rhs=y"),
    Row(f"{_M}.fma", K.FMA, "x y z"),
    Row(f"{_MATH}.fma", K.FMA, "x y z"),
    Row(f"{_M}.maximum", K.MAXIMUM, "lhs=x rhs=y propagate_nan"),
    Row(f"{_M}.minimum", K.MINIMUM, "lhs=x rhs=y propagate_nan"),
    Row(f"{_M}.clamp", K.CLAMP, "x low=min high=max propagate_nan"),
    *(row for kind, name in _UNARY for row in _named(kind, name, "x")),
    Row(f"{_M}.softmax", K.SOFTMAX, "x dim keepdims=keep_dims ieee_rounding"),
    *_libdevice(_LIBDEVICE),
    *_reduction(K.REDUCE_SUM, "sum", ""),
    Row(f"{_M}.max", K.REDUCE_MAX,
        "x=input axis return_indices return_indices_tie_break_left keepdims=keep_dims"),
    Row(".max", K.REDUCE_MAX,
        "x axis return_indices return_indices_tie_break_left keepdims=keep_dims"),
    Row(f"{_M}.min", K.REDUCE_MIN,
        "x=input axis return_indices return_indices_tie_break_left keepdims=keep_dims"),
    Row(".min", K.REDUCE_MIN,
        "x axis return_indices return_indices_tie_break_left keepdims=keep_dims"),
    *_also_method(K.ARGMAX, "argmax", "axis tie_break_left keepdims=keep_dims"),
    *_also_method(K.ARGMIN, "argmin", "axis tie_break_left keepdims=keep_dims"),
    *_reduction(K.REDUCE_XOR, "xor_sum"),
    *_reduction(K.REDUCE_OR, "reduce_or"),
    *_also_method(K.REDUCE, "reduce", "axis combine=combine_fn keepdims=keep_dims"),
    *_also_method(K.SCAN, "associative_scan", "axis combine=combine_fn reverse"),
    Row(f"{_M}.cumsum", K.CUMSUM, "x=input axis reverse dtype"),
    Row(".cumsum", K.CUMSUM, "x axis reverse dtype"),
    *_also_method(K.CUMPROD, "cumprod", "axis reverse"),
    Row(f"{_M}.sort", K.SORT, "x dim descending"),
    Row(".sort", K.SORT, "x dim descending"),
    Row(f"{_M}.topk", K.TOPK, "x k dim"),
    Row(f"{_M}.histogram", K.HISTOGRAM, "x=input num_bins mask"),
    Row(".histogram", K.HISTOGRAM, "x num_bins mask"),
    Row(f"{_M}.gather", K.TILE_GATHER, "x=src index axis"),
    Row(f"{_M}.dot", K.MMA,
        "lhs=input rhs=other acc input_precision allow_tf32 max_num_imprecise_acc out_dtype"),
    Row(f"{_M}.dot_scaled", K.MMA_SCALED,
        "lhs lhs_scale lhs_format rhs rhs_scale rhs_format acc fast_math lhs_k_pack "
        "rhs_k_pack out_dtype"),
    Row(f"{_M}.multiple_of", K.MULTIPLE_OF, "x=input values"),
    Row(f"{_M}.max_contiguous", K.MAX_CONTIGUOUS, "x=input values"),
    Row(f"{_M}.max_constancy", K.MAX_CONSTANCY, "x=input values"),
    Row(f"{_M}.assume", K.ASSUME, "condition=cond"),
    Row(f"{_M}.static_assert", K.STATIC_ASSERT, "condition=cond message=msg"),
    Row(f"{_M}.static_print", K.STATIC_PRINT, "*values * sep end file flush"),
    Row(f"{_M}.device_assert", K.DEVICE_ASSERT, "condition=cond message=msg mask"),
    Row(f"{_M}.device_print", K.DEVICE_PRINT, "prefix *values * hex"),
    Row(f"{_M}.debug_barrier", K.BARRIER, ""),
    Row(f"{_M}.inline_asm_elementwise", K.INLINE_ASM, "asm constraints args dtype is_pure pack"),
    Row(f"{_M}.extra.cuda.gdc_wait", K.GRID_WAIT, ""),
    Row(f"{_M}.extra.cuda.gdc_launch_dependents", K.GRID_LAUNCH, ""),
    Row(f"{_M}.rand", K.RAND, "seed offset n_rounds"),
    Row(f"{_M}.randn", K.RANDN, "seed offset n_rounds"),
    Row(f"{_M}.randint", K.RANDINT, "seed offset n_rounds"),
    Row(f"{_M}.randint4x", K.RANDINT4, "seed offset n_rounds"),
    Row(f"{_M}.rand4x", K.RAND4, "seed offset n_rounds"),
    Row(f"{_M}.philox", K.PHILOX, "seed c0 c1 c2 c3 n_rounds"),
    Row(f"{_M}.uint_to_uniform_float", K.UINT_TO_UNIFORM, "x"),
    *(Row(f".{test}", K.BUILTIN, "x") for test in _DTYPE_TESTS),
    Row("triton.next_power_of_2", K.BUILTIN, "x"),
    Row(f"{_M}.standard._log2", K.BUILTIN, "x"),
    Row(f"{_M}.core.get_int_dtype", K.BUILTIN, "x=bitwidth y=signed"),
    Row(f"{_M}.swizzle2d", K.SWIZZLE_2D, "i j size_i size_j size_g"),
    *_FORMER,
    *BUILTINS,
)  # fmt: skip

_DTYPES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int8": "i8",
    "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "int1": "i1", "float8e4nv": "f8e4m3",
    "float8e5": "f8e5m2", "float8e4b15": "f8e4b15", "float8e4b8": "f8e4b8",
    "float8e5b16": "f8e5b16", "void": "void",
}  # fmt: skip

TRITON = Dialect(
    name="triton",
    module=_M,
    alias="tl",
    rows=ROWS,
    dtypes={f"{_M}.{native}": name for native, name in _DTYPES.items()}
    | {f"{_M}.core.{native}": name for native, name in _DTYPES.items()},
    enums={f"{_M}.{name}": f"type.{name}" for name in ("tensor", "tensor_descriptor", "dtype")}
    | {f"{_M}.PropagateNan.{name}": f"propagate_nan.{name.lower()}" for name in ("ALL", "NONE")},
    kernel_decorators=frozenset({"triton.jit", "triton.runtime.jit", "triton.runtime.jit.jit"}),
    helper_decorators=frozenset({"triton.jit"}),
    constexpr_annotations=frozenset({f"{_M}.constexpr", f"{_M}.core.constexpr"}),
    file="kb/dialects/triton.py",
    kernel_mark="triton.jit",
    constexpr_mark=f"{_M}.constexpr",
    assignment_copies=True,
    marks_helpers=True,
    constant_wrapper=f"{_M}.constexpr",
    float_from_text=True,
    reductions_widen=True,  # triton.language 3.9, standard.py
    stores_cast=True,
    rounds_products="tf32",  # triton.language 3.9, core.py, dot: input_precision
    staged_launch=True,  # triton.Config
    contracted_bytes=32,  # triton.backends.nvidia.compiler.min_dot_size, 3.9.0
    narrow_float_since=89,  # triton.backends.nvidia.compiler.parse_options, 3.9.0
    former=frozenset(row.path for row in _FORMER),
    roundings=_roundings(),
)
