"""Operations of threads that are read alike: atomics, those that give no value, and
those that give a number whatever they are given."""

from __future__ import annotations

from extractors.cuda.values import Kind
from kb.ops import OpKind

ATOMIC = (
    OpKind.ATOMIC_ADD, OpKind.ATOMIC_MAX, OpKind.ATOMIC_MIN, OpKind.ATOMIC_AND, OpKind.ATOMIC_OR,
    OpKind.ATOMIC_XOR, OpKind.ATOMIC_XCHG, OpKind.ATOMIC_CAS, OpKind.ATOMIC_INC, OpKind.ATOMIC_DEC,
)  # fmt: skip
SILENT = frozenset(
    {
        OpKind.STORE, OpKind.BARRIER, OpKind.FENCE, OpKind.GRID_WAIT, OpKind.GRID_LAUNCH,
        OpKind.ASYNC_COPY, OpKind.ASYNC_COMMIT, OpKind.ASYNC_WAIT, OpKind.TRAP, OpKind.SLEEP,
        OpKind.DEVICE_ASSERT, OpKind.DEVICE_PRINT, OpKind.PREFETCH,
    }
)  # fmt: skip
NUMBERS = {
    OpKind.VOTE: Kind("u32"),
    OpKind.SHARED_ADDRESS: Kind("u32"),
    OpKind.BARRIER_VOTE: Kind("u32"),
    OpKind.CLOCK: Kind("i64"),
}
