"""A residual stream that is added in the kernel that normalises it, forward or backward."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT, vary
from extractors.patterns.cases_rows import ADD_POINTER, LAYER_NORM_POINTER, ROW_NORM
from kb.analysis.accesses import Access
from kb.analysis.facts import HELD, Facts
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
_SCALED = vary(
    _BEFORE,
    ("    v += tl.load(z", "    v = tl.where(tl.rand(n, at) > 0.1, v * 1.1, 0.0) + tl.load(z"),
)
_BEFORE_TILE = vary(
    ROW_NORM,
    ("norm(x, w,", "norm(x, z, w,"),
    ("    r = ct", "    v = v + ct.gather(z, (row, at), check_bounds=inside)\n    r = ct"),
)
_MOVING = (AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.COUNT)
_SCALING = HELD | {OpKind.MUL, OpKind.SELECT, OpKind.SPLIT, OpKind.VECTOR, OpKind.BITCAST}
_Place = frozenset[Atom]
_MOST = 64
"""Values that are followed from a sum to what was loaded."""
_ROUND = Atom("round", AtomKind.COUNT)
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
        Case(_SCALED, _FORWARD),
    )
    near_misses = (
        NearMiss(LAYER_NORM_POINTER, why="the bias is one row for all"),
        NearMiss(
            vary(_AFTER, ("tl.load(z + row * sx + at", "tl.load(y + row * sy + at")),
            why="what a row holds already grows by what was computed",
        ),
        NearMiss(ROW_NORM, why="nothing is added"),
        NearMiss(
            vary(_SCALED, ("tl.load(z + row * sx + at", "tl.load(z + at")),
            why="one row for all is added to what is scaled",
        ),
        NearMiss(ADD_POINTER, why="two tiles are added, no row is reduced"),
        NearMiss(PRODUCT, why="a product, no row"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions or not facts.reductions:
            return
        sums = [total for norm in normalisations(facts) for total in norm.sums]
        places = {
            way for s in facts.stores if facts.types.shape(s.value) for way in _moved(facts, s)
        }  # fmt: skip
        before: list[Where] = []
        after: list[Where] = []
        for node in facts.graph.of(OpKind.ADD, OpKind.FMA):
            sides = self._residual(facts, node, places)
            loads = [a for side in sides for a in side[:1]]
            if not loads:
                continue
            if any(facts.graph.rests_on(total.op.inputs[0], node) for total in sums):
                if len(sides) > len(loads):
                    loads = self._scaled(facts, node, sides, places)
                before += [node, *loads] if loads else []
            elif facts.graph.roots(node.result, OpKind.REDUCE_SUM):
                stores = facts.stored_in(node.result)
                if stores and not any(_grows(s, load) for s in stores for load in loads):
                    after += [node, *loads]
        if before:
            yield self.decide(facts, _FORWARD, before)
        if after:
            yield self.decide(facts, _LATER, after)

    def _residual(self, facts: Facts, node: Node, places: set[_Place]) -> list[list[Access]]:
        """Of each side of an addition the loads that it takes as they are and that lie as a stored
        tile does; none of arrays that both sides are of."""
        sides = [
            [a for a in _kept(facts, v) if facts.types.shape(a.value) and places & _moved(facts, a)]
            for v in node.op.inputs[-2:]
        ]
        if node.op.kind == OpKind.FMA:
            sides[0] = []
        loads = [a.array for side in sides for a in side[:1]]
        return sides if len(set(loads)) == len(loads) else []

    def _scaled(
        self, facts: Facts, node: Node, sides: list[list[Access]], places: set[_Place]
    ) -> list[Access]:
        """The loads of both sides where one of them is a loaded tile that is scaled first, or that
        elements are dropped of."""
        fused = node.op.kind == OpKind.FMA
        values = [node.op.inputs[:2], node.op.inputs[2:]] if fused else list(node.op.inputs[:2])
        found = [a for side in sides for a in side[:1]]
        for value, side in zip(values, sides, strict=True):
            given = (value,) if isinstance(value, str) else value
            loads = [a for v in given for a in facts.feeding(v)]
            others = [a for a in loads if places & _moved(facts, a) and a.array != found[0].array]
            if not side and not others:
                return []
            found += [] if side else others
        return found


def _kept(facts: Facts, value: str) -> list[Access]:
    """The loads whose tile a value is; of threads also what was put into registers in the rounds
    that a bound lets through."""
    found = facts.held_loads(value)
    pending = [] if found or not facts.of_threads else [value]
    for one in pending:
        node = facts.graph.producer(one)
        if node is not None and (access := facts.access(node)) is not None:
            found += [] if access.is_store else [access]
        elif node is None or node.op.kind in HELD | {OpKind.FOR, OpKind.SELECT}:
            chosen = node is not None and node.op.kind == OpKind.SELECT
            feeds = facts.graph.feeds(one)[1 if chosen else 0 :]
            pending += [v for v in feeds if v not in pending and len(pending) < _MOST]
    return found


def _goes_on(node: Node) -> bool:
    """Where what scales a tile, or leaves elements of it out, ends."""
    return node.op.kind not in _SCALING


def _grows(store: Access, load: Access) -> bool:
    """Whether a store goes where the load came from: something is added onto an array, as a
    gradient onto what it holds already."""
    return store.array == load.array and store.index == load.index


def _moved(facts: Facts, access: Access) -> set[_Place]:
    """What moves an access: block ids and loop steps, or remainders and quotients of them; of
    places that are chosen, each. The rounds of the innermost loop around it are any loop's."""
    chosen = [i.atom for i in access.index if i.atom is not None and i.atom.kind is AtomKind.CHOICE]
    ways = [access.index, *([(way,) for way in chosen[0].args] if len(chosen) == 1 else [])]
    tops = [[atom for index in way for atom in index.top()] for way in ways]
    return {
        frozenset(
            _ROUND if _of_loop(facts, a, access.loop) else a
            for a in atoms
            if any(one.kind in _MOVING for one in of(a).atoms())
        )
        for atoms in tops
    }


def _of_loop(facts: Facts, atom: Atom, loop: Node | None) -> bool:
    """Whether an atom is the number of a loop's round."""
    if atom.kind is AtomKind.COUNT:
        return loop is not None and facts.graph.producer(atom.value) is loop
    owner = facts.graph.arguments.get(atom.value, (None,))[0]
    return atom.kind is AtomKind.INDUCTION and loop is not None and owner is loop
