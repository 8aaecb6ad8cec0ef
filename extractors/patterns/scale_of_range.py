"""A scale of few bits that is made of the smallest and the largest element of what it scales."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_threads import ROW_NORM_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.analysis.loops import Role, takes_least
from kb.evidence import Decision
from kb.ops import OpKind

_RANGE = (
    POINTER
    + """
@triton.jit
def pack(x, out, scales, zeros, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    low = tl.min(tl.where(at < n, v, float("inf")), axis=0)
    top = tl.max(tl.where(at < n, v, -float("inf")), axis=0)
    scale = (top - low) / 15.0
    q = ((v - low) / scale + 0.5).to(tl.int32)
    tl.store(out + row * n + at, q, mask=at < n)
    tl.store(scales + row, scale)
    tl.store(zeros + row, low)
"""
)
_TILE = (
    TILE
    + """
@ct.kernel
def pack(x, out, scales, T: Int):
    i = ct.bid(0)
    v = ct.load(x, index=(i, 0), shape=(1, T))
    low = ct.min(v, axis=1, keepdims=True)
    by = 255.0 / (ct.max(v, axis=1, keepdims=True) - low)
    ct.store(out, index=(i, 0), tile=ct.astype((v - low) * by, ct.uint8))
    ct.store(scales, index=(i, 0), tile=by)
"""
)
_THREADS = """__global__ void pack(const float* x, unsigned char* out, float* scales) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float low = x[row * 8], top = x[row * 8];
    for (int i = 1; i < 8; ++i) {
        low = fminf(low, x[row * 8 + i]);
        top = fmaxf(top, x[row * 8 + i]);
    }
    float scale = (top - low) / 255.f;
    scales[row] = scale;
    for (int i = 0; i < 8; ++i)
        out[row * 8 + i] = (unsigned char)((x[row * 8 + i] - low) / scale);
}
"""
_VALUE = "scale from the smallest and the largest element"
_STEPS = 12
"""Operations after the scaling that are looked at."""


class ScaleOfRange(Pattern):
    """The smallest element is taken from each one, and the rest is scaled by what lies between the
    smallest and the largest and cut to a whole number."""

    name = "scale-made-of-the-range-of-the-elements"
    axis = "quant_scaling"
    source = "Jacob et al., Quantization and Training of Neural Networks (2018), section 2.1"
    matches = (Case(_RANGE, _VALUE), Case(_TILE, _VALUE), Case(_THREADS, _VALUE))
    near_misses = (
        NearMiss(vary(_RANGE, ("top - low", "top")), why="the largest alone makes the scale"),
        NearMiss(vary(_RANGE, ("(v - low) / scale", "v / scale")), why="nothing is taken away"),
        NearMiss(
            vary(_RANGE, (" + 0.5).to(tl.int32)", ")")), why="elements between 0 and 15, not cut"
        ),
        NearMiss(vary(_TILE, ("(v - low) * by", "v * by")), why="nothing is taken away"),
        NearMiss(_THREADS.replace("top - low", "top"), why="the largest alone makes the scale"),
        NearMiss(SOFTMAX, why="the maximum keeps exponentials in range"),
        NearMiss(ROW_NORM_THREADS, why="no maximum"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        lows = _smallest(facts)
        tops = _largest(facts) if lows else {}
        less = facts.graph.of(OpKind.SUB) if tops else []
        found: dict[Node, None] = {}
        for taken in less:
            over, under = (facts.graph.core(v) or "" for v in taken.op.inputs[:2])
            if under not in lows or over in tops:
                continue
            spans = [n for n in less if _between(facts, n, under, tops)]
            for step in facts.graph.of(OpKind.DIV, OpKind.MUL):
                of = [n for n in spans if facts.graph.rests_on(step.result, n)]
                if of and facts.graph.rests_on(step.result, taken) and _cut(facts, step):
                    top = tops[facts.graph.core(of[0].op.inputs[0]) or ""]
                    found |= dict.fromkeys((lows[under], top, of[0], taken, step))
        if found:
            yield self.decide(facts, _VALUE, found)


def _smallest(facts: Facts) -> dict[str, Node]:
    """The smallest of several elements, with what finds it."""
    found = {n.result: n for n in facts.graph.of(OpKind.REDUCE_MIN)}
    carried = ((loop, c) for loop in facts.loops for c in loop.carried)
    least = [(x, c) for x, c in carried if takes_least(facts.graph, c.argument, c.next)]
    return found | {c.result: loop.node for loop, c in least}


def _largest(facts: Facts) -> dict[str, Node]:
    """The largest of several elements, with what finds it."""
    found = {n.result: n for n in facts.graph.of(OpKind.REDUCE_MAX)}
    kept = ((loop, c) for loop in facts.loops for c in loop.of(Role.RUNNING_MAXIMUM))
    return found | {c.result: loop.node for loop, c in kept}


def _between(facts: Facts, node: Node, low: str, tops: dict[str, Node]) -> bool:
    """Whether a difference is that of the largest and the smallest."""
    over, under = (facts.graph.core(v) or "" for v in node.op.inputs[:2])
    return under == low and over in tops


def _cut(facts: Facts, step: Node) -> bool:
    """Whether whole numbers are made of what was scaled."""
    return any(
        n.op.kind in CASTS and facts.types.dtype(n.result).startswith(("i", "u"))
        for n in facts.graph.downstream(step.result, _STEPS)
    )
