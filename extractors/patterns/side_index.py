"""A narrow buffer beside the tiles, such as scales, statistics or partial sums, at one linear
index."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from extractors.patterns.flattened_side_buffer import FlattenedSideBuffer
from extractors.patterns.operand_under_flag import standing
from extractors.patterns.side_by_flag import SideByFlag
from extractors.patterns.side_strides import SideStrides
from extractors.patterns.swizzled_side import SwizzledSide
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import HELD, Facts
from kb.analysis.strides import joined_at, moves
from kb.analysis.symbolic import Atom, AtomKind, Expr, nested
from kb.evidence import Decision
from kb.ops import OpKind

_SCALES = (OpKind.MUL, OpKind.DIV)
_MOST = 32
"""Forms of a loaded number that are looked at."""

_ELEMENTS = (Mode.POINTER, Mode.ELEMENT)
_STACKED = "parts stacked along an axis"
_VALUE = "1-D linear index scatter/gather"

_PARTIAL = (
    POINTER
    + """
@triton.jit
def part(x, parts, n, T: tl.constexpr):
    row = tl.program_id(0)
    tile = tl.program_id(1)
    v = tl.load(x + row * T * tl.num_programs(1) + tile * T + tl.arange(0, T))
    tl.store(parts + tile * n + row, tl.sum(v, axis=0))
"""
)
_SCALE_TILE = (
    TILE
    + """
@ct.kernel
def scale(x, out, scales, n: int, T: Int):
    row = ct.bid(0)
    tile = ct.bid(1)
    v = ct.load(x, index=(row, tile), shape=(1, T))
    top = ct.max(v)
    ct.store(out, index=(row, tile), tile=v / top)
    ct.scatter(scales, tile * n + row, top)
"""
)
_STACKED_TILES = (
    TILE
    + """
@ct.kernel
def scale(x, parts, n: int, T: Int):
    row = ct.bid(0)
    tile = ct.bid(1)
    v = ct.load(x, index=(row, tile), shape=(1, T))
    ct.store(parts, index=(row + tile * n, 0), tile=ct.sum(v, axis=1, keepdims=True))
"""
)
_NUMBER = (
    "(row + tile * n, 0), tile=ct.sum(v, axis=1, keepdims=True)",
    "row + tile * n, tile=ct.sum(v)",
)
_SCALE_THREADS = """__device__ float warp_max(float v) {
    for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, o));
    return v;
}
__global__ void scale(const float* x, float* out, float* scales, int n) {
    int at = (blockIdx.x * gridDim.y + blockIdx.y) * 32 + threadIdx.x;
    float v = x[at];
    float top = warp_max(fabsf(v));
    out[at] = v / top;
    if (threadIdx.x == 0) scales[blockIdx.y * n + blockIdx.x] = top;
}
"""
_GROUPS_THREADS = """__global__ void scale(const float* x, char* out, float* scales, int n) {
    int at = blockIdx.x * n + threadIdx.x * 8;
    float v[8], top = 0.f;
    for (int i = 0; i < 8; ++i) { v[i] = x[at + i]; top = fmaxf(top, fabsf(v[i])); }
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
    scales[blockIdx.x * (n / 16) + threadIdx.x * 8 / 16] = top;
    out[blockIdx.x * (n / 2) + threadIdx.x * 8 / 2] = (char)(v[0] / top);
}
"""
_FACTOR = (
    POINTER
    + """
@triton.jit
def scaled(a, b, s, out, H, T: tl.constexpr):
    head = tl.program_id(0)
    part = tl.program_id(1)
    at = tl.arange(0, T)
    x = tl.load(a + (head * T + at[:, None]) * T + at[None, :])
    y = tl.load(b + (part * T + at[:, None]) * T + at[None, :])
    by = tl.load(s + part * H + head)
    tl.store(out + (head * T + at[:, None]) * T + at[None, :], tl.dot(x, y) * by)
"""
)


class SideIndex(Pattern):
    """A sum, a maximum or what was made of it is stored narrower than what was loaded, or a number
    that many elements share is loaded and multiplied with: at two or more positions, of which all
    but one are multiplied with an extent."""

    name = "side-buffer-at-a-linear-index"
    axis = "auxiliary_layout"
    source = "PyTorch documentation, tensor views: contiguous strides"
    matches = (
        Case(_PARTIAL, _VALUE),
        Case(_SCALE_TILE, _VALUE),
        Case(_STACKED_TILES, _STACKED),
        Case(_SCALE_THREADS, _VALUE),
        Case(
            vary(
                _SCALE_TILE,
                ("scales, tile * n + row", "scales, ct.where(row < n, tile * n + row, n * n)"),
            ),
            _VALUE,
        ),
        Case(_FACTOR, _VALUE),
        Case(vary(_STACKED_TILES, _NUMBER), _VALUE),
        Case(_GROUPS_THREADS, _VALUE),
    )
    near_misses = (
        NearMiss(vary(_PARTIAL, ("tile * n + row", "row")), why="one number per row"),
        NearMiss(vary(_PARTIAL, ("tl.sum(v, axis=0)", "tile")), why="nothing was reduced"),
        NearMiss(vary(_SCALE_TILE, ("tile * n + row", "row")), why="one number per row"),
        NearMiss(vary(_STACKED_TILES, ("(row + tile * n, 0)", "(row, tile)")), why="two axes"),
        NearMiss(
            vary(_STACKED_TILES, ("(row, tile), shape", "(row + tile * n, 0), shape")),
            why="a number for every row, wherever that lies",
        ),
        NearMiss(
            vary(_SCALE_TILE, ("scales, tile * n + row", "scales, (tile, row)")),
            why="two indices",
        ),
        NearMiss(
            _SCALE_THREADS.replace("blockIdx.y * n + blockIdx.x", "blockIdx.x"),
            why="one number per row",
        ),
        NearMiss(
            _GROUPS_THREADS.replace("threadIdx.x * 8 / 16", "threadIdx.x"),
            why="a number for each thread",
        ),
        NearMiss(vary(_FACTOR, ("part * H + head", "head")), why="one number per head"),
        NearMiss(vary(_FACTOR, (" * by)", " + by)")), why="added, no scale"),
        NearMiss(ROW_NORM, why="tiles are stored in views"),
        NearMiss(PRODUCT, why="there is one output"),
        NearMiss(ADD_POINTER, why="there is one output"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        widest = max((_rank(facts, a) for a in facts.loads), default=0)
        stored = max((_rank(facts, a) for a in facts.stores), default=0)
        wide = {a.array for a in facts.accesses if _rank(facts, a) == widest and not shared(a)}
        found = [
            a
            for a in facts.accesses
            if a.array not in wide | {None}
            and not a.is_atomic
            and (of_many(a) if facts.of_threads else _rank(facts, a) < max(1, stored))
            and (_rank(facts, a) < widest or shared(a))
            and _linear(a)
            and (_reduced(facts, a) if a.is_store else _enters(facts, a))
        ]
        if not found or max(_rank(facts, a) for a in standing(facts)) < widest:
            return
        others = (FlattenedSideBuffer(), SideByFlag(), SideStrides(), SwizzledSide())
        told = {lines for p in others for d in p.seen(facts) for lines in d.lines}
        free = [a for a in found if a.node.lines not in told]
        stacked = [a for a in free if a.mode not in _ELEMENTS]
        stacked = [a for a in stacked if len(a.index) > 1 or _rank(facts, a)]
        rows = [e for a in facts.accesses if a.array in wide and len(a.index) > 1 for e in a.index]
        for value in (_VALUE, _STACKED):
            alike = [a for a in free if (a not in stacked) == (value == _VALUE)]
            alike = [a for a in alike if a.mode in _ELEMENTS or not _numbers(a, rows)]
            if alike:
                made = [n for a in alike for n in joined_at(facts, a)]
                yield self.decide(facts, value, [*alike, *made])


def _numbers(access: Access, rows: list[Expr]) -> bool:
    """Whether the place is all or a part of what counts along an axis of a wide array: one number
    for every row."""
    return any(all({*index.terms} <= {*row.terms} for index in access.index) for row in rows)


def _rank(facts: Facts, access: Access) -> int:
    return sum(extent != "1" for extent in facts.types.shape(access.value))


def of_many(access: Access) -> bool:
    """Whether no two threads side by side have elements of their own, be it by what is left of
    their number."""
    top = [atom for index in access.index for atom in index.top()]
    left = [a for a in top if a.kind is AtomKind.MOD]
    inside = [atom for one in left for atom in one.args[0].top()]
    return not any(atom.kind is AtomKind.LANE for atom in (*top, *inside))


def shared(access: Access) -> bool:
    """Whether threads side by side share one element: their number is divided, and what is left of
    it does not count."""
    lanes = [a for index in access.index for a in index.top() if _within(a)]
    return bool(lanes) and all(a.kind is AtomKind.FLOOR_DIV and _closer(*a.args) for a in lanes)


def _closer(position: Expr, by: Expr) -> bool:
    """Whether several lanes have one quotient, as far as numbers tell."""
    steps = [abs(number) for factors, number in position.terms if any(map(_within, factors))]
    return not position.has(AtomKind.MOD) and (
        by.constant is None or all(step < by.constant for step in steps)
    )


def _within(atom: Atom) -> bool:
    inside = any(arg.has(AtomKind.LANE) for arg in atom.args)
    return atom.kind is AtomKind.LANE or inside


def _linear(access: Access) -> bool:
    """Two positions or more in one index: one counts single elements, every other one as many as an
    extent says."""
    if access.mode in _ELEMENTS and len(access.index) != 1:
        return False
    if shared(access):
        terms = [factors for factors, _ in access.index[0].terms]
        return len(terms) > 1 and any(len(f) > 1 and any(map(moves, f)) for f in terms)
    return any(apart(one) for index in access.index for one in nested(index))


def apart(index: Expr) -> bool:
    """Two terms or more that do not belong to the tile's own lanes: one without, one with a
    factor."""
    lanes = [a for a in index.top() if a.kind is AtomKind.LANE]
    own = {a for lane in lanes for a in lane.args[0].atoms()}
    steps = [
        [a for a in factors if not moves(a)]
        for factors, _ in index.terms
        if any(map(moves, factors))
    ]
    apart = [step for step in steps if not own & set(step)]
    return len(apart) > 1 and [] in apart and any(apart)


def _reduced(facts: Facts, access: Access) -> bool:
    if facts.of_threads and shared(access):
        return True
    return any(facts.graph.rests_on(access.value, r) for r in facts.reductions)


def _enters(facts: Facts, access: Access) -> bool:
    """Whether what is computed of wider tiles is multiplied with or divided by what is loaded: by
    no whole number, which may be a place."""
    whole = facts.types.dtype(access.value).startswith(("i", "u"))
    if whole and not (facts.of_threads and shared(access)):
        return False
    if not any(access in facts.feeding(s.value) for s in facts.stores):
        return False
    seen = [access.value]
    for value in seen:
        for user in facts.graph.users(value):
            if user.op.kind in _SCALES:
                return True
            if user.op.kind in HELD and len(seen) < _MOST:
                seen += [r.name for r in user.op.results if r.name not in seen]
    return False
