"""Two outer axes of an array share one grid axis; quotient and remainder tell them apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, PRODUCT_PERSISTENT, vary
from extractors.patterns.cases_pointer import (
    FLASH_POINTER,
    PRODUCT_DESCRIPTOR,
    PRODUCT_PERSISTENT_POINTER,
)
from extractors.patterns.cases_threads import FLASH_THREADS, PRODUCT_PERSISTENT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind, Expr, mul
from kb.evidence import Decision
from kb.ops import OpKind

_GROUPED = (
    ("    m = tl.program_id(0)\n    n = tl.program_id(1)\n",
     "    t = tl.program_id(0)\n    wide = 8 * tl.cdiv(N, TN)\n    first = t // wide * 8\n"
     "    high = tl.minimum(tl.cdiv(M, TM) - first, 8)\n    own = t % wide\n"
     "    m = first + own % high\n    n = own // high\n"),
)  # fmt: skip

_SEGMENTS = (
    POINTER
    + """
@triton.jit
def rows(x, out, starts, n, H: tl.constexpr, T: tl.constexpr, SEGMENTS: tl.constexpr):
    own = tl.program_id(1)
    batch, head = own // H, own % H
    if SEGMENTS:
        first = tl.load(starts + tl.program_id(0))
    else:
        first = batch
    at = ((first * n + tl.arange(0, T)) * H + head) * n
    tl.store(out + at, tl.load(x + at) * 2.0)
"""
)


class FlattenedOuterBatchGridAxis(Pattern):
    """A block id is divided and reduced by the same number; both parts index arrays."""

    name = "flattened-outer-batch-grid-axis-with-div-mod-decode"
    axis = "grid_mapping"
    source = "NVIDIA, CUDA C++ Programming Guide, grid y and z hold 65535 blocks"
    matches = (
        Case(ATTENTION, "batch*heads on one axis"),
        Case(FLASH_POINTER, "batch*heads on one axis"),
        Case(FLASH_THREADS, "batch*heads on one axis"),
        Case(_SEGMENTS, "batch*heads on one axis"),
    )
    near_misses = (
        NearMiss(
            vary(_SEGMENTS, ("(first * n + tl.arange(0, T))", "(first * T + tl.arange(0, T))")),
            why="a quotient that counts tiles is no outer axis",
        ),
        NearMiss(vary(_SEGMENTS, ("own // H", "0")), why="the remainder alone is used"),
        NearMiss(
            PRODUCT_PERSISTENT,
            why="quotients of a grouped order locate tiles, they are no outer axes",
        ),
        NearMiss(
            vary(PRODUCT_DESCRIPTOR, *_GROUPED),
            why="quotient and remainder of a grouped order begin tiles of descriptors",
        ),
        NearMiss(PRODUCT, why="both block ids are used as they are"),
        NearMiss(
            PRODUCT_PERSISTENT_POINTER,
            why="quotients of a grouped order locate tiles, they are no outer axes",
        ),
        NearMiss(
            PRODUCT_PERSISTENT_THREADS,
            why="quotients of a grouped order locate tiles, they are no outer axes",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        pair = outer_axes(facts)
        if pair:
            yield self.decide(facts, "batch*heads on one axis", pair)


def outer_axes(facts: Facts) -> tuple[Node, ...]:
    """Quotient and remainder of one block id by one number that select along axes of their own;
    empty when there are none."""
    remainders = [n for n in facts.graph.of(OpKind.MOD) if _of_block(facts, n)]
    for high in facts.graph.of(OpKind.FLOOR_DIV):
        if not _of_block(facts, high):
            continue
        for low in remainders:
            same = _operands(facts, high) == _operands(facts, low)
            if same and _indexes(facts, high) and _indexes(facts, low):
                return high, low
    return ()


def _operands(facts: Facts, node: Node) -> tuple[Expr, Expr]:
    left, right = node.op.inputs[:2]
    return facts.values.expr(left), facts.values.expr(right)


def _of_block(facts: Facts, node: Node) -> bool:
    return _part(_operands(facts, node)[0])


def _part(expr: Expr, limit: int = 8) -> bool:
    """True for a block id, and for what divisions leave of one."""
    atom = expr.atom
    if atom is None or limit == 0:
        return False
    if atom.kind in (AtomKind.FLOOR_DIV, AtomKind.MOD):
        return _part(atom.args[0], limit - 1)
    return atom.kind is AtomKind.BLOCK


def _indexes(facts: Facts, node: Node) -> bool:
    """True when the part selects along an axis of its own: alone, divided for shared heads, or
    times a stride; on one side of a branch, where the other one looks that axis up."""
    part = facts.values.expr(node.result).atom
    if part is None:
        return False
    ways = {way for access in facts.accesses for index in access.index for way in _ways(index)}
    return any(
        _outer(facts, a, factors, part)
        for way in ways
        for factors, n in way.terms
        if n == 1
        for a in factors
    )


def _ways(index: Expr) -> Iterator[Expr]:
    """A place, and what becomes of parts of it that are chosen, each as it is multiplied."""
    yield index
    for factors, count in index.terms:
        for chosen in (a for a in factors if a.kind is AtomKind.CHOICE):
            rest = Expr(((tuple(a for a in factors if a != chosen), count),))
            yield from (way for side in chosen.args if (way := mul(side, rest)) is not None)


def _whole(divisor: Expr) -> bool:
    """True for a number or a parameter; a divisor that is computed belongs to a grouped order."""
    return divisor.constant is not None or (
        divisor.atom is not None and divisor.atom.kind is AtomKind.PARAMETER
    )


def _outer(facts: Facts, atom: Atom, factors: tuple[Atom, ...], part: Atom) -> bool:
    inner = atom.kind is AtomKind.FLOOR_DIV and atom.args[0].atom == part and _whole(atom.args[1])
    if atom != part and not inner:
        return False
    extents = {str(facts.values.expr(n.op.operand("size"))) for n in facts.graph.of(OpKind.ARANGE)}
    if not extents:
        extents = {extent for a in facts.accesses for extent in facts.types.shape(a.value)}
    return not any(other.text in extents for other in factors)
