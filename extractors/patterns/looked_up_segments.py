"""Segments of irregular length whose ends are read from an array of offsets, or found by a
search in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT_POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.accesses import Access
from kb.analysis.carried_sums import leads
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Carried, updates
from kb.analysis.symbolic import ONE, AtomKind, Expr, sub
from kb.evidence import Decision
from kb.ops import OpKind

_ORDERED = (OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)
_POSITIONS = (AtomKind.LANE, AtomKind.INDUCTION, AtomKind.BLOCK, AtomKind.COUNT)
MOST = 64
"""Loads of a kernel that are compared with each other."""

_BOUNDS = "bounds of the segment loaded"
_SEARCHED = "segment found by a search"
_RUNNING = "running offset over loaded sizes"

_WINDOW = (
    POINTER
    + """
@triton.jit
def window(ends, out, n, T: tl.constexpr):
    own = tl.program_id(0)
    at = tl.program_id(1) * T + tl.arange(0, T)
    begin = tl.load(ends + own)
    end = tl.load(ends + tl.minimum(own + 1, n))
    tl.store(out + own * n + at, tl.where((at >= begin) & (at < end), at, -1))
"""
)
_FOUND = (
    POINTER
    + """
@triton.jit
def find(ends, out, n, T: tl.constexpr):
    own = tl.program_id(0)
    low = 0
    high = n
    while low < high:
        middle = (low + high) // 2
        if tl.load(ends + middle) <= own:
            low = middle + 1
        else:
            high = middle
    tl.store(out + own, low)
"""
)
_FOUND_THREADS = """__global__ void find(const int* ends, float* out, const float* by, int n) {
    int own = blockIdx.x;
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (ends[middle] <= own) low = middle + 1; else high = middle;
    }
    out[own * blockDim.x + threadIdx.x] = by[low];
}
"""
_WALK = (
    TILE
    + """
@ct.kernel
def walk(x, sizes, out, E: Int, T: Int):
    first = 0
    for e in range(E):
        size = ct.load(sizes, index=(e,), shape=(1,)).item()
        at = first + ct.arange(T, dtype=ct.int32)
        v = ct.gather(x, at)
        ct.scatter(out, at, v * size)
        first = first + size
"""
)


class LookedUpSegments(Pattern):
    """Two neighbours of an array bound a range of positions, neither of them a start that others
    are added to, or a loaded end is where the next round begins; a loop compares what it loads with
    a number and goes on where that says, or adds up what it loads, and the sum places accesses."""

    name = "segments-looked-up-in-an-array"
    axis = "ragged_access"
    source = "Knuth, The Art of Computer Programming, volume 3 (1998), section 6.2.1"
    matches = (
        Case(_WINDOW, _BOUNDS),
        Case(_FOUND, _SEARCHED),
        Case(_FOUND_THREADS, _SEARCHED),
        Case(_WALK, _RUNNING),
        Case(vary(_WALK, ("first = first + size", "first = size")), _BOUNDS),
    )
    near_misses = (
        NearMiss(vary(_WINDOW, ("tl.minimum(own + 1, n)", "n")), why="one end is the same for all"),
        NearMiss(
            vary(_WINDOW, ("(at >= begin) & (at < end)", "begin > 0"), ("at, -1", "begin, end")),
            why="two numbers that bound nothing",
        ),
        NearMiss(
            vary(_FOUND, ("tl.load(ends + middle) <= own", "middle <= own")),
            why="nothing that is loaded says where to go on",
        ),
        NearMiss(vary(_WALK, ("first + size", "first + T")), why="every segment is as long"),
        NearMiss(vary(_WALK, ("at = first +", "at = e * T +")), why="the sum places nothing"),
        NearMiss(ADD_POINTER, why="positions are computed"),
        NearMiss(ADD_THREADS, why="positions are computed"),
        NearMiss(PRODUCT_POINTER, why="positions are computed"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        loads = [a for a in facts.loads if a.array is not None and a.index][:MOST]
        bounds: list[Where] = [*_bounds(facts, loads)]
        searched: list[Where] = []
        running: list[Where] = []
        tests = _compared(facts) if facts.loops else {}
        placing = _placing(facts) if facts.loops else frozenset()
        for loop in facts.loops:
            inside = [a for a in loads if a.loop is loop.node]
            for carried in loop.carried if inside else ():
                for access in inside:
                    if _ending(facts, access, carried) and carried.argument in placing:
                        bounds += [access, *_lengths(facts, access, carried)]
                    if _led(facts, access, carried, loop.node, tests.get(access.value, [])):
                        searched += [access, loop.node]
                    if grown := _summed(facts, access, carried, placing):
                        running += [access, *grown, *_placed(facts, carried, loop.node)]
        if bounds:
            yield self.decide(facts, _BOUNDS, bounds)
        if searched:
            yield self.decide(facts, _SEARCHED, searched)
        if running:
            yield self.decide(facts, _RUNNING, running)


def _bounds(facts: Facts, loads: list[Access]) -> Iterator[Access]:
    """Pairs of neighbours that positions are compared with, or that a loop goes between."""
    free = [a for a in loads if a.value not in facts.offset_loads]
    pairs = [
        (one, other)
        for one in free
        for other in free
        if one.array == other.array and one is not other and _next(one.index[-1], other.index[-1])
    ]
    ends = _ends(facts) if pairs else frozenset()
    for one, other in pairs:
        if one.value in ends and other.value in ends:
            yield from (one, other)


def _next(one: Expr, other: Expr) -> bool:
    """True when a place is one behind another, or the last one."""
    behind = [other, *(e for a in other.top() if a.kind is AtomKind.MINIMUM for e in a.args)]
    return any(sub(place, one) == ONE for place in behind)


def _ends(facts: Facts) -> frozenset[str]:
    """Loaded numbers in the bounds of loops, and those that positions are compared with."""
    found = [facts.values.expr(v) for x in facts.loops for v in (x.low, x.high) if v is not None]
    for node in facts.graph.of(*_ORDERED):
        left, right = (facts.values.expr(v) for v in node.op.inputs[:2])
        found += [end for end, place in ((left, right), (right, left)) if place.has(*_POSITIONS)]
    return frozenset(a.value for e in found for a in e.atoms() if a.kind is AtomKind.LOADED)


def _led(facts: Facts, access: Access, carried: Carried, loop: Node, tests: list[Node]) -> bool:
    """True when a load at a place that a carried number says is compared in order, and the
    comparison says how the number goes on, or whether it does."""
    own = [n for n in tests if n.inside(loop) and _against(facts, n, access)]
    if not own or not any(leads(facts.graph, v, carried.argument) for v in access.address):
        return False
    return any(_ends_loop(n, loop) or _decides(facts, n, carried.next) for n in own)


def _against(facts: Facts, test: Node, access: Access) -> bool:
    """A comparison of what is loaded with a position: with nothing else that is loaded."""
    sides = test.op.inputs[:2]
    others = [v for v in sides if facts.graph.core(v) != access.value]
    return len(others) == 1 and not facts.values.expr(others[0]).has(AtomKind.LOADED)


def _decides(facts: Facts, test: Node, value: str) -> bool:
    """True when a value is computed from a comparison, or chosen by a branch on it."""
    if facts.graph.rests_on(value, test):
        return True
    return any(
        branch.op.inputs
        and facts.graph.rests_on(branch.op.inputs[0], test)
        and facts.graph.rests_on(value, branch)
        for branch in facts.graph.of(OpKind.IF)
    )


def _ends_loop(test: Node, loop: Node) -> bool:
    """A comparison in the condition of a loop."""
    return loop.op.kind == OpKind.WHILE and test.parent is loop and test.branch == 0


def _ending(facts: Facts, access: Access, carried: Carried) -> bool:
    """True when the end of a segment that is loaded is where the next one begins."""
    alone = {*facts.types.shape(access.value)} <= {"1"}
    return alone and facts.graph.core(carried.next) == access.value


def _lengths(facts: Facts, access: Access, carried: Carried) -> list[Node]:
    """The loaded end of a segment less its beginning."""
    sides = [access.value, carried.argument]
    taken = (n for n in facts.graph.of(OpKind.SUB))
    return [n for n in taken if [facts.graph.core(v) for v in n.op.inputs[:2]] == sides]


def _summed(facts: Facts, access: Access, carried: Carried, placing: frozenset[str]) -> list[Node]:
    """The sums by which a carried number that places accesses grows by what is loaded."""
    if not placing & ({carried.argument, carried.result} - {""}):
        return []
    return [
        n
        for n in updates(facts.graph, carried.argument, carried.next)
        if n.op.kind == OpKind.ADD
        and any(facts.graph.core(v) == access.value for v in n.op.inputs[:2])
    ]


def _placed(facts: Facts, carried: Carried, loop: Node) -> list[Node]:
    """The sums behind a loop that begin places at what a carried number has grown to."""
    return [
        n
        for n in facts.graph.users(carried.result)
        if n.op.kind == OpKind.ADD
        and not n.inside(loop)
        and any(facts.graph.rests_on(v, n) for a in facts.accesses for v in a.address)
    ]


def _compared(facts: Facts) -> dict[str, list[Node]]:
    """Comparisons in order, by what they compare."""
    found: dict[str, list[Node]] = {}
    for node in facts.graph.of(*_ORDERED):
        for value in node.op.inputs[:2]:
            found.setdefault(facts.graph.core(value) or value, []).append(node)
    return found


def _placing(facts: Facts) -> frozenset[str]:
    """What stands in the place of an access, by name."""
    atoms = (a for x in facts.accesses for e in x.index for a in e.atoms())
    return frozenset(a.value for a in atoms if a.kind is not AtomKind.COUNT)
