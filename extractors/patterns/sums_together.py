"""Sums for several arrays that one walk over the same elements makes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Carried, Role
from kb.evidence import Decision

_VALUE = "several sums over the same elements in one pass"
_BACK = """__global__ void back(const float* g, const float* x, const float* mean, float* db,
                     float* dg, int rows, int n) {
    __shared__ float one[32][33];
    __shared__ float two[32][33];
    int at = blockIdx.x * 32 + threadIdx.x;
    float b = 0.f, s = 0.f;
    for (int r = threadIdx.y; r < rows; r += 32) {
        float v = g[r * n + at];
        b += v;
        s += v * (x[r * n + at] - mean[r]);
    }
    one[threadIdx.x][threadIdx.y] = b;
    two[threadIdx.x][threadIdx.y] = s;
    __syncthreads();
    float p = one[threadIdx.y][threadIdx.x], q = two[threadIdx.y][threadIdx.x];
    for (int d = 16; d > 0; d >>= 1) {
        p += __shfl_down_sync(~0u, p, d);
        q += __shfl_down_sync(~0u, q, d);
    }
    if (threadIdx.x == 0) {
        db[blockIdx.x * 32 + threadIdx.y] = p;
        dg[blockIdx.x * 32 + threadIdx.y] = q;
    }
}
"""


class SumsTogether(Pattern):
    """A loop adds up two or more sums of elements that it loads, some of them the same, and each
    sum goes into an array that the other does not go into."""

    name = "sums-for-several-arrays-in-one-walk"
    axis = "fusion"
    source = "Apex, layer_norm_cuda_kernel.cu: gradients of gain and bias from one pass"
    matches = (Case(_BACK, _VALUE),)
    near_misses = (
        NearMiss(_BACK.replace("= q;", "= q / p;"), why="one sum goes into both results"),
        NearMiss(_BACK.replace("s += v * (", "s += ("), why="each has elements of its own"),
        NearMiss(_BACK.replace("dg[blockIdx", "db[n + blockIdx"), why="one array"),
        NearMiss(ROW_NORM_THREADS, why="one sum"),
        NearMiss(ADD_THREADS, why="no sum"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads or facts.contractions:
            return
        found: dict[Node, None] = {}
        for loop in facts.loops:
            sums = loop.of(Role.SUM)
            taken = {c.argument: _taken(facts, loop.node, c) for c in sums if len(sums) > 1}
            into = {c.argument: _into(facts, c) for c in sums if taken.get(c.argument)}
            for one, other in combinations([c for c in sums if into.get(c.argument)], 2):
                apart = into[one.argument].isdisjoint(into[other.argument])
                if apart and taken[one.argument] & taken[other.argument]:
                    ends = [facts.graph.producer(facts.graph.core(c.next)) for c in (one, other)]
                    made = [n for n in ends if n is not None]
                    found |= dict.fromkeys([loop.node, *made])
        if found:
            yield self.decide(facts, _VALUE, found)


def _taken(facts: Facts, loop: Node, sum_: Carried) -> set[str | None]:
    """The arrays of which a sum takes elements in every round."""
    inside = [a for a in facts.feeding(sum_.next) if a.node.inside(loop)]
    return {a.array for a in inside if a.value not in facts.offset_loads} - {None}


def _into(facts: Facts, sum_: Carried) -> set[str]:
    """The arrays that a sum goes into."""
    stores = [s for s in facts.stores if s.array is not None and s.value]
    graph = facts.graph
    return {s.array or "" for s in stores if graph.rests_on_argument(s.value, sum_.argument)}
