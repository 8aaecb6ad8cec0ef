"""Whether the loads of the vectors that all rows share, or of keys and values, wait for
anything."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.added_after_product import BIASED, BIASED_TILE
from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_pointer import DECODE_PART
from extractors.patterns.cases_rows import (
    ADD_POINTER,
    LAYER_NORM_POINTER,
    ROW_NORM,
    ROW_NORM_CHUNKS,
    SOFTMAX,
)
from extractors.patterns.cases_rows_kept import CENTRED_THREADS
from extractors.patterns.cases_rows_pointer import ROW_NORM_CHUNKS_POINTER, SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import LAYER_NORM_THREADS, SOFTMAX_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Node
from kb.analysis.lane_products import score_sums
from kb.analysis.normalisations import normalisations
from kb.analysis.row_chunks import passes, way
from kb.analysis.stored import computed
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision

_LOOKED_UP = vary(
    ADD_POINTER,
    ("    inside = at < n\n", "    inside = at < n\n    at = tl.load(y + at)\n"),
)
_SCALED = vary(ADD_POINTER, ("tl.load(y + at, mask=inside)", "tl.load(y)"))
_GROUPED = vary(
    LAYER_NORM_POINTER, ("tl.load(w + at,", "tl.load(w + tl.program_id(0) % 8 * n + at,")
)
_CHAINED = vary(
    BIASED,
    (
        "    acc += tl.load(bias + n, mask=n < N)[None, :]\n",
        "    v = tl.load(bias + n[:, None] * N + n[None, :])\n    acc = tl.dot(acc, v)\n",
    ),
)
_COUNTED = vary(
    ADD_POINTER,
    (
        "    inside = at < n\n",
        "    inside = at < n\n    at += tl.sum(tl.load(y + n + tl.arange(0, T)), axis=0)\n",
    ),
)
"""A sum says where the arrays begin."""
_GROUPED_TILE = vary(ROW_NORM, ("ct.gather(w, at,", "ct.gather(w, (row % 8, at),"))


_HALVES = vary(ADD_POINTER, ("tl.load(y + at", "tl.load(x + n + at"))
_FROM_THE_END = "N // T * T - j + lanes".join(ROW_NORM_CHUNKS_POINTER.rsplit("j + lanes", 1))

_RESIDENT = (
    POINTER
    + """
@triton.jit
def square(a, b, out, T: tl.constexpr):
    row = tl.arange(0, T)
    at = tl.program_id(0) * T * T + row[:, None] * T + row[None, :]
    x = tl.load(a + at)
    y = tl.load(b + at)
    tl.store(out + at, tl.dot(x, y))
"""
)
_RESIDENT_TILE = (
    TILE
    + """
@ct.kernel
def square(a, b, out, T: Int):
    i = ct.bid(0)
    x = ct.load(a, index=(i, 0), shape=(T, T))
    y = ct.load(b, index=(0, i), shape=(T, T))
    acc = ct.mma(x, y, ct.full((T, T), 0.0, dtype=ct.float32))
    ct.store(out, index=(i, i), tile=acc)
"""
)


class WeightLoadOrder(Pattern):
    """Loads that no block id moves, or that meet a reduction only where it is stored, do not depend
    on the reduction of the row, so that they may be in flight with it; or they do. The same of the
    loads of an attention's loop and its products, and of what an epilogue loads. Of two sweeps over
    a row the later one may go back.

    In which line they stand is no decision: independent statements may be exchanged.
    """

    name = "order-of-shared-and-own-loads"
    axis = "load_order"
    source = "NVIDIA, CUDA C++ Best Practices Guide: independent loads in flight hide latency"
    matches = (
        Case(LAYER_NORM_POINTER, "independent of the statistics"),
        Case(ROW_NORM, "independent of the statistics"),
        Case(LAYER_NORM_THREADS, "independent of the statistics"),
        Case(ATTENTION_POINTER, "independent of the scores"),
        Case(ATTENTION, "independent of the scores"),
        Case(DECODE_PART, "independent of the scores"),
        Case(ADD_POINTER, "independent of the compute"),
        Case(_LOOKED_UP, "indices before what they point to"),
        Case(_SCALED, "independent of the compute"),
        Case(_GROUPED, "independent of the statistics"),
        Case(_GROUPED_TILE, "independent of the statistics"),
        Case(_CHAINED, "independent of the product"),
        Case(BIASED, "independent of the product"),
        Case(BIASED_TILE, "independent of the product"),
        Case(ROW_NORM_CHUNKS, "weights after the statistics"),
        Case(ROW_NORM_CHUNKS_POINTER, "weights after the statistics"),
        Case(_HALVES, "independent of the compute"),
        Case(_RESIDENT, "independent of the product"),
        Case(_RESIDENT_TILE, "independent of the product"),
        Case(_FROM_THE_END, "later sweep backwards, from the chunk read last"),
    )
    near_misses = (
        NearMiss(
            vary(_RESIDENT, ("tl.load(b + at", "tl.load(a + at")), why="one tile, taken twice"
        ),
        NearMiss(
            vary(_RESIDENT_TILE, ("ct.load(b, index=(0, i)", "ct.load(a, index=(i, 0)")),
            why="one tile, taken twice",
        ),
        NearMiss(
            CENTRED_THREADS,
            why="what is loaded again is the row itself, centred",
            value="weights after the statistics",
        ),
        NearMiss(
            _LOOKED_UP,
            why="one load says where the other one reads",
            value="independent of the compute",
        ),
        NearMiss(
            ADD_POINTER,
            why="no load says where another one reads",
            value="indices before what they point to",
        ),
        NearMiss(
            vary(
                ROW_NORM_CHUNKS_POINTER,
                (
                    "        part += v",
                    "        part += tl.load(w + at, mask=at < N, other=0.0) * v",
                ),
            ),
            why="the statistics need the weights, too",
        ),
        NearMiss(
            _COUNTED,
            why="the sum is a place, no statistic of what is stored",
            value="weights after the statistics",
        ),
        NearMiss(SOFTMAX, why="nothing is shared by the rows"),
        NearMiss(vary(_HALVES, ("x + n + at", "x + at")), why="one tile, read twice"),
        NearMiss(
            ROW_NORM_CHUNKS_POINTER,
            why="both sweeps begin where the row begins",
            value="later sweep backwards, from the chunk read last",
        ),
        NearMiss(PRODUCT, why="operands of a product stream by"),
        NearMiss(SOFTMAX_POINTER, why="nothing is shared by the rows"),
        NearMiss(SOFTMAX_THREADS, why="nothing is shared by the rows"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        yield from self._streamed(facts)
        yield from self._backwards(facts)
        if facts.contractions:
            yield from self._epilogue(facts)
            return
        reductions = computed(facts, facts.reductions)
        if not reductions:
            yield from self._elementwise(facts)
            return
        later = self._later(facts)
        if later:
            yield self.decide(facts, "weights after the statistics", later)
            return
        wide = [a for a in facts.loads if facts.types.shape(a.value) and a.loop is None]
        shared = [a for a in wide if not _own(a)]
        own = [a for a in wide if _own(a)]
        if not shared or not own:
            own, shared = self._beside(facts, reductions)
        if not shared:
            return
        late = [a for a in shared if any(self._waits(facts, a, r) for r in reductions)]
        value = "weights after the statistics" if late else "independent of the statistics"
        yield self.decide(facts, value, [*shared, *own])

    def _beside(self, facts: Facts, taken: list[Node]) -> tuple[list[Access], list[Access]]:
        """Of the loads outside of the loops of reductions or products: those that they take in; and
        those of other arrays that none takes in and that meet one on the way to a store."""
        into = [
            a for a in facts.loads if any(facts.graph.rests_on(n.result, a.node) for n in taken)
        ]
        arrays = {a.array for a in into}
        arrays |= {
            s.array
            for s in facts.stores
            if any(facts.graph.rests_on(s.value, a.node) for a in into)
        }
        loops = {n.loop for n in taken}
        met = [
            s.value for s in facts.stores if any(facts.graph.rests_on(s.value, n) for n in taken)
        ]
        others = [
            a
            for a in facts.loads
            if a.array not in arrays
            and (a.loop is None or a.loop in loops)
            and any(facts.graph.rests_on(value, a.node) for value in met)
        ]
        return into, others

    def _epilogue(self, facts: Facts) -> Iterable[Decision]:
        """Tiles that are added to a finished product or that scale it, after its loop."""
        if facts.score_products:
            return
        summed = [p for p in facts.contractions if p.loop is not None]
        if not summed and not facts.of_threads:
            yield from self._resident(facts)
            return
        _, others = self._beside(facts, summed)
        loops = {p.loop for p in summed}
        others = [a for a in others if facts.types.shape(a.value) and a.loop not in loops]
        if others:
            late = [a for a in others if any(self._waits(facts, a, p) for p in summed)]
            value = "operands after the product" if late else "independent of the product"
            yield self.decide(facts, value, others)

    def _resident(self, facts: Facts) -> Iterable[Decision]:
        """Tiles of several arrays that a kernel without a loop around its products holds, none of
        which is found by what another product gave."""
        loads = [a for a in facts.loads if facts.types.shape(a.value) and a.loop is None]
        late = any(self._waits(facts, a, p) for a in loads for p in facts.contractions)
        if several(loads) and not late:
            yield self.decide(facts, "independent of the product", loads)

    def _streamed(self, facts: Facts) -> Iterable[Decision]:
        """Operands of both products of an attention that one loop loads."""
        for loop in dict.fromkeys(p.loop for p in facts.score_products if p.loop is not None):
            products = [p for p in facts.contractions if p.loop is loop]
            held = [a for p in products for v in p.op.inputs[:2] for a in facts.held_loads(v)]
            loads = [a for a in dict.fromkeys(held) if a.loop is loop]
            if len(loads) < 2:
                continue
            late = [a for a in loads if any(self._waits(facts, a, p) for p in products)]
            value = "operands after the scores" if late else "independent of the scores"
            yield self.decide(facts, value, loads)
        yield from self._rows(facts)

    def _rows(self, facts: Facts) -> Iterable[Decision]:
        """Keys and values that one loop loads, where lanes are summed to scores."""
        sums = score_sums(facts)
        for around in dict.fromkeys(n.loop for n in sums):
            inside = [a for a in facts.loads if a.loop is around]
            loads = [a for a in inside if len(facts.types.shape(a.value)) > 1]
            if len({a.array for a in loads}) > 1:
                late = [a for a in loads if any(self._waits(facts, a, n) for n in sums)]
                value = "operands after the scores" if late else "independent of the scores"
                yield self.decide(facts, value, loads)

    def _elementwise(self, facts: Facts) -> Iterable[Decision]:
        """Tiles of several arrays or parts of one, and numbers computed with them, of which none is
        needed to find another; or one that says where the others are."""
        wide = [a for a in facts.loads if facts.types.shape(a.value)]
        if not wide or not several(facts.loads):
            return
        points = [b for b in facts.loads if any(self._waits(facts, a, b.node) for a in wide)]
        if any(facts.types.shape(b.value) for b in points):
            led = [a for a in wide if any(self._waits(facts, a, b.node) for b in points)]
            yield self.decide(facts, "indices before what they point to", [*points, *led])
            return
        beside = [
            a for a in facts.loads if a in wide or (a not in points and self._computed(facts, a))
        ]
        if several(beside):
            yield self.decide(facts, "independent of the compute", beside)

    def _backwards(self, facts: Facts) -> Iterable[Decision]:
        """A row that one loop goes along from its start, and a later one from its end."""
        for loads in passes(facts).values():
            ways = [(a, way(facts, a)) for a in loads]
            ahead = [a for a, way in ways if way > 0]
            back = [a for a, way in ways if way < 0]
            later = [a for a in back if any(b.node.index < a.node.index for b in ahead)]
            if later:
                value = "later sweep backwards, from the chunk read last"
                yield self.decide(facts, value, [n for a in later for n in (a.loop, a)])

    def _computed(self, facts: Facts, access: Access) -> bool:
        """A number that is stored with what it was computed with."""
        return any(facts.graph.rests_on(s.value, access.node) for s in facts.stores)

    def _later(self, facts: Facts) -> list[Access]:
        """Loads of a loop over the row that takes in what an earlier loop found for a root, of
        arrays that the earlier loop neither reads nor writes."""
        roots = [norm.root for norm in normalisations(facts)]
        before = {n for root in roots for n in facts.graph.roots(root.result, *LOOPS)}
        seen = {a.array for a in facts.loads if a.loop in before}
        seen |= {
            s.array for s in facts.stores if s.loop is not None
            and any(facts.graph.rests_on(root.result, s.loop) for root in roots)
        }  # fmt: skip
        return [
            a
            for a in facts.loads
            if a.loop is not None
            and a.loop not in before
            and a.array not in seen
            and any(self._meets(facts, s, a, root) for s in facts.stores for root in roots)
        ]

    def _meets(self, facts: Facts, store: Access, load: Access, root: Node) -> bool:
        """True when a store of the load's loop takes both the load and the root in."""
        both = (load.node, root)
        return store.loop is load.loop and all(facts.graph.rests_on(store.value, n) for n in both)

    def _waits(self, facts: Facts, access: Access, reduction: Node) -> bool:
        return any(facts.graph.rests_on(value, reduction) for value in access.node.op.inputs)


def several(loads: Iterable[Access]) -> bool:
    """True for tiles of two arrays, or at two places of one that both are read."""
    read = [a for a in loads if a.array is not None]
    return any(
        a.array != b.array or (a.index != b.index and not a.node.excludes(b.node))
        for at, a in enumerate(read)
        for b in read[at + 1 :]
    )


def _own(access: Access) -> bool:
    return any(index.has(AtomKind.BLOCK) for index in access.index)
