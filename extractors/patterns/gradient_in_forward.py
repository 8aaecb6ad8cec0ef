"""The gradient is written by the forward pass, over its own input."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION_LSE, POINTER, TILE, vary
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_threads import SOFTMAX_THREADS
from extractors.patterns.loss_with_gradient import loss_and_gradient
from kb.analysis.facts import Facts
from kb.evidence import Decision
from kb.ops import OpKind

_LOSS = (
    POINTER
    + """
@triton.jit
def loss(x, y, out, n, s, T: tl.constexpr):
    row = tl.program_id(0)
    own = tl.load(y + row)
    at = tl.arange(0, T)
    v = tl.load(x + row * s + at, mask=at < n, other=float("-inf"))
    top = tl.max(v, axis=0)
    e = tl.exp(v - top)
    tot = tl.sum(e, axis=0)
    tl.store(out + row, top + tl.log(tot) - tl.load(x + row * s + own))
    g = tl.where(at == own, e / tot - 1.0, e / tot)
    tl.store(x + row * s + at, g, mask=at < n)
"""
)
_APART = vary(
    _LOSS, ("def loss(x, y, out,", "def loss(x, y, gx, out,"), ("tl.store(x +", "tl.store(gx +")
)


_LOSS_TILE = (
    TILE
    + """
@ct.kernel
def loss(x, y, out, N: Int, T: Int):
    row = ct.bid(0)
    own = ct.gather(y, row)
    at = ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, (row, at), padding_value=-math.inf)
    top = ct.max(v, axis=0)
    e = ct.exp(v - top)
    tot = ct.sum(e, axis=0)
    ct.scatter(out, row, top + ct.log(tot) - ct.gather(x, (row, own)))
    ct.scatter(x, (row, at), ct.where(at == own, e / tot - 1.0, e / tot))
"""
)


_LOSS_THREADS = vary(
    SOFTMAX_THREADS,
    ("soft(half* out, const half* x,", "soft(float* out, half* x,"),
    (
        "        float y = e / block_sum(e);",
        "        float tot = block_sum(e);\n        if (threadIdx.x == 0) out[row] = logf(tot);\n        float y = e / tot;",  # noqa: E501
    ),
    ("if (at < n) out[row * n + at] =", "if (at < n) x[row * n + at] ="),
)


class GradientInForward(Pattern):
    """Probabilities of a loaded row are stored over that row, and the logarithm of their sum into
    another array; or their gradient goes into an array of its own."""

    name = "gradient-fused-into-the-forward-pass"
    axis = "kernel_boundaries"
    source = "tilelore catalogue, P74; Hsu et al., Liger Kernel (2024), fused cross entropy"
    matches = (
        Case(_LOSS, "gradient written in forward (in place)"),
        Case(_APART, "gradient written in forward"),
        Case(_LOSS_TILE, "gradient written in forward (in place)"),
        Case(_LOSS_THREADS, "gradient written in forward (in place)"),
    )
    near_misses = (
        NearMiss(
            _APART, why="the row stays as it was", value="gradient written in forward (in place)"
        ),
        NearMiss(
            vary(_APART, ("top + tl.log(tot) - tl.load(x + row * s + own)", "tot")),
            why="no logarithm: no loss",
        ),
        NearMiss(SOFTMAX, why="there is no loss beside the probabilities"),
        NearMiss(ATTENTION_LSE, why="the probabilities are not stored"),
        NearMiss(SOFTMAX_THREADS, why="there is no loss beside the probabilities"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        losses = [
            s
            for s in facts.stores
            if facts.graph.roots(s.value, OpKind.LOG, OpKind.LOG2)
            and not self._same(facts, s.array)
        ]
        for store in facts.stores:
            if store in losses or not self._same(facts, store.array):
                continue
            powers = facts.graph.roots(store.value, OpKind.EXP, OpKind.EXP2)
            read = [a for a in facts.loads if a.array == store.array]
            if losses and any(facts.graph.rests_on(p.result, a.node) for p in powers for a in read):
                value = "gradient written in forward (in place)"
                yield self.decide(facts, value, (store, *losses))
                return
        apart = loss_and_gradient(facts)
        if apart:
            yield self.decide(facts, "gradient written in forward", apart)

    def _same(self, facts: Facts, array: str | None) -> bool:
        """True for an array that the kernel reads, too."""
        return array is not None and any(a.array == array for a in facts.loads)
