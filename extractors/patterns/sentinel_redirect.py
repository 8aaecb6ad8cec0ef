"""How lanes that must not be written are kept from memory in a scatter."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_pointer import PRODUCT_DESCRIPTOR
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import OpKind

_REDIRECT = vary(
    ROW_NORM,
    ("    ct.scatter(out, (row, at),", "    ct.scatter(out, (row, ct.where(at < N, at, -1)),"),
)


_BARE_THREADS = """__global__ void plus(const float* x, float* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = x[at] + 1.f;
}
"""


class SentinelRedirect(Pattern):
    """The index of a store is a select between a position and a constant outside the array."""

    name = "sentinel-index-redirect-for-masked-scatter"
    axis = "masked_store"
    source = "tilelore catalogue, P38"
    matches = (
        Case(_REDIRECT, "redirect invalid lanes to an OOB index"),
        Case(ADD_POINTER, "store mask operand"),
        Case(ADD_THREADS, "store mask operand"),
    )
    near_misses = (
        NearMiss(ROW_NORM, why="lanes are written where they are, or clipped"),
        NearMiss(PRODUCT_DESCRIPTOR, why="tiles are clipped by the bounds of the descriptor"),
        NearMiss(_BARE_THREADS, why="every lane writes its own place"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        redirected: list[Node] = []
        for store in facts.stores:
            for value in facts.values.items(store.node.op.operand("index")):
                made = facts.graph.producer(facts.graph.through(value, VIEWS | CASTS))
                if made is not None and made.op.kind == OpKind.SELECT:
                    redirected += [made, store.node]
        if redirected:
            yield self.decide(facts, "redirect invalid lanes to an OOB index", redirected)
        masked = [s for s in facts.stores if s.mask is not None and facts.types.shape(s.value)]
        if masked:
            yield self.decide(facts, "store mask operand", masked)
