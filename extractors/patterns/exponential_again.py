"""Exponentials of a row that a later pass takes again instead of keeping them."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_pointer import FLASH_POINTER
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_TWICE_POINTER
from kb.analysis.exponentials import Exponential, Statistic
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import same_tile, summed_up
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_WEIGHS = frozenset({OpKind.MUL, OpKind.DIV, OpKind.FMA, OpKind.SUB})
_NEAR = 24
"""Uses of an exponential in which its normalisation is looked for."""

_THREADS = """__global__ void softmax(float* out, const float* x, int n) {
    const float* row = x + blockIdx.x * n;
    float top = -INFINITY;
    for (int i = 0; i < n; ++i) top = fmaxf(top, row[i]);
    float sum = 0.f;
    for (int i = 0; i < n; ++i) sum += expf(row[i] - top);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[blockIdx.x * n + i] = expf(row[i] - top) / sum;
}
"""
_TILES = (
    TILE
    + """
@ct.kernel
def softmax(x, y, n: Int, T: Int):
    row = ct.bid(0)
    cols = ct.arange(T, dtype=ct.int32)
    top = ct.full((1,), -3.0e38, dtype=ct.float32)
    for i in range(n):
        top = ct.maximum(top, ct.max(ct.gather(x, (row, cols + i * T)), 0, keepdims=True))
    total = ct.full((1,), 0.0, dtype=ct.float32)
    for i in range(n):
        total += ct.sum(ct.exp(ct.gather(x, (row, cols + i * T)) - top), 0, keepdims=True)
    for i in range(n):
        v = ct.exp(ct.gather(x, (row, cols + i * T)) - top)
        ct.scatter(y, (row, cols + i * T), v / total)
"""
)
_LOCAL = (
    POINTER
    + """
@triton.jit
def part(x, top, out, total, n, T: tl.constexpr):
    row = tl.program_id(0)
    most = tl.load(top + row)
    acc = 0.0
    for i in range(0, n, T):
        at = i + tl.arange(0, T)
        e = tl.where(at < n, tl.exp(tl.load(x + row * n + at) - most), 0.0)
        acc += tl.sum(e)
        tl.store(out + row * n + at, e, mask=at < n)
    tl.store(total + row, acc)
"""
)
_STORED = _THREADS.replace(
    "sum += expf(row[i] - top)", "sum += out[i] = expf(row[i] - top)"
).replace("expf(row[i] - top) / sum", "out[i] / sum")
_KEPT = "exponentials stored and read again"
_LEFT = "exponentials stored for a later kernel"
_AGAIN = "exponentials taken again in a later pass"


class ExponentialAgain(Pattern):
    """A loop sums exponentials of an array; after it, exponentials of the same array are taken once
    more, and what the first ones gave divides them. They weigh no other array. Or the first ones
    are stored, and read again and divided, here or by a later kernel that is left their sum."""

    name = "exponential-taken-again-in-a-later-pass"
    axis = "recompute"
    source = "Milakov, Gimelshein, Online normalizer calculation for softmax (2018), algorithm 2"
    matches = (
        Case(SOFTMAX_TWICE_POINTER, _AGAIN),
        Case(_TILES, _AGAIN),
        Case(_THREADS, _AGAIN),
        Case(_STORED, _KEPT),
        Case(_LOCAL, _LEFT),
    )
    near_misses = (
        NearMiss(
            vary(_THREADS, ("= expf(row[i] - top) / sum", "= (row[i] - top) / sum")),
            why="the later pass takes no exponential",
        ),
        NearMiss(
            vary(_THREADS, ("= expf(row[i] - top) / sum", "= expf(row[i] - top)")),
            why="the sum of the first ones does not divide the later ones",
        ),
        NearMiss(
            vary(_THREADS, ("float* out, const", "const float* y, float* out, const"),
                 ("= expf(row[i] - top) / sum", "= expf(y[i] - top) / sum")),
            why="exponentials of another array",
        ),
        NearMiss(
            vary(_LOCAL, ("at, e, mask", "at, e * 2, mask")),
            why="what is stored is no exponential",
        ),
        NearMiss(
            vary(_LOCAL, ("acc += tl.sum(e)", "acc += tl.sum(e * e)")),
            why="the exponentials are not summed",
        ),
        NearMiss(vary(_TILES, ("v / total", "v")), why="nothing divides the later ones"),
        NearMiss(SOFTMAX, why="one pass"),
        NearMiss(ATTENTION, why="one pass"),
        NearMiss(FLASH_POINTER, why="one pass"),
        NearMiss(PRODUCT, why="no exponential"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        plain = [e for e in facts.exponentials if not e.rescale]
        if not plain or facts.contractions:
            return
        kept = [n for e in plain for n in _read_back(facts, e.node)]
        if kept:
            yield self.decide(facts, _KEPT, dict.fromkeys(kept))
        left = [] if kept else [n for e in plain for n in _left(facts, e)]
        if left:
            yield self.decide(facts, _LEFT, dict.fromkeys(left))
        found = []
        for late in plain:
            first = [e.node for e in plain if _earlier(facts, e, late)]
            if first and _normalised(facts, late, first) and not _weighs(facts, late):
                found += [*first, late.difference, late.node]
        if found:
            yield self.decide(facts, _AGAIN, found)


def _read_back(facts: Facts, power: Node) -> list[Node]:
    """An exponential, its store, and the load of it that a sum of exponentials divides."""
    found: list[Node] = []
    for store in facts.stores:
        if facts.graph.core(store.value) != power.result or store.is_atomic:
            continue
        for load in facts.loads:
            if load.array != store.array or load.node.index < store.node.index:
                continue
            near = facts.graph.downstream(load.value, 4 * _NEAR)
            divided = [
                n
                for n in near
                if n.kind in (OpKind.MUL, OpKind.DIV)
                and any(facts.graph.rests_on(v, power) for v in n.op.inputs[:2])
                and facts.stored_in(n.result)
            ]
            if divided and not load.node.inside(power.loop or load.node):
                found += [power, store.node, load.node]
    return found


def _left(facts: Facts, taken: Exponential) -> list[Node]:
    """An exponential of a tile less a number that was loaded, with its store, where the tile is
    summed and nothing divides it."""
    if taken.origin is not Statistic.LOADED or not summed_up(facts, taken.node):
        return []
    return [
        node
        for store in facts.stores
        if not store.is_atomic and same_tile(facts, store.value, taken.node)
        for node in (taken.node, store.node)
    ]


def _earlier(facts: Facts, first: Exponential, late: Exponential) -> bool:
    """Whether one stands in a loop that is over before the other, and both are of one array, not of
    what exponentials gave."""
    loop = first.node.loop
    if any(facts.graph.rests_on(late.score, e.node) for e in facts.exponentials):
        return False
    if loop is None or first.node.index > late.node.index or late.node.inside(loop):
        return False
    return bool(_arrays(facts, first) & _arrays(facts, late))


def _arrays(facts: Facts, taken: Exponential) -> set[str | None]:
    """Arrays of the elements that an exponential is taken of; a number of the row is none."""
    return {
        a.array
        for a in facts.feeding(taken.score)
        if facts.types.shape(a.value) or any(e.has(AtomKind.INDUCTION) for e in a.index)
    }


def _weighs(facts: Facts, late: Exponential) -> bool:
    """Whether a loop sums what an exponential weighs: elements of another array."""
    own = _arrays(facts, late)
    found = [
        user
        for user in facts.graph.users(facts.graph.core(late.node.result) or "")
        if user.kind in (OpKind.MUL, OpKind.FMA)
        and any(a.array not in own for value in user.op.inputs for a in facts.feeding(value))
    ]
    return any(
        facts.graph.rests_on(carried.next, user)
        for user in found
        for loop in facts.loops
        if late.node.inside(loop.node)
        for carried in loop.carried
    )


def _normalised(facts: Facts, late: Exponential, first: list[Node]) -> bool:
    """Whether what is stored of a later exponential is divided, or shifted before, by what earlier
    ones gave."""

    def given(value: str | None) -> bool:
        return any(facts.graph.rests_on(value, node) for node in first)

    if given(late.statistic):
        return bool(facts.stored_in(late.node.result))
    near = (n for n, _ in zip(facts.graph.downstream(late.node.result), range(_NEAR), strict=False))
    return any(
        given(other) and bool(facts.stored_in(user.result))
        for user in near
        if user.kind in _WEIGHS
        for other in user.op.inputs
        if not facts.graph.rests_on(other, late.node)
    )
