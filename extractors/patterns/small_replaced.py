"""A number in place of what is divided by one that is too small."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT
from extractors.patterns.cases_rows import ROW_NORM
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.idioms import comparisons
from kb.evidence import Decision
from kb.ops import COMPARISONS, OpKind

_LOOKS = VIEWS | CASTS
_SCALED = frozenset({OpKind.MUL, OpKind.DIV})
_SMALL = 1e-3
"""What is below may stand for nothing; larger numbers bound data."""
_GROUPS = (
    POINTER
    + """
@triton.jit
def scales(tops, scale, back, n, T: tl.constexpr):
    own = tl.program_id(0)
    top = 0.0
    for i in range(n):
        top = tl.maximum(top, tl.load(tops + own * n + i))
    tl.store(scale + own, tl.where(top > 1e-12, 448.0 / top, 1.0))
    tl.store(back + own, tl.where(top > 1e-12, top / 448.0, 1.0))
"""
)
_TILE = """import cuda.tile as ct
@ct.kernel
def shrink(x, out, T: ct.Constant[int]):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,))
    top = ct.max(ct.abs(v))
    by = ct.where(top < 1e-8, 1.0, 448.0 / top)
    ct.store(out, index=(ct.bid(0),), tile=ct.astype(v * by, out.dtype))
"""
_THREADS = """__global__ void shrink(const float* x, const float* tops, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    float top = tops[blockIdx.x];
    float by = top > 1e-10f ? 448.f / top : 1.f;
    out[at] = x[at] * by;
}
"""


class SmallReplaced(Pattern):
    """A choice between a number and a quotient, or its inverse, by whether what divides is above a
    small number."""

    name = "number-in-place-of-a-quotient-by-a-small-number"
    axis = "eps_placement"
    source = "torchao, float8 utilities: scale of an all-zero tensor"
    matches = (
        Case(_GROUPS, "number chosen below a threshold"),
        Case(_TILE, "number chosen below a threshold"),
        Case(_THREADS, "number chosen below a threshold"),
    )
    near_misses = (
        NearMiss(_GROUPS.replace("top > 1e-12", "top > 8.0"), why="a bound of the data"),
        NearMiss(_THREADS.replace("top > 1e-10f", "top > 8.f"), why="a bound of the data"),
        NearMiss(_THREADS.replace("448.f / top", "448.f / x[at]"), why="another number divides"),
        NearMiss(_TILE.replace("1.0, 448.0 / top)", "448.0, top)"), why="nothing is divided"),
        NearMiss(
            _TILE.replace("ct.where(top < 1e-8, 1.0, 448.0 / top)", "1.0 / ct.maximum(top, 1e-8)"),
            why="a clamp",
        ),
        NearMiss(_TILE.replace("top < 1e-8", "top == 0.0"), why="nothing but zero is replaced"),
        NearMiss(ROW_NORM, why="nothing is chosen"),
        NearMiss(PRODUCT, why="nothing is divided"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        kinds = (OpKind.SELECT, OpKind.IF, OpKind.IF_EXPRESSION)
        found = [n for node in facts.graph.of(*kinds) for n in _chosen(facts, node)]
        if found:
            yield self.decide(facts, "number chosen below a threshold", found)


def _chosen(facts: Facts, node: Node) -> list[Node]:
    """The choice of a number or of a quotient, with what is asked of the divisor."""
    if len(node.op.results) != 1:
        return []
    sides = facts.graph.feeds(node.result) if node.op.regions else list(node.op.inputs[1:])
    made = [v for v in sides if facts.number(v) is None]
    if len(made) != 1 or len(sides) != 2:
        return []
    divided = {facts.graph.core(v) for v in _divided(facts, made[0])}
    for test in comparisons(facts, node.op.inputs[0]):
        if test.op.kind in _EQUAL:
            continue
        for asked, bound in (test.op.inputs[:2], test.op.inputs[1::-1]):
            number = facts.number(bound)
            if number is not None and 0 < number < _SMALL and facts.graph.core(asked) in divided:
                return [test, node]
    return []


_EQUAL = COMPARISONS - {OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE}


def _divided(facts: Facts, value: str) -> list[str]:
    """What a value is a quotient of, on either side of the stroke, below scalings by others."""
    pending, found = [value], list[str]()
    for current in pending:
        node = facts.graph.producer(facts.graph.through(current, _LOOKS))
        if node is None or node.op.kind not in _SCALED or len(pending) > 8:
            continue
        if node.op.kind == OpKind.DIV:
            found += node.op.inputs[:2]
        pending += node.op.inputs[:2]
    return found
