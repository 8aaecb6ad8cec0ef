"""Tiles that lie turned in shared memory."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_threads import (
    FLASH_THREADS,
    PRODUCT_BLOCKED_THREADS,
    PRODUCT_THREADS,
    TURNED_THREADS,
)
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.analysis.symbolic import Atom, Expr
from kb.analysis.thread_numbers import address, of_thread
from kb.evidence import Decision
from kb.ops import OpKind

_MOVES = CASTS | {OpKind.COPY, OpKind.BITCAST, OpKind.EXTRACT, OpKind.VECTOR, OpKind.INSERT}
_VECTOR = 8
"""Elements side by side that one thread moves at most."""
_FILLED = vary(
    TURNED_THREADS,
    ("tile[threadIdx.y + i][threadIdx.x] = x", "tile[threadIdx.x][threadIdx.y + i] = x"),
    ("= tile[threadIdx.x][threadIdx.y + i]", "= tile[threadIdx.y + i][threadIdx.x]"),
)
_VECTORS = """__global__ void turn(const float* x, float* out, int n) {
    __shared__ float tile[32][36];
    int at = threadIdx.x % 8, row = threadIdx.x / 8;
    float4 v = *reinterpret_cast<const float4*>(x + row * n + at * 4);
    tile[at * 4][row] = v.x;
    tile[at * 4 + 1][row] = v.y;
    tile[at * 4 + 2][row] = v.z;
    tile[at * 4 + 3][row] = v.w;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x / 32][threadIdx.x % 32];
}
"""


class TurnedInShared(Pattern):
    """Neighbouring threads move neighbouring elements on one side of shared memory and elements of
    one column on the other: between global memory and a tile, or into the tile and out of it."""

    name = "tile-turned-in-shared-memory"
    axis = "operand_layout"
    source = "NVIDIA, An Efficient Matrix Transpose in CUDA C/C++ (2013)"
    matches = (
        Case(TURNED_THREADS, "transposed through shared memory"),
        Case(_FILLED, "transposed through shared memory"),
        Case(_VECTORS, "transposed through shared memory"),
        Case(PRODUCT_BLOCKED_THREADS, "transposed through shared memory"),
    )
    near_misses = (
        NearMiss(
            vary(
                TURNED_THREADS,
                ("[threadIdx.x][threadIdx.y + i]", "[threadIdx.y + i][threadIdx.x]"),
            ),
            why="the tile is read as it was written",
        ),
        NearMiss(PRODUCT_THREADS, why="tiles lie in shared memory as in global memory"),
        NearMiss(FLASH_THREADS, why="nothing is turned"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads or not facts.threads.of(OpKind.ALLOCATE):
            return
        graph, shared = facts.threads, facts.shared
        where: list[Node] = []
        for store in graph.of(OpKind.STORE):
            for load in _moved(facts, store):
                inside = shared.holds(load.op), shared.holds(store.op)
                if inside == (False, True) and _turned(facts, load, store):
                    where += [load, store]
                elif inside == (True, False):
                    place = shared.place(load.op)
                    filled = [s for s in graph.of(OpKind.STORE) if shared.place(s.op) == place]
                    for one in filled:
                        if _turned(facts, one, load):
                            where += [one, load, store]
        if where:
            yield self.decide(facts, "transposed through shared memory", where)


def _moved(facts: Facts, store: Node) -> list[Node]:
    """The loads that give what is stored, as it is."""
    graph = facts.threads
    above = graph.upstream(store.op.operand("value") or "", lambda n: n.op.kind not in _MOVES)
    return [n for n in above if n.op.kind == OpKind.LOAD]


def _turned(facts: Facts, one: Node, other: Node) -> bool:
    """True when threads that are neighbours along a row of one place lie rows apart in the other,
    and the other way round."""
    left, right = (address(facts, n) for n in (one, other))
    first, second = _along(facts, left), _along(facts, right)
    return any(
        a != b and _apart(left.coefficient(b), a_step) and _apart(right.coefficient(a), b_step)
        for a, a_step in first.items()
        for b, b_step in second.items()
    )


def _along(facts: Facts, place: Expr) -> dict[Atom, int]:
    """Numbers made of thread ids that move a place by single elements, or by one vector."""
    found = {}
    for atom in place.top():
        step = place.coefficient(atom).constant
        if step is not None and 0 < step <= _VECTOR and of_thread(facts, atom):
            found[atom] = step
    least = min(found.values(), default=0)
    return {atom: step for atom, step in found.items() if step == least}


def _apart(step: Expr, vector: int) -> bool:
    """True for a step over rows: a number at run time, or one longer than a vector."""
    number = step.constant
    return bool(step.terms) and (number is None or number > max(vector, _VECTOR))
