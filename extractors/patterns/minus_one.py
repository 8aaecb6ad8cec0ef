"""Entries of an index that name nothing."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import WRITES, OpKind

_INDEX = (
    POINTER
    + """
@triton.jit
def window(starts, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.load(starts + row) + tl.arange(0, T)
    tl.store(out + row * T + tl.arange(0, T), tl.where(at < n, at, -1))
"""
)
_INDEX_TILE = (
    TILE
    + """
@ct.kernel
def window(out, n, T: Int):
    row = ct.bid(0)
    at = row * T + ct.arange(T, dtype=ct.int32)
    ct.store(out, (row,), ct.where(at < n, at, -1))
"""
)
_INDEX_THREADS = """__global__ void window(const int* starts, int* out, int n) {
    int at = starts[blockIdx.x] + threadIdx.x;
    out[blockIdx.x * blockDim.x + threadIdx.x] = at < n ? at : -1;
}
"""
_HANDED = VIEWS | CASTS | {OpKind.SELECT}
_REAL = ("f", "bf", "tf")
MAX_VALUES = 10
"""Values that a choice is followed through to what is stored."""


class MinusOne(Pattern):
    """Whole numbers are stored, and where a condition does not hold -1 in their place: an entry
    that names nothing, for whoever reads the index."""

    name = "minus-one-for-what-names-nothing"
    axis = "mask_application"
    source = "FlashInfer, sparse attention: entries of -1 are skipped"
    matches = (
        Case(_INDEX, "-1 for entries that name nothing"),
        Case(_INDEX_TILE, "-1 for entries that name nothing"),
        Case(_INDEX_THREADS, "-1 for entries that name nothing"),
    )
    near_misses = (
        NearMiss(vary(_INDEX, ("at, -1", "at, 7")), why="another entry"),
        NearMiss(vary(_INDEX, ("at, -1", "at * 0.5, -1.0")), why="no whole numbers"),
        NearMiss(
            vary(_INDEX, ("tl.where(at < n, at, -1))", "tl.where(at < n, at, -1) + n)")),
            why="a number that is added to",
        ),
        NearMiss(ADD_POINTER, why="nothing is chosen"),
        NearMiss(vary(_INDEX_TILE, ("at, -1", "at, 0")), why="the first entry, which names it"),
        NearMiss(ADD_THREADS, why="nothing is chosen"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        chosen = [n for n in facts.graph.of(OpKind.SELECT) if _one_is_minus_one(facts, n)]
        found = [n for n in chosen if _is_stored(facts, n)]
        if found:
            yield self.decide(facts, "-1 for entries that name nothing", found)


def _one_is_minus_one(facts: Facts, choice: Node) -> bool:
    sides = [v for v in choice.op.inputs[1:3] if facts.number(v) == -1]
    real = any(isinstance(facts.values.literal(v), float) for v in sides)
    return bool(sides) and not real and not facts.types.dtype(choice.result).startswith(_REAL)


def _is_stored(facts: Facts, choice: Node) -> bool:
    """Whether a choice is stored as it is, or after another choice."""
    values = [choice.result]
    for value in values:
        for user in facts.graph.users(value):
            if user.op.kind in WRITES:
                written = [v for role, v in user.op.operands if role in ("value", "tile")]
                if value in written:
                    return True
            elif user.op.kind in _HANDED and len(values) < MAX_VALUES:
                values.append(user.result)
    return False
