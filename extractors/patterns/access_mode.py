"""How memory is addressed: whole tiles of a view, or elements."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, ATTENTION_LSE, POINTER, PRODUCT, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from extractors.patterns.cases_rows_threads import ONE_THREAD, ROW_NORM_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Node
from kb.analysis.registers import is_address
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_VALUES = {
    Mode.TILE: "tile-indexed (TMA-able) load",
    Mode.DESCRIPTOR: "tile-indexed (TMA-able) load",
    Mode.BLOCK_POINTER: "tile-indexed (TMA-able) load",
    Mode.ELEMENT: "element gather/pointer",
    Mode.POINTER: "element gather/pointer",
    Mode.ADVANCED: "advanced-indexing (sparse row + dense slices)",
}
_MOVING = CASTS | COPIES | {OpKind.ADD, OpKind.POINTER_CAST, OpKind.IF, OpKind.SELECT}
"""Steps on the way to an address."""

_SINGLE = (Mode.POINTER, Mode.TILE, Mode.ELEMENT)
"""Modes in which single numbers are read as well."""

_WEIGHED = vary(
    ROW_NORM,
    ("eps: ct.Constant[float]", "eps"),
    ("+ eps)", "+ ct.load(eps, 0, shape=()))"),
)
FILLED = (
    POINTER
    + """
@triton.jit
def fill(out, n, number, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    tl.store(out + at, number, mask=at < n)
"""
)
_SCALAR = (
    POINTER
    + """
@triton.jit
def count(n, out):
    tl.store(out, tl.load(n) + 1)
"""
)


class AccessMode(Pattern):
    """The kind of the memory operations."""

    name = "access-mode-tile-indexed-bulk-vs-element-gather"
    axis = "access_mode"
    source = "NVIDIA, CUDA C++ Programming Guide, Tensor Memory Access"
    matches = (
        Case(ATTENTION, "tile-indexed (TMA-able) load"),
        Case(ATTENTION_LSE, "element gather/pointer"),
        Case(ROW_NORM, "element gather/pointer"),
        Case(ADD_POINTER, "element gather/pointer"),
        Case(FILLED, "element gather/pointer"),
        Case(ROW_NORM_THREADS, "element gather/pointer"),
        Case(ONE_THREAD, "element gather/pointer"),
        Case(
            vary(_SCALAR, ("out, tl.load(n)", "out + tl.program_id(0), tl.load(n)")),
            "element gather/pointer",
        ),
    )
    near_misses = (
        NearMiss(_SCALAR, why="single numbers are read and written, no tile"),
        NearMiss(
            _WEIGHED,
            why="a single number is no tile that a copy engine moves",
            value="tile-indexed (TMA-able) load",
        ),
        NearMiss(
            vary(_WEIGHED, ("ct.load(eps, 0, shape=())", "ct.load(eps, (0,), shape=(1,)).item()")),
            why="a tile of one number",
            value="tile-indexed (TMA-able) load",
        ),
        NearMiss(PRODUCT, why="whole tiles are loaded", value="element gather/pointer"),
        NearMiss(
            PRODUCT_THREADS, why="threads load elements", value="tile-indexed (TMA-able) load"
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Access]] = {}
        alone = not any(facts.types.shape(a.value) for a in facts.accesses) and (
            facts.of_threads or self._placed(facts)
        )
        for access in facts.accesses:
            if alone or self._several(facts, access) or access.mode not in _SINGLE:
                found.setdefault(_VALUES[access.mode], []).append(access)
        gathered = [a for a in facts.accesses if a.mode is Mode.ELEMENT] if not found else []
        if gathered:
            found[_VALUES[Mode.ELEMENT]] = gathered
        for value, members in found.items():
            places = [node for access in members for node in _address(facts, access)]
            yield self.decide(facts, value, [*members, *places])

    def _several(self, facts: Facts, access: Access) -> bool:
        """More than a single number; one that a tile of one element holds is no more."""
        shape = moved(facts, access)
        wide = any(extent != "1" for extent in shape)
        return bool(shape) if access.mode is Mode.POINTER else wide

    def _placed(self, facts: Facts) -> bool:
        """Single numbers, each where a block id says."""
        return any(
            index.has(AtomKind.BLOCK)
            for access in facts.accesses
            if access.mode is Mode.POINTER
            for index in access.index
        )


def moved(facts: Facts, access: Access) -> tuple[str, ...]:
    """The extents of what an access moves: of one number that is stored in many places, those of
    the places."""
    shape = facts.types.shape(access.value)
    if shape or facts.of_threads or not access.is_store or access.mode is not Mode.POINTER:
        return shape
    return facts.types.shape(access.node.op.operand("pointer") or "")


def _address(facts: Facts, access: Access) -> list[Node]:
    """Of a pointer, the additions that complete it or move it on from round to round, of a thread's
    all that move it, or a pointer that is stored there, and the promises made on its way; else what
    made the view."""
    pointer = access.node.op.operand("pointer")
    if access.mode is not Mode.POINTER or pointer is None:
        return [access.made] if access.made is not None else []
    kinds = (OpKind.MULTIPLE_OF, OpKind.MAX_CONTIGUOUS, OpKind.MAX_CONSTANCY)
    promises = facts.graph.roots(pointer, *kinds)
    carried = facts.graph.feeds(pointer) if pointer in facts.graph.arguments else (pointer,)
    made = (facts.graph.producer(value) for value in carried)
    moves = [n for n in made if n is not None and n.op.kind == OpKind.ADD]
    if facts.of_threads:
        held = [v for v in access.node.op.inputs[1:] if is_address(facts.graph, v)]
        ways = (
            facts.graph.upstream(v, lambda n: n.op.kind not in _MOVING) for v in (pointer, *held)
        )
        return [n for way in ways for n in way if is_address(facts.graph, _result(n))]
    return [*promises, *moves, *(n for m in moves for n in _offsets(facts, m))]


def _result(node: Node) -> str:
    return node.op.results[0].name if node.op.results else ""


def _offsets(facts: Facts, move: Node) -> list[Node]:
    """Where rows and columns come together in what an addition moves a pointer by."""
    made = (facts.graph.producer(value) for value in move.op.inputs[:2])
    sums = [n for n in made if n is not None and n.op.kind == OpKind.ADD and not facts.of_threads]
    return [n for n in sums if len(facts.types.shape(n.result)) > 1]
