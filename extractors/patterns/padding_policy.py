"""What lanes outside an array read as."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, SOFTMAX
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons
from kb.evidence import Decision

_VALUES = {
    "zero": "ZERO",
    "neg_inf": "NEG_INF",
    "undetermined": "UNDETERMINED (hardware default)",
    "pos_inf": "explicit value",
    "nan": "explicit value",
    "value": "explicit value",
}


_CLIPPED = (
    TILE
    + """
@ct.kernel
def copy(x, out, T: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    ct.scatter(out, at, ct.gather(x, at))
"""
)


class PaddingPolicy(Pattern):
    """The padding of a load, or the other value of a masked load; none given is undetermined.

    Stores under a mask beside such loads belong to the same decision.
    """

    name = "out-of-bounds-padding-policy"
    axis = "boundary_handling"
    source = "cuTile documentation, PaddingMode; Triton documentation, load: other"
    matches = (
        Case(ATTENTION, "UNDETERMINED (hardware default)"),
        Case(PRODUCT, "ZERO"),
        Case(SOFTMAX, "NEG_INF"),
        Case(ATTENTION_POINTER, "masked load other="),
        Case(ADD_POINTER, "masked load, other not given"),
        Case(FLASH_THREADS, "masked load other="),
    )
    near_misses = (
        NearMiss(
            vary(ADD_POINTER, (", mask=inside) +", ") +"), ("y + at, mask=inside)", "y + at)")),
            why="nothing is masked, so nothing is padded",
        ),
        NearMiss(_CLIPPED, why="the access says nothing and its check may be compiled out"),
        NearMiss(ADD_THREADS, why="lanes outside do not load at all"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Access]] = {}
        for access in facts.loads:
            if (
                access.padding
                and not self._scalar(facts, access)
                and not self._unchecked(facts, access)
            ):
                found.setdefault(_value(access), []).append(access)
        masked = [v for v, loads in found.items() if any(a.mask is not None for a in loads)]
        for value, loads in found.items():
            stores = [
                a
                for a in facts.stores
                if a.mask is not None and not a.is_atomic and value in masked[:1]
            ]
            yield self.decide(facts, value, [*loads, *stores, *self._branches(facts, loads)])

    def _branches(self, facts: Facts, loads: list[Access]) -> list[Node]:
        """The comparisons of branches of threads that loads stand under."""
        guarded = {a.mask for a in loads if a.node.op.attribute("guarded")}
        return [n for mask in guarded for n in comparisons(facts, mask)]

    def _scalar(self, facts: Facts, access: Access) -> bool:
        """A single element is inside or the program is wrong."""
        return not facts.types.shape(access.value)

    def _unchecked(self, facts: Facts, access: Access) -> bool:
        """True when the access gives no padding and only a check of bounds that may be compiled
        out."""
        return access.mode is Mode.ELEMENT and access.node.op.operand("padding") is None


def _value(access: Access) -> str:
    if access.mode is Mode.POINTER:
        if access.padding == "undetermined":
            return "masked load, other not given"
        return (
            "masked load other="
            if access.padding == "zero"
            else f"masked load other={access.padding}"
        )
    return _VALUES[access.padding]
