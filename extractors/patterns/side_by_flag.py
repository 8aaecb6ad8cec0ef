"""Buffers beside the output whose axes lie in one order or the other, as a flag says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.pairs import between
from kb.analysis.specialise import branches
from kb.analysis.strides import moves
from kb.analysis.symbolic import Atom, AtomKind, Expr, sub
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
        NearMiss(
            vary(_SCALES, ("part * m + row", "tl.load(x + part) * m + row")),
            why="rows of a packed and of a padded array",
        ),
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
        where: list[Where] = []
        for store in facts.stores:
            places = [a.args for i in store.index for a in i.top() if _turned(a)]
            if places and _side(facts, store):
                made = [*_chosen(facts, {sub(one, other) for one, other in places})]
                where += [*made, store] if made else []
        if where:
            yield self.decide(facts, _VALUE, where)


def _turned(atom: Atom) -> bool:
    """A choice of two places of the same positions, each of which counts single elements by
    another of them."""
    if atom.kind is not AtomKind.CHOICE or len(atom.args) != 2:
        return False
    units = [_units(place) for place in atom.args]
    whole = [{a for a in place.atoms() if moves(a) and not a.args} for place in atom.args]
    return all(units) and units[0] != units[1] and whole[0] == whole[1]


def _units(place: Expr) -> set[Atom]:
    """The positions that count single elements, where others count more."""
    terms = [factors for factors, _ in place.terms if any(map(moves, factors))]
    alone = {f[0] for f in terms if len(f) == 1 and f[0].kind is not AtomKind.LANE}
    return alone if len(alone) < len(terms) else set()


def _side(facts: Facts, store: Access) -> bool:
    """Whether fewer elements go to an array than to another one."""
    if facts.of_threads:
        places = [p for i in store.index for a in i.top() for p in (a.args or ())]
        return not any(atom.kind is AtomKind.LANE for p in places for atom in p.top())
    return any(_rank(facts, s) > _rank(facts, store) for s in facts.stores)


def _rank(facts: Facts, access: Access) -> int:
    return sum(extent != "1" for extent in facts.types.shape(access.value))


def _chosen(facts: Facts, apart: set[Expr]) -> Iterator[Where]:
    """The branches on compile-time parameters whose sides lie as far apart, with what makes the
    places."""
    for branch in branches(facts, OpKind.SELECT, OpKind.IF_EXPRESSION):
        for one, other in between(facts.graph, branch.node):
            if sub(facts.values.expr(one), facts.values.expr(other)) in apart:
                yield from (branch.node, facts.graph.producer(one), facts.graph.producer(other))
