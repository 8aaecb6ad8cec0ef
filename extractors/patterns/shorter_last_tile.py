"""Tiles of which the last one is shorter: rounds within a tile end at what is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind

_VALUE = "rounds of a tile end at what is left"
_GIVEN = (AtomKind.PARAMETER, AtomKind.LOADED, AtomKind.EXTENT)
_PLACED = (AtomKind.INDUCTION, AtomKind.BLOCK, AtomKind.COUNT)

_STAGED = """__global__ void near(const float* x, const float* y, float* out, int n) {
    __shared__ float tile[128];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float best = 0.f;
    for (int begin = 0; begin < n; begin += 128) {
        if (begin + threadIdx.x < n) tile[threadIdx.x] = y[begin + threadIdx.x];
        __syncthreads();
        int left = min(128, n - begin);
        for (int k = 0; k < left; ++k) best = fmaxf(best, x[at] * tile[k]);
        __syncthreads();
    }
    out[at] = best;
}
"""
_CHUNK = """__global__ void sums(const float* x, float* out, int n) {
    int begin = blockIdx.x * 64;
    float sum = 0.f;
    for (int k = 0; k < min(n - begin, 64); ++k)
        sum += x[(begin + k) * blockDim.x + threadIdx.x];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


class ShorterLastTile(Pattern):
    """A loop of threads runs to the least of the size of a tile and of what is left of an extent
    from where the tile of the round, or of the block, begins."""

    name = "rounds-of-a-tile-end-at-what-is-left"
    axis = "tail_handling"
    source = "Nyland, Harris, Prins, Fast N-Body Simulation with CUDA, GPU Gems 3 (2007), 31.3"
    matches = (Case(_STAGED, _VALUE), Case(_CHUNK, _VALUE))
    near_misses = (
        NearMiss(_STAGED.replace("min(128, n - begin)", "128"), why="all tiles are as long"),
        NearMiss(_STAGED.replace("n - begin)", "n)"), why="the same for all tiles"),
        NearMiss(_CHUNK.replace("min(n - begin, 64)", "n - begin"), why="all that is left"),
        NearMiss(ADD_THREADS, why="no rounds"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for loop in facts.thread_loops if facts.of_threads else ():
            for made in _least(facts, loop):
                yield self.decide(facts, _VALUE, [loop.node, made])


def _least(facts: Facts, loop: Loop) -> Iterator[Node | None]:
    """Where the least of a tile and of what is left is found, that a loop runs to."""
    high = facts.thread_values.expr(loop.high) if loop.high else None
    for atom in high.top() if high is not None else ():
        if atom.kind is AtomKind.MINIMUM and len(atom.args) == 2:
            one, other = atom.args
            if (_left(one) and _tile(other)) or (_left(other) and _tile(one)):
                yield _made(facts, loop, atom)


def _made(facts: Facts, loop: Loop, atom: Atom) -> Node | None:
    """The operation that finds the least."""
    above = facts.threads.upstream(loop.high or "")
    kinds = (OpKind.MINIMUM, OpKind.SELECT, OpKind.IF_EXPRESSION)
    near = (n for n in above if n.op.kind in kinds)
    return next((n for n in near if facts.thread_values.expr(n.result).atom == atom), None)


def _left(expr: Expr) -> bool:
    """An extent less the place of the round or of the block."""
    signs = dict.fromkeys(("more", "less"), 0)
    for atom in expr.top():
        number = expr.coefficient(atom).constant
        if atom.kind in _GIVEN and (number is None or number > 0):
            signs["more"] += 1
        if atom.kind in _PLACED and (number is None or number < 0):
            signs["less"] += 1
    return all(signs.values())


def _tile(expr: Expr) -> bool:
    """A size that no place, and nothing loaded, is part of."""
    return not expr.has(*_PLACED, AtomKind.LOADED, AtomKind.LANE)
