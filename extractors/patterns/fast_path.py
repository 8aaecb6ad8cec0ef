"""A simpler way to the same result, taken where a number of the call or of the row allows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Node
from kb.analysis.idioms import sides
from kb.analysis.own_code import own
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ir import ParameterKind, Span, walk
from kb.ops import COMPARISONS, OpKind

_WHOLE = """__global__ void first(const float* x, float* out, const int* sizes, int n, int k) {
    int size = sizes[blockIdx.x];
    const float* own = x + blockIdx.x * n;
    if (size <= k) {
        for (int i = threadIdx.x; i < size; i += blockDim.x) out[blockIdx.x * k + i] = own[i];
        return;
    }
    __shared__ float low[1];
    if (threadIdx.x == 0) {
        float least = own[0];
        for (int i = 1; i < size; ++i) least = fminf(least, own[i]);
        low[0] = least;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < k; i += blockDim.x) out[blockIdx.x * k + i] = own[i] - low[0];
}
"""
_EITHER = """__global__ void scale(const float* x, float* out, int n, int apart) {
    if (apart == n) {
        for (int i = threadIdx.x; i < n; i += blockDim.x)
            out[blockIdx.x * n + i] = x[blockIdx.x * n + i] * 2.f;
    } else {
        for (int k = threadIdx.x; k < 4; k += blockDim.x)
            for (int i = 0; i < n; ++i)
                out[k * apart + blockIdx.x * n + i] = x[k * apart + blockIdx.x * n + i] * 2.f;
    }
}
"""
_ASIDE = _WHOLE.replace("        return;\n    }\n", "    } else {\n") + "}\n"
ITEMS = """__global__ void merge(const float* x, float* out, const int* parts, int items, int n) {
    for (int row = blockIdx.x; row < items; row += gridDim.x) {
        int first = parts[row];
        int count = parts[row + 1] - first;
        if (count == 1) {
            out[row * n + threadIdx.x] = x[first * n + threadIdx.x];
            continue;
        }
        float sum = 0.f;
        for (int i = 0; i < count; ++i) sum += x[(first + i) * n + threadIdx.x];
        out[row * n + threadIdx.x] = sum / count;
    }
}
"""
_TWO_WALKS = """__global__ void lowest(const float* x, float* out, int n, bool apart) {
    float least = 0.f;
    if (apart) {
        for (int i = 0; i < n; ++i) least = fminf(least, x[i * n + threadIdx.x]);
        out[threadIdx.x] = least;
    } else {
        for (int i = 0; i < n; ++i) least = fminf(least, x[threadIdx.x * n + i]);
        out[threadIdx.x] = least;
    }
}
"""
_FOR_ITEMS = (
    _TWO_WALKS.replace("bool apart) {", "bool apart, int items) {\nfor (int at = blockIdx.x * "
                       "blockDim.x + threadIdx.x; at < items; at += gridDim.x * blockDim.x) {")
    .replace("threadIdx.x]", "at]").replace("[threadIdx.x", "[at") + "}\n"
)  # fmt: skip
_TURNED = """__global__ void turn(const float* x, float* out, int n, bool halves) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (halves) {
        out[at] = x[at] * 2.f;
        out[at + n] = x[at + n] * 2.f;
    } else {
        out[2 * at] = x[2 * at] * 2.f;
        out[2 * at + 1] = x[2 * at + 1] * 2.f;
    }
}
"""
_SHARED = "shared"
_PLAIN = COMPARISONS | {
    OpKind.CONST,
    OpKind.DTYPE,
    OpKind.CAST,
    OpKind.MOD,
    OpKind.AND,
    OpKind.OR,
    OpKind.NOT,
    OpKind.BIT_AND,
    OpKind.BIT_OR,
}
_WAYS = "either of two ways at run time"
_SIMPLER = "simpler way at run time"
_SHARED_WORK = frozenset({
    OpKind.BARRIER, OpKind.SHUFFLE, OpKind.VOTE, OpKind.BARRIER_VOTE, OpKind.BARRIER_WAIT,
    OpKind.MMA, OpKind.REDUCE_SUM, OpKind.REDUCE_MAX,
})  # fmt: skip
"""What threads do together; the simpler way has none of it."""


class FastPath(Pattern):
    """A branch that all threads of a block take together stores what is loaded into an array that
    is stored elsewhere too, and leaves the kernel, or the work item, or leaves all that threads do
    together to its other side; or scalar arguments choose between its two sides, which read and
    store the same arrays at places of their own, or walk them in loops of their own, be it for each
    item of the block."""

    name = "fast-path-that-leaves-the-kernel"
    axis = "algorithm_selection"
    source = "Knuth, Structured Programming with go to Statements (1974): special cases first"
    matches = (
        Case(_WHOLE, _SIMPLER),
        Case(_ASIDE, _SIMPLER),
        Case(ITEMS, _SIMPLER),
        Case(_EITHER, _WAYS),
        Case(_TURNED, _WAYS),
        Case(_TWO_WALKS, _WAYS),
        Case(_FOR_ITEMS, _WAYS),
    )
    near_misses = (
        NearMiss(
            _ASIDE.replace("+ i] = own[i];\n    }", "+ i] = 0.f;\n    }"),
            why="an empty row is filled with a number",
        ),
        NearMiss(_ASIDE.replace("__syncthreads();", ""), why="neither side is the simpler one"),
        NearMiss(_WHOLE.replace("        return;\n", ""), why="nothing leaves"),
        NearMiss(
            _WHOLE.replace("+ i] = own[i];\n        return", "+ i] = 0.f;\n        return"),
            why="an empty row is filled with a number",
        ),
        NearMiss(_WHOLE.replace("size <= k", "threadIdx.x > k"), why="single threads leave"),
        NearMiss(ITEMS.replace("            continue;\n", ""), why="the item goes on"),
        NearMiss(ITEMS.replace("count == 1", "threadIdx.x > n"), why="single threads go on"),
        NearMiss(
            ITEMS.replace("= x[first * n + threadIdx.x];", "= 0.f;"),
            why="an empty item is filled with a number",
        ),
        NearMiss(
            ITEMS.replace("for (int i = 0; i < count; ++i) ", "").replace("first + i", "first"),
            why="what follows is no more work",
        ),
        NearMiss(_EITHER.replace("apart == n", "threadIdx.x < n"), why="threads have work apart"),
        NearMiss(
            _EITHER.replace("int apart", "const int* ids").replace("apart", "ids[blockIdx.x]"),
            why="what was loaded for the block decides, nothing of the call",
        ),
        NearMiss(
            _TURNED.replace("x[2 * at] * 2.f", "x[2 * at] * 3.f").replace(
                "out[at] = x[at] * 2.f;\n        out[at + n] =",
                "out[2 * at] = x[at] * 2.f;\n        out[2 * at + 1] =",
            ),
            why="the sides store to the same places",
        ),
        NearMiss(
            _EITHER.replace(
                "out[k * apart + blockIdx.x * n + i] = x[k", "const_cast<float*>(x)[k * n] = x[k"
            ),
            why="the sides store to arrays of their own",
        ),
        NearMiss(ADD_THREADS, why="one way"),
        NearMiss(ROW_NORM_THREADS, why="one way"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        stores = _stored(facts)
        if way := simpler_way(facts):
            yield self.decide(facts, _SIMPLER, way)
            return
        for branch in facts.graph.of(OpKind.IF):
            if ways := _ways(facts, branch, stores):
                yield self.decide(facts, _WAYS, ways)


def simpler_way(facts: Facts) -> list[Node]:
    """The first branch that a block takes together to a simpler way to what the others compute,
    with what it asks and what is stored there."""
    stores = _stored(facts) if facts.of_threads else []
    for branch in facts.graph.of(OpKind.IF) if stores else ():
        side = _leaves(branch)
        if side is None:
            side = _goes_on(facts, branch)
        elif branch.loops:
            continue
        if side is None or not _together(facts, branch):
            continue
        inside = [a for a in stores if _on(a.node, branch, side)]
        rest = {a.array for a in stores if not a.node.inside(branch)} - {None}
        moved = [a for a in inside if a.array in rest and _computed(facts, a)]
        if moved:
            tests = facts.graph.roots(branch.op.inputs[0], *COMPARISONS)
            return [branch, *tests, *(a.node for a in moved)]
    for branch, side in _simple_sides(facts) if stores else ():
        if aside := _aside(facts, branch, side, stores):
            return aside
    return []


def _stored(facts: Facts) -> list[Access]:
    return [a for a in facts.stores if a.node.op.attribute("space") != _SHARED]


def _simple_sides(facts: Facts) -> Iterator[tuple[Node, int]]:
    """Branches of the kernel's own with the side on which threads do nothing together, where they
    do on the other."""
    simple: dict[Span, int] = {}
    for branch in facts.threads.of(OpKind.IF):
        heavy = [any(op.kind in _SHARED_WORK for op in walk(one)) for one in branch.op.regions]
        if not branch.loops and own(facts, branch.op) and sorted(heavy) == [False, True]:
            simple[branch.op.span] = heavy.index(False)
    for branch in facts.graph.of(OpKind.IF) if simple else ():
        if branch.op.span in simple:
            yield branch, simple[branch.op.span]


def _aside(facts: Facts, branch: Node, side: int, stores: list[Access]) -> list[Node]:
    """A branch that a block takes together, with its condition and what its simpler side stores,
    where the other side stores the same arrays."""
    if not _together(facts, branch):
        return []
    arrays = {a.array for a in stores if _on(a.node, branch, 1 - side)} - {None}
    plain = [a for a in stores if _on(a.node, branch, side) and a.array in arrays]
    moved = [a for a in plain if _computed(facts, a)]
    tests = facts.graph.roots(branch.op.inputs[0], *COMPARISONS) if moved else ()
    return [branch, *tests, *(a.node for a in moved)] if moved else []


def _ways(facts: Facts, branch: Node, stores: list[Access]) -> list[Node]:
    """A branch on scalar arguments alone with what compares them, and the outermost loops of its
    sides, or what they store, where each side reads and stores the same arrays."""
    items = {loop.node for loop in facts.item_loops}
    if {*branch.loops} - items or len(branch.op.regions) != 2 or not _of_arguments(facts, branch):
        return []
    inside = [[a for a in stores if _on(a.node, branch, side)] for side in (0, 1)]
    moved = [[a for a in side if _computed(facts, a)] for side in inside]
    arrays = [{a.array for a in side} for side in moved]
    if not all(arrays) or arrays[0] != arrays[1] or None in arrays[0]:
        return []
    fed = [[f for a in side for f in facts.feeding(a.value)] for side in moved]
    read = [{f.array for f in one if _on(f.node, branch, side)} for side, one in enumerate(fed)]
    places = [{a.index for a in side} for side in moved]
    kinds = [{facts.types.dtype(a.value or "") for a in side} for side in moved]
    walks = [any(loop.inside(branch) for a in fed_by for loop in a.node.loops) for fed_by in fed]
    if not read[0] & read[1] or kinds[0] != kinds[1]:
        return []
    if places[0] == places[1] and not all(walks):
        return []
    tests = facts.graph.roots(branch.op.inputs[0], *COMPARISONS)
    nodes = [a.node for side in moved for a in side]
    heads = {next((x for x in n.loops if x.inside(branch)), n) for n in nodes}
    return [branch, *tests, *sorted(heads, key=lambda n: n.index)]


def _of_arguments(facts: Facts, branch: Node) -> bool:
    """Whether a condition of the kernel's own asks for scalar arguments, and for nothing else that
    is known only at run time."""
    kinds = {p.name: p.kind for p in facts.kernel.entry.parameters}
    above = list(facts.graph.upstream(branch.op.inputs[0]))
    read = {v for n in above for v in n.op.inputs} | {*branch.op.inputs[:1]}
    asked = {kinds[v] for v in read if v in kinds}
    plain = all(n.op.kind in _PLAIN for n in above)
    mine = own(facts, branch.op)
    return mine and plain and ParameterKind.SCALAR in asked and ParameterKind.ARRAY not in asked


def _leaves(branch: Node) -> int | None:
    """The side of a branch that ends in a return."""
    for side, region in enumerate(branch.op.regions):
        end = region.terminator
        if end is not None and end.kind == OpKind.RETURN:
            return side
    return None


def _goes_on(facts: Facts, branch: Node) -> int | None:
    """The side of a branch that ends a round of the outermost loop, behind which the round has a
    loop of its own, or something that threads do together."""
    if len(branch.loops) != 1:
        return None
    behind = (n for n in facts.graph.within(branch.loops[0]) if n.index > branch.last)
    more = any(n.op.kind in LOOPS or n.op.kind in _SHARED_WORK for n in behind)
    for side, region in enumerate(branch.op.regions if more else ()):
        end = region.terminator
        if end is not None and end.kind == OpKind.CONTINUE:
            return side
    return None


def _on(node: Node, branch: Node, side: int) -> bool:
    return any(n.parent is branch and n.branch == side for n in (node, *node.around()))


def _together(facts: Facts, branch: Node) -> bool:
    """Whether a condition needs something of the launch or of memory, and no thread's own number;
    what a compiler knows chooses nothing at run time."""
    value = branch.op.inputs[0]
    tests = facts.graph.roots(value, *COMPARISONS)
    if not tests or any(e.has(AtomKind.LANE) for n in tests for e in sides(facts, n)):
        return False
    kinds = {p.name: p.kind for p in facts.kernel.entry.parameters}
    read = {v for n in facts.graph.upstream(value) for v in n.op.inputs}
    return any(kinds.get(v, ParameterKind.CONSTEXPR) is not ParameterKind.CONSTEXPR for v in read)


def _computed(facts: Facts, store: Access) -> bool:
    return not store.is_atomic and bool(facts.feeding(store.value))
