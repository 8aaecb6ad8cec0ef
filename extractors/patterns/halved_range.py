"""A place in a sorted array, found by halving the range in which it may lie."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from extractors.patterns.cases_threads import TREE_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Graph, Node
from kb.analysis.loops import Carried, Loop
from kb.evidence import Decision
from kb.ops import COMPARISONS, READS, OpKind

_BOUNDS = """__global__ void place(const float* sorted, const float* x, int* out, int n) {
    float wanted = x[threadIdx.x];
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (sorted[middle] < wanted) low = middle + 1;
        else high = middle;
    }
    out[threadIdx.x] = low;
}
"""
_LENGTH = """__device__ int below(const float* sorted, int length, float wanted) {
    int first = 0;
    while (length > 0) {
        int half = length >> 1;
        if (sorted[first + half] < wanted) {
            first += half + 1;
            length -= half + 1;
        } else {
            length = half;
        }
    }
    return first;
}
__global__ void place(const float* sorted, const float* x, int* out, int n) {
    out[threadIdx.x] = below(sorted, n, x[threadIdx.x]);
}
"""
_POINTER = (
    POINTER
    + """
@triton.jit
def place(sorted, x, out, n):
    row = tl.program_id(0)
    wanted = tl.load(x + row)
    low = 0
    high = n
    while low < high:
        middle = (low + high) // 2
        if tl.load(sorted + middle) <= wanted:
            low = middle + 1
        else:
            high = middle
    tl.store(out + row, low)
"""
)
_VALUE = "sorted array searched by halving"
_HALVES = (OpKind.FLOOR_DIV, OpKind.DIV, OpKind.SHIFT_RIGHT)
_CHOICES = COPIES | CASTS


class HalvedRange(Pattern):
    """Of threads: a loop carries two whole numbers that a half of their sum, of their distance or
    of one of them replaces, as what it loads at that half says."""

    name = "range-halved-by-what-is-loaded"
    axis = "algorithm_selection"
    source = "Knuth, The Art of Computer Programming, Volume 3 (1973), section 6.2.1"
    matches = (
        Case(_BOUNDS, _VALUE),
        Case(_LENGTH, _VALUE),
        Case(_BOUNDS.replace("(low + high) / 2", "low + ((high - low) >> 1)"), _VALUE),
    )
    near_misses = (
        NearMiss(_BOUNDS.replace("(low + high) / 2", "low + 1"), why="one after the other"),
        NearMiss(
            _BOUNDS.replace("sorted[middle] < wanted", "middle * 3 < n"),
            why="nothing that was loaded decides",
        ),
        NearMiss(
            _BOUNDS.replace("sorted[middle] < wanted", "sorted[low] < wanted"),
            why="what is loaded lies at the bound",
        ),
        NearMiss(_POINTER, why="blocks look for their segment: how that is told"),
        NearMiss(TREE_THREADS, why="a distance is halved, nothing is looked for"),
        NearMiss(ROW_NORM_THREADS, why="nothing is halved"),
        NearMiss(ADD_THREADS, why="no loop"),
        NearMiss(PRODUCT, why="nothing is halved"),
        NearMiss(PRODUCT_POINTER, why="nothing is halved"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = [n for _, nodes in searches(facts) for n in nodes]
        if found:
            yield self.decide(facts, _VALUE, found)


def searches(facts: Facts) -> list[tuple[Loop, list[Node]]]:
    """Loops of threads that search, each with the steps of its search."""
    loops = facts.thread_loops if facts.of_threads else ()
    return [(loop, found) for loop in loops if (found := _searched(facts, loop))]


def _searched(facts: Facts, loop: Loop) -> list[Node]:
    """A loop that searches, where it halves, what it loads there, and where it takes a side."""
    graph = facts.threads
    for half in graph.of(*_HALVES) if len(loop.carried) > 1 else ():
        if half.loop is not loop.node or not _by_two(facts, half):
            continue
        halved = [c for c in loop.carried if graph.rests_on_argument(half.result, c.argument)]
        if not any(_chosen(graph, c, half) for c in halved):
            continue
        chosen = [(c, choice) for c in loop.carried if (choice := _chosen(graph, c, half))]
        if len(chosen) < 2:
            continue
        loads = [n for _, choice in chosen for n in _asked(graph, choice, half)]
        if loads:
            choices = [choice for _, choice in chosen]
            return [loop.node, half, *dict.fromkeys((*loads, *choices))]
    return []


def _by_two(facts: Facts, half: Node) -> bool:
    """Whether a whole number is divided by two."""
    by = facts.thread_values.literal(half.op.inputs[1])
    return by == (1 if half.op.kind == OpKind.SHIFT_RIGHT else 2)


def _chosen(graph: Graph, carried: Carried, half: Node) -> Node | None:
    """The branch or the choice between two values that gives what a loop goes on with, one of them
    made of a half without what lies there."""
    value = graph.through(carried.next, _CHOICES) or ""
    choice = graph.producer(value)
    if choice is None or choice.op.kind not in (OpKind.IF, OpKind.SELECT):
        return None
    sides = choice.op.inputs[1:] if choice.op.kind == OpKind.SELECT else graph.feeds(value)
    return choice if any(_made(graph, one, half) for one in sides) else None


def _asked(graph: Graph, choice: Node, half: Node) -> list[Node]:
    """The loads at a half whose comparison a choice asks for."""
    tests = graph.roots(choice.op.inputs[0], *COMPARISONS)
    loads = [n for t in tests for n in graph.upstream(t.result, _read) if _read(n)]
    places = ("pointer", "index", "offsets")
    return [
        n for n in loads
        if any(_made(graph, v, half) for role, v in n.op.operands if role in places)
    ]  # fmt: skip


def _read(node: Node) -> bool:
    return node.op.kind in READS


def _made(graph: Graph, value: str, half: Node) -> bool:
    """Whether a value is made of a half in the same round, and of nothing that was loaded there."""
    pending, seen = [value], {value}
    for current in pending:
        node = graph.producer(current)
        if node is half:
            return True
        if node is not None and not _read(node) and node.inside(half.loops[-1]):
            new = [v for v in graph.feeds(current) if v not in seen]
            seen.update(new)
            pending += new
    return False
