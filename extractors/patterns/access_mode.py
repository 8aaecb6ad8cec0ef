"""How memory is addressed: whole tiles of a view, or elements."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ADD_POINTER, ATTENTION, ATTENTION_LSE, POINTER, ROW_NORM
from kb.evidence import Decision

_VALUES = {
    Mode.TILE: "tile-indexed (TMA-able) load",
    Mode.DESCRIPTOR: "tile-indexed (TMA-able) load",
    Mode.BLOCK_POINTER: "tile-indexed (TMA-able) load",
    Mode.ELEMENT: "element gather/pointer",
    Mode.POINTER: "element gather/pointer",
    Mode.ADVANCED: "advanced-indexing (sparse row + dense slices)",
}
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
    )
    near_misses = (NearMiss(_SCALAR, why="single numbers are read and written, no tile"),)

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Access]] = {}
        for access in facts.accesses:
            if facts.types.shape(access.value) or access.mode is not Mode.POINTER:
                found.setdefault(_VALUES[access.mode], []).append(access)
        for value, members in found.items():
            yield self.decide(facts, value, members)
