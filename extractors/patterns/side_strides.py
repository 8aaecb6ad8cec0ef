"""A narrow output beside the tiles, stored at strides of its own."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.strides import joined_at
from kb.evidence import Decision

_SCALES = (
    POINTER
    + """
@triton.jit
def small(x, out, scales, n, width, step, hop, T: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    at = part * T + tl.arange(0, T)
    v = tl.load(x + row * width + at)
    top = tl.max(tl.abs(v), axis=0)
    tl.store(out + row * width + at, v / top)
    tl.store(scales + row * step + part * hop, top)
"""
)


class SideStrides(Pattern):
    """What a reduction gave is stored beside a wider output, at two outer indices, each times a
    stride that was handed in for this array alone."""

    name = "side-buffer-at-strides-of-its-own"
    axis = "auxiliary_layout"
    source = "PyTorch documentation, tensor views: stride"
    matches = (Case(_SCALES, "strided"),)
    near_misses = (
        NearMiss(
            vary(_SCALES, ("row * step + part * hop", "row")),
            why="one number per row, one after the other",
        ),
        NearMiss(vary(_SCALES, ("row * step + part * hop, top", "row * width + at, v")), why="a second wide output"),  # noqa: E501
        NearMiss(ROW_NORM, why="tiles are stored in views"),
        NearMiss(PRODUCT_POINTER, why="there is one output"),
        NearMiss(ADD_POINTER, why="there is one output"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.program is not facts.source:
            return
        found = [a for a in facts.stores if self._strided(facts, a)]
        if found:
            made = [n for a in found for n in joined_at(facts, a)]
            yield self.decide(facts, "strided", [*found, *made])

    def _strided(self, facts: Facts, access: Access) -> bool:
        rank = _rank(facts, access)
        wider = any(_rank(facts, a) > rank for a in facts.stores)
        if access.mode is not Mode.POINTER or not wider or access.array is None:
            return False
        roots = [r for r in facts.reductions if facts.graph.rests_on(access.value, r)]
        others = {name for a in facts.accesses if a.array != access.array for name in a.strides}
        return bool(roots) and len(access.strides - others) > 1


def _rank(facts: Facts, access: Access) -> int:
    return sum(extent != "1" for extent in facts.types.shape(access.value))
