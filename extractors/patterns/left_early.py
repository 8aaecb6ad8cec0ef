"""A loop that data ends."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Graph, Node
from kb.evidence import Decision
from kb.ops import COMPARISONS, READS, REDUCTIONS, OpKind

_SAMPLED = """__global__ void draw(const float* p, int* out, float u, int n) {
    __shared__ float part[128];
    float sum = 0.f;
    int i = 0;
    for (; i < n; i += 128) {
        part[threadIdx.x] = p[blockIdx.x * n + i + threadIdx.x];
        __syncthreads();
        float all = 0.f;
        for (int j = 0; j < 128; ++j) all += part[j];
        sum += all;
        if (sum > u) break;
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = i;
}
"""


_SEARCHED = """__global__ void least(const float* p, float* out, float u, int n) {
    __shared__ float part[128];
    float low = 0.f, all;
    do {
        low += 0.1f;
        float own = 0.f;
        for (int i = threadIdx.x; i < n; i += 128) {
            float v = p[blockIdx.x * n + i];
            if (v > low) own += v;
        }
        part[threadIdx.x] = own;
        __syncthreads();
        all = 0.f;
        for (int j = 0; j < 128; ++j) all += part[j];
        __syncthreads();
    } while (all > u);
    if (threadIdx.x == 0) out[blockIdx.x] = low;
}
"""
_HELD = (
    POINTER
    + """
@triton.jit
def merge(x, length, out, n, parts, T: tl.constexpr):
    at = tl.arange(0, T)
    acc = tl.zeros((T,), dtype=tl.float32)
    held = tl.load(length + tl.program_id(0))
    for i in range(parts):
        if i * n < held:
            acc += tl.load(x + (tl.program_id(0) * parts + i) * T + at)
    tl.store(out + tl.program_id(0) * T + at, acc)
"""
)
_OWN = (OpKind.THREAD_ID, OpKind.LANE_ID)


class LeftEarly(Pattern):
    """A loop holds a break under a condition that what was read in the loop decides; or all that a
    round does stands under one that rests on what was read; or it runs on as long as what it
    reduces says so."""

    name = "loop-left-when-the-data-says-so"
    axis = "loop_extent"
    source = "Knuth, Structured Programming with go to Statements (1974): loops with exits inside"
    matches = (
        Case(_SAMPLED, "left early"),
        Case(_SEARCHED, "as long as what is reduced says so"),
        Case(_HELD, "rounds skipped by a runtime branch"),
    )
    near_misses = (
        NearMiss(vary(_SAMPLED, ("if (sum > u)", "if (i > 4096)")), why="positions end the loop"),
        NearMiss(vary(_SAMPLED, ("if (sum > u) break;", "")), why="nothing leaves the loop"),
        NearMiss(
            vary(_SAMPLED, ("p[blockIdx.x * n + i + threadIdx.x]", "p[blockIdx.x * n + i]")),
            why="all threads look at one element: a search",
        ),
        NearMiss(
            vary(_SEARCHED, ("while (all > u)", "while (low < u)")), why="a count ends the loop"
        ),
        NearMiss(vary(_HELD, ("tl.load(length + tl.program_id(0))", "n")), why="no data has a say"),
        NearMiss(PRODUCT, why="every iteration runs"),
        NearMiss(PRODUCT_POINTER, why="every iteration runs"),
        NearMiss(PRODUCT_THREADS, why="every iteration runs"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        graph = facts.threads
        found = [
            node
            for leave in graph.of(OpKind.BREAK)
            if (branch := _branch(leave)) is not None
            and _by_data(graph, branch.loop, _rests(graph, branch.op.inputs[0]))
            for node in (branch, leave)
        ]
        if found:
            yield self.decide(facts, "left early", [n.head for n in found])
        skipped = [] if facts.of_threads else _skipped(facts)
        if skipped:
            yield self.decide(facts, "rounds skipped by a runtime branch", skipped)
        asked = [n for loop in graph.of(OpKind.WHILE) for n in _asked(graph, loop)]
        if asked:
            yield self.decide(facts, "as long as what is reduced says so", asked)


def _branch(leave: Node) -> Node | None:
    """The branch that a break stands under, inside its loop."""
    parent = leave.parent
    return parent if parent is not None and parent.op.kind == OpKind.IF else None


def _skipped(facts: Facts) -> list[Node]:
    """Branches that rest on what was loaded, with all tiles that their loop touches on one side and
    nothing on the other; not in a loop that stores, over work items."""
    items = [loop for a in facts.stores for loop in a.node.loops]
    found: list[Node] = []
    for branch in facts.graph.of(OpKind.IF):
        condition, loop = branch.op.inputs[0], branch.loop
        tests = facts.graph.roots(condition, *COMPARISONS)
        if loop is None or loop in items or not facts.graph.roots(condition, *READS):
            continue
        touched = [a for a in facts.accesses if a.loop is loop and facts.types.shape(a.value)]
        touched = [a for a in touched if not facts.graph.rests_on(condition, a.node)]
        stays = all(r.terminator and r.terminator.kind == OpKind.YIELD for r in branch.op.regions)
        if stays and touched and {_side(a.node, branch) for a in touched} == {0}:
            found += [branch, *(n for n in tests if n.loop is loop)]
    return found


def _side(node: Node, branch: Node) -> int | None:
    """The side of a branch that a node stands on; None outside."""
    own: Node | None = node
    while own is not None and own.parent is not branch:
        own = own.parent
    return own.branch if own is not None else None


def _asked(graph: Graph, loop: Node) -> list[Node]:
    """What decides whether a loop runs on, when that is reduced in it, or shared by threads."""
    end = loop.op.regions[0].terminator
    if end is None or not end.inputs:
        return []
    tests = [n for n in graph.roots(end.inputs[0], *COMPARISONS) if n.inside(loop)]
    return [n for n in tests if _by_data(graph, loop, _shared(graph, n.result))]


def _rests(graph: Graph, condition: str) -> list[Node]:
    return graph.roots(condition, *READS, *REDUCTIONS, OpKind.OPAQUE, OpKind.CUMSUM)


def _shared(graph: Graph, condition: str) -> list[Node]:
    """What threads tell each other on the way to a condition."""
    found = graph.roots(condition, *REDUCTIONS, OpKind.CUMSUM, OpKind.LOAD)
    return [n for n in found if n.op.kind != OpKind.LOAD or n.op.attribute("space") == "shared"]


def _by_data(graph: Graph, loop: Node | None, rests: list[Node]) -> bool:
    """Whether something that a condition rests on stands in the loop, where every thread reads
    elements of its own."""
    if loop is None or not any(n.inside(loop) for n in rests):
        return False
    streamed = [n for n in graph.of(OpKind.LOAD) if n.inside(loop)]
    return any(
        n.op.attribute("space") != "shared" and graph.roots(n.op.operand("pointer"), *_OWN)
        for n in streamed
    )
