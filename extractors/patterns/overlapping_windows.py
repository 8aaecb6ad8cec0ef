"""Neighbouring elements of one array are loaded one by one."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis import symbolic as s
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.evidence import Decision

_TAPS = (
    POINTER
    + """
@triton.jit
def smooth(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    u = tl.load(x + at, mask=at < n)
    v = tl.load(x + at + 1, mask=at + 1 < n)
    w = tl.load(x + at + 2, mask=at + 2 < n)
    tl.store(out + at, u + 2 * v + w, mask=at < n)
"""
)

MOST = 48
"""Loads of one array that are compared with each other."""


_TAPS_TILE = (
    TILE
    + """
@ct.kernel
def smooth(x, out, T: Int):
    row = ct.bid(0)
    at = ct.bid(1) * T + ct.arange(T, dtype=ct.int32)
    u = ct.gather(x, (row, at))
    v = ct.gather(x, (row, at + 1))
    w = ct.gather(x, (row, at + 2))
    ct.scatter(out, (row, at), u + 2 * v + w)
"""
)


_TAPS_THREADS = """__global__ void smooth(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at + 2 < n) out[at] = x[at] + 2.f * x[at + 1] + x[at + 2];
}
"""


class OverlappingWindows(Pattern):
    """Loads of an array whose positions differ by small numbers."""

    name = "overlapping-window-loads"
    axis = "stencil_access"
    source = "tilelore catalogue, P48"
    matches = (
        Case(_TAPS, "k shifted loads"),
        Case(_TAPS_TILE, "k shifted loads"),
        Case(_TAPS_THREADS, "k shifted loads"),
    )
    near_misses = (
        NearMiss(ADD_POINTER, why="two arrays"),
        NearMiss(ROW_NORM, why="every array is read at one place"),
        NearMiss(ADD_THREADS, why="two arrays"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        groups: dict[str, list[Access]] = {}
        for access in facts.loads:
            if access.array is not None and facts.types.shape(access.value):
                groups.setdefault(access.array, []).append(access)
        for loads in (group[:MOST] for group in groups.values()):
            near = [a for a in loads if any(self._near(a, b) for b in loads)]
            if len(near) > 1:
                yield self.decide(facts, "k shifted loads", near)

    def _near(self, first: Access, second: Access) -> bool:
        if len(first.index) != len(second.index):
            return False
        gaps = [s.sub(a, b).constant for a, b in zip(first.index, second.index, strict=True)]
        moved = [gap for gap in gaps if gap != 0]
        return len(moved) == 1 and moved[0] is not None and abs(moved[0]) <= 16
