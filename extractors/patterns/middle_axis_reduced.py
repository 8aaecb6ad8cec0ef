"""A reduction along a middle axis of an array that is read as it lies."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, PARTIAL_SUM
from extractors.patterns.transposed_operand import joined
from kb.analysis.accesses import Access, Mode
from kb.analysis.axes import reduced_axes
from kb.analysis.facts import Facts
from kb.analysis.symbolic import Atom, AtomKind
from kb.evidence import Decision

_MIDDLE = (
    POINTER
    + """
@triton.jit
def largest(x, out, C, D, T: tl.constexpr, W: tl.constexpr):
    row = tl.program_id(0)
    across = tl.program_id(1) * W + tl.arange(0, W)
    best = tl.full([T, W], -float("inf"), tl.float32)
    for start in range(0, C, T):
        down = start + tl.arange(0, T)
        at = row * C * D + down[:, None] * D + across[None, :]
        inside = (down[:, None] < C) & (across[None, :] < D)
        best = tl.maximum(best, tl.load(x + at, mask=inside, other=-float("inf")))
    tl.store(out + row * D + across, tl.max(best, axis=0), mask=across < D)
"""
)
_PLACED = frozenset({AtomKind.PARAMETER, AtomKind.EXTENT})


class MiddleAxisReduced(Pattern):
    """Neighbours in memory lie along one axis of a tile and are kept apart; the tile is reduced
    along the other, whose elements lie as far apart as an extent, within a larger one."""

    name = "middle-axis-reduced-as-it-lies"
    axis = "operand_layout"
    source = "PyTorch documentation, tensor views: stride"
    matches = (Case(_MIDDLE, "reduced axis strided, as it lies"),)
    near_misses = (
        NearMiss(
            vary(_MIDDLE, ("down[:, None] * D + across[None, :]", "across[None, :] * C + down[:, None]")),  # noqa: E501
            why="neighbours are reduced",
        ),
        NearMiss(vary(_MIDDLE, ("axis=0", "axis=1"), ("+ across,", "+ down,"), ("mask=across < D", "mask=down < C")), why="neighbours are reduced"),  # noqa: E501
        NearMiss(
            vary(_MIDDLE, ("row * C * D + down", "down")), why="rows of a matrix, nothing around"
        ),
        NearMiss(PARTIAL_SUM, why="rows of a matrix, nothing around"),
        NearMiss(LAYER_NORM_POINTER, why="neighbours are reduced"),
        NearMiss(PRODUCT_POINTER, why="no reduction"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions or facts.of_threads:
            return
        ways: dict[int, list[Access]] = {-1: [], -2: []}
        for reduction in facts.reductions:
            rank = len(facts.types.shape(reduction.op.inputs[0]))
            for axis in reduced_axes(facts, reduction) if rank == 2 else ():
                ways[axis] += facts.feeding(reduction.op.inputs[0])
        found: list[Where] = []
        for axis, loads in ways.items():
            apart = [a for a in loads if _apart(a, str(axis), str(-3 - axis))]
            if not {a.array for a in apart} & {a.array for a in ways[-3 - axis]}:
                found += apart
                found += [n for a in apart for n in joined(facts, a)]
        if found:
            yield self.decide(facts, "reduced axis strided, as it lies", dict.fromkeys(found))


def _apart(access: Access, reduced: str, kept: str) -> bool:
    """Whether elements along one axis are an extent apart, those along the other side by side, and
    a block goes by more than the first."""
    steps: dict[str, set[tuple[Atom, ...]]] = {}
    around: set[tuple[Atom, ...]] = set()
    for factors, _ in access.index[0].terms if access.mode is Mode.POINTER else ():
        placed = tuple(a for a in factors if a.kind in _PLACED)
        for atom in (a for a in factors if a.kind not in _PLACED):
            if atom.kind is AtomKind.LANE:
                steps.setdefault(atom.value, set()).add(placed)
            elif atom.kind not in (AtomKind.INDUCTION, AtomKind.COUNT):
                around.add(placed)
    own = steps.get(reduced, set())
    wider = [far for far in around for step in own if len(far) > len(step) and {*step} < {*far}]
    return steps.get(kept) == {()} and len(own) == 1 and () not in own and bool(wider)
