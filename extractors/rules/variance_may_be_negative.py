"""The root of a variance that rounding may make negative."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, VIEWS, Node
from kb.analysis.idioms import alike
from kb.evidence import Finding
from kb.ops import OpKind

_ON = VIEWS | CASTS | COPIES | {OpKind.ADD, OpKind.MUL, OpKind.DIV}
MAX_STEPS = 64
"""Values that are followed from a variance to its root."""

_ROWS = (
    POINTER
    + """
@triton.jit
def norm(x, out, n, eps, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    mean = tl.sum(v, axis=0) / n
    var = tl.sum(v * v, axis=0) / n - mean * mean
    tl.store(out + row * n + at, (v - mean) * tl.rsqrt(var + eps), mask=at < n)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def norm(x, out, W: Int):
    i = ct.bid(0)
    v = ct.astype(ct.load(x, index=(i, 0), shape=(1, W)), ct.float32)
    mean = ct.sum(v, axis=1, keepdims=True) / W
    var = ct.sum(v * v, axis=1, keepdims=True) / W - mean * mean
    ct.store(out, index=(i, 0), tile=ct.astype((v - mean) * ct.rsqrt(var + 1e-5), out.dtype))
"""
)


class VarianceMayBeNegative(Rule):
    """A variance is the mean of the squares less the square of the mean, and its root is taken
    without holding it at zero or above: where the mean is large beside the deviation, rounding
    makes it negative and the result NaN."""

    name = "variance-may-be-negative"
    matches = (Case(_ROWS, "NaN"), Case(_TILES, "NaN"))
    near_misses = (
        NearMiss(
            vary(_ROWS, ("tl.rsqrt(var + eps)", "tl.rsqrt(tl.maximum(var, 0.0) + eps)")),
            why="it is held at zero",
        ),
        NearMiss(
            vary(
                _ROWS,
                ("tl.sum(v * v, axis=0) / n - mean * mean",
                 "tl.sum((v - mean) * (v - mean), axis=0) / n"),
            ),
            why="a sum of squares is never negative",
        ),
        NearMiss(
            vary(_ROWS, ("(v - mean) * tl.rsqrt(var + eps)", "var + v")), why="no root is taken"
        ),
        NearMiss(
            vary(_ROWS, ("/ n - mean * mean", "/ n - eps * eps")), why="no mean is taken away"
        ),
    )  # fmt: skip
    seen = (
        Seen("liger-kernel", "liger_kernel/ops/group_norm.py", "_group_norm_forward_kernel", 75),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        if not facts.graph.of(OpKind.RSQRT, OpKind.SQRT):
            return
        for less in _variances(facts):
            root = _root(facts, less)
            if root is not None:
                yield self.finding(
                    subject,
                    "the variance is the mean of the squares less the square of the mean: where "
                    "the mean is large beside the deviation, rounding makes it negative, and its "
                    "root is NaN",
                    "take the mean away before squaring, or hold the variance at zero",
                    [less, root],
                )
                return


def _variances(facts: Facts) -> Iterator[Node]:
    """Differences of a sum of squares and the square of another sum."""
    graph = facts.graph
    for node in graph.of(OpKind.SUB):
        square = graph.producer(graph.core(node.op.inputs[1]))
        if square is None or square.op.kind != OpKind.MUL:
            continue
        mean, again = (graph.core(value) for value in square.op.inputs[:2])
        means = graph.roots(mean, OpKind.REDUCE_SUM) if mean == again else []
        sums = graph.roots(node.op.inputs[0], OpKind.REDUCE_SUM)
        if means and any(total not in means and _of_squares(facts, total) for total in sums):
            yield node


def _of_squares(facts: Facts, total: Node) -> bool:
    stop = (OpKind.REDUCE_SUM,)
    return any(
        node.op.kind == OpKind.MUL and alike(facts.graph, node.op.inputs[0], node.op.inputs[1])
        for node in facts.graph.upstream(total.op.inputs[0], lambda n: n.op.kind in stop)
    )


def _root(facts: Facts, variance: Node) -> Node | None:
    """The root that is taken of a value, perhaps with something added or multiplied."""
    pending = [variance.result]
    for value in pending:
        for user in facts.graph.users(value):
            if user.op.kind in (OpKind.RSQRT, OpKind.SQRT):
                return user
            if user.op.kind in _ON and len(pending) < MAX_STEPS and user.result not in pending:
                pending.append(user.result)
    return None
