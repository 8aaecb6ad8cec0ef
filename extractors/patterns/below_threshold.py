"""Elements of a row that count only from a threshold on, which the kernel or the caller gives."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind
from kb.dtypes import may_be_float
from kb.evidence import Decision
from kb.ops import OpKind

_ZERO = "select zero below a threshold"
_BOUNDS = frozenset({OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE})
_SCALED = frozenset({OpKind.MUL, OpKind.DIV, OpKind.CAST})

_RENORM = """__global__ void renorm(const float* x, float* out, const float* least, int n) {
    __shared__ float all;
    const float* row = x + blockIdx.x * n;
    float floor = least[blockIdx.x];
    float part = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) part += row[i] > floor ? row[i] : 0.f;
    for (int o = 16; o > 0; o >>= 1) part += __shfl_xor_sync(0xffffffff, part, o);
    if (threadIdx.x == 0) all = part;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 32)
        out[blockIdx.x * n + i] = row[i] > floor ? row[i] / all : 0.f;
}
"""


class BelowThreshold(Pattern):
    """Threads take zero in place of an element, or of what it is scaled to, where it is not above a
    number that is loaded or computed."""

    name = "zero-below-a-threshold"
    axis = "mask_application"
    source = "FlashInfer, include/flashinfer/sampling.cuh: top-p renormalisation by a pivot"
    matches = (
        Case(_RENORM, _ZERO),
        Case(vary(_RENORM, ("row[i] > floor ? row[i] / all : 0.f",
                            "row[i] <= floor ? 0.f : row[i] / all")), _ZERO),
    )  # fmt: skip
    near_misses = (
        NearMiss(_RENORM.replace("least[blockIdx.x]", "0.f"), why="what is negative is cut off"),
        NearMiss(_RENORM.replace("row[i] > floor", "i > n / 2"), why="places are asked for"),
        NearMiss(_RENORM.replace(": 0.f", ": floor"), why="held at the threshold"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        found = [n for n in facts.graph.of(OpKind.SELECT) if _cuts(facts, n)]
        if found:
            yield self.decide(facts, _ZERO, found)


def _cuts(facts: Facts, node: Node) -> bool:
    """Whether zero is chosen where the other value, unscaled, is compared with a float that is not
    written out."""
    graph = facts.graph
    test = graph.producer(graph.core(node.op.operand("condition")))
    sides = [value for role in ("x", "y") if (value := node.op.operand(role)) is not None]
    kept = [value for value in sides if facts.number(value) is None]
    if test is None or test.op.kind not in _BOUNDS or len(kept) != 1 or len(sides) != 2:
        return False
    if facts.number(next(v for v in sides if v not in kept)) != 0:
        return False
    elements = _elements(facts, kept[0])
    compared = test.op.inputs[:2]
    own = [value for value in compared if _element(facts, value) in elements]
    bounds = [value for value in compared if value not in own]
    if len(own) != 1 or len(bounds) != 1 or not may_be_float(facts.types.dtype(bounds[0])):
        return False
    place = facts.values.expr(bounds[0]).has(AtomKind.BLOCK, AtomKind.LANE, AtomKind.INDUCTION)
    return facts.number(bounds[0]) is None and not place and bool(facts.feeding(own[0]))


def _elements(facts: Facts, value: str) -> set[object]:
    """What a value is, and what it is scaled from."""
    node = facts.graph.producer(facts.graph.core(value))
    scaled = node.op.inputs[:2] if node is not None and node.op.kind in _SCALED else ()
    return {_element(facts, one) for one in (value, *scaled)}


def _element(facts: Facts, value: str) -> object:
    """A value without casts; the same element that is loaded twice is one."""
    core = facts.graph.core(value)
    node = facts.graph.producer(core)
    access = facts.access(node) if node is not None else None
    return (access.array, access.index) if access is not None and access.array else core
