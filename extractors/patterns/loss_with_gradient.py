"""A loss and its gradient in one kernel: cross entropy beside the probabilities less the target."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import SOFTMAX
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import is_wide
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import COMPARISONS, OpKind

_LOSS = (
    POINTER
    + """
@triton.jit
def loss(x, y, losses, grads, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    label = tl.load(y + row)
    e = tl.exp(v - tl.max(v, axis=0))
    total = tl.sum(e, axis=0)
    picked = tl.sum(tl.where(at == label, v - tl.max(v, axis=0), 0.0), axis=0)
    tl.store(losses + row, tl.log(total) - picked)
    tl.store(grads + row * n + at, e / total - (at == label).to(tl.float32), mask=at < n)
"""
)
_LOSS_TILE = (
    TILE
    + """
@ct.kernel
def loss(x, y, losses, grads, T: Int):
    row = ct.bid(0)
    at = ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, (row, at))
    label = ct.gather(y, (row,))
    top = ct.max(v, 0, keepdims=True)
    e = ct.exp(v - top)
    total = ct.sum(e, 0, keepdims=True)
    ct.scatter(losses, (row,), ct.log(total))
    ct.scatter(grads, (row, at), e / total - ct.where(at == label, 1.0, 0.0))
"""
)
_LOSS_THREADS = """__global__ void loss(const float* x, const int* y, float* losses, float* grads, int n) {
    const float* row = x + blockIdx.x * n;
    float top = -INFINITY;
    for (int i = 0; i < n; ++i) top = fmaxf(top, row[i]);
    float sum = 0.f;
    for (int i = 0; i < n; ++i) sum += expf(row[i] - top);
    int label = y[blockIdx.x];
    if (threadIdx.x == 0) losses[blockIdx.x] = logf(sum) + top - row[label];
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float hit = i == label ? 1.f : 0.f;
        grads[blockIdx.x * n + i] = expf(row[i] - top) / sum - hit;
    }
}
"""  # noqa: E501
_TWICE = vary(
    _LOSS,
    (
        "e / total - (at == label).to(tl.float32), mask=at < n)",
        "e / total, mask=at < n)\n    own = tl.load(x + row * n + label)\n"
        "    tl.store(grads + row * n + label, tl.exp(own) / total - 1.0)",
    ),
)
_FROM_SCORES = "log-softmax and picked score in one kernel"
_ARITHMETIC = frozenset({OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.FMA, OpKind.SELECT, OpKind.NEG})
BOTH = "loss and gradient in one kernel"
_PICKED = (
    POINTER
    + """
@triton.jit
def loss(x, y, losses, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    top = tl.max(v, axis=0)
    total = top + tl.log(tl.sum(tl.exp(v - top), axis=0))
    tl.store(losses + row, total - tl.load(x + row * n + tl.load(y + row)))
"""
)
_PICKED_TILE = (
    TILE
    + """
@ct.kernel
def loss(x, y, losses, T: Int):
    row = ct.bid(0)
    v = ct.gather(x, (row, ct.arange(T, dtype=ct.int32)))
    top = ct.max(v, 0)
    total = top + ct.log(ct.sum(ct.exp(v - top), 0))
    ct.scatter(losses, row, total - ct.gather(x, (row, ct.gather(y, row))))
"""
)


class LossWithGradient(Pattern):
    """The logarithm of a sum of exponentials, or of one of their shares, goes into one array, and
    their shares less what a comparison picks into another; or all shares, and the one at a loaded
    place once more. Or the logarithm meets the score at a loaded place."""

    name = "loss-and-gradient-in-one-kernel"
    axis = "fusion"
    source = "Hsu et al., Liger Kernel (2024), fused cross entropy: gradient in the forward pass"
    matches = (
        Case(_LOSS, BOTH),
        Case(_TWICE, BOTH),
        Case(_LOSS_TILE, BOTH),
        Case(_LOSS_THREADS, BOTH),
        Case(_PICKED, _FROM_SCORES),
        Case(_PICKED_TILE, _FROM_SCORES),
    )
    near_misses = (
        NearMiss(
            vary(
                _LOSS_THREADS,
                (
                    "for (int i = 0; i < n; ++i) sum += expf(row[i] - top);",
                    "sum = 1.f + expf(row[threadIdx.x] - top);",
                ),
            ),
            why="the logarithm of one element's curve",
        ),
        NearMiss(
            vary(_PICKED, (" + tl.load(y + row))", " + row)")), why="no loaded place picks a score"
        ),
        NearMiss(vary(_PICKED_TILE, ("- ct.gather(x", "- ct.gather(y")), why="no score is picked"),
        NearMiss(
            vary(_LOSS, ("e / total - (at == label).to(tl.float32)", "e / total")),
            why="probabilities, no gradient",
        ),
        NearMiss(
            vary(_LOSS, ("tl.log(total) - picked", "total - picked")),
            why="no logarithm: what is stored beside is no loss",
        ),
        NearMiss(
            vary(_LOSS_TILE, ("ct.log(total)", "total")),
            why="no logarithm: what is stored beside is no loss",
        ),
        NearMiss(
            vary(_LOSS_THREADS, (" - hit;", ";")),
            why="probabilities, no gradient",
        ),
        NearMiss(SOFTMAX, why="probabilities alone"),
        NearMiss(PRODUCT, why="a product"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = loss_and_gradient(facts)
        if found:
            yield self.decide(facts, BOTH, found)
        elif made := loss_of_scores(facts):
            yield self.decide(facts, _FROM_SCORES, made)


def loss_of_scores(facts: Facts) -> list[Where]:
    """The logarithm of a sum of exponentials and one of the scores, picked by a loaded place, with
    what is made of both before it is stored."""
    if facts.contractions or facts.of_threads:
        return []
    graph = facts.graph
    arrays = {a.array for e in facts.exponentials for a in facts.feeding(e.node.result)}
    picked = [
        a for a in facts.loads if a.array in arrays and any(i.has(AtomKind.LOADED) for i in a.index)
    ]
    sums = graph.node_set(graph.of(OpKind.REDUCE_SUM))
    powers = graph.node_set(e.node for e in facts.exponentials)
    logs = [
        n
        for n in graph.of(OpKind.LOG, OpKind.LOG2)
        if graph.rests_on_any(n.result, powers) and graph.rests_on_any(n.result, sums)
    ]
    for store, log, one in product(facts.stores, logs, picked):
        both = graph.rests_on(store.value, log) and graph.rests_on(store.value, one.node)
        if both and not graph.rests_on(log.result, one.node):
            way = graph.upstream(store.value, None, graph.node_set((log, one.node)))
            return [log, one, *(n for n in way if n.op.kind in _ARITHMETIC), store]
    return []


def loss_and_gradient(facts: Facts) -> list[Where]:
    """The gradient of a loss, where it is stored, and where the loss is; empty without both.
    Threads take the logarithm of a sum: that of one element is a curve, that of two joins parts."""
    logarithms = facts.graph.of(OpKind.LOG, OpKind.LOG2)
    if facts.contractions or not logarithms or not facts.exponentials:
        return []
    powers = [e.node for e in facts.exponentials if not e.rescale]
    logs = [n for n in logarithms if any(facts.graph.rests_on(n.result, p) for p in powers)]
    if facts.of_threads:
        logs = [n for n in logs if any(_of_sum(facts, n, p) for p in powers)]
    losses = [(s, n) for s in facts.stores for n in logs if facts.graph.rests_on(s.value, n)]
    if not losses:
        return []
    for node, stores in [*_subtracted(facts, powers), *_corrected(facts, powers)]:
        apart = [(s, n) for s, n in losses if s.array not in {g.array for g in stores}]
        if apart:
            found: list[Where] = [node, *stores, *(place for pair in apart for place in pair)]
            return list(dict.fromkeys(found))
    return []


def _of_sum(facts: Facts, logarithm: Node, power: Node) -> bool:
    """Whether exponentials are summed by a loop or a reduction before the logarithm."""
    if not facts.graph.rests_on(logarithm.result, power):
        return False
    if {*power.loops} - {*logarithm.loops}:
        return True
    sums = (r for r in facts.reductions if facts.graph.rests_on(r.result, power))
    return any(facts.graph.rests_on(logarithm.result, r) for r in sums)


def _subtracted(facts: Facts, powers: list[Node]) -> Iterable[tuple[Node, list[Access]]]:
    """Shares less the target, with the stores that take them."""
    for less in facts.graph.of(OpKind.SUB):
        if _share_less_target(facts, less, powers):
            yield less, facts.stored_in(less.result)


def _corrected(facts: Facts, powers: list[Node]) -> Iterable[tuple[Node, list[Access]]]:
    """Shares that are stored, and the one at a loaded place stored once more."""
    shares = [
        s
        for s in facts.stores
        if not s.is_atomic and any(facts.graph.rests_on(s.value, p) for p in powers)
    ]
    for store in shares:
        again = [
            other
            for other in shares
            if other.array == store.array
            and is_wide(facts, store.value)
            and not is_wide(facts, other.value)
            and any(e.has(AtomKind.LOADED) for e in other.index)
            and facts.graph.roots(other.value, OpKind.SUB)
        ]
        if again:
            yield store.node, [store, *again]


def _share_less_target(facts: Facts, less: Node, powers: list[Node]) -> bool:
    """Elements of exponentials less what a comparison of positions with a label gives."""
    over, under = less.op.inputs[:2]
    if _given(facts, over):
        over, under = under, over
    shares = any(facts.graph.rests_on(over, p) for p in powers)
    target = any(facts.graph.rests_on(under, p) for p in powers)
    picked = bool(facts.graph.roots(under, *COMPARISONS)) or _where(facts, less)
    picked = picked or _given(facts, under)
    wide = is_wide(facts, less.result) or facts.of_threads
    return wide and shares and not target and picked


def _given(facts: Facts, value: str) -> bool:
    """Soft targets: a loaded tile as it is."""
    held = facts.held_loads(value)
    return bool(held) and all(is_wide(facts, a.value) for a in held)


def _where(facts: Facts, less: Node) -> bool:
    """Taken only where a comparison of positions says so."""
    chosen = [u for u in facts.graph.users(less.result) if u.kind == OpKind.SELECT]
    tests = [facts.graph.producer(u.op.operand("condition")) for u in chosen]
    return any(t is not None and t.kind in (OpKind.EQ, OpKind.NE) for t in tests)
