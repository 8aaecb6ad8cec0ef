"""A residual stream that is added in the kernel that normalises it, forward or backward."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT, vary
from extractors.patterns.cases_rows import ADD_POINTER, LAYER_NORM_POINTER, ROW_NORM
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.normalisations import normalisations
from kb.analysis.symbolic import Atom, AtomKind, of
from kb.evidence import Decision
from kb.ops import OpKind

_BEFORE = vary(
    LAYER_NORM_POINTER,
    ("(y, sy, x, sx,", "(y, sy, x, sx, z,"),
    ("    mean = ", "    v += tl.load(z + row * sx + at, mask=inside, other=0.0)\n    mean = "),
)
_AFTER = vary(
    LAYER_NORM_POINTER,
    ("(y, sy, x, sx,", "(y, sy, x, sx, z,"),
    ("(c * r * g + h)", "(c * r * g + tl.load(z + row * sx + at, mask=inside, other=0.0))"),
)
_BEFORE_TILE = vary(
    ROW_NORM,
    ("norm(x, w,", "norm(x, z, w,"),
    ("    r = ct", "    v = v + ct.gather(z, (row, at), check_bounds=inside)\n    r = ct"),
)
_MOVING = (AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.COUNT)
_FORWARD = "residual added before the normalisation"
_LATER = "residual added to what a reduction of the row gave"


class ResidualAdded(Pattern):
    """A loaded tile that lies as the output does is added to the row before it is reduced, or to
    what was computed from its reduction."""

    name = "residual-added-beside-a-row-reduction"
    axis = "fusion"
    source = "Hsu et al., Liger Kernel (2024), fused residual addition and normalisation"
    matches = (
        Case(_BEFORE, _FORWARD),
        Case(_BEFORE_TILE, _FORWARD),
        Case(_AFTER, _LATER),
    )
    near_misses = (
        NearMiss(LAYER_NORM_POINTER, why="the bias is one row for all"),
        NearMiss(
            vary(_AFTER, ("tl.load(z + row * sx + at", "tl.load(y + row * sy + at")),
            why="what a row holds already grows by what was computed",
        ),
        NearMiss(ROW_NORM, why="nothing is added"),
        NearMiss(ADD_POINTER, why="two tiles are added, no row is reduced"),
        NearMiss(PRODUCT, why="a product, no row"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions or not facts.reductions:
            return
        sums = [total for norm in normalisations(facts) for total in norm.sums]
        places = [_moved(store) for store in facts.stores if facts.types.shape(store.value)]
        before: list[Where] = []
        after: list[Where] = []
        for node in facts.graph.of(OpKind.ADD):
            loads = self._residual(facts, node, places)
            if not loads:
                continue
            if any(facts.graph.rests_on(total.op.inputs[0], node) for total in sums):
                if len(loads) == len(node.op.inputs):
                    before += [node, *loads]
            elif facts.graph.roots(node.result, OpKind.REDUCE_SUM):
                stores = facts.stored_in(node.result)
                if stores and not any(_grows(s, load) for s in stores for load in loads):
                    after += [node, *loads]
        if before:
            yield self.decide(facts, _FORWARD, before)
        if after:
            yield self.decide(facts, _LATER, after)

    def _residual(self, facts: Facts, node: Node, places: list[frozenset[Atom]]) -> list[Access]:
        """Loads of different arrays that an addition takes as they are and that lie as a stored
        tile does."""
        sides = [facts.held_loads(value) for value in node.op.inputs[:2]]
        loads = [
            side[0]
            for side in sides
            if side and facts.types.shape(side[0].value) and _moved(side[0]) in places
        ]
        return loads if len({a.array for a in loads}) == len(loads) else []


def _grows(store: Access, load: Access) -> bool:
    """Whether a store goes where the load came from: something is added onto an array, as a
    gradient onto what it holds already."""
    return store.array == load.array and store.index == load.index


def _moved(access: Access) -> frozenset[Atom]:
    """What moves an access: block ids and loop steps, or remainders and quotients of them."""
    tops = (atom for index in access.index for atom in index.top())
    return frozenset(atom for atom in tops if any(one.kind in _MOVING for one in of(atom).atoms()))
