"""A search that has found nothing gives the extent, in whose place another index is taken."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, vary
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Graph, Node
from kb.analysis.symbolic import AtomKind
from kb.analysis.values import Values
from kb.evidence import Decision
from kb.ops import READS, REDUCTIONS, OpKind

_ORDERED = (OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)
_PLACES = (AtomKind.LANE, AtomKind.BLOCK, AtomKind.INDUCTION)
_FIRST = (
    POINTER
    + """
@triton.jit
def first(x, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    found = tl.min(tl.where(v > 0.5, at, n), axis=0)
    found = tl.where(found == n, 0, found)
    tl.store(out + row, found)
"""
)
_THREADS = """__global__ void first(const float* x, int* out, int n) {
    __shared__ int found;
    __shared__ int last;
    if (threadIdx.x == 0) { found = n; last = -1; }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (x[blockIdx.x * n + i] > 0.5f) { atomicMin(&found, i); atomicMax(&last, i); }
    __syncthreads();
    int at = found;
    if (at == n) at = last;
    if (threadIdx.x == 0) out[blockIdx.x] = at;
}
"""


class NothingFound(Pattern):
    """An index that was reduced, or left by other threads, is compared with the extent that is
    searched; where they are equal, another index takes its place."""

    name = "index-of-nothing-found-replaced"
    axis = "empty_row_handling"
    source = "FlashInfer, include/flashinfer/sampling.cuh: the last valid index"
    matches = (
        Case(_FIRST, "nothing found: another index taken"),
        Case(_THREADS, "nothing found: another index taken"),
    )
    near_misses = (
        NearMiss(vary(_FIRST, ("found == n", "found == 7")), why="no extent"),
        NearMiss(vary(_FIRST, ("(found == n, 0, found)", "(row == n, 0, found)")), why="a place"),
        NearMiss(
            vary(_FIRST, ("(found == n, 0, found)", "(found == n, 0, 1)")), why="told, no index"
        ),
        NearMiss(_THREADS.replace("    if (at == n) at = last;\n", ""), why="nothing is asked"),
        NearMiss(ADD_THREADS, why="nothing is searched"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        graph, values = facts.graph, facts.values
        if facts.of_threads:
            graph, values = facts.threads, facts.thread_values
        tests = {n.result: n for n in graph.of(OpKind.EQ) if _asks(graph, values, n)}
        choices = graph.of(OpKind.SELECT, OpKind.IF, OpKind.IF_EXPRESSION) if tests else ()
        found = [
            node
            for chosen in choices
            for test in (tests.get(graph.core(chosen.op.inputs[0]) or ""),)
            if test is not None and _replaces(graph, chosen, test)
            for node in (test, chosen)
        ]
        if found:
            yield self.decide(facts, "nothing found: another index taken", found)


def _asks(graph: Graph, values: Values, test: Node) -> bool:
    """Whether what is no place but was read or reduced is compared with an extent."""
    for index, end in (test.op.inputs[:2], test.op.inputs[1::-1]):
        atom = values.expr(end).atom
        given = atom is not None and atom.kind in (AtomKind.PARAMETER, AtomKind.EXTENT)
        if not given or values.expr(index).has(*_PLACES):
            continue
        if graph.roots(index, *READS, *REDUCTIONS):
            return any(atom in values.expr(v).atoms() for v in _ends(graph))
    return False


def _ends(graph: Graph) -> list[str]:
    """What positions are held below."""
    rounds = [n.op.operand("high") or "" for n in graph.of(OpKind.RANGE)]
    return [*rounds, *(v for n in graph.of(*_ORDERED) for v in n.op.inputs[:2])]


def _replaces(graph: Graph, chosen: Node, test: Node) -> bool:
    """Whether a choice is between what is compared and another value."""
    index = {graph.core(v) for v in test.op.inputs[:2]}
    pairs = [chosen.op.inputs[1:3]]
    if chosen.op.regions:
        ends = [region.terminator for region in chosen.op.regions]
        given = [end.inputs for end in ends if end is not None and end.kind == OpKind.YIELD]
        pairs = list(zip(*given, strict=False)) if len(given) == 2 else []
    cores = [{graph.core(v) for v in pair} for pair in pairs]
    return any(len(pair) == 2 and len(pair & index) == 1 for pair in cores)
