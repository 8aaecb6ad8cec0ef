"""Coordinates that are won from one flat index by division and remainder, lane by lane."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.gqa_head_sharing import GqaHeadSharing
from extractors.patterns.prepared_divisor import PREPARED_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.prepared_quotients import prepared_quotients
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind

_ROLL = (
    POINTER
    + """
@triton.jit
def roll(x, out, n, width, by, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    row = at // width
    col = (at % width + by) % width
    tl.store(out + at, tl.load(x + row * width + col, mask=at < n), mask=at < n)
"""
)
_ROLL_TILE = (
    TILE
    + """
@ct.kernel
def roll(x, out, width, by, T: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    ct.scatter(out, at, ct.gather(x, (at // width, (at % width + by) % width)))
"""
)
_GROUPS = (
    POINTER
    + """
@triton.jit
def groups(x, w, out, n, size, T: tl.constexpr):
    for i in range(0, n, T):
        at = i + tl.arange(0, T)
        v = tl.load(x + at, mask=at < n)
        tl.store(out + at, v * tl.load(w + at // size, mask=at < n), mask=at < n)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def twice(x, out, n: int, T: Int):
    for i in range(0, n, T):
        ct.store(out, (i // T,), ct.load(x, (i // T,), (T,)) * 2)
"""
)
_CHANNEL = (
    POINTER
    + """
@triton.jit
def channel(x, w, out, n, size, count, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n)
    tl.store(out + at, v * tl.load(w + at // size % count, mask=at < n), mask=at < n)
"""
)

_TAPS = (
    POINTER
    + """
@triton.jit
def taps(x, w, out, n, wide, high, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    acc = tl.zeros((T,), dtype=tl.float32)
    for k in range(high * wide):
        r = k // wide
        s = k % wide
        acc += tl.load(x + at + r * n + s) * tl.load(w + k)
    tl.store(out + at, acc)
"""
)
_SLOT = (
    POINTER
    + """
@triton.jit
def keep(x, slots, out, size, page, row, T: tl.constexpr):
    slot = tl.load(slots + tl.program_id(0))
    at = tl.arange(0, T)
    place = out + slot // size * page + slot % size * row
    tl.store(place + at, tl.load(x + tl.program_id(0) * row + at))
"""
)

_BIAS = """__global__ void shifted(const float* x, const float* bias, float* out, int m, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < m * n) out[at] = x[at] + bias[at % n];
}
"""
_ROW_OF = """__global__ void scaled(const float* x, const float* by, float* out, int m, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < m * n) out[at] = x[at] * by[at / n];
}
"""
_TRIPLES = """__global__ void colours(const float* x, const float* by, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n * 3) out[at] = x[at] * by[at / 3] + by[n + at % 3];
}
"""
_ROUTE = """__global__ void owners(const int* ids, int* counts, int n, int per) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) atomicAdd(counts + ids[at] / per, 1);
}
"""
_STARTS = """__global__ void starts(const int* sums, long long* first, int n, int per) {
    for (int i = 0; i < n; i++) {
        if (i % per == 0) first[i / per] = sums[threadIdx.x];
    }
}
"""
_PARTNERS = (
    POINTER
    + """
@triton.jit
def partners(x, by, out, T: tl.constexpr):
    at = tl.arange(0, T)
    first = at % 2 == 0
    other = tl.load(x + tl.where(first, at + 1, at - 1))
    tl.store(out + at, other * tl.load(by + at // 2))
"""
)
_SHARED = (
    POINTER
    + """
@triton.jit
def scaled(x, by, out, n, per, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n)
    tl.store(out + row * n + at, v * tl.load(by + row // per * n + at, mask=at < n), mask=at < n)
"""
)
_WARPS = (32, 64)
_SIZES = (AtomKind.PARAMETER, AtomKind.EXTENT)


class FlatIndexSplit(Pattern):
    """Positions of lanes, rounds or loaded places are divided by an extent, and both quotient and
    remainder address memory, or the remainder of the quotient does; or the quotient of a loop's
    positions. Or a block that has a row of its own finds a row that several share by the quotient
    or the remainder of its number."""

    name = "flat-index-taken-apart-by-division"
    axis = "index_derivation"
    source = "Warren, Hacker's Delight (2012), chapter 10: division by what does not change"
    matches = (
        Case(_BIAS, "recomputed div"),
        Case(_ROW_OF, "recomputed div"),
        Case(_TRIPLES, "recomputed div"),
        Case(vary(_CHANNEL, ("at // size % count", "at % count")), "recomputed div"),
        Case(_ROLL, "recomputed div"),
        Case(_ROLL_TILE, "recomputed div"),
        Case(_GROUPS, "recomputed div"),
        Case(_CHANNEL, "recomputed div"),
        Case(_TILES, "recomputed div"),
        Case(PREPARED_THREADS, "recomputed div"),
        Case(_TAPS, "recomputed div"),
        Case(_SLOT, "recomputed div"),
        Case(_ROUTE, "recomputed div"),
        Case(_STARTS, "recomputed div"),
        Case(_PARTNERS, "recomputed div"),
        Case(_SHARED, "recomputed div"),
        Case(vary(_SHARED, ("row // per", "row % per")), "recomputed div"),
    )
    near_misses = (
        NearMiss(
            vary(_BIAS, ("out[at] =", "out[at % n] =")), why="what is stored wraps around, too"
        ),
        NearMiss(
            vary(
                _ROW_OF, ("int at = blockIdx.x * blockDim.x + threadIdx.x", "int at = threadIdx.x")
            ),
            why="the row of a thread of the block",
        ),
        NearMiss(
            vary(_ROLL, ("at // width", "tl.program_id(1)"), ("at % width", "at")),
            why="the row is a block id",
        ),
        NearMiss(
            vary(_ROLL_TILE, ("at // width, (at % width + by) % width", "0, (at + by) % width")),
            why="a position is wrapped, nothing is taken apart",
        ),
        NearMiss(vary(_ROUTE, ("ids[at] / per", "ids[at]")), why="the place is loaded as it is"),
        NearMiss(vary(_STARTS, ("first[i / per]", "first[i]")), why="nothing is divided"),
        NearMiss(vary(_PARTNERS, ("at // 2", "at")), why="the half is chosen, nothing is divided"),
        NearMiss(vary(_GROUPS, ("at // size", "at")), why="one weight per element"),
        NearMiss(
            vary(_TRIPLES, ("at / 3", "at / 32"), ("at % 3", "at % 32")),
            why="the warp and its lane",
        ),
        NearMiss(
            vary(_TILES, ("range(0, n, T)", "range(n)"), ("i // T", "i")), why="tiles are counted"
        ),
        NearMiss(
            vary(_TAPS, ("k // wide", "k"), ("k % wide", "tl.program_id(1)")),
            why="rounds are counted",
        ),
        NearMiss(vary(_SLOT, ("slot % size * row", "row")), why="a page, and no place in it"),
        NearMiss(
            vary(_SHARED, ("row // per * n", "row // per * n + row % per")),
            why="the number of the block is taken apart",
        ),
        NearMiss(
            vary(_SHARED, ("row = tl.program_id(0)", "row = tl.program_id(0) // per")),
            why="no row of the block's own",
        ),
        NearMiss(ADD_POINTER, why="the flat index is the address"),
        NearMiss(ADD_THREADS, why="the flat index is the address"),
        NearMiss(PRODUCT, why="tiles are placed by block ids"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        parts = [n for n in facts.graph.of(OpKind.FLOOR_DIV, OpKind.MOD) if self._lanes(facts, n)]
        whole = {n.op.kind: set[str]() for n in parts}
        for node in parts:
            whole[node.op.kind].add(str(facts.values.expr(node.op.inputs[0])))
        both = whole.get(OpKind.FLOOR_DIV, set()) & whole.get(OpKind.MOD, set())
        kept = [n for n in parts if str(facts.values.expr(n.op.inputs[0])) in both]
        places = [v for a in facts.accesses for v in a.address]
        used = [n for n in kept if any(facts.graph.rests_on(v, n) for v in places)]
        if {n.op.kind for n in used} == {OpKind.FLOOR_DIV, OpKind.MOD}:
            yield self.decide(facts, "recomputed div", used)
        else:
            inner = [
                n
                for node in parts
                if node.op.kind == OpKind.MOD and any(facts.graph.rests_on(v, node) for v in places)
                for n in (facts.graph.producer(facts.graph.core(node.op.inputs[0])), node)
                if _middle(facts, node)
            ]
            if inner or (inner := [*_within(facts, parts)]):
                yield self.decide(facts, "recomputed div", inner)
        divided = divided_positions(facts)
        if divided:
            yield self.decide(facts, "recomputed div", divided)
        if not divided and not used and (shared := _shared_rows(facts)):
            yield self.decide(facts, "recomputed div", shared)
        prepared = prepared_quotients(facts)
        if prepared and not used:
            yield self.decide(facts, "recomputed div", prepared)

    def _lanes(self, facts: Facts, node: Node) -> bool:
        """A quotient or remainder of positions by a number that the program is given; or by a
        constant that is no number of threads of a warp, of positions in the whole grid."""
        over, under = (facts.values.expr(v) for v in node.op.inputs[:2])
        if under.has(AtomKind.LANE):
            return False
        if not over.has(AtomKind.LANE):
            placed = not facts.of_threads or (over.atom is not None and _loaded([over.atom]))
            return under.constant is None and placed and self._single(facts, over)
        flat = over.has(AtomKind.BLOCK) or not facts.of_threads
        return under.constant is None or (
            under.constant > 1 and under.constant not in _WARPS and flat
        )

    def _single(self, facts: Facts, over: Expr) -> bool:
        """A loaded place, or the number of a round; that of a loop over work items stands for a
        block."""
        items = {facts.values.expr(x.induction).atom for x in facts.item_loops}
        places = [a for a in over.atoms() if not a.args and a.kind not in _SIZES]
        rounds = all(a.kind is AtomKind.INDUCTION and a not in items for a in places)
        return bool(places) and (rounds or (over.atom is not None and _loaded(places)))


def _loaded(places: list[Atom]) -> bool:
    return all(a.kind is AtomKind.LOADED for a in places)


def _within(facts: Facts, parts: list[Node]) -> list[Node]:
    """Remainders alone that place a load, of flat positions that a store goes to as they are: the
    column of what one row is shared by, as a bias."""
    written = {index for s in facts.stores for index in s.index}
    found = [n for n in parts if n.op.kind == OpKind.MOD and not _small(facts, n)]
    found = [n for n in found if facts.values.expr(n.op.inputs[0]) in written]
    read = [v for a in facts.loads for v in a.address] if found else []
    return [n for n in found if any(facts.graph.rests_on(v, n) for v in read)]


def _small(facts: Facts, node: Node) -> bool:
    """Whether lanes alone are divided by a constant: the other half of pairs."""
    over, under = (facts.values.expr(v) for v in node.op.inputs[:2])
    return under.constant is not None and not over.has(AtomKind.BLOCK)


def _middle(facts: Facts, node: Node) -> bool:
    """The remainder of a quotient: the number in the middle of a flat index."""
    made = facts.graph.producer(facts.graph.core(node.op.inputs[0]))
    return made is not None and made.op.kind == OpKind.FLOOR_DIV


def divided_positions(facts: Facts) -> list[Node]:
    """Quotients of a loop's positions, or of lanes, that address memory, no remainder beside
    them."""
    quotients = facts.graph.of(OpKind.FLOOR_DIV)
    places = [v for a in facts.accesses for v in a.address] if quotients else []
    rests = [n for n in facts.graph.of(OpKind.MOD) if _placing(facts, n, places)]
    left = {facts.values.expr(n.op.inputs[0]) for n in rests}
    parts = [n for n in quotients if _stepped(facts, n, left)]
    return [n for n in parts if _placing(facts, n, places)]


def _shared_rows(facts: Facts) -> list[Node]:
    """Quotients, or remainders, of the number of a block by a number that is handed in, which place
    a load, where the number as it is places other accesses."""
    if facts.of_threads or facts.contractions or any(True for _ in GqaHeadSharing().seen(facts)):
        return []
    own = {atom for a in facts.accesses for index in a.index for atom in index.top()}
    items = {facts.values.expr(x.induction).atom for x in facts.item_loops}
    read = [v for a in facts.loads for v in a.address]
    found: dict[Atom, list[Node]] = {}
    for node in facts.graph.of(OpKind.FLOOR_DIV, OpKind.MOD):
        over, under = (facts.values.expr(v).atom for v in node.op.inputs[:2])
        if over is None or under is None or under.kind is not AtomKind.PARAMETER:
            continue
        if over in own and (over.kind is AtomKind.BLOCK or over in items):
            found.setdefault(over, []).append(node)
    alone = [nodes for nodes in found.values() if len({n.op.kind for n in nodes}) == 1]
    return [n for nodes in alone for n in nodes if _placing(facts, n, read)]


def _placing(facts: Facts, node: Node, places: list[str]) -> bool:
    return any(facts.graph.rests_on(v, node) for v in places)


def _stepped(facts: Facts, node: Node, left: set[Expr]) -> bool:
    """True for a quotient of what a loop variable, perhaps with lanes or times sizes, is added to;
    or of lanes, of threads those of the whole grid, or what a thread loads, by a number that is
    handed in."""
    over, under = (facts.values.expr(v) for v in node.op.inputs[:2])
    steps = [a for f, _ in over.terms for a in f if _sizes(f, a)]
    rounds = bool(node.loops) and any(a.kind is AtomKind.INDUCTION for a in steps)
    handed = under.atom is not None and under.atom.kind is AtomKind.PARAMETER
    flat = over.has(AtomKind.BLOCK) if facts.of_threads else True
    lanes = flat and any(a.kind is AtomKind.LANE for a in steps)
    loaded = facts.of_threads and over.atom is not None and _loaded([over.atom])
    whole = all(under.atom in f for f, _ in over.terms)  # so many tiles, counted again
    return over not in left and not whole and (rounds or (handed and (lanes or loaded)))


def _sizes(factors: tuple[Atom, ...], one: Atom) -> bool:
    """Whether the other factors of a product are parameters."""
    return all(a.kind is AtomKind.PARAMETER for a in factors if a != one)
