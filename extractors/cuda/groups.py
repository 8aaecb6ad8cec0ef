"""Operations of threads that are read alike: atomics, those that give no value, those that give a
number whatever they are given, and conversions."""

from __future__ import annotations

from collections.abc import Sequence

from extractors.cuda.values import Kind
from kb.dialects.cuda import OF_PAIRS, RESULT_DTYPES
from kb.dialects.model import Row
from kb.ops import OpKind

ATOMIC = (
    OpKind.ATOMIC_ADD, OpKind.ATOMIC_MAX, OpKind.ATOMIC_MIN, OpKind.ATOMIC_AND, OpKind.ATOMIC_OR,
    OpKind.ATOMIC_XOR, OpKind.ATOMIC_XCHG, OpKind.ATOMIC_CAS, OpKind.ATOMIC_INC, OpKind.ATOMIC_DEC,
)  # fmt: skip
SILENT = frozenset(
    {
        OpKind.STORE, OpKind.BARRIER, OpKind.FENCE, OpKind.GRID_WAIT, OpKind.GRID_LAUNCH,
        OpKind.ASYNC_COPY, OpKind.ASYNC_COMMIT, OpKind.ASYNC_WAIT, OpKind.TRAP, OpKind.SLEEP,
        OpKind.DEVICE_ASSERT, OpKind.DEVICE_PRINT, OpKind.PREFETCH, OpKind.ASSUME,
    }
)  # fmt: skip
NUMBERS = {
    OpKind.VOTE: Kind("u32"),
    OpKind.SHARED_ADDRESS: Kind("u32"),
    OpKind.BARRIER_VOTE: Kind("u32"),
    OpKind.CLOCK: Kind("i64"),
}


def converted(row: Row, given: Sequence[Kind]) -> Kind:
    """What a conversion gives."""
    shape = given[0].shape if given and row.kind is OpKind.CAST else ()
    if row.kind is OpKind.VECTOR:
        shape = (str(len(given)),)
    if row.path.endswith(OF_PAIRS):
        shape = ("2",)
    return Kind(RESULT_DTYPES[row.path], shape)
