"""Gluon (Triton 3.9): native calls and the operations they stand for. Read, not written.

Gluon is Triton with layouts, shared memory, copies and warps said by the kernel: what both have is
taken from Triton's table. Source: signatures of `triton.experimental.gluon.language`, version
3.9.0.
"""

from __future__ import annotations

from dataclasses import replace

from kb.dialects.model import Row
from kb.dialects.triton import ROWS as TRITON_ROWS
from kb.dialects.triton import TRITON
from kb.ops import OpKind as K

_M = "triton.experimental.gluon.language"
_TILES = "triton.language"
_GENERATIONS = tuple(f"{_M}.nvidia.{name}" for name in ("ampere", "hopper", "blackwell", "rubin"))
_COPIES = tuple(f"{place}.async_copy" for place in _GENERATIONS)
_TMA = tuple(f"{place}.tma" for place in _GENERATIONS)
_BARRIERS = tuple(f"{place}.mbarrier" for place in _GENERATIONS)
_OWN = frozenset({".load", ".store", ".gather", ".scatter", ".atomic_add", ".permute", ".reshape"})
"""Methods that tensors of Triton and memory of Gluon have, with other parameters."""

_LAYOUTS = {
    "AutoLayout": "", "CoalescedLayout": "",
    "BlockedLayout": "size_per_thread threads_per_warp warps_per_cta order cga_layout",
    "SliceLayout": "dim parent",
    "DistributedLinearLayout": "reg_bases lane_bases warp_bases block_bases shape",
    "DotOperandLayout": "operand_index parent k_width",
    "NVMMADistributedLayout": "version warps_per_cta instr_shape cga_layout",
    "NVMMASharedLayout":
        "swizzle_byte_width element_bitwidth rank transposed fp4_padded cga_layout",
    "NVMMASharedLayout.get_default_for": "block_shape dtype transposed fp4_padded cga_layout",
    "SwizzledSharedLayout": "vec per_phase max_phase order cga_layout",
    "PaddedSharedLayout": "interval_padding_pairs offset_bases cga_layout shape",
    "PaddedSharedLayout.with_identity_for": "interval_padding_pairs shape order cga_layout",
    "SharedLinearLayout": "offset_bases block_bases alignment",
}  # fmt: skip
_ATOMICS = (
    (K.ATOMIC_ADD, "add"), (K.ATOMIC_MAX, "max"), (K.ATOMIC_MIN, "min"), (K.ATOMIC_AND, "and"),
    (K.ATOMIC_OR, "or"), (K.ATOMIC_XOR, "xor"), (K.ATOMIC_XCHG, "xchg"),
)  # fmt: skip


def _every(
    places: tuple[str, ...], name: str, kind: K, signature: str, **attributes: str
) -> tuple[Row, ...]:
    """One row for each module that offers a function."""
    said = tuple(attributes.items())
    return tuple(Row(f"{place}.{name}", kind, signature, said) for place in places)


_MEMORY = (
    Row(f"{_M}.load", K.LOAD,
        "pointer mask padding=other * cache_modifier eviction_policy volatile cache_policy"),
    Row(f"{_M}.store", K.STORE,
        "pointer value mask * cache_modifier eviction_policy cache_policy"),
    Row(f"{_M}.allocate_shared_memory", K.ALLOCATE, "dtype=element_ty shape layout value",
        (("space", "shared"),)),
    *_every(_GENERATIONS, "allocate_tensor_memory", K.ALLOCATE,
            "dtype=element_ty shape layout value", space="tensor"),
    Row(".load", K.LOAD, "pointer layout"),
    Row(".store", K.STORE, "pointer value mask=pred"),
    Row(".index", K.ADVANCE, "pointer offsets=index"),
    Row(".slice", K.ADVANCE, "pointer offsets=start length axis=dim"),
    Row(".reinterpret", K.POINTER_CAST, "x dtype shape layout"),
    Row("._reinterpret", K.POINTER_CAST, "x dtype shape layout"),
    Row(".permute", K.PERMUTE, "x *axes"),
    Row(".reshape", K.RESHAPE, "x *shape"),
    *(Row(f".atomic_scatter_{name}", kind, "pointer value=values index=indices axis mask")
      for kind, name in _ATOMICS),
)  # fmt: skip
_COPYING = (
    *_every(_COPIES, "async_copy_global_to_shared", K.ASYNC_COPY,
            "target=smem pointer mask cache_modifier eviction_policy volatile cache_policy"),
    *_every(_COPIES, "async_load", K.ASYNC_COPY,
            "target=smem pointer mask cache_modifier eviction_policy volatile cache_policy"),
    *_every(_COPIES, "commit_group", K.ASYNC_COMMIT, ""),
    *_every(_COPIES, "wait_group", K.ASYNC_WAIT, "pending=num_outstanding"),
    *_every(_COPIES, "mbarrier_arrive", K.BARRIER_ARRIVE, "barrier=mbarrier increment_count"),
    *(row for name in ("async_copy_global_to_shared", "async_load")
      for row in _every(_TMA, name, K.BULK_COPY,
            "descriptor=tensor_desc offsets=coord barrier target=result mask=pred multicast")),
    *(row for name in ("async_copy_global_to_shared_im2col", "async_load_im2col")
      for row in _every(_TMA, name, K.BULK_COPY,
            "descriptor=tensor_desc offsets=coord filter=offsets barrier target=result mask=pred "
            "multicast", mode="im2col")),
    *(row for name in ("async_copy_shared_to_global", "async_store")
      for row in _every(_TMA, name, K.BULK_COPY,
            "descriptor=tensor_desc offsets=coord source=src cache_policy")),
    *_every(_TMA, "async_gather", K.BULK_COPY,
            "descriptor=tensor_desc x_offsets y_offset barrier target=result mask=pred multicast",
            mode="gather"),
    *_every(_TMA, "async_scatter", K.BULK_COPY,
            "descriptor=tensor_desc x_offsets y_offset source=src", mode="scatter"),
    *_every(_TMA, "async_atomic_add", K.DESCRIPTOR_ATOMIC_ADD,
            "descriptor=tensor_desc offsets=coord value=src"),
    *_every(_TMA, "store_wait", K.ASYNC_WAIT, "pending=pendings", opcode="store"),
    *_every(_TMA, "make_tensor_descriptor", K.DESCRIPTOR,
            "base shape strides block_shape layout padding_option"),
)  # fmt: skip
_WAITING = (
    *_every(_BARRIERS, "MBarrierLayout", K.LAYOUT, ""),
    *_every(_BARRIERS, "MBarrierLayout.multicta", K.LAYOUT, "num_ctas two_cta"),
    *_every(_BARRIERS, "allocate_mbarrier", K.ALLOCATE, "shape=batch two_ctas", space="shared"),
    *_every(_BARRIERS, "init", K.BARRIER_INIT, "barrier=mbarrier count"),
    *_every(_BARRIERS, "invalidate", K.BARRIER_INIT, "barrier=mbarrier", opcode="invalidate"),
    *_every(
        _BARRIERS,
        "expect",
        K.BARRIER_ARRIVE,
        "barrier=mbarrier bytes=bytes_per_cta mask=pred",
        opcode="expect",
    ),
    *_every(_BARRIERS, "arrive", K.BARRIER_ARRIVE, "barrier=mbarrier * count mask=pred"),
    *_every(_BARRIERS, "wait", K.BARRIER_WAIT, "barrier=mbarrier phase mask=pred deps"),
    Row(f"{_M}.barrier", K.BARRIER, "* cluster", (("scope", "block"),)),
    Row(f"{_M}.thread_barrier", K.BARRIER, "", (("scope", "block"),)),
    *_every(_GENERATIONS, "fence_async_shared", K.FENCE, "cluster"),
    *_every(_GENERATIONS, "cluster.arrive", K.BARRIER_ARRIVE, "relaxed", scope="cluster"),
    *_every(_GENERATIONS, "cluster.wait", K.BARRIER_WAIT, "", scope="cluster"),
    *_every(_GENERATIONS, "cluster.barrier", K.BARRIER, "relaxed", scope="cluster"),
)
_PRODUCTS = (
    *_every(_GENERATIONS, "warpgroup_mma", K.MMA,
            "lhs=a rhs=b acc * use_acc precision max_num_imprecise_acc is_async", opcode="wgmma"),
    *_every(_GENERATIONS, "tcgen05_mma", K.MMA,
            "lhs=a rhs=b target=acc * use_acc mask=pred multicast mbarriers mbarrier_preds",
            opcode="tcgen05"),
    *_every(_GENERATIONS, "tcgen05_mma_scaled", K.MMA_SCALED,
            "lhs=a rhs=b target=acc lhs_scale=a_scale rhs_scale=b_scale lhs_format=a_type "
            "rhs_format=b_type * use_acc mask=pred multicast mbarriers mbarrier_preds",
            opcode="tcgen05"),
    *_every(_GENERATIONS, "mma_v2", K.MMA, "lhs=a rhs=b acc input_precision"),
    Row(f"{_M}.dot_fma", K.MMA, "lhs=a rhs=b acc", (("opcode", "fma"),)),
    *_every(_GENERATIONS, "warpgroup_mma_init", K.COPY, "x=value"),
    *_every(_GENERATIONS, "warpgroup_mma_wait", K.ASYNC_WAIT, "pending=num_outstanding x=deps",
            opcode="wgmma"),
    *_every(_GENERATIONS, "tcgen05_commit", K.ASYNC_COMMIT, "barrier mask=pred descs",
            opcode="tcgen05"),
    *_every(_GENERATIONS, "TensorMemoryLayout", K.LAYOUT,
            "block col_stride cga_layout two_ctas fp4_padded"),
    *_every(_GENERATIONS, "TensorMemoryScalesLayout", K.LAYOUT, "cga_layout"),
    *_every(_GENERATIONS, "get_tmem_reg_layout", K.LAYOUT,
            "dtype=element_ty shape layout num_warps instr_variant cga_layout"),
    Row(".get_reg_layout", K.LAYOUT, "x num_warps instr_variant"),
)  # fmt: skip
_TILE_ROWS = (
    Row(f"{_M}.arange", K.ARANGE, "start size=end layout"),
    Row(f"{_M}.full", K.FULL, "shape value dtype layout"),
    Row(f"{_M}.zeros", K.ZEROS, "shape dtype layout"),
    Row(f"{_M}.zeros_like", K.ZEROS_LIKE, "x=input shape dtype layout"),
    Row(f"{_M}.full_like", K.FULL, "like=input value shape dtype layout"),
    Row(f"{_M}.histogram", K.HISTOGRAM, "x=input num_bins mask layout"),
    Row(f"{_M}.convert_layout", K.CONVERT_LAYOUT, "x=value layout assert_trivial"),
    Row(f"{_M}.set_auto_layout", K.CONVERT_LAYOUT, "x=value layout"),
    Row(f"{_M}.num_warps", K.BUILTIN, ""),
    Row(f"{_M}.num_ctas", K.BUILTIN, ""),
    Row(f"{_M}.inline_asm", K.INLINE_ASM, "asm constraints args dtype=result_types is_pure"),
    Row(f"{_M}.warp_specialize", K.WARP_PARTITION, "functions warps registers"),
    *(Row(f"{_M}.{name}", K.LAYOUT, signature) for name, signature in _LAYOUTS.items()),
)

_PLACED = {row.path for row in (*_MEMORY, *_TILE_ROWS, *_WAITING, *_PRODUCTS)}
_SHARED = tuple(
    replace(row, path=path)
    for row in TRITON_ROWS
    if row.path.startswith(f"{_TILES}.")
    and row.path not in TRITON.former
    and (path := row.path.replace(_TILES, _M, 1)) not in _PLACED
)
"""What Gluon has of Triton, under its own name."""

ROWS: tuple[Row, ...] = (
    *_MEMORY, *_COPYING, *_WAITING, *_PRODUCTS, *_TILE_ROWS, *_SHARED,
    *(row for row in TRITON_ROWS if row.path not in _OWN),
)  # fmt: skip

GLUON = replace(
    TRITON,
    name="gluon",
    module=_M,
    alias="gl",
    rows=ROWS,
    dtypes={path.replace(_TILES, _M, 1): name for path, name in TRITON.dtypes.items()}
    | TRITON.dtypes,
    enums={path.replace(_TILES, _M, 1): name for path, name in TRITON.enums.items()}
    | TRITON.enums
    | {f"{_M}.shared_memory_descriptor": "type.shared_memory"},
    kernel_decorators=frozenset({"triton.experimental.gluon.jit"}),
    helper_decorators=frozenset(
        {"triton.experimental.gluon.jit", "triton.experimental.gluon.constexpr_function",
         *TRITON.helper_decorators}
    ),
    constexpr_annotations=frozenset({f"{_M}.constexpr"}) | TRITON.constexpr_annotations,
    file="kb/dialects/gluon.py",
    kernel_mark="triton.experimental.gluon.jit",
    constexpr_mark=f"{_M}.constexpr",
    constant_wrapper=f"{_M}.constexpr",
    written=False,
)  # fmt: skip
