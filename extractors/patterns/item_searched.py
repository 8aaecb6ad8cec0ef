"""Where the own item belongs is searched for in the sorted starts of all segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.halved_range import searches
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Graph, Node
from kb.analysis.loops import Loop
from kb.evidence import Decision
from kb.ops import COMPARISONS, OWN_THREAD, READS, OpKind

_VALUE = "segment of the own item searched by halving"
_OWNER = """__device__ int owner(const int* starts, int n, int item) {
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (starts[middle] <= item) low = middle + 1;
        else high = middle;
    }
    return low - 1;
}
__global__ void scale(const int* starts, const float* by, float* x, int n, int all) {
    int item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item < all) x[item] *= by[owner(starts, n, item)];
}
"""
_TOLD = _OWNER.replace("x[item] *= by[owner(starts, n, item)]", "x[item] = owner(starts, n, item)")
_WANTED = _OWNER.replace("owner(starts, n, item)]", "owner(starts, n, (int)x[item])]")


class ItemSearched(Pattern):
    """Of threads: a range is halved by comparing what is loaded at its half with the number of the
    own item, which nothing loaded is a part of, and what is found is stored or is a place."""

    name = "segment-of-an-item-searched-by-halving"
    axis = "index_derivation"
    source = "Davidson et al., Work-Efficient Parallel GPU Methods (2014): load-balancing search"
    matches = (Case(_OWNER, _VALUE), Case(_TOLD, _VALUE))
    near_misses = (
        NearMiss(_OWNER.replace("const int* starts", "const float* starts"), why="no starts"),
        NearMiss(_WANTED, why="a loaded number is looked for"),
        NearMiss(_OWNER.replace("starts[middle] <= item", "middle <= item"), why="nothing loaded"),
        NearMiss(
            _OWNER.replace("by[owner(starts, n, item)]", "by[0] + owner(starts, n, item)"),
            why="a factor, no place",
        ),
        NearMiss(ADD_THREADS, why="nothing is searched"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = [
            node
            for loop, nodes in searches(facts)
            if _for_item(facts, nodes) and (used := _used(facts, loop))
            for node in (*nodes, *used[:1])
        ]
        if found:
            yield self.decide(facts, _VALUE, found)


def _for_item(facts: Facts, nodes: list[Node]) -> bool:
    """Whether loaded numbers are compared with what is made of the numbers of threads alone."""
    graph = facts.threads
    loads = [n for n in nodes if n.op.kind in READS and _whole(n)]
    for test in graph.of(*COMPARISONS):
        for one, other in (test.op.inputs[:2], test.op.inputs[1::-1]):
            if any(graph.rests_on(one, n) for n in loads) and graph.roots(other, *OWN_THREAD):
                if not graph.roots(other, *READS):
                    return True
    return False


def _whole(load: Node) -> bool:
    kinds = [r.type for r in load.op.results]
    return all(kind is not None and kind.dtype.startswith(("i", "u")) for kind in kinds)


def _used(facts: Facts, loop: Loop) -> list[Node]:
    """Accesses behind a loop whose place is made of what it found, and stores of that itself."""
    graph = facts.threads
    found = []
    for node in graph.of(OpKind.LOAD, OpKind.STORE):
        places = [v for role, v in node.op.operands if role not in ("value", "mask")]
        kept = node.op.operand("value") if node.op.kind == OpKind.STORE else None
        placed = any(_made(graph, v, loop, _read) for v in places)
        told = kept is not None and _made(graph, kept, loop, _computes)
        if (placed or told) and not node.inside(loop.node):
            found.append(node)
    return found


def _made(graph: Graph, value: str, loop: Loop, stop: Callable[[Node], bool]) -> bool:
    return loop.node in graph.upstream(value, stop)


def _read(node: Node) -> bool:
    return node.op.kind in READS


def _computes(node: Node) -> bool:
    """Whether a step makes something else of a number than the next or the last one."""
    return node.op.kind not in _MOVES


_MOVES = COPIES | CASTS | {OpKind.IF, OpKind.WHILE, OpKind.FOR, OpKind.SUB, OpKind.CONST}
