"""Several arrays that are addressed by one stride."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER
from extractors.patterns.cases_rows_pointer import LAYER_NORM
from extractors.patterns.cases_rows_threads import LAYER_NORM_THREADS, SOFTMAX_CHUNKS_THREADS
from kb.analysis.accesses import Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.strides import row_strides, shared_strides
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ir import ParameterKind
from kb.ops import OpKind

_ONE_STRIDE = (
    POINTER
    + """
@triton.jit
def plus(x, y, out, step, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    x += row * step
    y += row * step
    out += row * step
    v = tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n)
    tl.store(out + at, v, mask=at < n)
"""
)
_WEIGHED = vary(
    _ONE_STRIDE,
    ("    y += row * step\n", ""),
)


class SharedStride(Pattern):
    """One runtime parameter scales the block id in the offsets of two arrays or more."""

    name = "one-stride-for-several-arrays"
    axis = "operand_layout"
    source = "PyTorch documentation, tensor views: stride"
    matches = (
        Case(_ONE_STRIDE, "one row stride for all arrays"),
        Case(_WEIGHED, "one row stride for all arrays"),
        Case(SOFTMAX_CHUNKS_THREADS, "one row stride for all arrays"),
    )
    near_misses = (
        NearMiss(
            vary(_WEIGHED, ("row * step", "row * n")),
            why="rows lie one after the other: their length is no stride that was handed in",
        ),
        NearMiss(
            vary(_ONE_STRIDE, ("step, n,", "step, far, n,"), ("+ at", "+ at * far")),
            why="one set of strides, told as such",
        ),
        NearMiss(LAYER_NORM_POINTER, why="every array has its own stride"),
        NearMiss(PRODUCT_POINTER, why="every array has its own stride"),
        NearMiss(LAYER_NORM, why="every array has its own stride"),
        NearMiss(LAYER_NORM_THREADS, why="every array has its own stride"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        runtime = {
            p.name
            for p in facts.kernel.entry.parameters
            if p.kind in (ParameterKind.UNTOLD, ParameterKind.SCALAR)
        }
        users: dict[str, set[str]] = {}
        for access in facts.accesses:
            if access.mode is Mode.POINTER and access.array is not None:
                for name in _strides(access.index[0].terms, runtime):
                    users.setdefault(name, set()).add(access.array)
        if not users or len(shared_strides(facts)) > 1:
            return
        for name, arrays in users.items():
            every = len(arrays) == len({a.array for a in facts.accesses})
            if len(arrays) > 1 and (every or (len(users) == 1 and name in row_strides(facts))):
                where = self._scaled(facts, name)
                yield self.decide(facts, "one row stride for all arrays", where, name)

    def _scaled(self, facts: Facts, name: str) -> list[Node]:
        """The products of the block id with the stride, and what they are added to."""
        found = []
        for node in facts.graph.of(OpKind.MUL):
            if name in _strides(facts.values.expr(node.result).terms, {name}):
                found += [node, *(u for u in facts.graph.users(node.result))]
        return found


def _strides(terms: tuple, runtime: set[str]) -> set[str]:  # type: ignore[type-arg]
    """Parameters that stand alone beside one block id in a product."""
    found: set[str] = set()
    for factors, _ in terms:
        kinds = [a.kind for a in factors]
        if len(factors) == 2 and AtomKind.BLOCK in kinds:
            found |= {a.value for a in factors if a.kind is AtomKind.PARAMETER} & runtime
    return found
