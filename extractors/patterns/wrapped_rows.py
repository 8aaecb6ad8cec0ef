"""Rows outside the array are read from inside it, so that loads need no mask."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import CONVOLUTION
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind

_FOUND = (AtomKind.LOADED, AtomKind.CHOICE, AtomKind.OPAQUE)
_SCALES = vary(
    PRODUCT_POINTER,
    ("(a, b, out,", "(a, b, out, scales,"),
    ("    k = tl.arange(0, TK)\n",
     "    by = tl.load(scales + (m % M))\n    k = tl.arange(0, TK)\n"),
    ("acc += tl.dot(x, y)", "acc += tl.dot(x, y) * by[:, None]"),
)  # fmt: skip
_SEGMENT = vary(
    PRODUCT_POINTER,
    ("(a, b, out,", "(a, b, out, sizes,"),
    ("m = tl.program_id(0) * TM + tl.arange(0, TM)\n",
     "own = tl.load(sizes + tl.program_id(1))\n"
     "    m = (tl.program_id(0) * TM + tl.arange(0, TM)) % own\n"),
)  # fmt: skip
_WRAPPED_THREADS = vary(
    PRODUCT_THREADS,
    ("int m = blockIdx.y * T + threadIdx.y;", "int m = (blockIdx.y * T + threadIdx.y) % M;"),
)

_ROWS = (
    POINTER
    + """
@triton.jit
def doubled(x, out, M, K, T: tl.constexpr, N: tl.constexpr):
    rows = (tl.program_id(0) * T + tl.arange(0, T)) % M
    at = tl.arange(0, N)
    v = tl.load(x + rows[:, None] * K + at[None, :], mask=at[None, :] < K, other=0.0)
    tl.store(out + rows[:, None] * K + at[None, :], v * 2.0, mask=at[None, :] < K)
"""
)
_TURNED = vary(
    _ROWS,
    ("(x, out,", "(x, w, out,"),
    (
        "rows = (tl.program_id(0) * T + tl.arange(0, T)) % M",
        "rows = tl.program_id(0) * T + tl.arange(0, T)",
    ),
    ("v * 2.0", "v * tl.load(w + (rows % M)[:, None] * K + at[None, :])"),
)


class WrappedRows(Pattern):
    """A position is reduced modulo the extent and addresses the operand of a product, or what the
    product is scaled by; or, without products, all that is read and what is stored."""

    name = "index-wrap-instead-of-mask"
    axis = "boundary_handling"
    source = "Triton documentation, Matrix Multiplication tutorial, offsets modulo M and N"
    matches = (
        Case(
            vary(PRODUCT_POINTER, ("m = tl.program_id(0) * TM + tl.arange(0, TM)\n",
                                   "m = (tl.program_id(0) * TM + tl.arange(0, TM)) % M\n")),
            "modulo wrap instead of mask",
        ),
        Case(_WRAPPED_THREADS, "modulo wrap instead of mask"),
        Case(_ROWS, "modulo wrap instead of mask"),
        Case(_SEGMENT, "modulo wrap instead of mask"),
        Case(_SCALES, "modulo wrap instead of mask"),
    )  # fmt: skip
    near_misses = (
        NearMiss(vary(_SEGMENT, ("% own", "% TM")), why="by the extent of the tile"),
        NearMiss(
            vary(_ROWS, ("(x, out, M", "(x, out, L, M"), ("T)) % M", "T)) // L % M")),
            why="a digit of a position: its quotient by one extent, below the next",
        ),
        NearMiss(
            vary(_WRAPPED_THREADS, ("(blockIdx.y * T + threadIdx.y) % M", "threadIdx.y % M")),
            why="the place of a thread in a group of threads",
        ),
        NearMiss(_TURNED, why="rows of a table, which every M rows read again"),
        NearMiss(
            vary(_ROWS, ("store(out + rows[:, None] * K", "store(out + tl.program_id(0) * T * K")),
            why="what is read at reduced places is stored elsewhere, as copies are",
        ),
        NearMiss(PRODUCT_POINTER, why="positions are used as they are"),
        NearMiss(CONVOLUTION, why="remainders find a column, the quotient finds its row"),
        NearMiss(PRODUCT, why="positions are used as they are"),
        NearMiss(PRODUCT_THREADS, why="positions are used as they are"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        wrapped = [n for n in facts.graph.of(OpKind.MOD) if self._wraps(facts, n)]
        if wrapped:
            yield self.decide(facts, "modulo wrap instead of mask", wrapped)

    def _wraps(self, facts: Facts, node: Node) -> bool:
        left, right = (facts.values.expr(v) for v in node.op.inputs[:2])
        if not left.has(AtomKind.LANE) or not _extent(facts, right):
            return False
        if facts.of_threads and left.atom is not None and left.atom.kind is AtomKind.LANE:
            return False  # The place of a thread among so many of its block.
        if left.atom is not None and left.atom.kind is AtomKind.FLOOR_DIV:
            return False  # The rest of a quotient is one of several places that a number says.
        divided = [
            n
            for n in facts.graph.of(OpKind.FLOOR_DIV)
            if (facts.values.expr(n.op.inputs[0]), facts.values.expr(n.op.inputs[1]))
            == (left, right)
        ]
        if divided:
            return False
        if not facts.contractions:
            return _everywhere(facts, node)
        return any(_placed(facts, a, node) for a in facts.loads if _in_product(facts, a))


def _placed(facts: Facts, access: Access, node: Node) -> bool:
    return any(facts.graph.rests_on(v, node) for v in (access.base, *access.address))


def _everywhere(facts: Facts, node: Node) -> bool:
    """Whether every tile is read at places so reduced, and one is stored there: rows of their own,
    not those of a table that is read again and again, nor copies."""
    tiles = [a for a in facts.loads if facts.types.shape(a.value)]
    stored = any(_placed(facts, s, node) for s in facts.stores if not s.is_atomic)
    return bool(tiles) and stored and all(_placed(facts, a, node) for a in tiles)


def _in_product(facts: Facts, access: Access) -> bool:
    """Whether a product reads what is loaded, or is scaled by it."""
    if any(facts.graph.rests_on(p.result, access.node) for p in facts.contractions):
        return True
    scaled = [n for n in facts.graph.downstream(access.value) if n.op.kind == OpKind.MUL]
    return any(facts.graph.rests_on(n.result, p) for n in scaled for p in facts.contractions)


def _extent(facts: Facts, by: Expr) -> bool:
    """A number of rows: given, or that of the segment that a loop or a table has found."""
    if by.atom is None:
        return False
    if by.atom.kind is AtomKind.PARAMETER:
        return by.atom.value not in facts.tile_extents
    return by.atom.kind in _FOUND and not facts.values.compile_time(by)
