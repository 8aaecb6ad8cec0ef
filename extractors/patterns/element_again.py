"""Elements that blocks or threads share, read again by each of them."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.function_again import Ways, is_part, ways_of
from extractors.patterns.shared_loads import SharedLoads
from extractors.patterns.shared_row_again import SharedRowAgain
from extractors.patterns.stored_by_rounds import StoredByRounds
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_BLOCKS = "elements read again by every block along an axis"
_SOME = "elements read again by all that share them"
_UNKNOWN = (AtomKind.OPAQUE, AtomKind.CHOICE)
_EXCHANGED = (OpKind.SHUFFLE, OpKind.CUMSUM, OpKind.SCAN, OpKind.SORT)

_PICK = """__global__ void pick(const float* x, const int* ids, float* out, int n, int wide) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[blockIdx.y * n + at] = x[blockIdx.y * wide + ids[at]];
}
"""
_GAINS = """__global__ void scale(const float* x, const float* gain, float* out, int n, int wide) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at] * gain[at / wide];
}
"""


class ElementAgain(Pattern):
    """Where threads only compute element by element, a number is loaded at a place that a block
    along an axis of the grid, or the whole number of a thread, does not tell apart, and what is
    made of it is stored at places that are told apart by it."""

    name = "elements-read-again-by-those-that-share-them"
    axis = "load_reuse"
    source = "NVIDIA, CUDA C++ Best Practices Guide, L2 cache: data that several blocks read"
    matches = (Case(_PICK, _BLOCKS), Case(_GAINS, _SOME))
    near_misses = (
        NearMiss(_PICK.replace("ids[at]", "ids[blockIdx.y * n + at]"), why="each has its own"),
        NearMiss(_GAINS.replace("at / wide", "at"), why="each has its own"),
        NearMiss(_GAINS.replace("at / wide", "wide"), why="one number for the whole grid"),
        NearMiss(ADD_THREADS, why="each has its own"),
        NearMiss(ROW_NORM_THREADS, why="rows are summed"),
        NearMiss(PRODUCT_THREADS, why="products are summed"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads or facts.contractions or facts.reductions:
            return
        if facts.graph.of(*_EXCHANGED) or facts.shared.allocations:
            return
        found: dict[str, list[Access]] = {}
        stored = {s.array for s in facts.stores}
        for load in facts.loads:
            if load.array not in stored | {None} and (value := _shared(facts, load)):
                found.setdefault(value, []).append(load)
        others = (SharedLoads(), SharedRowAgain(), StoredByRounds())
        if found and not any(True for other in others for _ in other.seen(facts)):
            for value, loads in found.items():
                yield self.decide(facts, value, loads)


def _shared(facts: Facts, load: Access) -> str:
    """By whom an element is read again; empty when by nobody, and when that is not known."""
    own = _own(facts, load)
    stores = [s for s in facts.stores if s.array is not None and not s.is_atomic]
    stores = [s for s in stores if facts.graph.rests_on(s.value, load.node)
              or any(facts.graph.rests_on(v, load.node) for v in s.address)]  # fmt: skip
    if not own or not stores:
        return ""
    kinds: set[str] = set()
    for store in stores:
        if any(index.has(*_UNKNOWN) for index in store.index):
            return ""
        for counter, made in ways_of(facts, store.index, {}).items():
            if counter not in own and counter.kind is AtomKind.BLOCK:
                kinds.add(_BLOCKS)
            elif counter in own and is_part(own[counter]) and not is_part(made):
                kinds.add(_SOME)
    return next((value for value in (_BLOCKS, _SOME) if value in kinds), "")


def _own(facts: Facts, load: Access) -> Ways:
    """What tells the places of a load apart, through numbers that are loaded for it, too; nothing
    where that is not known."""
    found: Ways = {}
    pending, seen = [load], {load.value}
    for one in pending:
        if any(index.has(*_UNKNOWN) for index in one.index):
            return {}
        ways_of(facts, one.index, found)
        for atom in (a for index in one.index for a in index.atoms()):
            if atom.kind is AtomKind.LOADED and atom.value not in seen:
                seen.add(atom.value)
                made = facts.graph.producer(atom.value)
                inner = facts.access(made) if made is not None else None
                if inner is None or inner.array is None:
                    return {}
                pending.append(inner)
    return found
