"""A scale of few bits that is made of maxima which other blocks have found."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_threads import ROW_NORM_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Role
from kb.evidence import Decision
from kb.ops import OpKind

LOOPED = (
    POINTER
    + """
@triton.jit
def scale(tops, out, back, count):
    row = tl.program_id(0)
    top = 0.0
    for i in range(count):
        top = tl.maximum(top, tl.load(tops + row * count + i))
    tl.store(out + row, tl.where(top > 1e-12, 448.0 / top, 1.0))
    tl.store(back + row, top / 448.0)
"""
)
_TILE = (
    TILE
    + """
@ct.kernel
def scale(tops, out, T: Int):
    i = ct.bid(0)
    top = ct.max(ct.load(tops, index=(i, 0), shape=(1, T)), axis=1)
    ct.store(out, index=(i,), tile=top / 127.0)
"""
)
_THREADS = """__global__ void scale(const float* tops, float* out, int count) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float top = 0.f;
    for (int i = 0; i < count; ++i) top = fmaxf(top, tops[row * count + i]);
    out[row] = 448.f / top;
}
"""


class ScaleOfMaxima(Pattern):
    """The largest of loaded numbers, as they are, is divided by a number, or divides one, and
    nothing else is stored."""

    name = "scale-made-of-given-maxima"
    axis = "quant_scaling"
    source = "Micikevicius et al., FP8 Formats for Deep Learning (2022), section 3: scales"
    matches = (
        Case(LOOPED, "scale from the largest of given maxima"),
        Case(_TILE, "scale from the largest of given maxima"),
        Case(_THREADS, "scale from the largest of given maxima"),
    )
    near_misses = (
        NearMiss(
            vary(LOOPED, ("448.0 / top", "top"), ("top / 448.0", "top")), why="the maximum is kept"
        ),
        NearMiss(vary(_TILE, ("ct.max(", "ct.sum(")), why="a mean, no maximum"),
        NearMiss(vary(_THREADS, ("448.f / top", "top")), why="the maximum is kept"),
        NearMiss(
            vary(_THREADS, ("tops[row * count + i]", "fabsf(tops[row * count + i])")),
            why="the largest of elements that may be negative",
        ),
        NearMiss(SOFTMAX, why="the maximum keeps exponentials in range"),
        NearMiss(ROW_NORM_THREADS, why="no maximum"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.exponentials or facts.contractions or not facts.graph.of(OpKind.DIV):
            return
        tops = [n for n in facts.graph.of(OpKind.REDUCE_MAX) if facts.held_loads(n.op.inputs[0])]
        tops += [loop.node for loop in facts.loops if loop.of(Role.RUNNING_MAXIMUM)]
        found: dict[Node, None] = {}
        stored = set[Node]()
        for node in facts.graph.of(OpKind.DIV) if tops else ():
            numbers = [facts.values.literal(facts.graph.core(v)) for v in node.op.inputs[:2]]
            top = next((t for t in tops if facts.graph.rests_on(node.result, t)), None)
            if any(facts.graph.rests_on(node.result, one) for one in facts.graph.of(OpKind.ABS)):
                continue  # of elements, no maxima of others
            if top is None or sum(isinstance(x, int | float) for x in numbers) != 1:
                continue
            stores = [s.node for s in facts.stored_in(node.result)]
            stored |= {*stores}
            found |= dict.fromkeys((top, node, *stores) if stores else ())
        if found and len(stored) == len(facts.stores):
            yield self.decide(facts, "scale from the largest of given maxima", found)
