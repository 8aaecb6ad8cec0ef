"""Scores are bounded by a hyperbolic tangent."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, vary
from extractors.patterns.cases_pointer import DECODE_PART, FLASH_POINTER
from extractors.patterns.cases_rows import COPY
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.tangents import tangents
from kb.evidence import Decision
from kb.ops import OpKind

_CAPPED = vary(
    ATTENTION,
    ("        new = max(top,", "        s = ct.tanh(s / 50.0) * 50.0\n        new = max(top,"),
)
_GELU = vary(
    COPY,
    ("tile=ct.load(x, index=(i,), shape=(T,))", "tile=ct.tanh(ct.load(x, index=(i,), shape=(T,)))"),
)


SOFT_CAPPED = vary(
    FLASH_POINTER,
    ("import triton.language as tl\n",
     "import triton.language as tl\nfrom triton.language.extra import libdevice\n"),
    ("        new = tl.maximum(top,",
     "        s = libdevice.tanh(s / 50.0) * 50.0\n        new = tl.maximum(top,"),
)  # fmt: skip


_CAPPED_BY_SIGMOID = vary(
    DECODE_PART,
    (
        "        score = tl.where",
        "        score = 30.0 * (2 * tl.sigmoid(2 * (score / 30.0)) - 1)\n        score = tl.where",
    ),
)
_CAPPED_THREADS = vary(
    FLASH_THREADS,
    ("        int col = j", "        s = tanhf(s / 50.f) * 50.f;\n        int col = j"),
)


_KEPT_THREADS = """__global__ void weigh(const float* x, float* out, float cap, int n) {
    const float* row = x + blockIdx.x * n;
    float* kept = out + blockIdx.x * n;
    float top = -INFINITY;
    for (int i = 0; i < n; ++i) {
        float v = tanhf(row[i] / cap) * cap;
        kept[i] = v;
        top = fmaxf(top, v);
    }
    float total = 0.f;
    for (int i = 0; i < n; ++i) total += expf(kept[i] - top);
    for (int i = threadIdx.x; i < n; i += blockDim.x) kept[i] = expf(kept[i] - top) / total;
}
"""
_ROWS = (
    ("import triton.language as tl\n",
     "import triton.language as tl\nfrom triton.language.extra import libdevice\n"),
    ("N, so,", "N, cap, so,"),
    ("        e = tl.exp(v", "        v = cap * libdevice.tanh(v / cap)\n        e = tl.exp(v"),
)  # fmt: skip


class SoftCapping(Pattern):
    """tanh stands between the score product and the exponential."""

    name = "logit-soft-capping"
    axis = "score_transform"
    source = "Gemma Team, Gemma 2 (2024), logit soft-capping"
    matches = (
        Case(_CAPPED, "cap*tanh(x/cap)"),
        Case(SOFT_CAPPED, "cap*tanh(x/cap)"),
        Case(vary(SOFTMAX_POINTER, *_ROWS), "cap*tanh(x/cap)"),
        Case(vary(SOFTMAX_POINTER, *_ROWS, ("v / cap", "v * (1.0 / cap)")), "cap*tanh(x/cap)"),
        Case(_CAPPED_THREADS, "cap*tanh(x/cap)"),
        Case(_KEPT_THREADS, "cap*tanh(x/cap)"),
        Case(_CAPPED_BY_SIGMOID, "cap*tanh(x/cap)"),
    )
    near_misses = (
        NearMiss(ATTENTION, why="scores go to the maximum as they are"),
        NearMiss(
            vary(SOFTMAX_POINTER, *_ROWS, ("cap * libdevice", "2.0 * libdevice")),
            why="a squashed row, scaled by another number",
        ),
        NearMiss(
            vary(_CAPPED_BY_SIGMOID, ("sigmoid(2 *", "sigmoid(3 *")),
            why="a logistic function of another slope",
        ),
        NearMiss(
            _KEPT_THREADS.replace("kept[i] - top", "row[i] - top"),
            why="the exponentials are of what was not squashed",
        ),
        NearMiss(_GELU, why="an activation, no scores"),
        NearMiss(FLASH_POINTER, why="scores go to the maximum as they are"),
        NearMiss(FLASH_THREADS, why="scores go to the maximum as they are"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = capped(facts)
        if found:
            around = [u for n in found for u in facts.graph.users(n.result)]
            yield self.decide(facts, "cap*tanh(x/cap)", [*found, *around])


def capped(facts: Facts) -> list[Node]:
    """Hyperbolic tangents between scores and the exponentials of them."""
    return [
        node
        for node, score in tangents(facts)
        if any(_of_score(facts, e.score, node) for e in facts.exponentials)
        and (facts.graph.roots(node.result, OpKind.MMA) or _row(facts, node, score))
    ]


def _of_score(facts: Facts, value: str | None, node: Node) -> bool:
    """Whether a score rests on a hyperbolic tangent, perhaps by way of an array that the kernel
    stored it in before."""
    if facts.graph.rests_on(value, node):
        return True
    read = facts.feeding(value) if value is not None else []
    return any(
        load.array == store.array and store.node.index < load.node.index
        for store in facts.stores
        if store.array is not None and facts.graph.rests_on(store.value, node)
        for load in read
    )


def _row(facts: Facts, node: Node, score: str) -> bool:
    """A loaded row of scores that was divided by a number and is multiplied by it again."""
    if facts.contractions or not facts.feeding(node.result):
        return False
    below = facts.graph.producer(facts.graph.core(score))
    if below is None or below.op.kind not in (OpKind.DIV, OpKind.MUL):
        return False
    given = [v for v in below.op.inputs if not facts.feeding(v)]
    numbers = {_number(facts, v) for v in (*given, *(_inverted(facts, v) for v in given))}
    return any(
        user.op.kind == OpKind.MUL and numbers & {_number(facts, v) for v in user.op.inputs}
        for user in facts.graph.users(node.result)
    )


def _inverted(facts: Facts, value: str) -> str:
    """What a value is the reciprocal of; itself where it is none."""
    made = facts.graph.producer(facts.graph.core(value))
    if made is None or made.op.kind != OpKind.DIV or facts.number(made.op.inputs[0]) != 1:
        return value
    return made.op.inputs[1]


def _number(facts: Facts, value: str) -> object:
    """A constant, or the value that a copy or a cast is of."""
    literal = facts.values.literal(value)
    return facts.graph.core(value) if literal is None else literal
