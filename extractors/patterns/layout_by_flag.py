"""Arrays whose axes lie in one order or in the other, as a compile-time flag says."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.specialise import branches
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision

_STATE = (
    POINTER
    + """
@triton.jit
def load(x, out, K, V, TURNED: tl.constexpr, TK: tl.constexpr, TV: tl.constexpr):
    k = tl.arange(0, TK)
    v = tl.arange(0, TV)
    if TURNED:
        at = x + v[None, :] * K + k[:, None]
    else:
        at = x + k[:, None] * V + v[None, :]
    tl.store(out + k[:, None] * TV + v[None, :], tl.load(at))
"""
)
_TILE_TURNED = vary(
    _STATE,
    ("v[None, :] * K + k[:, None]", "v[:, None] * K + k[None, :]"),
    (
        "    tl.store",
        "    tile = tl.load(at)\n    if TURNED:\n        tile = tl.trans(tile)\n    tl.store",
    ),
    ("tl.load(at))", "tile)"),
)
_PAIRS = (
    POINTER
    + """
@triton.jit
def swap(x, out, H, PAIRS: tl.constexpr, T: tl.constexpr):
    at = tl.arange(0, T)
    if PAIRS:
        one = at * 2
        other = at * 2 + 1
    else:
        one = at
        other = at + H
    tl.store(out + one, tl.load(x + other))
    tl.store(out + other, tl.load(x + one))
"""
)


class LayoutByFlag(Pattern):
    """Both sides of a branch on compile-time parameters compute an address from the same lanes,
    which are as far apart on the one side as they are not on the other."""

    name = "order-of-axes-by-a-compile-time-flag"
    axis = "operand_layout"
    source = "PyTorch documentation, tensor views: strides; Su et al., RoFormer (2021): pairs"
    matches = (
        Case(_STATE, "order of the axes by a flag"),
        Case(_TILE_TURNED, "order of the axes by a flag"),
        Case(_PAIRS, "neighbours or halves by a flag"),
    )
    near_misses = (
        NearMiss(
            vary(_STATE, ("TURNED: tl.constexpr", "TURNED")),
            why="asked at run time: no layout that is compiled in",
        ),
        NearMiss(
            vary(_STATE, ("v[None, :] * K + k[:, None]", "k[:, None] * V + v[None, :] + K")),
            why="another start, the same order",
        ),
        NearMiss(vary(_PAIRS, ("at * 2 + 1", "at + 1"), ("at * 2", "at")), why="moved by one"),
        NearMiss(PRODUCT_POINTER, why="one order"),
        NearMiss(PRODUCT, why="one order"),
        NearMiss(ADD_POINTER, why="one order"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.program is not facts.source:
            return
        turned: list[Where] = []
        apart: list[Where] = []
        for branch in branches(facts):
            node = branch.node
            for ends in _ends(facts, node):
                sides = [_steps(facts.values.expr(end)) for end in ends]
                if len(sides) != 2 or sides[0] == sides[1] or sides[0].keys() != sides[1].keys():
                    continue
                if not _enters(facts, node):
                    break
                where = [node.head, *(facts.graph.producer(end) for end in ends)]
                (turned if len(sides[0]) > 1 else apart).extend(where)
        if turned:
            yield self.decide(facts, "order of the axes by a flag", turned)
        if apart:
            yield self.decide(facts, "neighbours or halves by a flag", apart)


def _ends(facts: Facts, node: Node) -> Iterable[list[str]]:
    """What both sides of a branch hand on."""
    for position, _ in enumerate(node.op.results):
        handed = (facts.graph.handed(node, region) for region in range(len(node.op.regions)))
        yield [value for values in handed for value in values[position : position + 1]]


def _enters(facts: Facts, node: Node) -> bool:
    """True when an address rests on a branch."""
    return any(facts.graph.rests_on(v, node) for a in facts.accesses for v in a.address)


def _steps(expr: Expr) -> dict[tuple[Expr, str], Expr]:
    """How far apart the lanes of a position are, by their number; by their axis, too, where two
    axes have as many."""
    lanes = {a for a in expr.top() if a.kind is AtomKind.LANE}
    sizes = [lane.args[0] for lane in lanes]
    return {
        (lane.args[0], lane.value if sizes.count(lane.args[0]) > 1 else ""): expr.coefficient(lane)
        for lane in lanes
    }
