"""A row that all rows share, read again for each of them."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Decision

_VALUE = "one row read again for every other"
_BIAS = """__global__ void add(const float* x, const float* bias, float* out, int count, int wide) {
    int step = gridDim.x * blockDim.x;
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step)
        out[at] = x[at] + bias[at % wide];
}
"""
_HEADS = """__global__ void turn(float* x, const float* angle, int count, int half, int far) {
    for (int at = threadIdx.x; at < count * half; at += blockDim.x) {
        int head = at / half, pair = at % half;
        float c = angle[blockIdx.x * half + pair];
        x[blockIdx.x * far + head * half * 2 + pair] *= c;
    }
}
"""
_BIAS_POINTER = (
    POINTER
    + """
@triton.jit
def add(x, bias, out, count, wide, T: tl.constexpr):
    for start in range(0, count, T):
        at = start + tl.arange(0, T)
        tl.store(out + at, tl.load(x + at) + tl.load(bias + at % wide))
"""
)
_BIAS_TILE = (
    TILE
    + """
@ct.kernel
def add(x, bias, out, count: Int, wide, T: Int):
    for start in range(0, count, T):
        at = start + ct.arange(T, dtype=ct.int32)
        ct.scatter(out, at, ct.gather(x, at) + ct.gather(bias, at % wide))
"""
)
_WARP = 32


class SharedRowAgain(Pattern):
    """In a loop over flat positions an array is read at what is left of the position when an extent
    divides it, and another array at the position itself, or at quotient and rest."""

    name = "shared-row-read-again-in-every-round"
    axis = "load_reuse"
    source = "Hennessy and Patterson, Computer Architecture (2017), temporal locality"
    matches = (
        Case(_BIAS, _VALUE),
        Case(_HEADS, _VALUE),
        Case(_BIAS_POINTER, _VALUE),
        Case(_BIAS_TILE, _VALUE),
    )
    near_misses = (
        NearMiss(_BIAS.replace("bias[at % wide]", "bias[at]"), why="a number for every element"),
        NearMiss(_BIAS.replace("bias[at % wide]", "bias[at % 8]"), why="a few numbers"),
        NearMiss(
            _BIAS.replace("bias[at % wide]", "bias[at % wide + at / wide * count]"),
            why="every row has its own",
        ),
        NearMiss(
            _BIAS.replace("out[at] = x[at]", "out[at % wide] = x[at % wide]"), why="all wrap around"
        ),
        NearMiss(vary(_BIAS_POINTER, ("at % wide", "at")), why="a number for every element"),
        NearMiss(vary(_BIAS_TILE, ("at % wide", "at")), why="a number for every element"),
        NearMiss(ADD_POINTER, why="a number for every element"),
        NearMiss(ADD_THREADS, why="a number for every element"),
        NearMiss(ROW_NORM_THREADS, why="a block has one row"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        again = [a for a in facts.loads if a.node.loops and _again(facts, a)]
        arrays = {a.array for a in again}
        if again:
            yield self.decide(facts, _VALUE, [a for a in facts.loads if a.array in arrays])


def _again(facts: Facts, load: Access) -> bool:
    """Whether a load wraps around where another array goes on."""
    if load.array is None or any(a.array == load.array for a in facts.stores):
        return False
    rests = [a for index in load.index for a in index.top() if _is_rest(a)]
    held = {a for index in load.index for a in index.atoms() if a.kind is AtomKind.FLOOR_DIV}
    return any(
        not any(q.args == rest.args for q in held)
        and any(_goes_on(a, rest) for a in facts.accesses if a.array != load.array)
        for rest in rests
    )


def _is_rest(atom: Atom) -> bool:
    """What is left of a position that a loop moves, by no small number."""
    if atom.kind is not AtomKind.MOD or not atom.args[0].has(AtomKind.INDUCTION):
        return False
    by = atom.args[1].constant
    return by is None or by > _WARP


def _goes_on(access: Access, rest: Atom) -> bool:
    """Whether an access is at the position itself, or at its quotient and its rest."""
    over = rest.args[0]
    return any(_within(over, index) or _both(rest, index) for index in access.index)


def _within(over: Expr, index: Expr) -> bool:
    return set(over.terms) <= set(index.terms)


def _both(rest: Atom, index: Expr) -> bool:
    parts = {a.kind for a in index.atoms() if a.args == rest.args}
    return {AtomKind.FLOOR_DIV, AtomKind.MOD} <= parts
