"""The operations of the tile program: one row each, with operand roles and memory effect."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """What an operation does besides computing its results."""

    PURE = "pure"
    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"
    CONTROL = "control"
    DEBUG = "debug"
    UNKNOWN = "unknown"


class OpKind(StrEnum):
    """Every operation that a tile program may hold."""

    # values known before the kernel runs
    CONST = "const"
    DTYPE = "dtype"
    ENUM = "enum"
    FUNCTION = "function"
    TUPLE = "tuple"
    LIST = "list"
    UNDEF = "undef"
    COPY = "copy"
    UNPACK = "unpack"
    SUBSCRIPT = "subscript"
    ATTRIBUTE = "attribute"
    SHAPE = "shape"
    DTYPE_OF = "dtype_of"
    POINTER_TYPE = "pointer_type"
    LAYOUT = "layout"
    CALL = "call"
    OPAQUE = "opaque"
    BUILTIN = "builtin"
    # control
    FOR = "for"
    WHILE = "while"
    IF = "if"
    IF_EXPRESSION = "if_expression"
    RANGE = "range"
    STATIC_RANGE = "static_range"
    STATIC_ITERATE = "static_iterate"
    YIELD = "yield"
    RETURN = "return"
    BREAK = "break"
    CONTINUE = "continue"
    # program grid
    BLOCK_ID = "block_id"
    NUM_BLOCKS = "num_blocks"
    NUM_TILES = "num_tiles"
    # elementwise arithmetic
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    FLOOR_DIV = "floor_div"
    MOD = "mod"
    POW = "pow"
    FMA = "fma"
    NEG = "neg"
    POS = "pos"
    ABS = "abs"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    CLAMP = "clamp"
    CEIL_DIV = "ceil_div"
    UMULHI = "umulhi"
    BIT_AND = "bit_and"
    BIT_OR = "bit_or"
    BIT_XOR = "bit_xor"
    BIT_NOT = "bit_not"
    SHIFT_LEFT = "shift_left"
    SHIFT_RIGHT = "shift_right"
    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    IS = "is"
    IS_NOT = "is_not"
    IN = "in"
    NOT_IN = "not_in"
    AND = "and"
    OR = "or"
    NOT = "not"
    SELECT = "select"
    CAST = "cast"
    BITCAST = "bitcast"
    EXP = "exp"
    EXP2 = "exp2"
    LOG = "log"
    LOG2 = "log2"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    SINH = "sinh"
    COSH = "cosh"
    TANH = "tanh"
    ATAN2 = "atan2"
    ERF = "erf"
    SIGMOID = "sigmoid"
    SOFTMAX = "softmax"
    FLOOR = "floor"
    CEIL = "ceil"
    ISNAN = "isnan"
    EXTERN_MATH = "extern_math"
    # shapes
    FULL = "full"
    ZEROS = "zeros"
    ONES = "ones"
    ZEROS_LIKE = "zeros_like"
    ARANGE = "arange"
    RESHAPE = "reshape"
    PERMUTE = "permute"
    TRANSPOSE = "transpose"
    EXPAND_DIMS = "expand_dims"
    BROADCAST_TO = "broadcast_to"
    BROADCAST = "broadcast"
    CONVERT_LAYOUT = "convert_layout"
    CAT = "cat"
    JOIN = "join"
    SPLIT = "split"
    INTERLEAVE = "interleave"
    EXTRACT = "extract"
    INSERT = "insert"
    FLIP = "flip"
    RAVEL = "ravel"
    ITEM = "item"
    # reductions, scans, contractions
    REDUCE_SUM = "reduce_sum"
    REDUCE_MAX = "reduce_max"
    REDUCE_MIN = "reduce_min"
    REDUCE_PROD = "reduce_prod"
    REDUCE_XOR = "reduce_xor"
    REDUCE_OR = "reduce_or"
    ARGMAX = "argmax"
    ARGMIN = "argmin"
    REDUCE = "reduce"
    CUMSUM = "cumsum"
    CUMPROD = "cumprod"
    SCAN = "scan"
    SORT = "sort"
    TOPK = "topk"
    HISTOGRAM = "histogram"
    TILE_GATHER = "tile_gather"
    SWIZZLE_2D = "swizzle_2d"
    MMA = "mma"
    MATMUL = "matmul"
    MMA_SCALED = "mma_scaled"
    # memory
    LOAD_TILE = "load_tile"
    STORE_TILE = "store_tile"
    GATHER = "gather"
    SCATTER = "scatter"
    VIEW_LOAD = "view_load"
    VIEW_STORE = "view_store"
    VIEW_ATOMIC_ADD = "view_atomic_add"
    VIEW_NUM_TILES = "view_num_tiles"
    LOAD_ADVANCED = "load_advanced"
    STORE_ADVANCED = "store_advanced"
    SLICE = "slice"
    ARRAY_SLICE = "array_slice"
    TILED_VIEW = "tiled_view"
    LOAD = "load"
    STORE = "store"
    BLOCK_POINTER = "block_pointer"
    ADVANCE = "advance"
    DESCRIPTOR = "descriptor"
    DESCRIPTOR_LOAD = "descriptor_load"
    DESCRIPTOR_STORE = "descriptor_store"
    DESCRIPTOR_GATHER = "descriptor_gather"
    DESCRIPTOR_SCATTER = "descriptor_scatter"
    DESCRIPTOR_ATOMIC_ADD = "descriptor_atomic_add"
    ATOMIC_ADD = "atomic_add"
    ATOMIC_MAX = "atomic_max"
    ATOMIC_MIN = "atomic_min"
    ATOMIC_AND = "atomic_and"
    ATOMIC_OR = "atomic_or"
    ATOMIC_XOR = "atomic_xor"
    ATOMIC_XCHG = "atomic_xchg"
    ATOMIC_CAS = "atomic_cas"
    # facts, hints, debugging
    MULTIPLE_OF = "multiple_of"
    MAX_CONTIGUOUS = "max_contiguous"
    MAX_CONSTANCY = "max_constancy"
    ASSUME = "assume"
    ASSUME_DIVISIBLE = "assume_divisible"
    STATIC_ASSERT = "static_assert"
    STATIC_PRINT = "static_print"
    DEVICE_ASSERT = "device_assert"
    DEVICE_PRINT = "device_print"
    BARRIER = "barrier"
    INLINE_ASM = "inline_asm"
    GRID_WAIT = "grid_wait"
    GRID_LAUNCH = "grid_launch"
    RAND = "rand"
    RANDN = "randn"
    RANDINT = "randint"
    RANDINT4 = "randint4"
    RAND4 = "rand4"
    PHILOX = "philox"
    UINT_TO_UNIFORM = "uint_to_uniform"
    PACK_BYTES = "pack_bytes"
    UNPACK_BYTES = "unpack_bytes"
    # threads, shared memory and asynchronous copies of thread-level programs
    THREAD_ID = "thread_id"
    BLOCK_THREADS = "block_threads"
    LANE_ID = "lane_id"
    WARP_ID = "warp_id"
    THREAD_GROUP = "thread_group"
    PARTITION = "partition"
    CLUSTER_RANK = "cluster_rank"
    CLUSTER_BLOCKS = "cluster_blocks"
    ALLOCATE = "allocate"
    POINTER_CAST = "pointer_cast"
    SHARED_ADDRESS = "shared_address"
    SIZE_OF = "size_of"
    VECTOR = "vector"
    SHUFFLE = "shuffle"
    VOTE = "vote"
    BARRIER_VOTE = "barrier_vote"
    BARRIER_INIT = "barrier_init"
    BARRIER_ARRIVE = "barrier_arrive"
    BARRIER_WAIT = "barrier_wait"
    FENCE = "fence"
    ASYNC_COPY = "async_copy"
    ASYNC_COMMIT = "async_commit"
    ASYNC_WAIT = "async_wait"
    BULK_COPY = "bulk_copy"
    PREFETCH = "prefetch"
    MATRIX_LOAD = "matrix_load"
    MATRIX_STORE = "matrix_store"
    ATOMIC_INC = "atomic_inc"
    ATOMIC_DEC = "atomic_dec"
    REGISTER_BUDGET = "register_budget"
    WARP_PARTITION = "warp_partition"
    CLOCK = "clock"
    SLEEP = "sleep"
    TRAP = "trap"


_EFFECTS: dict[Effect, tuple[OpKind, ...]] = {
    Effect.READ: (
        OpKind.LOAD_TILE, OpKind.GATHER, OpKind.LOAD_ADVANCED, OpKind.LOAD,
        OpKind.DESCRIPTOR_LOAD, OpKind.DESCRIPTOR_GATHER, OpKind.VIEW_LOAD,
    ),
    Effect.WRITE: (
        OpKind.STORE_TILE, OpKind.SCATTER, OpKind.STORE_ADVANCED, OpKind.STORE,
        OpKind.DESCRIPTOR_STORE, OpKind.DESCRIPTOR_SCATTER, OpKind.VIEW_STORE,
    ),
    Effect.ATOMIC: (
        OpKind.ATOMIC_ADD, OpKind.ATOMIC_MAX, OpKind.ATOMIC_MIN, OpKind.ATOMIC_AND,
        OpKind.ATOMIC_OR, OpKind.ATOMIC_XOR, OpKind.ATOMIC_XCHG, OpKind.ATOMIC_CAS,
        OpKind.DESCRIPTOR_ATOMIC_ADD, OpKind.VIEW_ATOMIC_ADD, OpKind.ATOMIC_INC, OpKind.ATOMIC_DEC,
    ),
    Effect.CONTROL: (
        OpKind.FOR, OpKind.WHILE, OpKind.IF, OpKind.YIELD, OpKind.RETURN, OpKind.BREAK,
        OpKind.CONTINUE, OpKind.CALL, OpKind.BARRIER, OpKind.GRID_WAIT, OpKind.GRID_LAUNCH,
        OpKind.SHUFFLE, OpKind.VOTE, OpKind.BARRIER_VOTE, OpKind.BARRIER_INIT,
        OpKind.BARRIER_ARRIVE, OpKind.BARRIER_WAIT, OpKind.FENCE, OpKind.ASYNC_COPY,
        OpKind.ASYNC_COMMIT, OpKind.ASYNC_WAIT, OpKind.BULK_COPY, OpKind.PREFETCH,
        OpKind.MATRIX_LOAD, OpKind.MATRIX_STORE, OpKind.ALLOCATE, OpKind.REGISTER_BUDGET,
        OpKind.SLEEP, OpKind.TRAP,
    ),
    Effect.DEBUG: (
        OpKind.STATIC_ASSERT, OpKind.STATIC_PRINT, OpKind.DEVICE_ASSERT, OpKind.DEVICE_PRINT,
        OpKind.ASSUME,
    ),
    Effect.UNKNOWN: (OpKind.OPAQUE, OpKind.INLINE_ASM),
}  # fmt: skip

EFFECT: dict[str, Effect] = {kind: effect for effect, kinds in _EFFECTS.items() for kind in kinds}
"""Effect of every kind that is not pure."""

READS = frozenset(_EFFECTS[Effect.READ])
WRITES = frozenset(_EFFECTS[Effect.WRITE])
ATOMICS = frozenset(_EFFECTS[Effect.ATOMIC])
SIDES = frozenset({"lhs", "rhs"})
"""Roles of operands without which an operation means nothing."""

OF_THREE = frozenset({OpKind.SELECT, OpKind.FMA})
"""Operations that mean nothing without all of their three operands."""

PROMISES = frozenset({OpKind.MULTIPLE_OF, OpKind.MAX_CONTIGUOUS, OpKind.MAX_CONSTANCY})
"""What the program promises of a value. The compiler keeps it with the value, whether or not the
result of the operation is read. Source: Triton, tl.multiple_of."""

TERMINATORS = frozenset({OpKind.YIELD, OpKind.RETURN, OpKind.BREAK, OpKind.CONTINUE})
REDUCTIONS = frozenset(
    {
        OpKind.REDUCE_SUM, OpKind.REDUCE_MAX, OpKind.REDUCE_MIN, OpKind.REDUCE_PROD,
        OpKind.REDUCE_XOR, OpKind.REDUCE_OR, OpKind.ARGMAX, OpKind.ARGMIN, OpKind.REDUCE,
    }
)  # fmt: skip
NAMED = "name "
"""What is not understood and is a value or a type by its name, no call: so it begins."""

CONTRACTIONS = frozenset({OpKind.MMA, OpKind.MATMUL, OpKind.MMA_SCALED})
OWN_THREAD = (OpKind.THREAD_ID, OpKind.LANE_ID, OpKind.WARP_ID)
"""What a thread asks about itself."""

COMPARISONS = frozenset({OpKind.EQ, OpKind.NE, OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE})
MIRRORED: dict[str, str] = {
    OpKind.LT: OpKind.GT, OpKind.LE: OpKind.GE, OpKind.GT: OpKind.LT, OpKind.GE: OpKind.LE,
}  # fmt: skip
"""What a comparison asks when its sides change places; equality stays what it is."""


def effect_of(kind: str) -> Effect:
    """Memory or control effect of an operation; pure when the table names none."""
    return EFFECT.get(kind, Effect.PURE)


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """A Python operator and the operation it stands for; `precedence` as in the Python grammar, 1
    binds least."""

    symbol: str
    kind: OpKind
    precedence: int


BINARY: tuple[OperatorRow, ...] = (
    OperatorRow("or", OpKind.OR, 2),
    OperatorRow("and", OpKind.AND, 3),
    OperatorRow("==", OpKind.EQ, 5),
    OperatorRow("!=", OpKind.NE, 5),
    OperatorRow("<", OpKind.LT, 5),
    OperatorRow("<=", OpKind.LE, 5),
    OperatorRow(">", OpKind.GT, 5),
    OperatorRow(">=", OpKind.GE, 5),
    OperatorRow("is", OpKind.IS, 5),
    OperatorRow("is not", OpKind.IS_NOT, 5),
    OperatorRow("in", OpKind.IN, 5),
    OperatorRow("not in", OpKind.NOT_IN, 5),
    OperatorRow("|", OpKind.BIT_OR, 6),
    OperatorRow("^", OpKind.BIT_XOR, 7),
    OperatorRow("&", OpKind.BIT_AND, 8),
    OperatorRow("<<", OpKind.SHIFT_LEFT, 9),
    OperatorRow(">>", OpKind.SHIFT_RIGHT, 9),
    OperatorRow("+", OpKind.ADD, 10),
    OperatorRow("-", OpKind.SUB, 10),
    OperatorRow("*", OpKind.MUL, 11),
    OperatorRow("/", OpKind.DIV, 11),
    OperatorRow("//", OpKind.FLOOR_DIV, 11),
    OperatorRow("%", OpKind.MOD, 11),
    OperatorRow("@", OpKind.MATMUL, 11),
    OperatorRow("**", OpKind.POW, 13),
)
UNARY: tuple[OperatorRow, ...] = (
    OperatorRow("not", OpKind.NOT, 4),
    OperatorRow("-", OpKind.NEG, 12),
    OperatorRow("+", OpKind.POS, 12),
    OperatorRow("~", OpKind.BIT_NOT, 12),
)
BINARY_BY_SYMBOL = {row.symbol: row for row in BINARY}
UNARY_BY_SYMBOL = {row.symbol: row for row in UNARY}
BINARY_BY_KIND: dict[str, OperatorRow] = {row.kind: row for row in BINARY}
UNARY_BY_KIND: dict[str, OperatorRow] = {row.kind: row for row in UNARY}
