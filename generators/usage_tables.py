"""Tables of the usage analysis: which operations make, keep or need what sort of value."""

from __future__ import annotations

from kb.ops import COMPARISONS, REDUCTIONS, OpKind

ARITHMETIC = frozenset({
    OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FLOOR_DIV, OpKind.MOD, OpKind.POW,
    OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.CEIL_DIV, OpKind.NEG, OpKind.FMA, OpKind.CLAMP,
})  # fmt: skip
SAME_SORT = ARITHMETIC | REDUCTIONS | frozenset({
    OpKind.RESHAPE, OpKind.PERMUTE, OpKind.TRANSPOSE, OpKind.EXPAND_DIMS, OpKind.BROADCAST_TO,
    OpKind.BROADCAST, OpKind.SUBSCRIPT, OpKind.ABS, OpKind.MULTIPLE_OF, OpKind.MAX_CONTIGUOUS,
    OpKind.MAX_CONSTANCY, OpKind.CUMSUM, OpKind.CUMPROD, OpKind.RAVEL, OpKind.FLIP, OpKind.SORT,
    OpKind.EXTRACT, OpKind.ITEM, OpKind.CAT, OpKind.ASSUME_DIVISIBLE, OpKind.POS, OpKind.BUILTIN,
    OpKind.TILE_GATHER, OpKind.JOIN, OpKind.INTERLEAVE,
}) - frozenset({OpKind.ARGMAX, OpKind.ARGMIN})  # fmt: skip
"""Operations whose result is of the sort (integer, float) of their data operands."""

SHAPING = frozenset({
    OpKind.RESHAPE, OpKind.EXPAND_DIMS, OpKind.BROADCAST_TO, OpKind.BROADCAST, OpKind.MULTIPLE_OF,
    OpKind.MAX_CONTIGUOUS, OpKind.MAX_CONSTANCY, OpKind.ADVANCE, OpKind.TRANSPOSE, OpKind.PERMUTE,
    OpKind.SUBSCRIPT,
})  # fmt: skip
"""Operations through which an address stays an address."""

INTEGER = frozenset({
    OpKind.BLOCK_ID, OpKind.NUM_BLOCKS, OpKind.NUM_TILES, OpKind.ARANGE, OpKind.ARGMAX,
    OpKind.ARGMIN,
    OpKind.UMULHI, OpKind.PHILOX, OpKind.RANDINT, OpKind.HISTOGRAM,
})  # fmt: skip
FLOATING = frozenset({
    OpKind.EXP, OpKind.EXP2, OpKind.LOG, OpKind.LOG2, OpKind.SQRT, OpKind.RSQRT, OpKind.SIN,
    OpKind.COS, OpKind.TAN, OpKind.SINH, OpKind.COSH, OpKind.TANH, OpKind.ERF, OpKind.SIGMOID,
    OpKind.SOFTMAX, OpKind.RAND, OpKind.RANDN, OpKind.UINT_TO_UNIFORM, OpKind.EXTERN_MATH,
    OpKind.FLOOR, OpKind.CEIL, OpKind.ISNAN, OpKind.ATAN2, OpKind.MMA, OpKind.DIV,
})  # fmt: skip
WHOLE = frozenset({
    OpKind.FLOOR_DIV, OpKind.MOD, OpKind.CEIL_DIV, OpKind.SHIFT_LEFT, OpKind.SHIFT_RIGHT,
})  # fmt: skip
"""Operations on whole numbers only."""

TRUTH = COMPARISONS | {OpKind.NOT, OpKind.AND, OpKind.OR, OpKind.ISNAN, OpKind.IS, OpKind.IS_NOT}
BITS = frozenset({OpKind.BIT_AND, OpKind.BIT_OR, OpKind.BIT_XOR, OpKind.BIT_NOT})
DATA = frozenset({"x", "y", "z", "lhs", "rhs", "low", "high", "tiles", "acc", "value"})
TESTS = frozenset(
    {OpKind.EQ, OpKind.NE, OpKind.IN, OpKind.NOT_IN, OpKind.GT, OpKind.GE, OpKind.LT, OpKind.LE}
)
EXTENT_ROLES = {"shape", "block_shape", "size", "tile_shape"}
INDEX_ROLES = {
    "index", "offsets", "strides", "axis", "stop", "start", "low", "high", "step", "x_offsets",
    "y_offset", "length", "axes", "order", "dim", "divisor", "values", "num_bins",
}  # fmt: skip
WORD_ROLES = {
    "input_precision", "cache_modifier", "eviction_policy", "sem", "scope", "padding_option",
    "rounding", "lhs_format", "rhs_format", "memory_order", "memory_scope",
}  # fmt: skip
SMALL_ROLES = {"latency", "num_stages", "loop_unroll_factor", "pack"}
FLAG_ROLES = {
    "check_bounds", "allow_tma", "ftz", "keepdims", "warp_specialize", "flatten", "allow_tf32",
    "disallow_acc_multi_buffer", "propagate_nan", "reverse", "is_pure", "fast_math", "fast_acc",
    "volatile", "tie_break_left", "bitcast", "disable_licm", "approx",
}  # fmt: skip


VIEWS = frozenset({OpKind.BLOCK_POINTER, OpKind.DESCRIPTOR, OpKind.TILED_VIEW, OpKind.ARRAY_SLICE})
"""Operations that make another way to look at an array."""
