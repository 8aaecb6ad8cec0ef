"""Items that a loaded mark leaves out of the masks of loads and stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, masks
from kb.evidence import Decision

_VALUE = "marked items left out by the mask"
_SLOTS = (
    POINTER
    + """
@triton.jit
def gather(cache, slots, out, n, W: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    inside = at < n
    slot = tl.load(slots + at // W, mask=inside, other=0)
    v = tl.load(cache + slot * W + at % W, mask=inside & (slot > 0), other=0.0)
    tl.store(out + at, v, mask=inside)
"""
)


class MarkedLanes(Pattern):
    """The mask of a load or a store asks whether a loaded number, by which places are found, is
    none at all: zero or below. Told where no scores are masked."""

    name = "marked-items-masked"
    axis = "mask_application"
    source = "Kwon et al., PagedAttention (2023): slots of padding are negative"
    matches = (
        Case(_SLOTS, _VALUE),
        Case(vary(_SLOTS, ("slot > 0", "slot >= 0")), _VALUE),
    )
    near_misses = (
        NearMiss(vary(_SLOTS, (" & (slot > 0)", "")), why="no mark is asked for"),
        NearMiss(vary(_SLOTS, ("slot > 0", "at > slot")), why="places are compared"),
        NearMiss(
            vary(_SLOTS, ("cache + slot * W", "cache + at // W * W")),
            why="a number by its value, no name of a place",
        ),
        NearMiss(
            vary(_SLOTS, ("tl.load(slots + at // W, mask=inside, other=0)", "tl.load(slots)")),
            why="one place for all",
        ),
        NearMiss(vary(_SLOTS, ("slot > 0", "slot < n")), why="the extent of what is read"),
        NearMiss(ADD_POINTER, why="places alone are asked for"),
        NearMiss(PRODUCT, why="no masks"),
        NearMiss(ATTENTION, why="scores are masked"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads or masks(facts):
            return
        found: dict[Node | Access, None] = {}
        for access in facts.accesses:
            tests = [*_marks(facts, access)] if access.mask is not None else []
            found |= dict.fromkeys((*tests, access)) if tests else {}
        if found:
            yield self.decide(facts, _VALUE, found)


def _marks(facts: Facts, access: Access) -> Iterator[Node]:
    """Comparisons of a mask that ask a loaded number for a mark."""
    for test in comparisons(facts, access.mask):
        for value, mark in (test.op.inputs[:2], test.op.inputs[1::-1]):
            loads = facts.held_loads(value)
            own = bool(loads) and all(_moves(load) for load in loads)
            named = bool({a.value for a in loads} & facts.offset_loads)
            if own and named and facts.number(mark) in (0, -1):
                yield test


def _moves(load: Access) -> bool:
    """Whether blocks or lanes load each a number of their own."""
    return any(index.constant is None and index.atoms() for index in load.index)
