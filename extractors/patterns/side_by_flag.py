"""Buffers beside the output whose axes lie in one order or the other, as a flag says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.specialise import branches
from kb.analysis.strides import moves
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind

_VALUE = "order of the axes by a flag"
_SCALES = (
    POINTER
    + """
@triton.jit
def quantise(x, out, scales, m, n, TURNED: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    at = row * n * T + part * T + tl.arange(0, T)
    v = tl.load(x + at)
    top = tl.max(v, axis=0)
    if TURNED:
        where = part * m + row
    else:
        where = row * n + part
    tl.store(scales + where, top)
    tl.store(out + at, v / top)
"""
)
_SCALES_TILE = (
    TILE
    + """
@ct.kernel
def quantise(x, out, scales, m, n, TURNED: Bool, T: Int):
    row = ct.bid(0)
    part = ct.bid(1)
    at = row * n * T + part * T + ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, at)
    top = ct.max(v)
    where = part * m + row if TURNED else row * n + part
    ct.scatter(scales, where, top)
    ct.scatter(out, at, v / top)
"""
)
_SCALES_THREADS = """template <bool TURNED>
__global__ void quantise(const float* x, float* out, float* scales, int m, int n) {
    int row = blockIdx.x, part = blockIdx.y;
    __shared__ float held[256];
    long at = (long)(row * n + part) * 256 + threadIdx.x;
    held[threadIdx.x] = fabsf(x[at]);
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1) {
        if (threadIdx.x < s) held[threadIdx.x] = fmaxf(held[threadIdx.x], held[threadIdx.x + s]);
        __syncthreads();
    }
    float* own = TURNED ? scales + part * m + row : scales + row * n + part;
    if (threadIdx.x == 0) *own = held[0];
    out[at] = x[at] / held[0];
}
"""


class SideByFlag(Pattern):
    """What is stored beside a wider output goes to one of two places, chosen by a compile-time
    flag: what counts single elements at the one counts whole rows at the other."""

    name = "side-buffer-in-one-of-two-orders"
    axis = "auxiliary_layout"
    source = "DeepSeek, DeepGEMM documentation: scales that the columns come first of"
    matches = (
        Case(_SCALES, _VALUE),
        Case(_SCALES_TILE, _VALUE),
        Case(_SCALES_THREADS, _VALUE),
    )
    near_misses = (
        NearMiss(vary(_SCALES, ("TURNED: tl.constexpr", "TURNED")), why="asked at run time"),
        NearMiss(vary(_SCALES, ("part * m + row", "row * n + part + m")), why="another start"),
        NearMiss(vary(_SCALES_TILE, ("part * m + row if", "row * n + m if")), why="another start"),
        NearMiss(
            vary(
                _SCALES_THREADS,
                ("template <bool TURNED>\n", ""),
                ("int n)", "int n, bool TURNED)"),
            ),
            why="asked at run time",
        ),
        NearMiss(
            vary(_SCALES, ("    tl.store(out + at, v / top)\n", "")), why="it is the output itself"
        ),
        NearMiss(ADD_POINTER, why="there is one output"),
        NearMiss(ADD_THREADS, why="there is one output"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if len({s.array for s in facts.stores}) < 2:
            return
        turned = [s for s in facts.stores if any(_turned(i) for i in s.index) and _side(facts, s)]
        where = [place for store in turned for place in _chosen(facts, store)]
        if where:
            yield self.decide(facts, _VALUE, where)


def _turned(index: Expr) -> bool:
    """A choice of two places that count single elements by different positions."""
    for atom in index.top():
        if atom.kind is AtomKind.CHOICE and len(atom.args) == 2:
            units = [_units(place) for place in atom.args]
            if all(units) and units[0] != units[1]:
                return True
    return False


def _units(place: Expr) -> set[Atom]:
    """The positions that count single elements, where others count more."""
    terms = [factors for factors, _ in place.terms if any(map(moves, factors))]
    alone = {f[0] for f in terms if len(f) == 1 and f[0].kind is not AtomKind.LANE}
    return alone if len(alone) < len(terms) or len(terms) == 1 else set()


def _side(facts: Facts, store: Access) -> bool:
    """Whether fewer elements go to an array than to another one."""
    if facts.of_threads:
        places = [p for i in store.index for a in i.top() for p in (a.args or ())]
        own = any(atom.kind is AtomKind.LANE for p in places for atom in p.top())
        return not own
    return any(_rank(facts, s) > _rank(facts, store) for s in facts.stores)


def _rank(facts: Facts, access: Access) -> int:
    return sum(extent != "1" for extent in facts.types.shape(access.value))


def _chosen(facts: Facts, store: Access) -> Iterator[Where]:
    """The branches on compile-time parameters that an address rests on, with what both sides hand
    on, and the store."""
    made = {id(node) for value in store.address for node in facts.graph.upstream(value)}
    choices = [b.node for b in branches(facts, OpKind.SELECT, OpKind.IF_EXPRESSION)]
    for node in (one for one in choices if id(one) in made):
        yield from (node.head if node.op.regions else node, *_ends(facts, node), store)


def _ends(facts: Facts, node: Node) -> Iterator[Node | None]:
    """What makes the places that a choice is between."""
    if not node.op.regions:
        yield from (facts.graph.producer(value) for value in node.op.inputs[1:])
    for region in range(len(node.op.regions)):
        yield from (facts.graph.producer(value) for value in facts.graph.handed(node, region))
