"""A simpler way to the same result, taken where a number of the call or of the row allows it."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import sides
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ir import ParameterKind
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
_SHARED = "shared"


class FastPath(Pattern):
    """A branch that all threads of a block take together stores what is loaded into an array that
    is stored elsewhere too, and leaves the kernel."""

    name = "fast-path-that-leaves-the-kernel"
    axis = "algorithm_selection"
    source = "Knuth, Structured Programming with go to Statements (1974): special cases first"
    matches = (Case(_WHOLE, "simpler way at run time"),)
    near_misses = (
        NearMiss(_WHOLE.replace("        return;\n", ""), why="nothing leaves"),
        NearMiss(
            _WHOLE.replace("+ i] = own[i];\n        return", "+ i] = 0.f;\n        return"),
            why="an empty row is filled with a number",
        ),
        NearMiss(_WHOLE.replace("size <= k", "threadIdx.x > k"), why="single threads leave"),
        NearMiss(ADD_THREADS, why="one way"),
        NearMiss(ROW_NORM_THREADS, why="one way"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        stores = [a for a in facts.stores if a.node.op.attribute("space") != _SHARED]
        for branch in facts.graph.of(OpKind.IF):
            side = _leaves(branch)
            if side is None or branch.loops or not _together(facts, branch):
                continue
            inside = [a for a in stores if _on(a.node, branch, side)]
            rest = {a.array for a in stores if not a.node.inside(branch)} - {None}
            moved = [a for a in inside if a.array in rest and _computed(facts, a)]
            if moved:
                tests = facts.graph.roots(branch.op.inputs[0], *COMPARISONS)
                where = [branch, *tests, *(a.node for a in moved)]
                yield self.decide(facts, "simpler way at run time", where)
                return


def _leaves(branch: Node) -> int | None:
    """The side of a branch that ends in a return."""
    for side, region in enumerate(branch.op.regions):
        end = region.terminator
        if end is not None and end.kind == OpKind.RETURN:
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
