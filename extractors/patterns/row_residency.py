"""Whether a row is read once and kept, or read again for every pass."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, PRODUCT_POINTER, TILE, vary
from extractors.patterns.cases_kept import (
    AGAIN,
    AGAIN_TILE,
    BALANCED,
    BALANCED_TILE,
    EITHER_WAY,
    GROUPS_IN_ROUNDS,
    GROUPS_POINTER,
    GROUPS_THREADS,
    GROUPS_TILE,
    LEFT,
    OWN_PART,
    OWN_PART_TILE,
    REGIMES,
    ROUNDS_OF_CHOICE,
    SUMMED_ON,
    TAIL,
    VECTORS_KEPT,
)
from extractors.patterns.cases_norms_threads import ADDED_THREADS, SCORES_THREADS, TYPES_THREADS
from extractors.patterns.cases_pointer import FLASH_POINTER
from extractors.patterns.cases_rows import (
    ADD_POINTER,
    CENTRED_TILES,
    DELTA_TILE,
    NORM_PERSISTENT,
    ROW_NORM,
    ROW_NORM_CHUNKS,
    SOFTMAX,
    SOFTMAX_CHUNKS,
)
from extractors.patterns.cases_rows_pointer import DELTA, ROW_NORM_POINTER, SCANNED_POINTER
from extractors.patterns.cases_rows_threads import (
    ADD_THREADS,
    BACKWARD_REGISTERS_THREADS,
    OWN_ROW_THREADS,
    ROW_NORM_CHUNKS_THREADS,
    ROW_NORM_THREADS,
    SORT_THREADS,
)
from extractors.patterns.cases_staged import (
    ALONE_THREADS,
    HELD_BETWEEN_THREADS,
    LEFT_FIRST_THREADS,
    STAGED_ROW_THREADS,
    STAGED_TILE_THREADS,
    TAKEN_IN_TURNS_THREADS,
)
from kb.analysis.accesses import Access
from kb.analysis.declared import arrays_at
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.kept_rows import (
    over_rounds,
    read_again,
    read_for_own_part,
    reduced,
    resident,
    shared_vector,
)
from kb.analysis.peeled import peeled_tails
from kb.analysis.register_rows import held_over_barrier, kept_in_registers, loaded_before
from kb.analysis.row_chunks import along, comes_after, goes_on, passes, sweeps
from kb.analysis.staged_tiles import staged_rows, staged_tiles
from kb.analysis.walked_again import walked_again
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, READS, OpKind

_STOPS = READS | CONTRACTIONS
_PUTS = READS | {OpKind.INSERT}
_WHOLE = (OpKind.SORT, OpKind.SCAN, OpKind.CUMSUM, OpKind.CUMPROD)
_REGISTERS = "single tile, row cached in registers"
_ONCE = "row read once, in chunks"
_TILE = "tile staged in shared memory"
_NUMBERS = {2: "multi-pass reload (2 passes)", 3: "multi-pass reload (3 passes)"}

_SUMMED = (
    POINTER
    + """
@triton.jit
def total(x, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    acc = 0.0
    for j in range(0, n, T):
        at = tl.arange(0, T) + j
        acc += tl.sum(tl.load(x + row * n + at, mask=at < n, other=0.0), axis=0)
    tl.store(out + row, acc)
"""
)


_TILES = (
    TILE
    + """
@ct.kernel
def twice(x, out, T: Int, MANY: Int):
    row = ct.bid(0)
    for j in range(MANY):
        v = ct.load(x, index=(row, j), shape=(1, T))
        ct.store(out, index=(row, j), tile=v + v)
"""
)
_FULL_TILES = (
    TILE
    + """
@ct.kernel
def twice(x, out, n: Int, T: Int, FULL: Int):
    row = ct.bid(0)
    for j in range(FULL):
        at = j * T + ct.arange(T, dtype=ct.int32)
        v = ct.gather(x, (row, at), check_bounds=False)
        ct.scatter(out, (row, at), v + v, check_bounds=False)
    if FULL * T < n:
        j = FULL
        at = j * T + ct.arange(T, dtype=ct.int32)
        v = ct.gather(x, (row, at), padding_value=0.0)
        ct.scatter(out, (row, at), v + v)
"""
)


class RowResidency(Pattern):
    """One load feeds both a reduction and the output; or several loops load the same array by the
    same index; or a product in a loop reads what was loaded before the loop; or a row is sorted or
    scanned as a whole."""

    name = "row-residency-register-cached-single-tile-vs-multi-pass-reload"
    axis = "row_residency"
    source = "Milakov and Gimelshein, Online normalizer calculation for softmax (2018): passes"
    matches = (
        Case(ADDED_THREADS, "multi-pass reload (3 passes)"),
        Case(CENTRED_TILES, "multi-pass reload (2 passes)"),
        Case(EITHER_WAY, _ONCE),
        Case(REGIMES, "multi-pass reload (2 passes), or one tile in registers"),
        Case(ROW_NORM, _REGISTERS),
        Case(NORM_PERSISTENT, _REGISTERS),
        Case(SOFTMAX, _REGISTERS),
        Case(ROW_NORM_CHUNKS, "multi-pass reload (2 passes)"),
        Case(SOFTMAX_CHUNKS, "multi-pass reload (3 passes)"),
        Case(ROW_NORM_POINTER, _REGISTERS),
        Case(ROW_NORM_THREADS, _REGISTERS),
        Case(SORT_THREADS, _REGISTERS),
        Case(ATTENTION, "tile kept over the loop"),
        Case(FLASH_POINTER, "tile kept over the loop"),
        Case(DELTA, _REGISTERS),
        Case(DELTA_TILE, _REGISTERS),
        Case(_SUMMED, _ONCE),
        Case(ALONE_THREADS, "multi-pass reload (3 passes)"),
        Case(
            vary(_SUMMED, ("row * n + at", "(row * n + at) * by"), ("out, n,", "out, n, by,")),
            _ONCE,
        ),
        Case(SCANNED_POINTER, _REGISTERS),
        Case(STAGED_ROW_THREADS, "row staged in shared memory"),
        Case(
            STAGED_ROW_THREADS.replace("row[i] = v", "row[i] = v + 1.f"),
            "row staged in shared memory",
        ),
        Case(STAGED_TILE_THREADS, _TILE),
        Case(HELD_BETWEEN_THREADS, _REGISTERS),
        Case(LEFT_FIRST_THREADS, _REGISTERS),
        Case(BACKWARD_REGISTERS_THREADS, _REGISTERS),
        Case(GROUPS_THREADS, _REGISTERS),
        Case(LEFT, _REGISTERS),
        Case(OWN_ROW_THREADS, _REGISTERS),
        Case(GROUPS_POINTER, _REGISTERS),
        Case(GROUPS_TILE, _REGISTERS),
        Case(GROUPS_IN_ROUNDS, _REGISTERS),
        Case(BALANCED, "tile kept over the loop"),
        Case(BALANCED_TILE, "tile kept over the loop"),
        Case(OWN_PART, "multi-pass reload (2 passes)"),
        Case(OWN_PART_TILE, "multi-pass reload (2 passes)"),
        Case(TAIL, _ONCE),
        Case(_FULL_TILES, _ONCE),
        Case(_TILES, _ONCE),
        Case(AGAIN, "multi-pass reload (2 passes)"),
        Case(AGAIN_TILE, "multi-pass reload (2 passes)"),
        Case(VECTORS_KEPT, _REGISTERS),
        Case(ROUNDS_OF_CHOICE, _REGISTERS),
    )
    near_misses = (
        NearMiss(
            vary(LEFT, ("= v / part[0]", "= x[at] / part[0]")),
            why="the element is loaded again",
            value=_REGISTERS,
        ),
        NearMiss(
            vary(LEFT, ("= v / part[0]", "= part[127 - threadIdx.x]")),
            why="only what others left is stored",
            value=_REGISTERS,
        ),
        NearMiss(
            vary(
                HELD_BETWEEN_THREADS,
                ("    int row", "    to += held[0].x > 0.f;\n    int row"),
                ("= held[i]", "= x[i]"),
            ),
            why="the first alone is taken",
        ),
        NearMiss(TAKEN_IN_TURNS_THREADS, why="threads go on with each other's sums", value=_TILE),
        NearMiss(
            STAGED_TILE_THREADS.replace("tile[i]", "tile[threadIdx.x]"),
            why="every thread takes its own",
            value=_TILE,
        ),
        NearMiss(
            STAGED_ROW_THREADS.replace("row[i] * r", "r").replace("= v;", "= 1.f;"),
            why="no row is left there",
            value="row staged in shared memory",
        ),
        NearMiss(SCORES_THREADS, why="keys are no values", value="multi-pass reload (2 passes)"),
        NearMiss(
            vary(BACKWARD_REGISTERS_THREADS, ("= kept[j] - part", "= x[at + j] - part")),
            why="what was put away is not taken out later",
            value=_REGISTERS,
        ),
        NearMiss(
            OWN_ROW_THREADS.replace("= v[i] /", "= x[at + i] /"), why="read again", value=_REGISTERS
        ),
        NearMiss(TYPES_THREADS, why="one of two types", value=_NUMBERS[2]),
        NearMiss(LEFT_FIRST_THREADS, why="others read it first", value=_NUMBERS[2]),
        NearMiss(
            LEFT_FIRST_THREADS, why="what is made lies there", value="row staged in shared memory"
        ),
        NearMiss(EITHER_WAY, why="one pass on either side", value="multi-pass reload (2 passes)"),
        NearMiss(SOFTMAX_CHUNKS, why="every pass reads the row again", value=_ONCE),
        NearMiss(ROW_NORM, why="the row is one tile", value=_ONCE),
        NearMiss(
            _SUMMED.replace("(0, T) + j", "(0, T)"), why="one tile again and again", value=_ONCE
        ),
        NearMiss(SUMMED_ON, why="the sum is of all rounds so far", value=_REGISTERS),
        NearMiss(
            vary(BALANCED, ("range(n):\n", "range(n):\n        v = tl.load(place + _)\n")),
            why="loaded again in every round",
            value="tile kept over the loop",
        ),
        NearMiss(
            vary(OWN_PART, ("at = row +", "at = tl.program_id(0) * T +")),
            why="no part of the row that was summed",
        ),
        NearMiss(vary(AGAIN, ("w * r", "w")), why="stored without what the row was reduced to"),
        NearMiss(vary(TAIL, ("range(full, ", "range(0, ")), why="read twice", value=_ONCE),
        NearMiss(
            vary(_TILES, ("index=(row, j), shape=(1, T)", "index=(j, row), shape=(T, 8)")),
            why="tiles of a column",
            value=_ONCE,
        ),
        NearMiss(vary(_FULL_TILES, ("j = FULL", "j = 0")), why="the first tile again", value=_ONCE),
        NearMiss(ADD_POINTER, why="nothing is reduced"),
        NearMiss(PRODUCT_POINTER, why="both operands are loaded in every iteration"),
        NearMiss(PRODUCT, why="operands of a product are no rows"),
        NearMiss(
            vary(
                PRODUCT_POINTER,
                ("    acc = tl.zeros(", "    by = tl.load(out)\n    acc = tl.zeros("),
                ("tl.dot(x, y)", "tl.dot(x * by, y)"),
            ),
            why="one number is no tile",
        ),
        NearMiss(ADD_THREADS, why="nothing is reduced"),
        NearMiss(
            ALONE_THREADS.replace("expf(own[i] - top);", "top;").replace(
                "expf(own[i] - top) /", "top /"
            ),
            why="one loop reads the row",
        ),
        NearMiss(
            ROW_NORM_CHUNKS_THREADS,
            why="shared memory holds a number per warp, not the row",
            value="row staged in shared memory",
        ),
    )

    def decide(
        self, facts: Facts, value: str, where: Iterable[Where], subject: str | None = None
    ) -> Decision:
        """A decision with the variables that a thread keeps a row in."""
        places = [*where]
        nodes = (a.node if isinstance(a, Access) else a for a in places)
        kept = (n for n in nodes if isinstance(n, Node) and n.op.kind in _PUTS)
        arrays = arrays_at(facts, kept) if facts.of_threads and value == _REGISTERS else []
        return super().decide(facts, value, [*places, *arrays], subject)

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions:
            held = [a for a in facts.loads if self._held(facts, a)]
            if held and (facts.of_threads or any(facts.types.shape(a.value) for a in held)):
                yield self.decide(facts, "tile kept over the loop", held)
            return
        if not facts.reductions:
            yield from self._unreduced(facts)
            return
        if staged := staged_rows(facts):
            yield self.decide(facts, "row staged in shared memory", staged)
            apart = [a for a in facts.loads if a not in staged]
            if own := kept_in_registers(facts, apart):
                yield self.decide(facts, _REGISTERS, own)
            return
        again = passes(facts)
        if again:
            loads = next(iter(again.values()))
            value = _NUMBERS.get(sweeps(facts, loads), "multi-pass reload")
            kept = [a for a in resident(facts) if all(a.node.excludes(b.node) for b in loads)]
            value = f"{value}, or one tile in registers" if kept else value
            yield self.decide(facts, value, [*kept, *loads])
            return
        kept = resident(facts)
        row: list[Where] = [*kept, *kept_in_registers(facts, facts.loads)]
        if not row and (twice := read_for_own_part(facts)):
            yield self.decide(facts, _NUMBERS[2], twice)
        elif not row and (depth := read_again(facts)):
            value = _NUMBERS.get(max(depth.values()) + 1, "multi-pass reload")
            yield self.decide(facts, value, [*depth])
        elif row:
            row += reduced(facts, kept)
            row += [a for a in facts.loads if kept and shared_vector(facts, a)]
            yield self.decide(facts, _REGISTERS, row)
        else:
            yield from self._unreduced(facts)

    def _unreduced(self, facts: Facts) -> Iterable[Decision]:
        """A row that is sorted or scanned as a whole, or that a loop goes along once."""
        if again := walked_again(facts):
            value = _NUMBERS.get(len({a.loop for a in again}), "multi-pass reload")
            yield self.decide(facts, value, again)
            return
        if held := kept_in_registers(facts, facts.loads):
            yield self.decide(facts, _REGISTERS, held)
            if tiles := staged_tiles(facts):
                yield self.decide(facts, _TILE, tiles)
        elif beside := held_over_barrier(facts):
            yield self.decide(facts, _REGISTERS, beside)
        elif rounds := over_rounds(facts):
            yield self.decide(facts, "tile kept over the loop", rounds)
        elif put := [a for a in facts.loads if self._sorted(facts, a)]:
            yield self.decide(facts, _REGISTERS, put)
        elif once := self._once(facts):
            yield self.decide(facts, _ONCE, once)
        elif tiles := staged_tiles(facts):
            yield self.decide(facts, _TILE, tiles)
        elif before := loaded_before(facts):
            yield self.decide(facts, _REGISTERS, before)

    def _once(self, facts: Facts) -> list[Where]:
        """Loads of a loop that goes along a row in tiles, of arrays that nothing else reads."""
        if facts.of_threads:
            return []
        chunks = [a for a in facts.loads if a.array is not None and along(facts, a)]
        found: list[Where] = []
        for access in chunks:
            others = [a for a in facts.loads if a.array == access.array and a.loop != access.loop]
            others = [a for a in others if not a.node.excludes(access.node)]
            others = [a for a in others if not self._further(facts, access, a)]
            wide = any(e != "1" for a in others for e in facts.types.shape(a.value))
            if not wide and access.loop is not None:
                found += [access.loop, access]
        return found

    def _further(self, facts: Facts, access: Access, other: Access) -> bool:
        """Whether one of two loads goes on where the loop of the other one ends."""
        if any(t.load is other and t.loop is access.loop for t in peeled_tails(facts)):
            return True
        beside = comes_after(facts, access, other)
        return beside or goes_on(facts, access, other) or goes_on(facts, other, access)

    def _sorted(self, facts: Facts, access: Access) -> bool:
        """A load, in no loop that runs, of what is then sorted or scanned as a whole."""
        sorts = [v for n in facts.graph.of(*_WHOLE) for v in n.op.inputs]
        if facts.of_threads and not facts.types.shape(access.value):
            return False  # One number for all threads.
        if not any(facts.graph.rests_on(v, access.node) for v in sorts):
            return False
        return not any(access.node.inside(loop.node) for loop in facts.rolled_loops)

    def _held(self, facts: Facts, access: Access) -> bool:
        """A load before a loop whose products read it, by itself or scaled, in every iteration."""
        for product in facts.contractions:
            loop = facts.loop(product.loop)
            if loop is None or access.node.inside(loop.node):
                continue
            sides = [product.op.operand(role) or "" for role in ("lhs", "rhs")]
            if facts.graph.made_from(sides, (access.node,), lambda n: n.op.kind in _STOPS):
                return True
        return False
