"""Rows that are put together from several arrays, part beside part, or are taken apart again."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind, Expr, Term, make, of, sub
from kb.evidence import Decision
from kb.ops import READS, OpKind

_COUNTERS = (
    AtomKind.BLOCK, AtomKind.LANE, AtomKind.INDUCTION, AtomKind.COUNT, AtomKind.LOADED,
)  # fmt: skip
_TOGETHER = "parts of a row side by side"
_APART = "one row taken apart into several arrays"
MOST = 48
"""Accesses of one row that are compared with each other."""
NEAR = 16
"""Elements that one thread may have side by side: no part of a row."""

_JOINED = """__global__ void put(const half* nope, const half* rope, const int* slots, half* cache,
                    int wide, int narrow) {
    int slot = slots[blockIdx.x], i = threadIdx.x;
    half* row = cache + slot * (wide + narrow);
    if (i < wide) row[i] = nope[blockIdx.x * wide + i];
    if (i < narrow) row[wide + i] = rope[blockIdx.x * narrow + i];
}
"""
_CUT = """__global__ void cut(const half* x, half* q, half* k, int wide, int narrow) {
    int i = threadIdx.x;
    const half* row = x + blockIdx.x * (wide + narrow);
    if (i < wide) q[blockIdx.x * wide + i] = row[i];
    if (i < narrow) k[blockIdx.x * narrow + i] = row[wide + i];
}
"""
_SHIFTED = """__global__ void move(float* state, const float* x, int far) {
    float* own = state + blockIdx.x * far * 4 + threadIdx.x;
    own[0] = own[far];
    own[far] = x[blockIdx.x * far + threadIdx.x];
}
"""


class RowOfParts(Pattern):
    """Elements of several arrays are stored into the same row of one array, some an extent behind
    the others, and none of them is of the array itself; or elements of one row go as they are to
    several arrays."""

    name = "row-of-parts-side-by-side"
    axis = "operand_layout"
    source = "DeepSeek-V3 (2024), section 2.1.1: compressed part and rotated part of a cached key"
    matches = (Case(_JOINED, _TOGETHER), Case(_CUT, _APART))
    near_misses = (
        NearMiss(
            _JOINED.replace("rope[blockIdx.x * narrow", "nope[blockIdx.x * narrow"),
            why="both of one array",
        ),
        NearMiss(_JOINED.replace("row[wide + i]", "row[i + 1]"), why="neighbours"),
        NearMiss(
            _JOINED.replace("row[wide + i]", "row[(wide + narrow) * wide + i]").replace(
                "slot * (wide + narrow)", "i"
            ),
            why="nothing says which row it is",
        ),
        NearMiss(_CUT.replace("k[blockIdx", "q[blockIdx"), why="all goes into one array"),
        NearMiss(_SHIFTED, why="a state that moves on"),
        NearMiss(ADD_THREADS, why="one place for all"),
        NearMiss(ROW_NORM_THREADS, why="one place for all"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads or facts.contractions:
            return
        rows: dict[tuple[str, bool, tuple[Term, ...]], list[tuple[Access, Expr]]] = {}
        for access in facts.accesses:
            if access.array is not None and len(access.index) == 1 and not access.is_atomic:
                row, part = _row(access.index[0])
                if row:
                    rows.setdefault((access.array, access.is_store, row), []).append((access, part))
        found: dict[str, dict[Access | Node, None]] = {}
        for (_, stored, _), own in rows.items():
            ends = {a: _sources(facts, a) if stored else _copies(facts, a) for a, _ in own[:MOST]}
            for (one, first), (other, second) in combinations(own[:MOST], 2):
                far = first != second and abs(sub(first, second).constant or NEAR) >= NEAR
                if far and ends[one] and ends[other] and ends[one].isdisjoint(ends[other]):
                    value = _TOGETHER if stored else _APART
                    places = [*_begun(facts, one, first), *_begun(facts, other, second)]
                    found.setdefault(value, {}).update(dict.fromkeys((one, other, *places)))
        for value, members in found.items():
            yield self.decide(facts, value, members)


def _row(place: Expr) -> tuple[tuple[Term, ...], Expr]:
    """What says in which row an element lies, and where in the row its part begins; no row where
    something is not known."""
    row: list[Term] = []
    part: list[Term] = []
    if place.has(AtomKind.OPAQUE) or not place.has(AtomKind.LANE, AtomKind.INDUCTION):
        return (), place
    for factors, number in place.terms:
        moved = [atom for atom in factors if of(atom).has(*_COUNTERS)]
        if not moved:
            part.append((factors, number))
        elif (len(moved) < len(factors) or abs(number) > NEAR) and any(map(_chosen, moved)):
            row.append((factors, number))
    return tuple(row), make(part)


def _begun(facts: Facts, access: Access, part: Expr) -> list[Node]:
    """Where the beginning of a part is added to a place."""
    above = [n for v in access.address for n in facts.graph.upstream(v, _reads) if part.terms]
    sums = [n for n in above if n.op.kind == OpKind.ADD]
    return [n for n in sums if any(facts.values.expr(v) == part for v in n.op.inputs[:2])]


def _reads(node: Node) -> bool:
    return node.op.kind in READS


def _chosen(atom: Atom) -> bool:
    return of(atom).has(AtomKind.BLOCK, AtomKind.LOADED)


def _sources(facts: Facts, store: Access) -> set[str | None]:
    """The arrays that a stored element is of; none where it is of the array that it goes into."""
    loads = [a for a in facts.feeding(store.value) if a.value not in facts.offset_loads]
    arrays = {a.array for a in loads}
    return arrays if not arrays & {None, store.array} else set()


def _copies(facts: Facts, load: Access) -> set[str | None]:
    """The arrays that a loaded element goes to as it is."""
    stores = facts.stored_in(load.value)
    return {s.array for s in stores if load in facts.held_loads(s.value) and not s.is_atomic}
