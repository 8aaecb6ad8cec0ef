"""A narrow output beside the tiles, stored at strides of its own."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.rebuilt import width
from kb.analysis.strides import joined_at
from kb.evidence import Decision
from kb.ops import REDUCTIONS

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


_GROUPS = (
    POINTER
    + """
@triton.jit
def small(x, out, scales, n, width, step, hop, R: tl.constexpr, C: tl.constexpr, G: tl.constexpr):
    rows = tl.program_id(0) * R + tl.arange(0, R)
    cols = tl.program_id(1) * C * G + tl.arange(0, C * G)
    v = tl.load(x + rows[:, None] * width + cols[None, :])
    each = tl.reshape(v, (R * C, G))
    top = tl.max(tl.abs(each), axis=1)
    at = rows[:, None] * width + cols[None, :]
    tl.store(out + at, tl.reshape(each / top[:, None], (R, C * G)))
    part = tl.program_id(1) * C + tl.arange(0, C)
    tl.store(scales + rows[:, None] * step + part[None, :] * hop, tl.reshape(top, (R, C)))
"""
)


class SideStrides(Pattern):
    """What reductions gave, alone or narrower than another output, is stored beside that output, at
    two outer indices, each times a stride that was handed in for this array alone."""

    name = "side-buffer-at-strides-of-its-own"
    axis = "auxiliary_layout"
    source = "PyTorch documentation, tensor views: stride"
    matches = (Case(_SCALES, "strided"), Case(_GROUPS, "strided"))
    near_misses = (
        NearMiss(
            vary(_SCALES, ("row * step + part * hop", "row")),
            why="one number per row, one after the other",
        ),
        NearMiss(vary(_SCALES, ("row * step + part * hop, top", "row * width + at, v")), why="a second wide output"),  # noqa: E501
        NearMiss(
            vary(_GROUPS, ("tl.reshape(top, (R, C))", "tl.reshape(each + top[:, None], (R, C))")),
            why="what is stored has the loaded elements, too",
        ),
        NearMiss(
            vary(_GROUPS, ("[:, None] * step + part[None, :] * hop", "[:, None] + part[None, :]")),
            why="no strides",
        ),
        NearMiss(ROW_NORM, why="tiles are stored in views"),
        NearMiss(PRODUCT_POINTER, why="there is one output"),
        NearMiss(ADD_POINTER, why="there is one output"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            return
        found = [a for a in facts.stores if self._strided(facts, a)]
        if found:
            made = [n for a in found for n in joined_at(facts, a)]
            yield self.decide(facts, "strided", [*found, *made])

    def _strided(self, facts: Facts, access: Access) -> bool:
        rank = width(facts, access.value)
        if (
            access.mode is not Mode.POINTER
            or access.array is None
            or len(access.strides - facts.tile_extents) < 2
        ):
            return False
        wider = any(width(facts, a.value) > rank for a in facts.stores)
        if not wider and (
            not _reduced(facts, access) or all(_reduced(facts, a) for a in facts.stores)
        ):
            return False
        roots = [r for r in facts.reductions if facts.graph.rests_on(access.value, r)]
        others = {name for a in facts.accesses if a.array != access.array for name in a.strides}
        return bool(roots) and len(access.strides - facts.tile_extents - others) > 1


def _reduced(facts: Facts, access: Access) -> bool:
    """Whether loaded tiles enter what is stored through reductions alone."""
    if not facts.reductions:
        return False
    near = facts.graph.upstream(access.value, lambda n: n.op.kind in REDUCTIONS)
    entered = [n for n in near if (a := facts.access(n)) is not None and facts.types.shape(a.value)]
    return not entered
