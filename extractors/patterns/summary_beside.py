"""What a kernel reduces elements to, stored beside elements that do not depend on it."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, LAYER_NORM_POINTER, NORM_BACKWARD
from extractors.patterns.intermediate_stored import IntermediateStored
from extractors.patterns.norm_kind import ONE_STEP
from extractors.patterns.parameter_gradient import summed_over_rows
from extractors.patterns.side_index import of_many, shared
from extractors.patterns.side_output import SideOutput, width
from kb.analysis.accesses import Access
from kb.analysis.composed_sums import left_by_states
from kb.analysis.facts import Facts
from kb.analysis.loops import Role
from kb.analysis.rebuilt import backward
from kb.analysis.row_chunks import of_rounds
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, REDUCTIONS, OpKind

_VALUE = "sum or maximum of the elements"

_LARGEST = (
    POINTER
    + """
@triton.jit
def widen(x, out, largest, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = row * n + tl.arange(0, T)
    v = tl.load(x + at, mask=tl.arange(0, T) < n, other=0.0) * 2.0
    tl.store(out + at, v, mask=tl.arange(0, T) < n)
    tl.store(largest + row, tl.max(tl.abs(v), axis=0))
"""
)
_LARGEST_TILE = (
    TILE
    + """
@ct.kernel
def widen(x, out, largest, T: Int):
    row = ct.bid(0)
    v = ct.load(x, index=(row, 0), shape=(1, T)) * 2.0
    ct.store(out, index=(row, 0), tile=v)
    ct.store(largest, index=(row, 0), tile=ct.max(v, axis=1, keepdims=True))
"""
)
_LARGEST_THREADS = """__global__ void widen(const float* x, float* out, float* largest, int n) {
    float top = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) {
        out[blockIdx.x * n + i] = x[blockIdx.x * n + i] * 2.f;
        top = fmaxf(top, x[blockIdx.x * n + i]);
    }
    for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    if (threadIdx.x == 0) largest[blockIdx.x] = top;
}
"""

EITHER_SUMS = """template <bool STABLE>
__global__ void widen(const float* x, float* out, float* part, float* all, int n) {
    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) {
        out[blockIdx.x * n + i] = x[blockIdx.x * n + i] * 2.f;
        sum += x[blockIdx.x * n + i];
    }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
    if (threadIdx.x == 0) {
        if constexpr (STABLE) {
            part[blockIdx.x] = sum;
        } else {
            atomicAdd(all, sum);
        }
    }
}
"""


class SummaryBeside(Pattern):
    """A sum or a maximum is stored narrower than elements that it was taken of or beside, which are
    stored as well and need it for nothing."""

    name = "summary-stored-beside-the-elements"
    axis = "side_output"
    source = "NVIDIA, Transformer Engine documentation: amax history of a tensor"
    matches = (
        Case(_LARGEST, _VALUE),
        Case(_LARGEST_TILE, _VALUE),
        Case(_LARGEST_THREADS, _VALUE),
    )
    near_misses = (
        NearMiss(ONE_STEP, why="the result, which is read from the state beside it"),
        NearMiss(
            vary(_LARGEST, ("    tl.store(out + at, v, mask=tl.arange(0, T) < n)\n", "")),
            why="it is the output",
        ),
        NearMiss(
            vary(_LARGEST, ("tl.max(tl.abs(v), axis=0)", "row * 2")), why="nothing is reduced"
        ),
        NearMiss(LAYER_NORM_POINTER, why="told as statistics of the rows"),
        NearMiss(NORM_BACKWARD, why="sums over rows are gradients"),
        NearMiss(PRODUCT, why="there is one output"),
        NearMiss(ADD_POINTER, why="there is one output"),
        NearMiss(EITHER_SUMS, why="a part of a sum that is else added for all blocks"),
        NearMiss(
            _LARGEST_THREADS.replace("largest[blockIdx.x]", "out[blockIdx.x]"),
            why="one array for both",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        plain = [s for s in facts.stores if not s.is_atomic and s.array is not None]
        if len({s.array for s in plain}) < 2:
            return
        side = _narrower(facts, plain)
        side = [s for s in side if self._summary(facts, s) and not or_added(facts, s)]
        taken = [*summed_over_rows(facts), *left_by_states(facts)] if side else []
        side = [s for s in side if s not in taken]
        if not side or backward(facts, side):
            return
        if not any(d for p in (SideOutput(), IntermediateStored()) for d in p.seen(facts)):
            yield self.decide(facts, _VALUE, side)

    def _summary(self, facts: Facts, store: Access) -> bool:
        """A number that was reduced, and is not read again in other rounds."""
        kinds = (*REDUCTIONS, *((OpKind.MAXIMUM,) if facts.of_threads else ()))
        if facts.graph.roots(store.value, *CONTRACTIONS) and not _of_products(facts, store):
            return False
        again = [a for a in facts.loads if a.array == store.array]
        apart = of_rounds(facts, store) and any(a.loop is not store.loop for a in again)
        return not apart and bool(facts.graph.roots(store.value, *kinds))


def or_added(facts: Facts, store: Access) -> bool:
    """Whether the same sums are added in memory where they are not stored: parts of others."""
    sums = {*facts.graph.roots(store.value, *REDUCTIONS)}
    others = (a for a in facts.stores if a.is_atomic and a.node.excludes(store.node))
    return any(sums & {*facts.graph.roots(a.value, *REDUCTIONS)} for a in others)


def _of_products(facts: Facts, store: Access) -> bool:
    """Whether a loop adds up, row by row, what a product gives, beside another product of it."""
    sums = {c.result: c for loop in facts.loops for c in loop.carried if c.role is Role.SUM}
    carried = sums.get(facts.graph.core(store.value) or "")
    way = facts.graph.upstream(carried.next) if carried is not None else ()
    rows = [n for n in way if n.op.kind == OpKind.REDUCE_SUM]
    scores = [p for n in rows for p in facts.contractions if facts.graph.rests_on(n.result, p)]
    taken = [v for p in facts.contractions for v in p.op.inputs[:2]]
    return any(facts.graph.rests_on(v, p) for p in scores for v in taken)


def _narrower(facts: Facts, stores: list[Access]) -> list[Access]:
    """Stores of fewer elements than another array gets; of threads, those that one thread of
    several makes."""
    if facts.of_threads:
        side = [s for s in stores if of_many(s) or shared(s)]
    else:
        widest = max(width(facts, s) for s in stores)
        side = [s for s in stores if width(facts, s) < widest]
    main = {s.array for s in stores} - {s.array for s in side}
    names = {s.array for s in stores if s not in side}
    return [s for s in side if s.array not in names] if main else []
