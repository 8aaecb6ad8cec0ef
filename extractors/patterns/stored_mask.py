"""Elements that were dropped at random, dropped again as a stored mask says."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, vary
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ir import ParameterKind
from kb.ops import OpKind

_BACK = """__global__ void back(const float* grad, const unsigned char* kept, float* out, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = kept[i] ? grad[i] * by : 0.f;
}
"""  # noqa: E501
_BACK_POINTER = (
    POINTER
    + """
@triton.jit
def back(grad, kept, out, by, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    g = tl.load(grad + at, mask=at < n)
    k = tl.load(kept + at, mask=at < n)
    tl.store(out + at, tl.where(k != 0, g * by, 0.0), mask=at < n)
"""
)
_VALUE = "stored mask"


class StoredMask(Pattern):
    """An element times a number of the call is kept, or is zero, as an element of a loaded mask at
    the same place says."""

    name = "elements-dropped-by-a-stored-mask"
    axis = "rng"
    source = "Srivastava et al., Dropout (2014), section 4"
    matches = (Case(_BACK, _VALUE), Case(_BACK_POINTER, _VALUE))
    near_misses = (
        NearMiss(_BACK.replace("kept[i]", "kept[blockIdx.x]"), why="a row is left out, as a whole"),
        NearMiss(_BACK.replace(": 0.f", ": -INFINITY"), why="a mask of scores"),
        NearMiss(_BACK.replace("grad[i] * by", "grad[i]"), why="what is kept is as it was"),
        NearMiss(_BACK.replace("kept[i] ?", "grad[i] > 0.f ?"), why="the element itself decides"),
        NearMiss(vary(_BACK_POINTER, ("k != 0", "at < 8")), why="the place decides"),
        NearMiss(ATTENTION, why="no mask is loaded"),
        NearMiss(ADD_THREADS, why="nothing is dropped"),
        NearMiss(ROW_NORM_THREADS, why="nothing is dropped"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        numbers = {
            p.name
            for p in facts.kernel.entry.parameters
            if p.kind in (ParameterKind.SCALAR, ParameterKind.UNTOLD)
        }
        found: list[Access | Node] = []
        for node in facts.graph.of(OpKind.SELECT):
            condition, kept, other = node.op.inputs[:3]
            mask = _mask(facts, condition) if facts.number(other) == 0 else []
            if mask and _scaled(facts, kept, mask, numbers):
                found += [*mask, node]
        if found:
            yield self.decide(facts, _VALUE, found)


def _mask(facts: Facts, condition: str) -> list[Access]:
    """The elements of a loaded mask that a condition is, or is asked to be no zero."""
    made = facts.graph.producer(facts.graph.core(condition))
    if made is not None and made.op.kind == OpKind.NE and facts.number(made.op.inputs[1]) == 0:
        condition = made.op.inputs[0]
    held = facts.held_loads(condition)
    one = len({load.array for load in held}) == 1
    return held if one and all(map(_lanes, held)) else []


def _scaled(facts: Facts, value: str, mask: list[Access], numbers: set[str]) -> bool:
    """Whether something is made of elements of other arrays and of a number of the call."""
    data = [a for a in facts.feeding(value) if a.array != mask[0].array and _lanes(a)]
    factors = [v for n in facts.graph.roots(value, OpKind.MUL) for v in n.op.inputs[:2]]
    return bool(data) and any(facts.graph.core(v) in numbers for v in factors)


def _lanes(load: Access) -> bool:
    return any(index.has(AtomKind.LANE) for index in load.index)
