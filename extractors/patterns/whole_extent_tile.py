"""One tile that spans a whole extent of an array."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import (
    ATTENTION,
    ATTENTION_POINTER,
    POINTER,
    PRODUCT,
    PRODUCT_POINTER,
    vary,
)
from extractors.patterns.cases_masks import PEELED_ROW
from extractors.patterns.cases_rows import ADD_POINTER, LAYER_NORM_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS, FIRST_THREAD, LAYER_NORM_THREADS
from kb.analysis.accesses import Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import against_extent, comparisons, sides
from kb.analysis.peeled import peeled_tails
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind

_ROWS = (
    POINTER
    + """
@triton.jit
def gather(x, rows, out, n, W: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    d = tl.arange(0, W)
    inside = (at < n)[:, None]
    row = tl.load(rows + at, mask=at < n, other=0)
    v = tl.load(x + row[:, None] * W + d[None, :], mask=inside, other=0.0)
    tl.store(out + at[:, None] * W + d[None, :], v, mask=inside)
"""
)
_LEFT_OUT = """__global__ void twice(const float* x, float* out, int n) {
    if (threadIdx.x < n)
        out[blockIdx.x * n + threadIdx.x] = x[blockIdx.x * n + threadIdx.x] * 2.f;
}
"""


class WholeExtentTile(Pattern):
    """Lanes that no block id and no loop moves are masked by an extent; or a tile of a
    compile-time extent is only ever read at index zero of an axis, or by lanes that nothing moves
    or masks."""

    name = "whole-extent-in-one-tile"
    axis = "tile_padding"
    source = "Triton documentation, Fused Softmax tutorial: the block is the next power of two"
    matches = (
        Case(LAYER_NORM_POINTER, "masked lanes of one padded tile"),
        Case(ATTENTION, "whole extent in one tile"),
        Case(ATTENTION_POINTER, "whole extent in one tile"),
        Case(LAYER_NORM_THREADS, "masked lanes of one padded tile"),
        Case(_ROWS, "whole extent in one tile"),
        Case(
            vary(
                _ROWS,
                ("d = tl.arange(0, W)", "d = tl.arange(0, triton.next_power_of_2(W))"),
                ("[:, None]\n", "[:, None] & (d < W)[None, :]\n"),
            ),
            "masked lanes of one padded tile",
        ),
    )
    near_misses = (
        NearMiss(ADD_POINTER, why="the block id moves the lanes"),
        NearMiss(PRODUCT, why="every axis is tiled"),
        NearMiss(FIRST_THREAD, why="one thread is picked out"),
        NearMiss(PRODUCT_POINTER, why="every axis is tiled"),
        NearMiss(PEELED_ROW, why="the last tile of an axis that a loop walks"),
        NearMiss(
            vary(
                ATTENTION_POINTER,
                ("lane = tl.arange(0, W)", "lane = x + tl.arange(0, W)"),
            ),
            why="the block id moves the lanes",
        ),
        NearMiss(
            vary(
                ATTENTION_POINTER,
                ("y * sh + ", "y * W + "),
            ),
            why="another block's lanes lie beside these",
        ),
        NearMiss(
            vary(ADD_POINTER, ("inside = at < n", "inside = (at < n) & (tl.arange(0, T) < T)")),
            why="every lane is below their number",
        ),
        NearMiss(ADD_THREADS, why="the block id moves the lanes"),
        NearMiss(
            _LEFT_OUT, why="threads past the row do nothing, no lane has a value in their place"
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        masked = [
            c
            for a in (facts.accesses if not facts.of_threads else facts.loads)
            if a.padding or not facts.of_threads  # threads that do nothing pad nothing
            for c in comparisons(facts, a.mask)
            if against_extent(facts, c) and _still(facts, c)
        ]
        last = {test for one in (peeled_tails(facts) if masked else ()) for test in one.tests}
        masked = [c for c in masked if c not in last]
        if masked:
            lanes = [n for c in masked for n in _lanes(facts, c)]
            found = dict.fromkeys([*masked, *lanes])
            yield self.decide(facts, "masked lanes of one padded tile", found)
        elif names := self._whole(facts) or _unmoved(facts):
            first = [a for a in facts.loads if set(names) & {*a.shape, *facts.types.shape(a.value)}]
            counted = [n for n in facts.graph.of(OpKind.ARANGE) if _size(facts, n) in names]
            where: list[Where] = [*first[:1], *counted, *facts.declared(*names)]
            yield self.decide(facts, "whole extent in one tile", where, ", ".join(names))

    def _whole(self, facts: Facts) -> list[str]:
        """Compile-time extents of tiles whose index is zero in every access."""
        at_zero: dict[str, bool] = {}
        for access in facts.accesses:
            if access.mode is not Mode.TILE or len(access.shape) != len(access.index):
                continue
            for extent, index in zip(access.shape, access.index, strict=True):
                if extent in facts.constexprs:
                    at_zero[extent] = at_zero.get(extent, True) and index.constant == 0
        return [name for name, zero in sorted(at_zero.items()) if zero] if facts.loads else []


def _unmoved(facts: Facts) -> list[str]:
    """Compile-time extents of lanes that stand in offsets of pointers, of which nothing moves a
    multiple and no mask leaves one out."""
    if facts.of_threads or not facts.loads:
        return []
    still: dict[str, bool] = {}
    pitches = {size for a in facts.accesses for index in a.index for size in _pitches(facts, index)}
    for access in facts.accesses:
        if access.mode is not Mode.POINTER:
            continue
        tests = [s for c in comparisons(facts, access.mask) for s in sides(facts, c)]
        masked = {size for side in tests for lane in _of_lanes(side) if (size := _extent(lane))}
        for index in access.index:
            for lane in _of_lanes(index):
                size = _extent(lane)
                if size is not None and size.value in facts.constexprs:
                    free = size not in masked and (
                        size.value in pitches or _alone(index, lane, size)
                    )
                    still[size.value] = still.get(size.value, True) and free
    return sorted(name for name, alone in still.items() if alone)


def _pitches(facts: Facts, index: Expr) -> set[str | None]:
    """Extents of lanes by which other lanes step: rows of as many elements, one behind the
    other."""
    lanes = _of_lanes(index)
    wide = {a for a in index.atoms() if a.kind is AtomKind.LOADED and facts.types.shape(a.value)}
    return {
        size.value
        for lane in lanes
        if (size := _extent(lane)) is not None
        if any(
            size in factors and (wide | {*lanes} - {lane}) & {*factors}
            for factors, _ in index.terms
        )
    }


def _of_lanes(expr: Expr) -> list[Atom]:
    return [a for a in expr.atoms() if a.kind is AtomKind.LANE]


def _extent(lane: Atom) -> Atom | None:
    return lane.args[0].atom if lane.args else None


def _alone(index: Expr, lane: Atom, size: Atom) -> bool:
    """True when no other term moves by the lanes' extent, or by their own step."""
    steps = [
        (sorted(a.text for a in f if a != lane), n) for f, n in index.terms if f.count(lane) == 1
    ]
    beside = [f for f, _ in index.terms if lane not in f]
    return bool(steps) and not any(
        size in f or (sorted(a.text for a in f if a != one), n) in steps
        for f, n in index.terms
        if f in beside
        for one in f
    )


def _size(facts: Facts, lanes: Node) -> str:
    size = facts.values.expr(lanes.op.operand("size")).atom
    return size.value if size is not None else ""


def _still(facts: Facts, comparison: Node) -> bool:
    moving = (AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.COUNT, AtomKind.LOADED, AtomKind.OPAQUE)
    return not any(side.has(*moving) for side in sides(facts, comparison))


def _lanes(facts: Facts, comparison: Node) -> list[Node]:
    """Where the lanes of a comparison are counted."""
    counted = [n for v in comparison.op.inputs[:2] for n in facts.graph.roots(v, OpKind.ARANGE)]
    return [n for n in counted if n.op.span.line > 0]
