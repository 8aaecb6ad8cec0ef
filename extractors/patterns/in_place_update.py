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
from kb.ir import Parameter, ParameterKind

IN_PLACE = "in place (same array loaded and stored)"
PROMISED = f"{IN_PLACE}, __restrict__"
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
    """One parameter occurs in loads and in plain stores; a promise that its pointer is the only way
    to it belongs to that."""

    name = "in-place-update-gradient-in-forward"
    axis = "aliasing"
    source = "tilelore catalogue, P43"
    matches = (
        Case(
            vary(ADD_POINTER, ("tl.store(out + at", "tl.store(x + at")),
            IN_PLACE,
        ),
        Case(vary(COPY, ("ct.store(out,", "ct.store(x,")), IN_PLACE),
        Case(_PLACE_THREADS, IN_PLACE),
        Case(_PLACE_THREADS.replace("const float* y", "const float* __restrict__ y"), IN_PLACE),
        Case(_PLACE_THREADS.replace("float* x", "float* __restrict__ x"), PROMISED),
    )
    near_misses = (
        NearMiss(_EITHER, why="a flag says whether the array is read or written"),
        NearMiss(_HANDED_ON, why="parts that the last block reads back"),
        NearMiss(ADD_POINTER, why="the sum goes to an array of its own"),
        NearMiss(ROW_NORM, why="the output is an array of its own"),
        NearMiss(ADD_THREADS, why="the sum goes to an array of its own"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        names = rewritten(facts)
        if names:
            loads = [a for a in facts.loads if a.array in names]
            stores = [a for a in facts.stores if a.array in names and not a.is_atomic]
            where: list[Where] = [a.node for a in (*loads, *stores)]
            if facts.of_threads:  # a pointer that is not to what stays as it is
                where += facts.declared(*names)
            given = promised(facts)
            alone = any(p.name in names for p in given)
            where += [p.span.lines for p in given if alone]
            yield self.decide(facts, PROMISED if alone else IN_PLACE, where)


def promised(facts: Facts) -> list[Parameter]:
    """Pointers that the kernel is given with the promise that nothing else leads to what they point
    at."""
    return [
        parameter
        for parameter in facts.kernel.entry.parameters
        if parameter.kind is ParameterKind.ARRAY and "restrict" in parameter.annotation.split()
        if not parameter.struct  # the host side tells of fields, where they are declared
    ]


def rewritten(facts: Facts) -> set[str]:
    """Arrays of which the kernel reads elements before it stores some."""
    read: dict[str, list[Node]] = {}
    for load in facts.loads:
        if load.array is not None:
            read.setdefault(load.array, []).append(load.node)
    names = {
        store.array
        for store in facts.stores
        if store.array is not None
        and not store.is_atomic
        and any(
            not store.node.excludes(node) and _first(facts, node, store)
            for node in read.get(store.array, ())
        )
    }
    summed = {a.array for a in facts.stores if a.is_atomic}  # by all blocks together
    return names - {name for name in names & summed if not _same_places(facts, name)}


def _same_places(facts: Facts, name: str | None) -> bool:
    """Whether elements of an array are stored where they were loaded from."""
    read = {a.index for a in facts.loads if a.array == name}
    return any(a.index in read for a in facts.stores if a.array == name and not a.is_atomic)


def _first(facts: Facts, load: Node, store: Access) -> bool:
    """Whether elements are loaded before they are stored, or are a part of what is: an array that a
    kernel fills and then reads back hands something on."""
    return load.index < store.node.index or facts.graph.rests_on(store.value, load)
