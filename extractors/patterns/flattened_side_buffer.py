"""Row statistics in a flat buffer, addressed element by element."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, ATTENTION_LSE, BACKWARD_KEYS, POINTER, TILE, vary
from extractors.patterns.cases_pointer import FLASH_POINTER, FLASH_POINTER_LSE
from extractors.patterns.cases_rows import ROW_NORM
from extractors.patterns.cases_threads import BACKWARD_KEYS_THREADS, FLASH_THREADS
from extractors.patterns.operand_under_flag import standing
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.strides import compared
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_SUMS = VIEWS | CASTS | {OpKind.ADD}


_SCATTERED = vary(
    ATTENTION_LSE,
    ("bat * (G * LEN) + head * LEN + x * TM +", "x * TM +"),
    ("ct.scatter(stat, at, info)", "ct.scatter(stat, (bat, head, at), info)"),
)
_FLAT = (
    TILE
    + """
@ct.kernel
def scale(x, out, G: int, S: int, L: int, T: Int):
    g = ct.bid(0)
    at = (g // L) * S + (g % L) * G + ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, (at,), check_bounds=True, padding_value=0.0)
    ct.scatter(out, (at,), v / ct.max(ct.abs(v), axis=0), check_bounds=True)
"""
)
_STATE = (
    POINTER
    + """
@triton.jit
def scan(x, out, last, n, H, D, T: tl.constexpr, KEEP: tl.constexpr):
    row = tl.program_id(0)
    at = row * H * D + tl.program_id(1) * D + tl.arange(0, T)
    h = tl.zeros([T, T], tl.float32)
    for t in range(n):
        v = tl.load(x + at + t * D)
        h += v[:, None] * v[None, :]
        tl.store(out + at + t * D, tl.sum(h, 0))
    if KEEP:
        place = tl.arange(0, T)[:, None] * T + tl.arange(0, T)[None, :]
        tl.store(last + row * T * T + place, h)
"""
)


class FlattenedSideBuffer(Pattern):
    """One linear index holds several outer axes, a tile offset and a lane; or there are several
    indices."""

    name = "flattened-padded-1-d-side-buffer"
    axis = "auxiliary_layout"
    source = "tilelore catalogue, P39; cuTile documentation, gather and scatter"
    matches = (
        Case(ATTENTION_LSE, "1-D linear index scatter/gather"),
        Case(_SCATTERED, "N-D index scatter"),
        Case(BACKWARD_KEYS, "1-D linear index scatter/gather"),
        Case(FLASH_POINTER_LSE, "1-D linear index scatter/gather"),
        Case(BACKWARD_KEYS_THREADS, "1-D linear index scatter/gather"),
    )
    near_misses = (
        NearMiss(_STATE, why="rows are what the kernel reads and writes, beside a state"),
        NearMiss(ATTENTION, why="every array is addressed by its own axes"),
        NearMiss(_FLAT, why="all there is lies in flat arrays, nothing is beside the tiles"),
        NearMiss(ROW_NORM, why="rows and columns are two indices"),
        NearMiss(FLASH_POINTER, why="every array is addressed by its own axes"),
        NearMiss(FLASH_POINTER, why="every array is addressed by strides of its own"),
        NearMiss(FLASH_THREADS, why="every array is addressed by its own axes"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        widest = max((len(facts.types.shape(a.value)) for a in facts.accesses), default=0)
        axes = max((len(a.index) for a in facts.accesses), default=0)
        flat = [a for a in facts.accesses if _beside(facts, a, widest, axes) and _linear(facts, a)]
        rows = max((len(facts.types.shape(a.value)) for a in standing(facts)), default=0)
        if flat and rows < widest:
            flat = [a for a in flat if _beside(facts, a, rows, axes)]
        if flat:
            where: list[Where] = [*flat, *(n for a in flat for n in _made(facts, a))]
            yield self.decide(facts, "1-D linear index scatter/gather", where)
        apart = [a for a in facts.stores if _scattered(facts, a)]
        if apart:
            yield self.decide(facts, "N-D index scatter", apart)


def _beside(facts: Facts, access: Access, widest: int, axes: int) -> bool:
    """A row of elements or pointers beside wider tiles, or beside elements of several axes."""
    if access.mode is Mode.ELEMENT:
        return max(widest, axes) > 1
    return access.mode is Mode.POINTER and len(facts.types.shape(access.value)) == 1 < widest


def _scattered(facts: Facts, access: Access) -> bool:
    """What a reduction gave, a row of elements at several indices beside wider tiles."""
    widths = [len(facts.types.shape(a.value)) for a in facts.stores]
    return (
        access.mode is Mode.ELEMENT
        and len(access.index) > 1
        and len(facts.types.shape(access.value)) == 1 < max(widths)
        and any(facts.graph.rests_on(access.value, r) for r in facts.reductions)
    )


def _linear(facts: Facts, access: Access) -> bool:
    """Outer axes times their extents, plus a scaled tile index, plus a lane.

    A factor that is an extent, or a product of them, tells a flattened buffer from one with
    strides.
    """
    if len(access.index) != 1 or not access.index[0].has(AtomKind.LANE):
        return False
    index = access.index[0]
    scaled = [f for f, _ in index.terms if len(f) >= 2]
    lanes = [f for f, _ in index.terms if len(f) == 1 and f[0].kind is AtomKind.LANE]
    products = access.mode is Mode.ELEMENT or any(
        len(f) >= 3 or _extents(facts) & {a.value for a in f} for f in scaled
    )
    return len(scaled) >= 2 and len(lanes) == 1 and products


def _extents(facts: Facts) -> set[str]:
    """Parameters that are extents of arrays at run time: positions are compared with them, blocks
    of pointers lie inside them, or several of them are multiplied in an offset."""
    shapes = [
        facts.values.expr(v).atom
        for a in facts.accesses
        if a.made is not None
        for v in facts.values.items(a.made.op.operand("shape"))
    ]
    told = {a.value for a in shapes if a is not None and a.kind is AtomKind.PARAMETER}
    products = [f for a in facts.accesses for i in a.index for f, _ in i.terms if len(f) >= 3]
    told |= {a.value for f in products for a in f if a.kind is AtomKind.PARAMETER}
    return (told | compared(facts)) - facts.constexprs


def _made(facts: Facts, access: Access) -> list[Node]:
    """The additions of outer axes and tile that the index is made of."""
    given = access.node.op.operand("index") or access.node.op.operand("pointer")
    values = facts.values.items(given)
    if not values:
        return []
    return [
        node
        for node in facts.graph.upstream(values[0], lambda n: n.op.kind not in _SUMS)
        if node.op.kind == OpKind.ADD and facts.values.expr(node.result).has(AtomKind.BLOCK)
    ]
