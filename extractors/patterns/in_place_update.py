"""An array is read and written by the same kernel."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER, COPY, ROW_NORM
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Decision

_PLACE_THREADS = """__global__ void plus(float* x, const float* y, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) x[at] = x[at] + y[at];
}
"""
_EITHER = (
    POINTER
    + """
@triton.jit
def norm(x, root, out, T: tl.constexpr, KNOWN: tl.constexpr):
    row = tl.program_id(0)
    v = tl.load(x + row * T + tl.arange(0, T))
    if KNOWN:
        by = tl.load(root + row)
    else:
        by = tl.rsqrt(tl.sum(v * v))
        tl.store(root + row, by)
    tl.store(out + row * T + tl.arange(0, T), v * by)
"""
)
_HANDED_ON = (
    POINTER
    + """
@triton.jit
def total(x, parts, count, out, n, T: tl.constexpr):
    own = tl.program_id(0)
    tl.store(parts + own, tl.sum(tl.load(x + own * T + tl.arange(0, T))))
    if tl.atomic_add(count, 1) == n - 1:
        tl.store(out, tl.sum(tl.load(parts + tl.arange(0, T), mask=tl.arange(0, T) < n, other=0.0)))
"""
)


class InPlaceUpdate(Pattern):
    """One parameter occurs in loads and in plain stores."""

    name = "in-place-update-gradient-in-forward"
    axis = "aliasing"
    source = "tilelore catalogue, P43"
    matches = (
        Case(
            vary(ADD_POINTER, ("tl.store(out + at", "tl.store(x + at")),
            "in place (same array loaded and stored)",
        ),
        Case(
            vary(COPY, ("ct.store(out,", "ct.store(x,")), "in place (same array loaded and stored)"
        ),
        Case(_PLACE_THREADS, "in place (same array loaded and stored)"),
    )
    near_misses = (
        NearMiss(_EITHER, why="a flag says whether the array is read or written"),
        NearMiss(_HANDED_ON, why="parts that the last block reads back"),
        NearMiss(ADD_POINTER, why="the sum goes to an array of its own"),
        NearMiss(ROW_NORM, why="the output is an array of its own"),
        NearMiss(ADD_THREADS, why="the sum goes to an array of its own"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        read: dict[str | None, list[Node]] = {}
        for load in facts.loads:
            read.setdefault(load.array, []).append(load.node)
        read.pop(None, None)
        names = {
            store.array
            for store in facts.stores
            if not store.is_atomic
            and any(
                not store.node.excludes(node) and _first(facts, node, store)
                for node in read.get(store.array, ())
            )
        }
        summed = {a.array for a in facts.stores if a.is_atomic}  # by all blocks together
        names -= {name for name in names & summed if not self._same_places(facts, name)}
        if names:
            loads = [a for a in facts.loads if a.array in names]
            stores = [a for a in facts.stores if a.array in names and not a.is_atomic]
            where: list[Where] = [a.node for a in (*loads, *stores)]
            if facts.of_threads:  # a pointer that is not to what stays as it is
                where += facts.declared(*(name for name in names if name))
            yield self.decide(facts, "in place (same array loaded and stored)", where)

    def _same_places(self, facts: Facts, name: str | None) -> bool:
        """Whether elements of an array are stored where they were loaded from."""
        read = {a.index for a in facts.loads if a.array == name}
        return any(a.index in read for a in facts.stores if a.array == name and not a.is_atomic)


def _first(facts: Facts, load: Node, store: Access) -> bool:
    """Whether elements are loaded before they are stored, or are a part of what is: an array that a
    kernel fills and then reads back hands something on."""
    return load.index < store.node.index or facts.graph.rests_on(store.value, load)
