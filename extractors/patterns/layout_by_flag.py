"""Arrays whose axes lie in one order or in the other, as a compile-time flag says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.pairs_by_flag import pairs_by_flag
from kb.analysis.specialise import branches
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind

_CHOICES = (OpKind.IF, OpKind.IF_EXPRESSION, OpKind.SELECT)

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


_TILES = (
    TILE
    + """
@ct.kernel
def steps(x, out, T: Int, TURNED: Bool):
    row = ct.bid(0)
    part = ct.bid(1)
    if TURNED:
        v = ct.reshape(ct.load(x, index=(row, part), shape=(1, T)), (T,))
    else:
        v = ct.reshape(ct.load(x, index=(part, row), shape=(T, 1)), (T,))
    ct.store(out, index=(row, part), tile=ct.reshape(v, (1, T)))
"""
)
_ORDERED = (
    POINTER
    + """
@triton.jit
def move(x, out, n, m, T: tl.constexpr):
    order: tl.constexpr = (0, 1) if x.dtype.element_ty == tl.float8e5 else (1, 0)
    at = (tl.program_id(0) * T, 0)
    own = tl.make_block_ptr(x, (n, m), (m, 1), at, (T, T), order)
    to = tl.make_block_ptr(out, (n, m), (m, 1), at, (T, T), (1, 0))
    tl.store(to, tl.load(own))
"""
)
_FOLDED = (
    POINTER
    + """
@triton.jit
def turn(x, angle, out, D: tl.constexpr, BY: tl.constexpr):
    at = tl.arange(0, D)
    if BY:
        w = tl.load(angle + at // 2)
    else:
        w = tl.load(angle + at % (D // 2))
    tl.store(out + at, tl.load(x + at) * w)
"""
)


_PARTNERS_THREADS = """template <bool PAIRS>
__global__ void turn(const float* x, const float* angle, float* out, int d) {
    int at = threadIdx.x;
    const float* row = x + blockIdx.x * d;
    float v = row[at], its, w;
    if constexpr (PAIRS) {
        its = row[at ^ 1];
        w = angle[at / 2];
    } else {
        its = row[at < d / 2 ? at + d / 2 : at - d / 2];
        w = angle[at % (d / 2)];
    }
    out[blockIdx.x * d + at] = v * w - its;
}
"""


class LayoutByFlag(Pattern):
    """Both sides of a branch on compile-time parameters compute an address from the same lanes,
    which are as far apart on the one side as they are not on the other; or load tiles of one array
    at the same indices in another order; or a block of pointers is given one of two orders."""

    name = "order-of-axes-by-a-compile-time-flag"
    axis = "operand_layout"
    source = "PyTorch documentation, tensor views: strides; Su et al., RoFormer (2021): pairs"
    matches = (
        Case(_STATE, "order of the axes by a flag"),
        Case(_TILE_TURNED, "order of the axes by a flag"),
        Case(_PAIRS, "neighbours or halves by a flag"),
        Case(_FOLDED, "neighbours or halves by a flag"),
        Case(_TILES, "order of the axes by a flag"),
        Case(_ORDERED, "order of the axes by a flag"),
        Case(_PARTNERS_THREADS, "neighbours or halves by a flag"),
    )
    near_misses = (
        NearMiss(
            vary(
                _PARTNERS_THREADS,
                ("template <bool PAIRS>\n", ""),
                ("int d)", "int d, bool PAIRS)"),
                ("if constexpr", "if"),
            ),
            why="asked at run time",
        ),
        NearMiss(
            vary(_PARTNERS_THREADS, ("at ^ 1", "(at + d / 2) % d"), ("at / 2]", "at % (d / 2)]")),
            why="halves on both sides",
        ),
        NearMiss(vary(_FOLDED, ("BY: tl.constexpr", "BY")), why="asked at run time"),
        NearMiss(vary(_FOLDED, ("at // 2", "at % 4")), why="two ways to begin again"),
        NearMiss(vary(_TILES, ("TURNED: Bool", "TURNED")), why="asked at run time"),
        NearMiss(
            vary(_TILES, ("(part, row), shape=(T, 1)", "(row, part + 1), shape=(1, T)")),
            why="the next tile, the same order",
        ),
        NearMiss(
            vary(_ORDERED, (" if x.dtype.element_ty == tl.float8e5 else (1, 0)", "")),
            why="one order",
        ),
        NearMiss(
            vary(_STATE, ("TURNED: tl.constexpr", "TURNED")),
            why="asked at run time: no layout that is compiled in",
        ),
        NearMiss(
            vary(_STATE, ("v[None, :] * K + k[:, None]", "k[:, None] * V + v[None, :] + K")),
            why="another start, the same order",
        ),
        NearMiss(
            vary(
                _PAIRS,
                ("at * 2 + 1", "at * H + 1"),
                ("at * 2", "at * H"),
                ("= at\n", "= at * T\n"),
                ("at + H", "at * T + H"),
            ),
            why="strides of two arrays",
        ),
        NearMiss(vary(_PAIRS, ("at * 2 + 1", "at + 1"), ("at * 2", "at")), why="moved by one"),
        NearMiss(PRODUCT_POINTER, why="one order"),
        NearMiss(PRODUCT, why="one order"),
        NearMiss(ADD_POINTER, why="one order"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            if pairs := pairs_by_flag(facts):
                yield self.decide(facts, "neighbours or halves by a flag", pairs)
            return
        turned: list[Where] = [n for a in facts.accesses for n in _ordered(facts, a)]
        apart: list[Where] = []
        for branch in branches(facts):
            node = branch.node
            turned += _reindexed(facts, node)
            apart += _halved(facts, node)
            for ends in _ends(facts, node):
                sides = [_steps(facts.values.expr(end)) for end in ends]
                if len(sides) != 2 or sides[0] == sides[1] or sides[0].keys() != sides[1].keys():
                    continue
                if not _enters(facts, node):
                    break
                where = [node.head, *(facts.graph.producer(end) for end in ends)]
                if len(sides[0]) > 1:
                    turned += where
                elif any(step.constant for side in sides for step in side.values()) and _known(
                    facts, ends
                ):
                    apart += where
        if turned:
            yield self.decide(facts, "order of the axes by a flag", turned)
        if apart:
            yield self.decide(facts, "neighbours or halves by a flag", apart)


def _ordered(facts: Facts, access: Access) -> list[Node]:
    """The choice of the order that a block of pointers is given, and the block."""
    given = access.made.op.operand("order") if access.made is not None else None
    chosen = facts.graph.producer(facts.graph.core(given))
    if access.made is None or chosen is None or chosen.op.kind not in _CHOICES:
        return []
    return [chosen, access.made]


def _reindexed(facts: Facts, node: Node) -> list[Where]:
    """Tiles of one array that the two sides of a branch access at the same indices, in another
    order."""
    tiles = [a for a in facts.accesses if a.mode is Mode.TILE and a.node.parent is node]
    found: list[Where] = []
    for one in tiles:
        for other in tiles:
            if one.node.branch < other.node.branch and one.array == other.array:
                if one.index != other.index and Counter(one.index) == Counter(other.index):
                    found += [node.head, one, other]
    return found


def _halved(facts: Facts, node: Node) -> list[Where]:
    """Pointers into one array on the two sides of a branch, of which one goes to the same place for
    every two neighbouring lanes and the other for lanes further apart."""
    rows = [a for a in facts.accesses if a.mode is Mode.POINTER and a.node.parent is node]
    return [
        place
        for one in rows
        for other in rows
        if one.node.branch < other.node.branch and one.array == other.array
        if sorted((_folded(one), _folded(other))) == [AtomKind.FLOOR_DIV, AtomKind.MOD]
        for place in (node.head, one, other)
    ]


def _folded(access: Access) -> str:
    """Whether lanes are counted by two, or begin again behind a number of them."""
    for atom in (a for index in access.index for a in index.atoms()):
        if atom.kind is AtomKind.FLOOR_DIV and atom.args[1].constant == 2:
            if atom.args[0].has(AtomKind.LANE):
                return atom.kind
        elif atom.kind is AtomKind.MOD and atom.args[0].has(AtomKind.LANE):
            return atom.kind
    return ""


def _ends(facts: Facts, node: Node) -> Iterable[list[str]]:
    """What both sides of a branch hand on."""
    for position, _ in enumerate(node.op.results):
        handed = (facts.graph.handed(node, region) for region in range(len(node.op.regions)))
        yield [value for values in handed for value in values[position : position + 1]]


def _known(facts: Facts, ends: list[str]) -> bool:
    """True for positions of which every part has a meaning."""
    exprs = map(facts.values.expr, ends)
    return not any(expr.has(AtomKind.OPAQUE) for expr in exprs)


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
