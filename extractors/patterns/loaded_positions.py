"""Positions of tokens that are read from memory, to compute angles of them."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS
from kb.evidence import Decision
from kb.ops import READS, OpKind

_TURNED_THREADS = """
__global__ void turned(const float* x, const int* at, float* out, float by, int n) {
    int place = at[blockIdx.x];
    float angle = float(place) * by * threadIdx.x;
    out[blockIdx.x * n + threadIdx.x] = x[blockIdx.x * n + threadIdx.x] * __cosf(angle);
}
"""
_OPEN_THREADS = """template <typename T, typename I>
__global__ void turned(const T* x, const I* at, T* out, float by, int n) {
    I place = at[blockIdx.x];
    float angle = float(place) * by * threadIdx.x;
    float v = float(x[blockIdx.x * n + threadIdx.x]);
    out[blockIdx.x * n + threadIdx.x] = T(v * __cosf(angle));
}
"""
_TURNED = (
    POINTER
    + """
@triton.jit
def turned(x, at, out, by, n, T: tl.constexpr):
    row = tl.program_id(0)
    place = tl.load(at + row).to(tl.int32)
    lane = tl.arange(0, T)
    angle = place.to(tl.float32) * by * lane
    tl.store(out + row * n + lane, tl.load(x + row * n + lane) * tl.cos(angle))
"""
)
_TURNED_TILE = (
    TILE
    + """
@ct.kernel
def turned(x, at, out, by, T: Int):
    row = ct.bid(0)
    place = ct.astype(ct.load(at, (row,), (1,)), ct.int32)
    angle = ct.astype(place, ct.float32) * by * ct.arange(T, dtype=ct.float32)
    ct.store(out, (row, 0), ct.load(x, (row, 0), (1, T)) * ct.cos(angle))
"""
)
_INTEGERS = ("i", "u")
_SCALED = VIEWS | CASTS | {OpKind.MUL, OpKind.SELECT, OpKind.NEG}


class LoadedPositions(Pattern):
    """Whole numbers that are loaded make the angles whose sine and cosine turn the elements: the
    position of a token is looked up, not counted."""

    name = "positions-of-tokens-looked-up"
    axis = "ragged_access"
    source = "Su et al., RoFormer (2021), rotary position embedding"
    matches = (
        Case(_TURNED_THREADS, "positions are loaded"),
        Case(_OPEN_THREADS, "positions are loaded"),
        Case(_TURNED, "positions are loaded"),
        Case(_TURNED_TILE, "positions are loaded"),
    )
    near_misses = (
        NearMiss(
            vary(_TURNED_THREADS, ("at[blockIdx.x]", "blockIdx.x")), why="positions are counted"
        ),
        NearMiss(
            vary(
                _TURNED_THREADS, ("const int* at", "const float* at"), ("int place", "float place")
            ),
            why="an angle is loaded, no position",
        ),
        NearMiss(
            vary(_OPEN_THREADS, ("const I* at", "const T* at"), ("I place", "T place")),
            why="numbers of the type of the data: a table of angles",
        ),
        NearMiss(vary(_TURNED, ("tl.load(at + row).to(tl.int32)", "row")), why="counted"),
        NearMiss(
            vary(_TURNED_TILE, ("ct.load(at, (row,), (1,))", "row")), why="positions are counted"
        ),
        NearMiss(ADD_THREADS, why="no angles"),
        NearMiss(ADD_POINTER, why="no angles"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        graph = facts.threads
        angles = [n.op.inputs[0] for n in graph.of(OpKind.SIN, OpKind.COS)]
        found = {
            node
            for angle in angles
            for node in graph.upstream(angle, lambda n: n.op.kind not in _SCALED)
            if node.op.kind in READS and node.op.attribute("space") != "shared"
            if _whole(facts, node.result)
        }
        if found:
            yield self.decide(facts, "positions are loaded", found)


def _whole(facts: Facts, value: str) -> bool:
    """Whether a number is a whole one by its type or, where that is open, by the one it is taken
    as; a type of the template that is written, too, is that of the data."""
    dtype = facts.types.dtype(value)
    if not dtype.startswith("dtypeof"):
        return dtype.startswith(_INTEGERS)
    if facts.of_threads:
        stores = facts.threads.of(OpKind.STORE)
        return dtype not in {facts.types.dtype(v) for n in stores for v in n.op.inputs}
    casts = [n for n in facts.threads.users(value) if n.op.kind in CASTS]
    return any(facts.types.dtype(n.result).startswith(_INTEGERS) for n in casts)
