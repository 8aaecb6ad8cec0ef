"""Elements that whole vectors leave over: moved by narrower accesses of their own."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, vary
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ir import TypeKind
from kb.ops import OWN_THREAD, OpKind

REST = """__global__ void copy(const float* x, float* out, int n) {
    int whole = n / 4;
    for (int i = threadIdx.x; i < whole; i += blockDim.x)
        reinterpret_cast<float4*>(out)[i] = reinterpret_cast<const float4*>(x)[i];
    for (int i = whole * 4 + threadIdx.x; i < n; i += blockDim.x) out[i] = x[i];
}
"""
_REMAINDER = """__global__ void copy(const float* x, const int* from, float* out, int n) {
    int rounds = n / 256, rest = n % 256;
    for (int i = 0; i < rounds; i++)
        out[blockIdx.x * n + i * 256 + threadIdx.x] = x[from[i * 256 + threadIdx.x]];
    if (rest && threadIdx.x < rest)
        out[blockIdx.x * n + rounds * 256 + threadIdx.x] = x[from[rounds * 256 + threadIdx.x]];
}
"""
_IN_ELEMENTS = """__global__ void copy(const float* x, float* out, int n, bool wide) {
    int done = wide ? n / 4 * 4 : 0;
    for (int i = threadIdx.x; i < done / 4; i += blockDim.x)
        reinterpret_cast<float4*>(out)[i] = reinterpret_cast<const float4*>(x)[i];
    for (int i = done + threadIdx.x; i < n; i += blockDim.x) out[i] = x[i];
}
"""
_EDGE = """__global__ void copy(const float* x, float* out, int n) {
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (at + 4 <= n) {
        *reinterpret_cast<float4*>(out + at) = *reinterpret_cast<const float4*>(x + at);
    } else {
        for (int i = at; i < n; ++i) out[i] = x[i];
    }
}
"""
_COUNT_FIRST = """__global__ void sum(const int* x, int* out, int n) {
    int count = x[n], sum = 0;
    for (int i = 0; i < n; i += 4) {
        int4 v = *reinterpret_cast<const int4*>(x + i);
        sum += v.x + v.y + v.z + v.w;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum * count;
}
"""
_BY_FOUR = """__global__ void largest(const float* x, float* out, int n) {
    int whole = n / 4;
    float top = -1e30f;
    for (int i = threadIdx.x; i < whole; i += blockDim.x)
        for (int k = 0; k < 4; ++k) top = fmaxf(top, x[4 * i + k]);
    if (4 * whole + threadIdx.x < n) top = fmaxf(top, x[4 * whole + threadIdx.x]);
    out[blockIdx.x * blockDim.x + threadIdx.x] = top;
}
"""
_TILES = (
    POINTER
    + """
@triton.jit
def copy(x, out, n, T: tl.constexpr):
    whole = n // T
    for i in range(0, whole):
        at = i * T + tl.arange(0, T)
        tl.store(out + at, tl.load(x + at))
    for i in range(whole * T, n):
        tl.store(out + i, tl.load(x + i))
"""
)
_ORDERED = frozenset({OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE})
_Moved = tuple[Access, Node]
_REST_VALUE = "scalar accesses for the rest"
_EDGE_VALUE = "narrower accesses at the edge"
_STEP_VALUE = "a step of its own for the rest"
_CHOSEN_VALUE = "vectors or single elements, by a remainder at run time"


class NarrowRest(Pattern):
    """An array is moved in vectors, and again in single elements: from where the vectors end, or on
    the other side of a branch that compares positions; or several elements a round, and the rest
    where the rounds end; or threads below a remainder do what rounds of all threads leave; or all
    threads move vectors where a size or an address is a whole number of them, else elements."""

    name = "narrow-accesses-behind-whole-vectors"
    axis = "tail_handling"
    source = "Luitjens, CUDA Pro Tip: Increase Performance with Vectorized Memory Access (2013)"
    matches = (
        Case(REST, _REST_VALUE),
        Case(_IN_ELEMENTS, _REST_VALUE),
        Case(_EDGE, _EDGE_VALUE),
        Case(_BY_FOUR, _STEP_VALUE),
        Case(_REMAINDER, _STEP_VALUE),
        Case(vary(_EDGE, ("at + 4 <= n", "n % 4 == 0")), _CHOSEN_VALUE),
        Case(vary(_EDGE, ("at + 4 <= n", "((size_t)x & 15) == 0")), _CHOSEN_VALUE),
    )
    near_misses = (
        NearMiss(vary(REST, ("whole * 4 + threadIdx.x", "threadIdx.x")), why="copied twice"),
        NearMiss(vary(_IN_ELEMENTS, ("done + threadIdx.x", "threadIdx.x")), why="copied twice"),
        NearMiss(
            vary(_EDGE, ("at + 4 <= n", "n % 4 == 0")),
            why="one path for every element",
            value=_EDGE_VALUE,
        ),
        NearMiss(vary(_EDGE, ("at + 4 <= n", "n % 4 == threadIdx.x")), why="threads part"),
        NearMiss(vary(_EDGE, ("at + 4 <= n", "n == 0")), why="a size, no remainder"),
        NearMiss(vary(_EDGE, ("at + 4 <= n", "at < 448")), why="some threads, by their numbers"),
        NearMiss(_COUNT_FIRST, why="the number of elements stands behind them"),
        NearMiss(
            vary(_BY_FOUR, ("x[4 * whole + threadIdx.x])", "x[threadIdx.x])")),
            why="the first elements once more",
        ),
        NearMiss(
            vary(_BY_FOUR, ("k < 4", "k < n")), why="a round takes no known number of elements"
        ),
        NearMiss(_REMAINDER.replace("n % 256", "n % 32"), why="no rounds leave that"),
        NearMiss(ADD_THREADS, why="every access moves one element"),
        NearMiss(_TILES, why="the compiler chooses what a thread moves"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        plain, pairs = _pairs(facts)
        rest = [small for big, small in pairs if _behind(facts, big[0], small[0])]
        edge = [
            (small, branch)
            for big, small in pairs
            if small not in rest and (branch := _edge(facts, big[1], small[1])) is not None
        ]
        if rest:
            loops = [a.loop.head for a, _ in rest if a.loop is not None]
            yield self.decide(facts, _REST_VALUE, [*loops, *(a for a, _ in rest)])
        if edge:
            around = [n.loop.head for (_, n), _ in edge if n.loop is not None]
            yield self.decide(facts, _EDGE_VALUE, [*around, *(a for (a, _), _ in edge)])
        chosen = [
            (small[0], test)
            for big, small in pairs
            if small not in rest
            for test in _by_remainder(facts, big[1], small[1])
        ]
        if chosen:
            found = [x for pair in chosen for x in pair]
            yield self.decide(facts, _CHOSEN_VALUE, found)
        steps: list[Where] = [
            a for a, n in plain if a not in {one for one, _ in rest} and _left_over(facts, a)
        ]
        if steps := [*steps, *_remainders(facts)]:
            yield self.decide(facts, _STEP_VALUE, steps)


def _pairs(facts: Facts) -> tuple[list[_Moved], list[tuple[_Moved, _Moved]]]:
    """What is moved element by element, and pairs of an access to several elements and one to a
    single element of the same array."""
    nodes = {n.op.span: n for n in facts.threads.of(OpKind.LOAD, OpKind.STORE)}
    moved = [(a, nodes[a.node.op.span]) for a in facts.accesses if a.node.op.span in nodes]
    wide = [(a, n) for a, n in moved if _vector(facts, n)]
    plain = [(a, n) for a, n in moved if a.array and not _vector(facts, n)]
    pairs = [
        (big, small)
        for big in wide
        for small in plain
        if big[0].array == small[0].array and big[0].is_store == small[0].is_store
    ]
    return plain, pairs


def _vector(facts: Facts, node: Node) -> bool:
    """Whether a thread moves several elements at once."""
    value = node.result if node.op.kind == OpKind.LOAD else node.op.operand("value") or ""
    made = facts.threads.producer(value)
    rows = made.op.results if made is not None else ()
    kind = next((row.type for row in rows if row.name == value), None)
    shape = kind.shape if kind is not None and kind.kind is TypeKind.TILE else ()
    return any(extent != "1" for extent in shape)


def _left_over(facts: Facts, access: Access) -> bool:
    """Whether an access lies where rounds end that take several elements of the array each: a
    number of them that is known, in an inner loop."""
    if access.mask is None:
        return False
    for other in facts.accesses:
        around = other.node.loops[-2:]
        if other.array != access.array or other.is_store != access.is_store or len(around) < 2:
            continue
        outer, inner = (facts.loop(node) for node in around)
        if outer is None or inner is None or access.node.inside(outer.node):
            continue
        taken = facts.values.expr(inner.high).constant if inner.high is not None else None
        end = set(facts.values.expr(outer.high).top()) if outer.high is not None else set()
        if taken is not None and taken > 1 and len(end) == 1:
            (last,) = end
            if any(index.coefficient(last).constant == taken for index in access.index):
                return True
    return False


def _remainders(facts: Facts) -> list[Where]:
    """Tests of threads against what a division leaves whose quotient ends a loop, with what is
    moved there."""
    ends = [facts.values.expr(loop.high).atom for loop in facts.loops if loop.high is not None]
    divided = {tuple(map(str, a.args)) for a in ends if a and a.kind is AtomKind.FLOOR_DIV}
    found: list[Where] = []
    for access in facts.accesses if divided else ():
        for test in comparisons(facts, access.mask) if access.mask is not None else ():
            own, other = sides(facts, test)
            left = other.atom if own.has(AtomKind.LANE) else None
            if left and left.kind is AtomKind.MOD and tuple(map(str, left.args)) in divided:
                found += [test, access]
    return found


def _behind(facts: Facts, wide: Access, narrow: Access) -> bool:
    """Whether the single elements begin where the loop over vectors ends, and come after it."""
    first, second = facts.loop(wide.loop), facts.loop(narrow.loop)
    if first is None or wide.loop is narrow.loop or narrow.node.index < first.node.index:
        return False
    end = set(facts.values.expr(first.high).top())
    elements = [
        {*a.args[0].top()} for a in end if second and a.kind is AtomKind.FLOOR_DIV and len(end) == 1
    ]
    begins = [facts.values.expr(second.low)] if second is not None else list(narrow.index)
    ends = [e for e in (end, *elements) if e]
    return any(e <= set(begin.atoms()) for begin in begins for e in ends)


def rest_loops(facts: Facts) -> list[Node]:
    """Loops of threads over the single elements that loops over vectors leave."""
    pairs = _pairs(facts)[1] if facts.of_threads else []
    rest = [small for (big, _), (small, _) in pairs if _behind(facts, big, small)]
    return [a.loop for a in rest if a.loop is not None]


def _edge(facts: Facts, wide: Node, narrow: Node) -> Node | None:
    """The branch on whose two sides the accesses stand, when it compares positions with what the
    problem gives."""
    sides = dict(_around(wide))
    for branch, side in _around(narrow):
        if branch.op.kind != OpKind.IF or sides.get(branch, side) == side:
            continue
        tests = facts.threads.roots(branch.op.inputs[0], *_ORDERED)
        tests = [t for t in tests if all(_open(facts, v) for v in t.op.inputs[:2])]
        if any(facts.threads.roots(t.result, OpKind.THREAD_ID) for t in tests):
            return branch
    return None


def _by_remainder(facts: Facts, wide: Node, narrow: Node) -> list[Node]:
    """The branch on whose two sides the accesses stand, with its tests, when all threads ask there
    whether a size or an address is a whole number of vectors."""
    sides = dict(_around(wide))
    for branch, side in _around(narrow):
        if branch.op.kind != OpKind.IF or sides.get(branch, side) == side:
            continue
        if facts.threads.roots(branch.op.inputs[0], *OWN_THREAD):
            continue
        tests = [
            test
            for test in facts.threads.roots(branch.op.inputs[0], OpKind.EQ, OpKind.NE)
            if any(facts.number(v) == 0 for v in test.op.inputs[:2])
            and any(_is_remainder(facts, v) for v in test.op.inputs[:2])
        ]
        if tests:
            return [branch, *tests]
    return []


def _is_remainder(facts: Facts, value: str) -> bool:
    """Whether a value is the remainder of a division by what is known when the code is compiled."""
    node = facts.threads.producer(facts.threads.through(value, CASTS | COPIES))
    if node is None or node.op.kind not in (OpKind.MOD, OpKind.BIT_AND):
        return False
    by = facts.thread_values.expr(node.op.inputs[1])
    return by.constant is not None or facts.thread_values.compile_time(by)


def _open(facts: Facts, value: str) -> bool:
    return facts.thread_values.literal(value) is None


def _around(node: Node) -> Iterable[tuple[Node, int]]:
    """The operations that a node stands in, innermost first, and in which region of each."""
    while node.parent is not None:
        yield node.parent, node.branch
        node = node.parent
