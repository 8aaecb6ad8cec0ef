"""A narrow buffer beside the tiles, such as scales, statistics or partial sums, at one linear
index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from extractors.patterns.flattened_side_buffer import FlattenedSideBuffer
from extractors.patterns.operand_under_flag import standing
from extractors.patterns.side_strides import SideStrides
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import HELD, Facts
from kb.analysis.strides import joined_at
from kb.analysis.symbolic import Atom, AtomKind, Expr, nested
from kb.evidence import Decision
from kb.ops import OpKind

_MOVING = (AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.COUNT, AtomKind.LANE, AtomKind.LOADED)
_PARTS = (AtomKind.FLOOR_DIV, AtomKind.CEIL_DIV, AtomKind.MOD, AtomKind.CHOICE, AtomKind.MINIMUM)
_FACTORS = HELD | {OpKind.MUL}
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
    """A sum, a maximum or what was made of it is stored narrower than what was loaded, or one
    number is loaded that a product is multiplied with: at two or more positions, of which all but
    one are multiplied with an extent."""

    name = "side-buffer-at-a-linear-index"
    axis = "auxiliary_layout"
    source = "PyTorch documentation, tensor views: contiguous strides"
    matches = (
        Case(_PARTIAL, _VALUE),
        Case(_SCALE_TILE, _VALUE),
        Case(_SCALE_THREADS, _VALUE),
        Case(
            vary(
                _SCALE_TILE,
                ("scales, tile * n + row", "scales, ct.where(row < n, tile * n + row, n * n)"),
            ),
            _VALUE,
        ),
        Case(_FACTOR, _VALUE),
    )
    near_misses = (
        NearMiss(vary(_PARTIAL, ("tile * n + row", "row")), why="one number per row"),
        NearMiss(vary(_PARTIAL, ("tl.sum(v, axis=0)", "tile")), why="nothing was reduced"),
        NearMiss(vary(_SCALE_TILE, ("tile * n + row", "row")), why="one number per row"),
        NearMiss(
            vary(_SCALE_TILE, ("scales, tile * n + row", "scales, (tile, row)")),
            why="two indices",
        ),
        NearMiss(
            _SCALE_THREADS.replace("blockIdx.y * n + blockIdx.x", "blockIdx.x"),
            why="one number per row",
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
        wide = {a.array for a in facts.accesses if _rank(facts, a) == widest} | {None}
        found = [
            a
            for a in facts.accesses
            if a.array not in wide
            and not a.is_atomic
            and not (facts.of_threads and any(x.kind is AtomKind.LANE for x in _top(a)))
            and (_rank(facts, a) == 0 or (_rank(facts, a) < stored and not facts.of_threads))
            and _rank(facts, a) < widest
            and _linear(a)
            and (_reduced(facts, a) if a.is_store else _scales(facts, a))
        ]
        if not found or max(_rank(facts, a) for a in standing(facts)) < widest:
            return
        others = (FlattenedSideBuffer(), SideStrides())
        told = {lines for p in others for d in p.find(facts) for lines in d.lines}
        free = [a for a in found if a.node.lines not in told]
        if free:
            made = [n for a in free for n in joined_at(facts, a)]
            yield self.decide(facts, _VALUE, [*free, *made])


def _rank(facts: Facts, access: Access) -> int:
    return sum(extent != "1" for extent in facts.types.shape(access.value))


def _top(access: Access) -> Iterator[Atom]:
    return (atom for index in access.index for atom in index.top())


def _linear(access: Access) -> bool:
    """Two positions or more in one index: one counts single elements, every other one as many as an
    extent says."""
    if access.mode not in (Mode.POINTER, Mode.ELEMENT) or len(access.index) != 1:
        return False
    return any(apart(index) for index in nested(access.index[0]))


def apart(index: Expr) -> bool:
    """Two terms or more that do not belong to the tile's own lanes: one without, one with a
    factor."""
    lanes = [a for a in index.top() if a.kind is AtomKind.LANE]
    own = {a for lane in lanes for a in lane.args[0].atoms()}
    steps = [
        [a for a in factors if not _moves(a.kind)]
        for factors, _ in index.terms
        if any(_moves(a.kind) for a in factors)
    ]
    apart = [step for step in steps if not own & set(step)]
    return len(apart) > 1 and [] in apart and any(apart)


def _moves(kind: AtomKind) -> bool:
    return kind in _MOVING or kind in _PARTS


def _reduced(facts: Facts, access: Access) -> bool:
    return any(facts.graph.rests_on(access.value, r) for r in facts.reductions)


def _scales(facts: Facts, access: Access) -> bool:
    """One number that what a product gave is multiplied with."""
    if facts.types.shape(access.value) or not facts.contractions:
        return False
    products = facts.contractions
    for node in facts.graph.of(OpKind.MUL):
        for one, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
            if access.node in facts.graph.upstream(one, lambda n: n.op.kind not in _FACTORS):
                if any(facts.graph.rests_on(other, p) for p in products):
                    return True
    return False
