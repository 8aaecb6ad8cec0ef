"""Counts of rows that are rounded up to whole tiles, so that every part begins with a tile."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import ONE, AtomKind, Expr, make
from kb.evidence import Decision
from kb.ops import REDUCTIONS, OpKind

_VALUE = "counts rounded up to whole tiles"
_PLACES = (AtomKind.LANE, AtomKind.BLOCK, AtomKind.INDUCTION)
ENDS = (OpKind.RANGE, OpKind.STATIC_RANGE)
_STARTS = (
    POINTER
    + """
@triton.jit
def starts(counts, out, tile, E: tl.constexpr):
    e = tl.arange(0, E)
    count = tl.load(counts + e)
    whole = tl.cdiv(count, tile) * tile
    tl.store(out + e, tl.cumsum(whole) - whole)
"""
)
_STARTS_TILE = (
    TILE
    + """
@ct.kernel
def starts(counts, out, E: Int):
    e = ct.arange(E, dtype=ct.int32)
    count = ct.gather(counts, e)
    whole = (count + 15) // 16 * 16
    ct.scatter(out, e, ct.cumsum(whole, 0) - whole)
"""
)
_STARTS_THREADS = """__global__ void starts(const int* counts, int* out, int tile, int n) {
    __shared__ int held[64];
    int count = counts[threadIdx.x];
    held[threadIdx.x] = tile == 8 ? (count + 7) & -8 : (count + tile - 1) / tile * tile;
    __syncthreads();
    int sum = 0;
    for (int e = 0; e < threadIdx.x; ++e) sum += held[e];
    out[threadIdx.x] = sum;
}
"""


class RoundedCounts(Pattern):
    """A loaded or counted number is rounded up to a multiple, and what is made of it is stored: it
    does not only end a loop."""

    name = "counts-rounded-up-to-whole-tiles"
    axis = "tile_padding"
    source = "Gale et al., MegaBlocks (2023), section 5: padded expert blocks"
    matches = (
        Case(_STARTS, _VALUE),
        Case(_STARTS_TILE, _VALUE),
        Case(_STARTS_THREADS, _VALUE),
    )
    near_misses = (
        NearMiss(vary(_STARTS, ("tl.cdiv(count, tile) * tile", "count * tile")), why="no quotient"),
        NearMiss(
            vary(_STARTS, ("tl.cdiv(count, tile) * tile", "tl.cdiv(count, tile)")),
            why="tiles are counted",
        ),
        NearMiss(
            vary(_STARTS, ("tl.load(counts + e)", "e")), why="positions, nothing that is counted"
        ),
        NearMiss(vary(_STARTS_TILE, ("// 16 * 16", "// 16 * 8")), why="another multiple"),
        NearMiss(
            _STARTS_THREADS.replace("(count + 7) & -8", "count").replace(
                "(count + tile - 1) / tile * tile", "count / tile * tile"
            ),
            why="rounded down",
        ),
        NearMiss(
            _STARTS_THREADS.replace("held[threadIdx.x] = tile == 8 ?", "int last = tile == 8 ?")
            .replace("e < threadIdx.x", "e < last"),
            why="it only ends a loop",
        ),
        NearMiss(ADD_POINTER, why="nothing is rounded"),
        NearMiss(ADD_THREADS, why="nothing is rounded"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        graph = facts.threads if facts.of_threads else facts.graph
        rounded = multiples(facts, _counted)
        if not rounded:
            return
        kept = [n.op.operand("value") for n in graph.of(OpKind.STORE)]
        kept += [s.value for s in facts.stores if not facts.of_threads]
        summed = graph.of(OpKind.CUMSUM, OpKind.SCAN, *REDUCTIONS)
        kept += [value for n in summed for value in n.op.inputs[:1]]
        values = [v for v in kept if v is not None]
        made = graph.made_from(values, rounded, lambda n: n.op.kind in ENDS)
        if used := [n for n in rounded if n in made]:
            yield self.decide(facts, _VALUE, used)


def multiples(facts: Facts, of: Callable[[Expr], bool]) -> list[Node]:
    """Where numbers of a kind are rounded up to a multiple."""
    graph = facts.threads if facts.of_threads else facts.graph
    rounded = [n for n in graph.of(OpKind.MUL, OpKind.SHIFT_LEFT) if _whole(facts, n, of)]
    return rounded + [n for n in graph.of(OpKind.BIT_AND) if _masked(facts, n, of)]


def _whole(facts: Facts, node: Node, of: Callable[[Expr], bool]) -> bool:
    """The multiple of a quotient that was rounded up, of a number of that kind."""
    terms = _meaning(facts, node.result).terms
    if len(terms) != 1:
        return False
    (factors, times) = terms[0]
    for atom in factors:
        if atom.kind is AtomKind.CEIL_DIV and of(atom.args[0]):
            rest = [other for other in factors if other is not atom]
            by = atom.args[1]
            if make([(tuple(rest), times)]) == by:
                return by != ONE
    return False


def _masked(facts: Facts, node: Node, of: Callable[[Expr], bool]) -> bool:
    """A number raised by what a mask takes off its low bits."""
    for value, mask in (node.op.inputs[:2], node.op.inputs[1::-1]):
        off = _meaning(facts, mask).constant
        if off is not None and off < -1 and not -off & (-off - 1):
            raised = _meaning(facts, value)
            over = [number for factors, number in raised.terms if not factors]
            if over == [-off - 1] and of(raised):
                return True
    return False


def _meaning(facts: Facts, value: str) -> Expr:
    return (facts.thread_values if facts.of_threads else facts.values).expr(value)


def _counted(number: Expr) -> bool:
    """Whether a number was loaded or counted, and is no position."""
    placed = number.has(*_PLACES)
    return number.has(AtomKind.LOADED, AtomKind.OPAQUE) and not placed
