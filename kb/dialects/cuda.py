"""CUDA C++ (13.0) and PTX (9.0): device functions, types and instructions, and the operations they
stand for.

Sources: CUDA C++ Programming Guide 13.0 (language extensions), CUDA Math API 13.0, PTX ISA 9.0,
CUB 3.0 (block and warp collectives). Kernels are read from CUDA C++, not written in it.
"""

from __future__ import annotations

import re

from kb.dialects.cuda_libraries import NAMED_VECTORS
from kb.dialects.model import Dialect, Row
from kb.ops import OpKind as K


def _rows(kind: K, signature: str, names: str) -> tuple[Row, ...]:
    return tuple(Row(name, kind, signature) for name in names.split())


_MATH = (
    *_rows(K.EXP, "x", "expf exp std::exp __expf hexp h2exp"),
    *_rows(K.EXP2, "x", "exp2f exp2 std::exp2 hexp2 h2exp2 ex2.approx ex2.approx.ftz"),
    *_rows(K.LOG, "x", "logf log std::log __logf hlog h2log"),
    *_rows(K.LOG2, "x", "log2f log2 std::log2 __log2f hlog2 lg2.approx lg2.approx.ftz"),
    *_rows(K.SQRT, "x", "sqrtf sqrt std::sqrt __fsqrt_rn hsqrt h2sqrt sqrt.approx sqrt.rn"),
    *_rows(K.RSQRT, "x",
           "rsqrtf rsqrt __frsqrt_rn hrsqrt h2rsqrt rsqrt.approx rsqrt.approx.ftz"),
    *_rows(K.SIN, "x", "sinf sin std::sin __sinf hsin sin.approx"),
    *_rows(K.COS, "x", "cosf cos std::cos __cosf hcos cos.approx"),
    *_rows(K.TAN, "x", "tanf tan std::tan __tanf"),
    *_rows(K.TANH, "x", "tanhf tanh std::tanh htanh __tanhf cutlass::fast_tanh tanh.approx"),
    *_rows(K.SINH, "x", "sinhf sinh std::sinh"),
    *_rows(K.COSH, "x", "coshf cosh std::cosh"),
    *_rows(K.ERF, "x", "erff erf std::erf"),
    *_rows(K.ATAN2, "lhs rhs", "atan2f atan2"),
    *_rows(K.POW, "lhs rhs", "powf pow std::pow __powf"),
    *_rows(K.ABS, "x", "fabsf fabs abs std::abs __habs __habs2 llabs"),
    *_rows(K.FLOOR, "x", "floorf floor std::floor hfloor"),
    *_rows(K.CEIL, "x", "ceilf ceil std::ceil hceil"),
    *_rows(K.ISNAN, "x", "isnan std::isnan __hisnan __isnanf"),
    *_rows(K.FMA, "x y z",
           "fmaf fma std::fma __fmaf_rn __fmaf_rz __hfma __hfma2 __ffma2_rn fma.rn fma.rn.ftz "
           "fma.rn.f32x2"),
    *_rows(K.DIV, "lhs rhs",
           "__fdividef fdividef __fdiv_rn __hdiv __h2div div.approx div.full div.rn"),
    *_rows(K.DIV, "rhs", "__frcp_rn __frcp_rd __frcp_ru __frcp_rz hrcp h2rcp"),
    *_rows(K.MUL, "lhs rhs", "__fmul_rn __hmul __hmul2 __hmul_rn __hmul2_rn mul.rn mul.f32 "
           "__fmul_rz __mul24 __umul24 mul.rn.f32x2 __dmul_rn __fmul2_rn"),
    *_rows(K.ADD, "lhs rhs",
           "__fadd_rn __hadd __hadd2 __hadd_rn __hadd2_rn add.rn __dadd_rn __fadd2_rn"),
    *_rows(K.SUB, "lhs rhs", "__fsub_rn __hsub __hsub2 sub.rn"),
    *_rows(K.NEG, "x", "__hneg __hneg2"),
    *_rows(K.MAXIMUM, "lhs rhs",
           "fmaxf fmax std::fmax max ::max std::max umax __hmax __hmax2 __hmax_nan __hmax2_nan "
           "cuda::std::max cute::max max.f32 max.ftz.f32"),
    *_rows(K.MINIMUM, "lhs rhs",
           "fminf fmin std::fmin min ::min std::min umin __hmin __hmin2 __hmin_nan __hmin2_nan "
           "cuda::std::min cute::min min.f32"),
    Row("std::clamp", K.CLAMP, "x low high"), Row("cute::ceil_div", K.CEIL_DIV, "lhs rhs"),
    *_rows(K.UMULHI, "lhs rhs", "__umulhi __mulhi __umul64hi"),
    *_rows(K.EQ, "lhs rhs", "__heq __heq2"), *_rows(K.NE, "lhs rhs", "__hne"),
    *_rows(K.LT, "lhs rhs", "__hlt __hlt2"), *_rows(K.LE, "lhs rhs", "__hle"),
    *_rows(K.GT, "lhs rhs", "__hgt __hgt2"), *_rows(K.GE, "lhs rhs", "__hge"),
    *_rows(K.EXTERN_MATH, "x",
           "expm1f expm1 log1pf log1p log10f log10 exp10f __exp10f acosf asinf atanf acos asin "
           "atan cbrtf erfcf erfinvf normcdff rintf rint nearbyintf roundf round std::round truncf "
           "trunc __popc __popcll __clz __clzll __ffs __ffsll __brev __brevll "
           "__saturatef isinf std::isinf isfinite std::isfinite signbit hrint htrunc lgammaf "
           "tgammaf __fsqrt_rd lroundf bfind "
           "llrintf lrintf __hisinf __lowhigh2highlow __low2half2 __high2half2 "
           "__low2bfloat162 __high2bfloat162"),
    *_rows(K.EXTERN_MATH, "x y",
           "fmodf fmod remainderf copysignf hypotf fdimf ldexpf nextafterf nextafter "
           "ldexp __usad4 __vabsdiffu4 __hcmadd __vadd4 __vsub4 __vcmpeq4 __vcmpgtu4 __vmaxu4 "
           "__vminu4 __vadd2 __vsub2 __heq2_mask __hgt2_mask __hge2_mask __hlt2_mask __hle2_mask "
           "__hne2_mask __lows2half2 __highs2half2 __lows2bfloat162 __highs2bfloat162"),
    *_rows(K.EXTERN_MATH, "x y z",
           "__dp4a __byte_perm prmt prmt.b32 lop3.b32 shf.l.wrap.b32 __sad __funnelshift_l "
           "__funnelshift_r __funnelshift_lc __funnelshift_rc"),
)  # fmt: skip

_CONVERSIONS: dict[str, str] = {
    "__half2float": "f32", "__low2float": "f32", "__high2float": "f32", "half2float": "f32",
    "__bfloat162float": "f32", "__float2half": "f16", "__float2half_rn": "f16",
    "__float2half_rz": "f16", "__float2bfloat16": "bf16", "__float2bfloat16_rn": "bf16",
    "__float2int_rn": "i32", "__float2int_rd": "i32", "__float2int_rz": "i32",
    "__float2int_ru": "i32", "__float2uint_rn": "u32", "__int2float_rn": "f32",
    "__uint2float_rn": "f32", "__half22float2": "f32", "__bfloat1622float2": "f32",
    "__float22half2_rn": "f16", "__float22bfloat162_rn": "bf16", "__float2half2_rn": "f16",
    "__float2bfloat162_rn": "bf16", "__half2int_rn": "i32", "__int2half_rn": "f16",
    "__ushort2half_rn": "f16", "__double2float_rn": "f32", "__float2ll_rn": "i64",
    "__double2half": "f16", "__ll2float_rn": "f32", "__half2bfloat16": "bf16",
    "__nv_cvt_float_to_fp8": "f8e4m3", "__nv_cvt_float2_to_fp8x2": "f8e4m3",
    "__half2half2": "f16", "__bfloat162bfloat162": "bf16", "__nv_cvt_float_to_e8m0": "f8e8m0",
    "__nv_cvt_halfraw_to_fp8": "f8e4m3", "__nv_cvt_bfloat16raw_to_fp8": "f8e4m3",
    "__nv_cvt_fp8_to_halfraw": "f16", "__nv_cvt_fp4_to_halfraw": "f16",
    "__nv_cvt_fp8x2_to_halfraw2": "f16", "__nv_cvt_fp4x2_to_halfraw2": "f16",
    "__nv_cvt_halfraw2_to_fp8x2": "f8e4m3", "__nv_cvt_bfloat16raw2_to_fp8x2": "f8e4m3",
    "__nv_cvt_float_to_fp4": "f4e2m1", "__nv_cvt_float2_to_fp4x2": "f4e2m1",
}  # fmt: skip
HALVES: dict[str, int] = {
    "__low2half": 0, "__high2half": 1, "__low2bfloat16": 0, "__high2bfloat16": 1,
}  # fmt: skip
_PACKS: dict[str, str] = {
    "__floats2half2_rn": "f16", "__floats2bfloat162_rn": "bf16", "__halves2half2": "f16",
    "__halves2bfloat162": "bf16", "make_half2": "f16", "make_bfloat162": "bf16",
    "make_float2": "f32", "make_float3": "f32", "make_float4": "f32", "make_int2": "i32",
    "make_int3": "i32", "make_int4": "i32", "make_uint2": "u32", "make_uint3": "u32",
    "make_uint4": "u32", "make_longlong2": "i64", "make_ulonglong2": "u64",
    "make_double2": "f64", "make_char4": "i8", "make_uchar4": "u8", "make_short2": "i16",
    "make_ushort2": "u16",
}  # fmt: skip
_BITCASTS: dict[str, str] = {
    "__float_as_int": "i32", "__float_as_uint": "u32", "__int_as_float": "f32",
    "__uint_as_float": "f32", "__half_as_ushort": "u16", "__half_as_short": "i16",
    "__ushort_as_half": "f16", "__short_as_half": "f16", "__bfloat16_as_ushort": "u16",
    "__ushort_as_bfloat16": "bf16", "__double_as_longlong": "i64", "__longlong_as_double": "f64",
}  # fmt: skip
_LOADS = "__ldg __ldca __ldcg __ldcs __ldlu __ldcv"
_STORES = "__stwb __stcg __stcs __stwt"

_MEMORY = (
    *_rows(K.LOAD, "pointer", _LOADS),
    *_rows(K.STORE, "pointer value", _STORES),
    *_rows(K.ATOMIC_ADD, "pointer value", "atomicAdd atomicAdd_block atomicAdd_system atomicSub"),
    *_rows(K.ATOMIC_MAX, "pointer value", "atomicMax atomicMax_block atomicMax_system"),
    *_rows(K.ATOMIC_MIN, "pointer value", "atomicMin atomicMin_block atomicMin_system"),
    *_rows(K.ATOMIC_AND, "pointer value", "atomicAnd atomicAnd_block atomicAnd_system"),
    *_rows(K.ATOMIC_OR, "pointer value", "atomicOr atomicOr_block atomicOr_system"),
    *_rows(K.ATOMIC_XOR, "pointer value", "atomicXor"),
    *_rows(K.ATOMIC_XCHG, "pointer value", "atomicExch atomicExch_block atomicExch_system"),
    *_rows(K.ATOMIC_CAS, "pointer expected value", "atomicCAS atomicCAS_block atomicCAS_system"),
    *_rows(K.ATOMIC_INC, "pointer value", "atomicInc"),
    *_rows(K.ATOMIC_DEC, "pointer value", "atomicDec"),
    Row("__cvta_generic_to_shared", K.SHARED_ADDRESS, "x"),
    Row("__cvta_generic_to_global", K.COPY, "x"),
    Row("cast_smem_ptr_to_uint", K.SHARED_ADDRESS, "x"),
    *_rows(K.PREFETCH, "pointer", "__prefetch_global_l1 __prefetch_global_l2"),
    Row("__pipeline_memcpy_async", K.ASYNC_COPY, "target pointer bytes"),
    Row("__pipeline_commit", K.ASYNC_COMMIT, ""),
    Row("__pipeline_wait_prior", K.ASYNC_WAIT, "pending"),
)
_WARP = (
    *_rows(K.SHUFFLE, "mask x lane width",
           "__shfl_sync __shfl_xor_sync __shfl_down_sync __shfl_up_sync"),
    *_rows(K.SHUFFLE, "x lane width", "__shfl __shfl_xor __shfl_down __shfl_up"),
    *_rows(K.VOTE, "mask x", "__ballot_sync __any_sync __all_sync __match_any_sync"),
    *_rows(K.VOTE, "x", "__ballot __any __all"),
    Row("__activemask", K.VOTE, ""),
    Row("__reduce_add_sync", K.REDUCE_SUM, "mask x"),
    Row("__reduce_max_sync", K.REDUCE_MAX, "mask x"),
    Row("__reduce_min_sync", K.REDUCE_MIN, "mask x"),
    Row("__reduce_or_sync", K.REDUCE_OR, "mask x"),
    Row("__reduce_xor_sync", K.REDUCE_XOR, "mask x"),
    Row("__syncthreads", K.BARRIER, ""), Row("__syncwarp", K.BARRIER, "mask"),
    *_rows(K.BARRIER_VOTE, "x", "__syncthreads_or __syncthreads_and __syncthreads_count"),
    *_rows(K.FENCE, "", "__threadfence __threadfence_block __threadfence_system"),
    Row("cudaGridDependencySynchronize", K.GRID_WAIT, ""),
    Row("cudaTriggerProgrammaticLaunchCompletion", K.GRID_LAUNCH, ""),
    *_rows(K.CLOCK, "", "clock clock64 globaltimer __globaltimer"),
    *_rows(K.TRAP, "", "__trap __brkpt __builtin_unreachable"),
    Row("__nanosleep", K.SLEEP, "x"),
    Row("assert", K.DEVICE_ASSERT, "condition"), Row("__builtin_assume", K.ASSUME, "condition"),
    Row("printf", K.DEVICE_PRINT, "prefix *values"),
    Row("wmma::mma_sync", K.MMA, "target lhs rhs acc"),
    Row("nvcuda::wmma::mma_sync", K.MMA, "target lhs rhs acc"),
)  # fmt: skip

ROWS: tuple[Row, ...] = (
    *_MATH, *_MEMORY, *_WARP,
    *(Row(name, K.CAST, "x") for name in _CONVERSIONS),
    *(Row(name, K.VECTOR, "*item") for name in _PACKS),
    *(Row(name, K.BITCAST, "x") for name in _BITCASTS),
)  # fmt: skip

_BY_MATH = {row.path: row for row in _MATH if row.path[0].isalpha() and row.path.isalnum()}
"""Functions of the C library, which others also have under their own names."""

RESULT_DTYPES: dict[str, str] = _CONVERSIONS | _PACKS | _BITCASTS
"""Element type of what a conversion gives."""

OF_PAIRS = ("2half2_rn", "2bfloat162_rn", "half2half2", "bfloat162bfloat162", "_to_halfraw2")
"""How the names of conversions end that give two elements."""

ATTRIBUTES: dict[str, tuple[tuple[str, str], ...]] = {
    "__shfl_sync": (("mode", "index"),), "__shfl": (("mode", "index"),),
    "__shfl_xor_sync": (("mode", "xor"),), "__shfl_xor": (("mode", "xor"),),
    "__shfl_down_sync": (("mode", "down"),), "__shfl_down": (("mode", "down"),),
    "__shfl_up_sync": (("mode", "up"),), "__shfl_up": (("mode", "up"),),
    "__ballot": (("mode", "ballot"),), "__any": (("mode", "any"),), "__all": (("mode", "all"),),
    "__ballot_sync": (("mode", "ballot"),), "__any_sync": (("mode", "any"),),
    "__all_sync": (("mode", "all"),), "__match_any_sync": (("mode", "match"),),
    "__activemask": (("mode", "active"),), "__syncthreads": (("scope", "block"),),
    "__syncwarp": (("scope", "warp"),), "__syncthreads_or": (("mode", "any"),),
    "__syncthreads_and": (("mode", "all"),), "__syncthreads_count": (("mode", "count"),),
    "__threadfence": (("scope", "device"),), "__threadfence_block": (("scope", "block"),),
    "__threadfence_system": (("scope", "system"),),
    "__ldg": (("cache", "nc"),), "__ldca": (("cache", "ca"),), "__ldcg": (("cache", "cg"),),
    "__ldcs": (("cache", "cs"),), "__ldlu": (("cache", "lu"),), "__ldcv": (("cache", "cv"),),
    "__stwb": (("cache", "wb"),), "__stcg": (("cache", "cg"),), "__stcs": (("cache", "cs"),),
    "__stwt": (("cache", "wt"),),
    **{row.path: (("scope", row.path.rpartition("_")[2]),) for row in _MEMORY
       if row.path.startswith("atomic") and row.path.endswith(("_block", "_system"))},
    "atomicSub": (("negated", "value"),),
    **{f"__reduce_{w}_sync": (("scope", "warp"),) for w in ("add", "max", "min", "or", "xor")},
    "wmma::mma_sync": (("scope", "warp"),), "nvcuda::wmma::mma_sync": (("scope", "warp"),),
}  # fmt: skip
"""What the name of a function says beyond its operation."""

PAIRS = dict.fromkeys(("sincosf", "sincos", "__sincosf"), (K.SIN, K.COS))
"""Functions that store two results behind the pointers after their argument. Source: CUDA Math
API."""

APPROXIMATE = frozenset(
    {
        "__expf", "__logf", "__log2f", "__sinf", "__cosf", "__sincosf", "__tanf", "__powf",
        "__fdividef",
        "fdividef", "__exp10f", "rsqrt.approx", "rsqrt.approx.ftz", "ex2.approx",
        "ex2.approx.ftz", "lg2.approx", "lg2.approx.ftz", "div.approx", "div.full", "sqrt.approx",
        "sin.approx", "cos.approx", "tanh.approx", "rcp.approx.ftz", "rcp.approx",
    }
)  # fmt: skip
"""Functions that round less strictly than IEEE 754 asks. Source: CUDA Math API, intrinsics; PTX
ISA, floating point instructions."""

"""Instructions that flush denormal numbers to zero."""

_SCALARS: dict[str, str] = {
    "float": "f32", "double": "f64", "half": "f16", "__half": "f16", "nv_half": "f16",
    "__nv_bfloat16": "bf16", "nv_bfloat16": "bf16", "bfloat16": "bf16", "cutlass::half_t": "f16",
    "half_t": "f16", "bfloat16_t": "bf16", "at::Half": "f16", "c10::Half": "f16",
    "at::BFloat16": "bf16", "c10::BFloat16": "bf16", "cutlass::bfloat16_t": "bf16",
    "torch::headeronly::Half": "f16", "torch::headeronly::BFloat16": "bf16",
    "torch::headeronly::Float8_e4m3fn": "f8e4m3", "c10::Float8_e4m3fn": "f8e4m3",
    "__nv_fp8_e4m3": "f8e4m3", "__nv_fp8_e5m2": "f8e5m2", "cutlass::float_e4m3_t": "f8e4m3",
    "cutlass::float_e5m2_t": "f8e5m2", "__nv_fp4_e2m1": "f4e2m1", "__nv_fp8_e8m0": "f8e8m0",
    "cutlass::tfloat32_t": "tf32",
    "char": "i8", "signed char": "i8", "int8_t": "i8", "unsigned char": "u8", "uint8_t": "u8",
    "short": "i16", "int16_t": "i16", "unsigned short": "u16", "uint16_t": "u16", "ushort": "u16",
    "int": "i32", "int32_t": "i32", "signed": "i32", "signed int": "i32", "unsigned": "u32",
    "unsigned int": "u32", "uint32_t": "u32", "uint": "u32", "long": "i64", "long int": "i64",
    "long long": "i64", "long long int": "i64", "int64_t": "i64", "ptrdiff_t": "i64",
    "ssize_t": "i64", "unsigned long": "u64", "unsigned long long": "u64",
    "unsigned long long int": "u64", "uint64_t": "u64", "size_t": "u64", "uintptr_t": "u64",
    "bool": "i1", "void": "void", "std::byte": "u8", "int64": "i64", "uchar": "u8",
    "std::size_t": "u64", "std::int64_t": "i64", "std::int32_t": "i32", "std::uint32_t": "u32",
    "std::uint8_t": "u8", "std::uint64_t": "u64", "std::uint16_t": "u16",
    "unsigned long int": "u64",
}  # fmt: skip

VECTORS: dict[str, tuple[str, int]] = {
    **{f"{name}{count}": (dtype, count)
       for name, dtype in (("float", "f32"), ("int", "i32"), ("uint", "u32"), ("double", "f64"),
                           ("longlong", "i64"), ("ulonglong", "u64"), ("short", "i16"),
                           ("ushort", "u16"), ("char", "i8"), ("uchar", "u8"), ("long", "i64"),
                           ("ulong", "u64"))
       for count in (1, 2, 3, 4)},
    "half2": ("f16", 2), "__half2": ("f16", 2), "nv_half2": ("f16", 2),
    "__nv_bfloat162": ("bf16", 2), "nv_bfloat162": ("bf16", 2), "__nv_fp8x2_e4m3": ("f8e4m3", 2),
    "__nv_fp8x4_e4m3": ("f8e4m3", 4), "__nv_fp8x2_e5m2": ("f8e5m2", 2), "dim3": ("u32", 3),
    "__nv_fp8x4_e5m2": ("f8e5m2", 4), "cutlass::uint128_t": ("u32", 4),
    "__nv_fp8x2_storage_t": ("u8", 2), "longlong4_16a": ("i64", 4), "ulonglong4_16a": ("u64", 4),
    **NAMED_VECTORS,
}  # fmt: skip
"""Built-in vector types: element type and number of elements."""

BITS: dict[str, int] = {
    "f4e2m1": 4, "i1": 8, "i8": 8, "u8": 8, "f8e4m3": 8, "f8e5m2": 8, "f8e8m0": 8, "i16": 16,
    "u16": 16, "f16": 16, "bf16": 16, "i32": 32, "u32": 32, "f32": 32, "tf32": 32, "i64": 64,
    "u64": 64, "f64": 64, "void": 8,
}  # fmt: skip
"""Bits of one element in memory."""

INDICES: dict[str, K] = {
    "threadIdx": K.THREAD_ID,
    "blockIdx": K.BLOCK_ID,
    "blockDim": K.BLOCK_THREADS,
    "gridDim": K.NUM_BLOCKS,
}
"""Built-in variables with a member per axis."""

REGISTERS: dict[str, tuple[K, int | None]] = {
    "%laneid": (K.LANE_ID, None), "%warpid": (K.WARP_ID, None), "%ctaid.x": (K.BLOCK_ID, 0),
    "%ctaid.y": (K.BLOCK_ID, 1), "%ctaid.z": (K.BLOCK_ID, 2), "%tid.x": (K.THREAD_ID, 0),
    "%tid.y": (K.THREAD_ID, 1), "%tid.z": (K.THREAD_ID, 2), "%ntid.x": (K.BLOCK_THREADS, 0),
    "%nctaid.x": (K.NUM_BLOCKS, 0), "%nctaid.y": (K.NUM_BLOCKS, 1),
    "%nctaid.z": (K.NUM_BLOCKS, 2),
    "%cluster_ctarank": (K.CLUSTER_RANK, None), "%cluster_nctarank": (K.CLUSTER_BLOCKS, None),
    "%globaltimer": (K.CLOCK, None), "%clock64": (K.CLOCK, None), "%clock": (K.CLOCK, None),
}  # fmt: skip
"""Special registers of PTX, with their axis."""

INSTRUCTIONS: tuple[tuple[str, K], ...] = (
    ("griddepcontrol.wait", K.GRID_WAIT), ("griddepcontrol.launch_dependents", K.GRID_LAUNCH),
    ("cp.async.commit_group", K.ASYNC_COMMIT), ("cp.async.bulk.commit_group", K.ASYNC_COMMIT),
    ("cp.async.wait_group", K.ASYNC_WAIT), ("cp.async.wait_all", K.ASYNC_WAIT),
    ("cp.async.bulk.wait_group", K.ASYNC_WAIT), ("cp.async.mbarrier", K.BARRIER_ARRIVE),
    ("cp.async.bulk.prefetch", K.PREFETCH), ("cp.async.bulk", K.BULK_COPY),
    ("cp.reduce.async.bulk", K.BULK_COPY), ("cp.async", K.ASYNC_COPY),
    ("mbarrier.init", K.BARRIER_INIT), ("mbarrier.inval", K.BARRIER_INIT),
    ("mbarrier.arrive", K.BARRIER_ARRIVE), ("mbarrier.expect_tx", K.BARRIER_ARRIVE),
    ("mbarrier.try_wait", K.BARRIER_WAIT), ("mbarrier.test_wait", K.BARRIER_WAIT),
    ("ldmatrix", K.MATRIX_LOAD), ("stmatrix", K.MATRIX_STORE), ("wmma.load", K.MATRIX_LOAD),
    ("wmma.store", K.MATRIX_STORE), ("mma.sync", K.MMA), ("wmma.mma", K.MMA), ("mma.sp", K.MMA),
    ("wgmma.mma_async", K.MMA), ("tcgen05.mma", K.MMA), ("wgmma.fence", K.FENCE),
    ("wgmma.commit_group", K.ASYNC_COMMIT), ("wgmma.wait_group", K.ASYNC_WAIT),
    ("tcgen05.commit", K.ASYNC_COMMIT), ("tcgen05.wait", K.ASYNC_WAIT), ("fence", K.FENCE),
    ("membar", K.FENCE), ("bar.arrive", K.BARRIER_ARRIVE), ("barrier.arrive", K.BARRIER_ARRIVE),
    ("barrier.cluster.arrive", K.BARRIER_ARRIVE), ("barrier.cluster.wait", K.BARRIER),
    ("bar.warp.sync", K.BARRIER), ("bar.sync", K.BARRIER), ("barrier.sync", K.BARRIER),
    ("barrier.cta.sync", K.BARRIER), ("barrier.cta.arrive", K.BARRIER_ARRIVE),
    ("prefetch", K.PREFETCH), ("ld.", K.LOAD), ("st.", K.STORE), ("red.", K.ATOMIC_ADD),
    ("multimem.st", K.STORE), ("multimem.red", K.ATOMIC_ADD), ("multimem.ld", K.LOAD),
    ("shfl.sync", K.SHUFFLE), ("redux.sync", K.REDUCE), ("nanosleep", K.SLEEP), ("trap", K.TRAP),
    ("ex2.approx", K.EXP2), ("lg2.approx", K.LOG2), ("rcp.", K.DIV),
    ("rsqrt.approx", K.RSQRT), ("sqrt.approx", K.SQRT), ("tanh.approx", K.TANH),
    ("sin.approx", K.SIN), ("cos.approx", K.COS), ("div.", K.DIV), ("fma.", K.FMA),
    ("max.", K.MAXIMUM), ("min.", K.MINIMUM), ("cvta.to.shared", K.SHARED_ADDRESS),
    ("cvt.", K.CAST), ("setmaxnreg", K.REGISTER_BUDGET), ("elect.sync", K.VOTE),
    ("lop3", K.EXTERN_MATH), ("prmt", K.EXTERN_MATH), ("mul.", K.MUL), ("add.", K.ADD),
    ("sub.", K.SUB),
)  # fmt: skip
"""An instruction of inline assembly by the beginning of its opcode; the first that fits."""

BARRIER_SCOPES = {"barrier.cluster.": "cluster", "bar.warp.": "warp"}
"""Threads that a barrier is for where they are none of a block, by the beginning of its opcode."""

COPIES_OF_BYTES = frozenset({"memcpy", "std::memcpy", "__builtin_memcpy", "::memcpy"})
"""Functions that copy a number of bytes from their second argument to their first."""

FILLS_OF_BYTES = frozenset({"memset", "std::memset", "__builtin_memset", "::memset"})
"""Functions that set a number of bytes behind their first argument to their second."""

ERROR_CODES = ("cudaError", "CUDA_ERROR_", "kError")
"""How the names of constants begin that a function returns when it refuses. Source: CUDA runtime
and driver API, cudaError_t and CUresult; CUTLASS, cutlass::Status."""

COLLECTIVES: dict[tuple[str, str], K] = {
    **{(f"Block{word}", name): kind for word, name, kind in (
        ("Reduce", "Sum", K.REDUCE_SUM), ("Reduce", "Reduce", K.REDUCE),
        ("Scan", "InclusiveSum", K.CUMSUM), ("Scan", "ExclusiveSum", K.CUMSUM),
        ("Scan", "InclusiveScan", K.SCAN), ("RadixSort", "Sort", K.SORT),
        ("RadixSort", "SortDescending", K.SORT), ("RadixSort", "SortBlockedToStriped", K.SORT),
        ("RadixSort", "SortDescendingBlockedToStriped", K.SORT),
        ("Scan", "ExclusiveScan", K.SCAN))},
    **{(f"Warp{word}", name): kind for word, name, kind in (
        ("Reduce", "Sum", K.REDUCE_SUM), ("Reduce", "Reduce", K.REDUCE),
        ("Scan", "InclusiveSum", K.CUMSUM), ("Scan", "ExclusiveSum", K.CUMSUM),
        ("Reduce", "Max", K.REDUCE_MAX), ("Reduce", "Min", K.REDUCE_MIN))},
}  # fmt: skip
"""Methods of CUB's collective classes."""

COMBINERS: dict[str, K] = {
    **dict.fromkeys(("cub::Sum", "cg::plus", "cooperative_groups::plus", "cuda::std::plus",
                     "std::plus", "thrust::plus", "plus", "Sum"), K.REDUCE_SUM),
    **dict.fromkeys(("cub::Max", "cg::greater", "cooperative_groups::greater", "cuda::maximum",
                     "cuda::std::maximum", "thrust::maximum", "greater", "Max"), K.REDUCE_MAX),
    **dict.fromkeys(("cub::Min", "cg::less", "cooperative_groups::less", "cuda::minimum",
                     "cuda::std::minimum", "thrust::minimum", "less", "Min"), K.REDUCE_MIN),
}  # fmt: skip
"""Operators handed to a collective reduction."""


def row_of(name: str) -> Row | None:
    """The row of a function by its name, that of a namespace or of the compiler among them."""
    plain = name.removeprefix("::")
    if (row := CUDA.by_path.get(plain)) is not None:
        return row
    for start in ("cuda::std::", "std::", "__builtin_"):
        if plain.startswith(start):
            return _BY_MATH.get(plain.removeprefix(start))
    return None


CUDA = Dialect(
    name="cuda", module="cuda", alias="",
    rows=ROWS, dtypes=_SCALARS, enums={},
    kernel_decorators=frozenset(), helper_decorators=frozenset(),
    constexpr_annotations=frozenset(),
    file="kb/dialects/cuda.py",
    kernel_mark="__global__",
    constexpr_mark="constexpr",
    roundings={
        name: name[-2:] for name in (*(r.path for r in _MATH), *_CONVERSIONS, *_PACKS)
        if re.fullmatch(r"__f(?!loat)\w+_r[nzud]|__(float|double)\w+_rn", name)
    },
)  # fmt: skip
