"""An axis of one array that may have a single place, which all places of another array share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.pairs import between
from kb.analysis.strides import moves
from kb.analysis.symbolic import ONE, Atom, AtomKind, Expr, sub
from kb.evidence import Decision
from kb.ops import OpKind

_VALUE = "0 where the axis is shared"
_TILE = (
    TILE
    + """
@ct.kernel
def turn(x, angle, out, n, T: Int):
    row = ct.bid(0) % n
    batch = ct.bid(0) // n
    own = 0 if angle.shape[0] == 1 else batch
    w = ct.load(angle, index=(own, row, 0), shape=(1, 1, T))
    v = ct.load(x, index=(batch, row, 0), shape=(1, 1, T))
    ct.store(out, index=(batch, row, 0), tile=v * w)
"""
)
_POINTER = (
    POINTER
    + """
@triton.jit
def turn(x, angle, out, n, step, many: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0) % n
    batch = tl.program_id(0) // n
    at = tl.arange(0, T)
    angle = angle + tl.where(many == 1, row * step, batch * n * step + row * step)
    w = tl.load(angle + at)
    tl.store(out + tl.program_id(0) * T + at, tl.load(x + tl.program_id(0) * T + at) * w)
"""
)
_THREADS = """__global__ void turn(const float* x, const float* w_of, float* out, int many, int n) {
    int row = blockIdx.x % n, batch = blockIdx.x / n;
    int own = many > 1 ? batch : 0;
    float w = w_of[(own * n + row) * 128 + threadIdx.x];
    long at = (long)blockIdx.x * 128 + threadIdx.x;
    out[at] = x[at] * w;
}
"""
_ORDERS = (OpKind.EQ, OpKind.NE, OpKind.GT, OpKind.LE)


class SharedAxis(Pattern):
    """A comparison of an extent with 1 chooses between two places of one array, of which one leaves
    out a position that the other has."""

    name = "first-place-of-a-shared-axis"
    axis = "index_derivation"
    source = "NumPy documentation, broadcasting: axes of one element are stretched"
    matches = (Case(_TILE, _VALUE), Case(_POINTER, _VALUE), Case(_THREADS, _VALUE))
    near_misses = (
        NearMiss(
            vary(_TILE, ("angle.shape[0] == 1", "angle.shape[0] == n")), why="no single place"
        ),
        NearMiss(vary(_TILE, ("0 if angle.shape[0] == 1 else batch", "batch")), why="one place"),
        NearMiss(
            vary(_POINTER, ("batch * n * step + row * step", "row * step + n")),
            why="another start, the same positions",
        ),
        NearMiss(vary(_POINTER, ("many == 1", "row == 1")), why="a position, no extent"),
        NearMiss(_THREADS.replace("? batch : 0", "? batch : row"), why="another position"),
        NearMiss(
            vary(_TILE, ("angle.shape[0] == 1", "n == 1"), ("else batch", "else row")),
            why="as many parts as there are: the only one is the first",
        ),
        NearMiss(ADD_POINTER, why="nothing is chosen"),
        NearMiss(ADD_THREADS, why="nothing is chosen"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Node] = []
        for node in facts.graph.of(OpKind.SELECT, OpKind.IF_EXPRESSION, OpKind.IF):
            tests = comparisons(facts, node.op.inputs[0])
            asked = {one for t in tests for one in _single(facts, t)}
            if asked:
                pairs = between(facts.graph, node)
                numbers = [
                    (facts.values.expr(one), facts.values.expr(other)) for one, other in pairs
                ]
                ends = [pair for pair in numbers if _leaves_out(*pair)]
                apart = [sub(*pair) for pair in ends if not any(_below(e, asked) for e in pair)]
                reads = [a.node for a in facts.loads if apart and _placed(a, apart)]
                found += [node, *reads] if reads else []
        if found:
            yield self.decide(facts, _VALUE, found)


def _single(facts: Facts, test: Node) -> Iterator[Atom]:
    """The extent, or what is handed in, that is compared with 1."""
    one, other = sides(facts, test)
    asked = (other if one == ONE else one).atom
    if test.op.kind in _ORDERS and ONE in (one, other) and asked is not None:
        if asked.kind in (AtomKind.PARAMETER, AtomKind.EXTENT):
            yield asked


def _below(place: Expr, asked: set[Atom]) -> bool:
    """Whether a place counts the parts that the number asked for says there are."""
    return any(a.kind is AtomKind.MOD and a.args[1].atom in asked for a in place.atoms())


def _leaves_out(one: Expr, other: Expr) -> bool:
    """Whether all terms with a position of the one are among those of the other, which has more."""
    short, long = sorted((_moving(one), _moving(other)), key=len)
    return short < long and not any(e.has(AtomKind.OPAQUE, AtomKind.CHOICE) for e in (one, other))


def _moving(place: Expr) -> set[tuple[Atom, ...]]:
    return {factors for factors, _ in place.terms if any(map(moves, factors))}


def _placed(access: Access, apart: list[Expr]) -> bool:
    """Whether an access is at one of two places that lie so far apart."""
    chosen = [a for i in access.index for a in i.top() if a.kind is AtomKind.CHOICE]
    return any(sub(*a.args) in apart for a in chosen if len(a.args) == 2)
