"""Output tiles of a product in the order of the grid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import (
    ATTENTION,
    POINTER,
    PRODUCT,
    PRODUCT_PERSISTENT,
    PRODUCT_POINTER,
    TILE,
    vary,
)
from extractors.patterns.cases_indirect import SEGMENT_PRODUCT, SEGMENT_PRODUCT_TILE
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_threads import PRODUCT_PERSISTENT_THREADS, PRODUCT_THREADS
from extractors.patterns.counted_tiles import CountedTiles
from extractors.patterns.grouped_rasterisation import GROUPED_AXES, GroupedRasterisation
from extractors.patterns.longest_first import LongestFirst
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop, persistent
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind

_HEADS = (
    TILE
    + """
@ct.kernel
def product(a, b, out, TM: Int, TK: Int, MANY: Int, HEADS: Int):
    for one in range(ct.bid(0), MANY, ct.num_blocks(0)):
        head = one % HEADS
        part = one // HEADS % 2
        row = one // HEADS // 2
        x = ct.load(a, index=(head, row, part), shape=(1, TM, TK)).reshape((TM, TK))
        y = ct.load(b, index=(head, part, 0), shape=(1, TK, TM)).reshape((TK, TM))
        acc = ct.mma(x, y, ct.full((TM, TM), 0.0, dtype=ct.float32))
        ct.store(out, index=(head, part, row, 0), tile=acc.reshape((1, 1, TM, TM)))
"""
)


_OWNERS = vary(
    SEGMENT_PRODUCT,
    ("starts, out, K,", "starts, out, KS, K,"),
    (
        "    owner = tl.program_id(2)\n",
        "    ids = tl.program_id(0)\n    first = ids % KS\n    owner = ids // KS\n",
    ),
    ("k = tl.program_id(0) * TK", "k = first * TK"),
)
_OWNERS_TILE = vary(
    SEGMENT_PRODUCT_TILE,
    ("starts, out, T: Int", "starts, out, KS: Int, T: Int"),
    (
        "    owner = ct.bid(2)\n    k = ct.bid(0) * TK",
        "    owner = ct.bid(0) // KS\n    k = ct.bid(0) % KS * TK",
    ),
    ("ct.store(out, (owner, ct.bid(0),", "ct.store(out, (owner, ct.bid(0) % KS,"),
)


_SEARCHED = vary(
    SEGMENT_PRODUCT,
    (
        "    owner = tl.program_id(2)\n",
        "    owner = tl.program_id(2)\n    low = 0\n    while low < owner:\n"
        "        low = low * 2 + 1\n",
    ),
)
_VECTOR = (
    POINTER
    + """
@triton.jit
def product(w, x, out, n, K, M, T: tl.constexpr, TK: tl.constexpr):
    ids = tl.program_id(0)
    rows = ids // M * T + tl.arange(0, T)
    acc = tl.zeros((T,), dtype=tl.float32)
    for j in range(0, K, TK):
        k = j + tl.arange(0, TK)
        v = tl.load(w + rows[:, None] * K + k[None, :], mask=(rows < n)[:, None], other=0.0)
        u = tl.load(x + ids % M * K + k, mask=k < K, other=0.0)
        acc += tl.sum(v * u[None, :], axis=1)
    tl.store(out + ids % M * n + rows, acc, mask=rows < n)
"""
)
_TURNED = (
    POINTER
    + """
@triton.jit
def turn(x, out, n, m, T: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)
    cols = tl.program_id(1) * T + tl.arange(0, T)
    v = tl.load(x + rows[:, None] * m + cols[None, :])
    tl.store(out + cols[None, :] * n + rows[:, None], v)
"""
)
_TURNED_TILE = (
    TILE
    + """
@ct.kernel
def turn(x, out, M: Int, T: Int):
    i = ct.bid(0) % M
    j = ct.bid(0) // M
    ct.store(out, index=(j, i), tile=ct.transpose(ct.load(x, index=(i, j), shape=(T, T))))
"""
)
_VECTOR_APART = vary(_VECTOR, ("ids // M", "tl.program_id(1)"), ("ids % M", "ids"))


def _of_blocks(atom: Atom) -> bool:
    """A block id, or what it was taken apart into."""
    parts = atom.args if atom.kind in (AtomKind.FLOOR_DIV, AtomKind.MOD) else ()
    return atom.kind is AtomKind.BLOCK or any(part.has(AtomKind.BLOCK) for part in parts)


def _inside(expr: Expr) -> Iterator[Expr]:
    """An expression and those inside of its quotients, remainders and choices."""
    yield expr
    for atom in expr.atoms():
        yield from atom.args


def _summed(facts: Facts) -> list[Node]:
    """Sums over products of two loaded tiles of a tile program, each with a place among blocks that
    that of the other does not tell: each is shared by blocks that differ in the place of the
    other."""
    if facts.of_threads or facts.contractions:
        return []
    return [
        total
        for total in facts.graph.of(OpKind.REDUCE_SUM)
        if any(
            _apart(*(_places(facts, value) for value in node.op.inputs[:2]))
            for node in facts.graph.roots(total.op.inputs[0], OpKind.MUL)
        )
    ]


def _in_two_ways(facts: Facts) -> bool:
    """Whether a tile program stores tiles of two axes or more that blocks place in two ways: which
    of them varies fastest says what neighbours touch."""
    if facts.of_threads or facts.contractions:
        return False
    return any(
        sum(extent != "1" for extent in facts.types.shape(store.value)) > 1
        and len({a.text for e in store.index for a in e.top() if _of_blocks(a)}) > 1
        for store in facts.stores
    )


def _apart(one: dict[str, set[str]], other: dict[str, set[str]]) -> bool:
    """Whether neither of two tiles lies where the places of the other tell."""
    return all(
        any(
            place not in told and not (parts and parts <= told.keys())
            for place, parts in own.items()
        )
        for own, told in ((one, other), (other, one))
    )


def _places(facts: Facts, value: str) -> dict[str, set[str]]:
    """What says where the loaded tiles that a value is made of lie, and is made of block ids, with
    what it is a quotient or a remainder of."""
    loads = [a for a in facts.feeding(value) if facts.types.shape(a.value)]
    return {
        atom.text: {part.text for arg in atom.args for part in arg.top() if _of_blocks(part)}
        for load in loads
        if load.value not in facts.offset_loads
        for index in load.index
        for atom in index.top()
        if _of_blocks(atom)
    }


class AscendingTiles(Pattern):
    """Two block ids or more place the tiles of a product, or one that is taken apart those of a sum
    of products, or either tiles of two axes that are stored, none reversed or grouped, those that
    are taken apart counted through; or the number of a tile that a block takes in turn is taken
    apart into its places, without groups."""

    name = "tiles-in-the-order-of-the-grid"
    axis = "rasterization"
    source = "NVIDIA, CUDA C++ Programming Guide, thread hierarchy: x varies fastest"
    matches = (
        Case(PRODUCT, "natural order"),
        Case(PRODUCT_POINTER, "natural order"),
        Case(PRODUCT_THREADS, "natural order"),
        Case(_HEADS, "natural order"),
        Case(SEGMENT_PRODUCT, "natural order"),
        Case(_OWNERS, "natural order"),
        Case(_OWNERS_TILE, "natural order"),
        Case(_SEARCHED, "natural order"),
        Case(_VECTOR, "natural order"),
        Case(_VECTOR_APART, "natural order"),
        Case(_TURNED, "natural order"),
        Case(_TURNED_TILE, "natural order"),
    )
    near_misses = (
        NearMiss(
            vary(_TURNED, ("cols = tl.program_id(1) * T + ", "cols = ")),
            why="blocks follow each other along one axis",
        ),
        NearMiss(
            vary(_TURNED_TILE, ("ct.bid(0) // M", "7 - ct.bid(0) // M")),
            why="from the last tile on",
        ),
        NearMiss(
            vary(_OWNERS, ("first = ids % KS", "first = KS - 1 - ids % KS")),
            why="from the last tile on",
        ),
        NearMiss(
            vary(_VECTOR, ("x + ids % M * K + k,", "x + ids * K + k,")),
            why="every block has a vector of its own",
        ),
        NearMiss(
            vary(_VECTOR, ("ids // M * T", "(7 - ids // M) * T")), why="from the last rows on"
        ),
        NearMiss(PRODUCT_PERSISTENT, why="tiles are taken in groups of rows"),
        NearMiss(
            vary(
                _HEADS,
                ("one % HEADS", "0"),
                ("one // HEADS % 2", "0"),
                ("one // HEADS // 2", "one"),
            ),
            why="the number of the tile is its only place",
        ),
        NearMiss(ATTENTION, why="one block id is taken apart; its loop's bounds tell the order"),
        NearMiss(GROUPED_AXES, why="tiles are taken in groups of rows"),
        NearMiss(ADD_POINTER, why="no operand is shared by tiles, their order is nothing"),
        NearMiss(PRODUCT_PERSISTENT_THREADS, why="tiles are taken in groups of rows"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        products = facts.contractions or _summed(facts)
        if (
            not (products or _in_two_ways(facts))
            or facts.score_products
            or facts.graph.of(OpKind.SWIZZLE_2D)
        ):
            return
        if any(p.inside(loop) for loop in facts.graph.of(OpKind.WHILE) for p in products):
            return
        turns = [x for x in facts.loops if persistent(x, facts.values)]
        if turns or any(facts.walks_chunk(x) for x in facts.loops):
            places = [n for loop in turns for n in self._apart(facts, loop)]
            others = (GroupedRasterisation(), CountedTiles())
            if places and not any(any(other.seen(facts)) for other in others):
                yield self.decide(facts, "natural order", places)
            return
        ids = facts.graph.of(OpKind.BLOCK_ID)
        divided = [
            n
            for n in facts.graph.of(OpKind.FLOOR_DIV, OpKind.MOD)
            if facts.values.expr(n.op.inputs[0]).has(AtomKind.BLOCK)
            and not facts.types.shape(n.result)
        ]
        if len({facts.values.expr(n.result) for n in ids}) < 2 and facts.contractions:
            return
        if not divided or self._as_counted(facts, divided):
            apart = [n for n in divided if not facts.values.expr(n.result).has(AtomKind.LOADED)]
            yield self.decide(facts, "natural order", [*ids, *apart])

    def _as_counted(self, facts: Facts, divided: list[Node]) -> bool:
        """Whether what takes block ids apart in a tile program gives plain places: neither groups
        nor tiles counted along a row or a column, and none from the last one on."""
        if facts.of_threads or any(
            any(other.seen(facts))
            for other in (GroupedRasterisation(), CountedTiles(), LongestFirst())
        ):
            return False
        held = [
            n
            for n in facts.graph.of(OpKind.MINIMUM, OpKind.MAXIMUM)
            if not facts.types.shape(n.result)
            and any(facts.graph.rests_on(n.result, d) for d in divided)
        ]
        placed = [expr for a in facts.accesses for index in a.index for expr in _inside(index)]
        back = any(
            number < 0 and any(_of_blocks(atom) for atom in factors)
            for expr in placed
            for factors, number in expr.terms
        )
        return not held and not back

    def _apart(self, facts: Facts, loop: Loop) -> list[Node]:
        """The divisions that take the number of a tile of products apart."""
        number = facts.values.expr(loop.induction).atom
        if number is None or not any(p.inside(loop.node) for p in facts.contractions):
            return []
        return [
            n
            for n in facts.graph.of(OpKind.FLOOR_DIV, OpKind.MOD)
            if not facts.types.shape(n.result)
            and number in facts.values.expr(n.op.inputs[0]).atoms()
        ]
