"""CuTe (CUTLASS 4.2): tensors over memory and registers, what is made of them, and what moves them.

Source: CUTLASS documentation, CuTe (layouts, tensors, algorithms, MMA and copy atoms).
"""

from __future__ import annotations

from dataclasses import dataclass

from kb.ops import OpKind

TENSORS = frozenset({"Tensor", "cute::Tensor"})
"""The type of every tensor: what it is of is deduced where it is made."""

ELEMENTS = frozenset({"Element", "value_type", "element_type"})
"""Members that give the type of the elements of an array, or of what a tensor lies in."""

SPACES = frozenset({"", "cute", "::cute"})
"""What stands before the name of a function of CuTe, with or without `using namespace cute`."""

WHOLE = frozenset({"_", "cute::_", "X", "Underscore"})
"""A coordinate that keeps its axis."""

TUPLES = frozenset(
    {"make_coord", "make_shape", "make_stride", "make_tuple", "make_tile", "make_step"}
)
TUPLE_TYPES = frozenset({"Shape", "Stride", "Coord", "Step", "Tile", "Tuple", "tuple"})
STATIC = frozenset({"Int", "C", "constant", "integral_constant", "bool_constant"})
"""Types that stand for one number; `_8` is one, too."""

POINTERS = frozenset(
    {"make_gmem_ptr", "make_smem_ptr", "raw_pointer_cast", "cast_smem_ptr_to_generic"}
)
REGISTER_POINTERS = frozenset({"make_rmem_ptr"})
"""Functions that give the pointer that they are handed, of memory or of registers."""

SEEN_ANEW = frozenset(
    {
        "group_modes", "flatten", "coalesce", "filter", "filter_zeros", "logical_divide",
        "zipped_divide", "tiled_divide", "flat_divide", "composition",
        "as_position_independent_swizzle_tensor", "recast", "take", "append", "prepend",
        "domain_offset", "make_tensor", "tensor",
    }
)  # fmt: skip
"""Functions that show the elements of their first argument under another layout."""

RETILED = frozenset({"retile_S", "retile_D", "retile"})
PARTS = frozenset({"partition_S", "partition_D", "partition_A", "partition_B", "partition_C"})
"""Methods of a thread's slice of a tiled copy or product: its elements of a tensor."""

FRAGMENTS = frozenset(
    {
        "partition_fragment_A", "partition_fragment_B", "partition_fragment_C", "make_fragment_A",
        "make_fragment_B", "make_fragment_C", "partition_fragment_D",
    }
)  # fmt: skip
LIKE = frozenset({"make_fragment_like", "make_tensor_like"})
"""What makes a tensor in registers: for a tensor, or a shape, of a product; or like another one."""

SLICES = frozenset({"get_slice", "get_thread_slice"})
TILED = frozenset(
    {
        "make_tiled_copy", "make_tiled_copy_A", "make_tiled_copy_B", "make_tiled_copy_C",
        "make_tiled_mma",
    }
)  # fmt: skip
"""Functions that make a tiled copy, or a tiled product, of an atom."""
TILED_TYPES = frozenset({"TiledMMA", "TiledCopy", "MMA_Atom", "Copy_Atom"})
EXTENTS = frozenset({"size", "cosize", "rank", "shape", "stride", "tile_size"})
IDENTITIES = frozenset({"make_identity_tensor", "make_coord_tensor"})
TILES = frozenset({"local_tile", "inner_partition", "outer_partition"})
ATOMS_OF = frozenset({"local_partition"})

COPIES = frozenset({"copy", "copy_aligned", "copy_unpack"})
PRODUCTS = frozenset({"gemm"})
ON_COPIES: dict[str, tuple[OpKind, tuple[tuple[str, str], ...]]] = {
    "warpgroup_commit_batch": (OpKind.ASYNC_COMMIT, (("opcode", "wgmma.commit_group"),)),
    "warpgroup_wait": (OpKind.ASYNC_WAIT, (("opcode", "wgmma.wait_group"),)),
    "warpgroup_arrive": (OpKind.FENCE, (("opcode", "wgmma.fence"),)),
    "cp_async_wait": (OpKind.ASYNC_WAIT, (("opcode", "cp.async.wait_group"),)),
    "cp_async_fence": (OpKind.ASYNC_COMMIT, (("opcode", "cp.async.commit_group"),)),
}
"""What closes a group of asynchronous copies or products, and what waits until so many groups are
left."""

PIPELINES: dict[str, OpKind] = {
    "consumer_wait": OpKind.BARRIER_WAIT, "producer_acquire": OpKind.BARRIER_WAIT,
    "consumer_release": OpKind.BARRIER_ARRIVE, "producer_commit": OpKind.BARRIER_ARRIVE,
}  # fmt: skip
"""Methods of CUTLASS's pipelines: which wait for a stage, and which hand it on. Source: CUTLASS,
cutlass/pipeline/sm90_pipeline.hpp."""

NAMED: dict[str, OpKind] = {"arrive": OpKind.BARRIER_ARRIVE, "sync": OpKind.BARRIER}
"""What is done at a named barrier by some of a block's warps. Source: CUTLASS,
cutlass/arch/barrier.h, NamedBarrier."""

CLEARS, FILLS = frozenset({"clear"}), frozenset({"fill"})


def written_by(name: str, count: int) -> frozenset[int] | None:
    """Which of so many arguments an algorithm writes; None for what is no algorithm."""
    if name in CLEARS | FILLS:
        return frozenset({0})
    if name in COPIES:
        return frozenset({count - 1})
    if name in PRODUCTS:
        return frozenset({1 if count == 5 else count - 1})
    return None


QUIET = frozenset(
    {
        "CUTE_STATIC_ASSERT_V", "CUTE_STATIC_ASSERT", "CUTE_GCC_UNREACHABLE", "print",
        "warpgroup_fence_operand",
    }
)  # fmt: skip
"""What computes nothing when the kernel runs."""

READ_ONLY = (
    TUPLES | POINTERS | REGISTER_POINTERS | SEEN_ANEW | RETILED | PARTS | FRAGMENTS | LIKE | SLICES
    | TILED | EXTENTS | IDENTITIES | TILES | ATOMS_OF | QUIET
    | {"get", "data", "layout", "ceil_div"}
)  # fmt: skip
"""Functions and methods that write none of their arguments."""


def mixes(word: str) -> bool:
    """Whether a name says that positions in memory are mixed by an exclusive or."""
    last = word.rpartition("::")[2]
    return last in ("Swizzle", "ss_smem_selector", "rs_smem_selector") or (
        last.startswith("Layout_") and "_SW" in last
    )


COORDINATES = "cute::ArithTuple"
"""The type of the elements of an identity tensor."""


SINGLE = "(one value)"
"""Stands among the names behind a tiled copy of which each thread moves one value at a time."""


@dataclass(frozen=True, slots=True)
class Atom:
    """What a copy or product atom does: `engine` async, bulk or matrix for copies, else the
    instruction of a product with its shape and the element type of its accumulator; bits moved at
    once, 0 when the name does not say; `turned` where matrices are loaded transposed."""

    engine: str = ""
    shape: str = ""
    accumulator: str = ""
    bits: int = 0
    cache: str = ""
    turned: bool = False


_TYPES = {"F32": "f32", "F16": "f16", "S32": "i32", "F64": "f64", "BF16": "bf16", "TF32": "tf32"}
_INSTRUCTIONS = {
    70: "mma.sync",
    75: "mma.sync",
    80: "mma.sync",
    89: "mma.sync",
    90: "wgmma",
    100: "tcgen05.mma",
}
_ALIGNED = "AutoVectorizingCopyWithAssumedAlignment<"
_WIDE = {"uint128_t": 128, "uint64_t": 64, "uint32_t": 32}


def atom(words: frozenset[str]) -> Atom:
    """What the names of types say of an atom; a fact on which they differ is left out."""
    engines, shapes, accumulators, caches = set[str](), set[str](), set[str](), set[str]()
    bits, turned = set[int](), set[bool]()
    for word in words:
        last = word.rpartition("::")[2]
        if (last in _WIDE or last.startswith(_ALIGNED)) and SINGLE not in words:
            bits.add(_WIDE.get(last) or int(last[len(_ALIGNED) : -1]))
        if "GMMA" in word.split("::") and last.endswith("_op_selector"):
            engines.add("wgmma")
        if not last.startswith("SM"):
            continue
        parts = last.split("_")
        if "CP" in parts and "ASYNC" in parts:
            engines.add("async")
            caches |= {short for name, short in _CACHES.items() if name in parts}
        elif "TMA" in parts:
            engines.add("bulk")
        elif {"LDSM", "STSM"} & set(parts):
            engines.add("matrix")
            turned.add(parts[-1] == "T")
        else:
            _product(parts, engines, shapes, accumulators)
    return Atom(
        _only(engines), _only(shapes), _only(accumulators),
        bits=next(iter(bits)) if len(bits) == 1 else 0, cache=_only(caches),
        turned=turned == {True},
    )  # fmt: skip


_CACHES = {"CACHEGLOBAL": "cg", "CACHEALWAYS": "ca"}


def _product(parts: list[str], engines: set[str], shapes: set[str], accumulators: set[str]) -> None:
    """`SM80_16x8x16_F32F16F16F32_TN`, `SM90_64x128x16_F32F16F16_SS`."""
    number = int(parts[0][2:]) if parts[0][2:].isdigit() else 0
    sides = parts[1].split("x") if len(parts) > 2 else []
    if len(sides) != 3 or not all(side.isdigit() for side in sides):
        return
    engines.add(_INSTRUCTIONS.get(number, "mma.sync"))
    shapes.add("m{}n{}k{}".format(*sides))
    found = next((t for t in ("F32", "F16", "S32", "F64") if parts[2].startswith(t)), "")
    if found:
        accumulators.add(_TYPES[found])


def _only(found: set[str]) -> str:
    return next(iter(found)) if len(found) == 1 else ""
