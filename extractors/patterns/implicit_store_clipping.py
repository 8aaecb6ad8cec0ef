"""How a store is kept inside its array."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.access_mode import FILLED, moved
from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT_POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM, SOFTMAX
from extractors.patterns.cases_rows_threads import ADD_THREADS, TURN_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.padding_policy import clips_elements, clips_tiles
from extractors.patterns.thread_guard import STORED, told_ways
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.padded import padded
from kb.evidence import Decision

_STORE_MASK = vary(ADD_POINTER, (", mask=inside) +", ") +"), ("y + at, mask=inside)", "y + at)"))
_UNCHECKED_LOAD = vary(SOFTMAX, ("=True, padding_value=-math.inf", "=False"))

_GATHERED_ROWS = (
    TILE
    + """
@ct.kernel
def copy(x, at, out, T: Int):
    row = ct.load(at, index=(ct.bid(0),), shape=(1,))
    lanes = ct.arange(T, dtype=ct.int32)
    values = ct.gather(x, (row[:, None], lanes[None, :]), check_bounds=False)
    ct.store(out, index=(ct.bid(0), 0), tile=values)
"""
)
_ONE_THREAD = """__global__ void total(const float* x, float* out, int n) {
    float acc = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) acc += x[(blockIdx.x * 4 + threadIdx.y) * n + i];
    for (int o = 16; o > 0; o /= 2) acc += __shfl_xor_sync(0xffffffff, acc, o);
    if (threadIdx.x == 0) out[blockIdx.x * 4 + threadIdx.y] = acc;
}
"""


class ImplicitStoreClipping(Pattern):
    """What is stored is clipped by the bounds of the array, as tiles and scattered elements are, or
    under a mask."""

    name = "implicit-store-clipping"
    axis = "boundary_handling"
    source = "cuTile documentation, store: elements outside the array are not written"
    matches = (
        Case(_GATHERED_ROWS, "implicit clip by array bounds"),
        Case(_STORE_MASK, "explicit store mask"),
        Case(FILLED, "explicit store mask"),
        Case(
            vary(TURN_THREADS, ("if (m < rows && n < cols) tile[", "tile[")), "explicit store mask"
        ),
        Case(
            vary(SOFTMAX, ("=True, padding_value=-math.inf", "=False")),
            "implicit clip by array bounds",
        ),
    )
    near_misses = (
        NearMiss(TURN_THREADS, why="threads have branches: told with those outside the problem"),
        NearMiss(_ONE_THREAD, why="one thread stores the number of a row"),
        NearMiss(
            vary(ADD_POINTER, ("y + at, mask=inside), mask=inside)", "y + at, mask=inside))")),
            why="the store has no mask and no view that knows the bounds",
        ),
        NearMiss(ATTENTION, why="tiles are loaded, too: told with their padding"),
        NearMiss(SOFTMAX, why="elements are gathered, too: told with their padding"),
        NearMiss(ROW_NORM, why="the check of the loads may be compiled out: that is told"),
        NearMiss(PRODUCT_POINTER, why="loads are masked too: told with their padding"),
        NearMiss(ADD_POINTER, why="loads are masked too: told with their padding"),
        NearMiss(
            vary(SOFTMAX, ("check_bounds=True)", "check_bounds=False)")), why="nothing is checked"
        ),
        NearMiss(PRODUCT_THREADS, why="loads are masked too: told with their padding"),
        NearMiss(ADD_THREADS, why="one branch around loads and store: told with the loads"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        stores = [a for a in facts.stores if not a.is_atomic]
        read = padded(facts)
        alike = {a.mode for a in read}
        clipped = [a for a in stores if a.mode not in alike and clips_tiles(facts, a)]
        if not read and not any(self._elided(facts, a) for a in facts.loads):
            clipped += [a for a in stores if clips_elements(facts, a)]
        beside = any(
            a.padding and a.mask is not None and facts.types.shape(a.value) for a in facts.loads
        )
        masked = [
            a
            for a in stores
            if a.mask is not None and not beside and not facts.of_threads and moved(facts, a)
        ]
        if clipped:
            yield self.decide(facts, "implicit clip by array bounds", clipped)
        if masked:
            yield self.decide(facts, STORED, masked)
        elif (ways := told_ways(facts)).keys() == {STORED} and not read:
            yield self.decide(facts, STORED, ways[STORED])

    def _elided(self, facts: Facts, access: Access) -> bool:
        """True for a check that the compiler may drop: then that is what is told."""
        check = access.check_bounds
        return check is not None and not isinstance(facts.values.literal(check), bool)
