"""Rows of a triangle: a loop over columns that ends at the own row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_pointer import DECODE_PART
from extractors.patterns.cases_rows import SOFTMAX_CHUNKS
from kb.analysis.facts import Facts
from kb.analysis.loops import Loop, persistent
from kb.analysis.symbolic import Atom, AtomKind, Expr, mul, of
from kb.evidence import Decision

LOWER_THREADS = """__global__ void scale(const float* x, float* out, float by, int n) {
    int row = blockIdx.x;
    for (int col = threadIdx.x; col <= row; col += blockDim.x)
        out[row * n + col] = x[row * n + col] * by;
}
"""
"""Elements on and below the diagonal, the rows in the order of the blocks."""

_FOLDED_THREADS = LOWER_THREADS.replace("x[row * n", "x[blockIdx.x * n").replace(
    "int row = blockIdx.x", "int row = blockIdx.x % n"
)
_LOWER = (
    POINTER
    + """
@triton.jit
def scale(x, out, by, n, T: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, row + 1, T):
        at = start + tl.arange(0, T)
        v = tl.load(x + row * n + at, mask=at <= row, other=0.0)
        tl.store(out + row * n + at, v * by, mask=at <= row)
"""
)
_LOWER_TILE = (
    TILE
    + """
@ct.kernel
def scale(x, out, by: float, n: int, T: Int):
    row = ct.bid(0)
    for c in range(ct.cdiv(row + 1, T)):
        at = c * T + ct.arange(T, dtype=ct.int32)
        ct.scatter(out, row * n + at, ct.gather(x, row * n + at) * by)
"""
)
_BY_THREAD = """__global__ void sums(const float* x, float* out, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float total = 0.0f;
    for (int col = 0; col <= row; col++) total += x[row * n + col];
    out[row] = total;
}
"""
_BY_ROUND = """__global__ void sums(const float* x, float* out, int n) {
    for (int row = threadIdx.x; row < n; row++) {
        float total = 0.0f;
        for (int col = 0; col <= row; col++) total += x[row * n + col];
        out[row * n + threadIdx.x] = total;
    }
}
"""
_PLACES = (AtomKind.BLOCK, AtomKind.LANE, AtomKind.INDUCTION)


class UpToTheDiagonal(Pattern):
    """A loop without products begins at the first column and ends at the row that its loads are
    in."""

    name = "columns-up-to-the-own-row"
    axis = "loop_extent"
    source = "Dao, FlashAttention-2 (2023), section 3.1, causal masking: blocks above the diagonal"
    matches = (
        Case(LOWER_THREADS, "upper bound clipped (causal)"),
        Case(_FOLDED_THREADS, "upper bound clipped (causal)"),
        Case(_BY_THREAD, "upper bound clipped (causal)"),
        Case(_BY_ROUND, "upper bound clipped (causal)"),
        Case(_LOWER, "upper bound clipped (causal)"),
        Case(_LOWER_TILE, "upper bound clipped (causal)"),
    )
    near_misses = (
        NearMiss(LOWER_THREADS.replace("col <= row", "col < n"), why="whole rows"),
        NearMiss(
            LOWER_THREADS.replace("x[row * n + col]", "x[col]"), why="no load is in the own row"
        ),
        NearMiss(vary(_LOWER, ("range(0, row + 1, T)", "range(0, n, T)")), why="whole rows"),
        NearMiss(_BY_THREAD.replace("col <= row", "col <= 2 * row"), why="past the own row"),
        NearMiss(_BY_ROUND.replace("x[row * n", "x[threadIdx.x * n"), why="of another row"),
        NearMiss(SOFTMAX_CHUNKS, why="whole rows"),
        NearMiss(DECODE_PART, why="a piece of a row, between two bounds of the block"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        loops = diagonal_loops(facts)
        if loops:
            where = [n for loop in loops for n in (loop.node, loop.range)]
            yield self.decide(facts, "upper bound clipped (causal)", where)


def diagonal_loops(facts: Facts) -> list[Loop]:
    """Loops over the columns of a row, from the first to the one that has the row's number."""
    if facts.contractions:
        return []
    return [loop for loop in facts.loops if _diagonal(facts, loop)]


def _diagonal(facts: Facts, loop: Loop) -> bool:
    if loop.high is None or persistent(loop, facts.values):
        return False
    low, high = facts.values.expr(loop.low), facts.values.expr(loop.high)
    if low.has(AtomKind.BLOCK) or not high.has(*_PLACES):
        return False
    if high.has(AtomKind.MINIMUM, AtomKind.LOADED, AtomKind.CHOICE, AtomKind.OPAQUE):
        return False
    rows = list(_rows(high))
    loads = [a for a in facts.loads if a.node.inside(loop.node)]
    return any(_below(facts, loop, high, index) for a in loads for index in a.index) or any(
        index.coefficient(block) == mul(factor, of(stride))
        for a in loads
        for index in a.index
        for block, factor in rows
        for stride in index.coefficient(block).atoms()
        if stride.kind is AtomKind.PARAMETER
    )


def _below(facts: Facts, loop: Loop, high: Expr, index: Expr) -> bool:
    """True for a place that moves by one along the loop and by a row with all that the bound is
    made of: the number of the own row, and one for the columns up to it."""
    column = facts.values.expr(loop.induction).atom
    if high.terms and dict(high.terms).get(()) != 1:
        return False
    if column is None or index.coefficient(column).constant != 1:
        return False
    first = next(iter(high.top()))
    strides = [s for s in index.coefficient(first).atoms() if s.kind is AtomKind.PARAMETER]
    return any(
        all(index.coefficient(a) == mul(high.coefficient(a), of(stride)) for a in high.top())
        for stride in strides
    )


def _rows(high: Expr) -> Iterator[tuple[Atom, Expr]]:
    """Block ids of a bound, with what they count; under a remainder or a quotient, too."""
    for atom in high.top():
        if atom.kind is AtomKind.BLOCK:
            yield atom, high.coefficient(atom)
        elif atom.kind in (AtomKind.MOD, AtomKind.FLOOR_DIV, AtomKind.CEIL_DIV):
            yield from _rows(atom.args[0])
