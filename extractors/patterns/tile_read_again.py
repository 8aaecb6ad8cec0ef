"""A tile, or rows of it, that a later loop brings from memory once more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION_POINTER, POINTER, PRODUCT, PRODUCT_POINTER, vary
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop
from kb.analysis.symbolic import Atom, AtomKind, Expr, make
from kb.evidence import Decision
from kb.ops import OpKind

_PASSES = (
    POINTER
    + """
@triton.jit
def back(k, v, dk, out, N, S: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0) * T + tl.arange(0, T)
    acc = tl.zeros([T, T], tl.float32)
    for i in range(0, N, T):
        at = i + tl.arange(0, T)
        x = tl.load(k + row[:, None] * S + at[None, :])
        y = tl.load(v + row[:, None] * S + at[None, :])
        acc += tl.dot(x, tl.trans(y))
    for j in range(0, N, T):
        to = j + tl.arange(0, T)
        z = tl.load(k + row[:, None] * S + to[None, :])
        tl.store(dk + row[:, None] * S + to[None, :], tl.dot(acc.to(z.dtype), z))
    tl.store(out + row[:, None] * T + tl.arange(0, T)[None, :], acc)
"""
)
_ROWS = (
    POINTER
    + """
@triton.jit
def solve(a, out, S: tl.constexpr, T: tl.constexpr):
    first = tl.program_id(0) * T
    o = tl.arange(0, T)
    x = -tl.load(a + (first + o)[:, None] * S + o[None, :])
    for i in range(2, T):
        r = -tl.load(a + (first + i) * S + o)
        r += tl.sum(r[:, None] * x, 0)
        x = tl.where((o == i)[:, None], r, x)
    tl.store(out + (first + o)[:, None] * S + o[None, :], x)
"""
)
_STORED = vary(
    _ROWS,
    ("x = -tl.load(a + (first + o)[:, None] * S + o[None, :])\n",
     "x = -tl.load(out + (first + o)[:, None] * S + o[None, :])\n"
     "    tl.store(a + (first + o)[:, None] * S + o[None, :], x * x)\n"
     "    tl.debug_barrier()\n"),
)  # fmt: skip

_EITHER = (
    POINTER
    + """
@triton.jit
def solve(a, out, S: tl.constexpr, T: tl.constexpr, WHOLE: tl.constexpr):
    first = tl.program_id(0) * T
    o = tl.arange(0, T)
    x = tl.zeros([T, T], tl.float32)
    if WHOLE:
        x += tl.load(a + (first + o)[:, None] * S + o[None, :])
    tl.debug_barrier()
    if not WHOLE:
        for i in range(2, T):
            r = tl.load(a + (first + i) * S + o)
            x = tl.where((o == i)[:, None], r, x)
    tl.store(out + (first + o)[:, None] * S + o[None, :], x)
"""
)


class TileReadAgain(Pattern):
    """Two loops, one after the other and over the same extent, load the same tiles of an array,
    where products are taken; or a loop loads, row by row, the tile that was loaded, or stored,
    before it."""

    name = "tile-read-again-in-a-later-loop"
    axis = "load_reuse"
    source = "Hennessy and Patterson, Computer Architecture (2017), temporal locality"
    matches = (
        Case(_PASSES, "tiles loaded again in a later loop"),
        Case(_ROWS, "rows of a loaded tile loaded again"),
        Case(_STORED, "rows of a stored tile loaded again"),
    )
    near_misses = (
        NearMiss(
            vary(_PASSES, ("z = tl.load(k +", "z = tl.load(out +")), why="tiles of another array"
        ),
        NearMiss(
            vary(_PASSES, ("for j in range(0, N, T)", "for j in range(N, 2 * N, T)")),
            why="the loop goes on where the first one ended",
        ),
        NearMiss(
            vary(_PASSES, ("z = tl.load(k + row[:, None]", "z = tl.load(k + S * N + row[:, None]")),
            why="another part of the array",
        ),
        NearMiss(
            vary(_ROWS, ("(first + i) * S", "(first + T + i) * S")), why="rows of another tile"
        ),
        NearMiss(_EITHER, why="the tile, or its rows, by one flag"),
        NearMiss(ATTENTION_POINTER, why="one loop"),
        NearMiss(PRODUCT, why="one loop"),
        NearMiss(PRODUCT_POINTER, why="one loop"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            return
        passes = [a for pair in _passes(facts) for a in pair] if facts.contractions else []
        if passes:
            yield self.decide(facts, "tiles loaded again in a later loop", dict.fromkeys(passes))
        for name, tiles in (("loaded", facts.loads), ("stored", facts.stores)):
            if rows := [a for pair in _rows(facts, tiles) for a in pair]:
                yield self.decide(facts, f"rows of a {name} tile loaded again", dict.fromkeys(rows))


def _passes(facts: Facts) -> list[tuple[Access, Access]]:
    """Loads of the same tiles in two loops that count alike, one behind the other."""
    loops = {loop.node: loop for loop in facts.rolled_loops}
    return [
        (one, two)
        for one in facts.loads
        for two in facts.loads
        if one.array is not None and one.array == two.array and one.node.index < two.node.index
        if (first := loops.get(_of(one))) and (second := loops.get(_of(two)))
        if first is not second and not _apart(facts, one.node, two.node)
        if first.node.loop is second.node.loop and _counts(facts, first) == _counts(facts, second)
        if _moved(facts, one, first, None) == _moved(facts, two, second, first)
    ]  # fmt: skip


def _of(access: Access) -> Node:
    return access.loop or access.node


def _counts(facts: Facts, loop: Loop) -> list[Expr | None]:
    return [(v and facts.values.expr(v)) or None for v in (loop.low, loop.high, loop.step)]


def _moved(facts: Facts, access: Access, loop: Loop, to: Loop | None) -> list[Expr] | None:
    """Where an access lies, with the count of one loop in place of another's; None where nothing
    says so, or where it stays."""
    own, other = (
        facts.values.expr(x.induction).atom if x and x.induction else None for x in (loop, to)
    )
    if own is None or not any(own in index.atoms() for index in access.index):
        return None
    return [_with(index, own, other or own) for index in access.index]


def _with(index: Expr, old: Atom, new: Atom) -> Expr:
    return make([(tuple(new if a == old else a for a in atoms), n) for atoms, n in index.terms])


def _rows(facts: Facts, tiles: Iterable[Access]) -> list[tuple[Access, Access]]:
    """Tiles, and loads of one row of them in every round of a later loop."""
    found = []
    for row in facts.loads:
        loop = next((x for x in facts.loops if x.node is row.loop), None)
        at = facts.values.expr(loop.induction).atom if loop and loop.induction else None
        if at is None or row.array is None or len(facts.types.shape(row.value)) != 1:
            continue
        for tile in tiles:
            before = tile.loop is not row.loop and tile.node.index < row.node.index
            if tile.array == row.array and before and not _apart(facts, tile.node, row.node):
                if len(facts.types.shape(tile.value)) == 2 and _row_of(tile, row, at):
                    found.append((tile, row))
    return found


def _apart(facts: Facts, one: Node, two: Node) -> bool:
    """Whether two operations never run both: on two sides of a branch, or of two that ask the
    same."""
    sides = [dict(_branches(facts, node)) for node in (one, two)]
    return one.excludes(two) or any(sides[1].get(c, b) != b for c, b in sides[0].items())


def _branches(facts: Facts, node: Node) -> Iterator[tuple[str, int]]:
    """The conditions that an operation stands under, with the side."""
    while node.parent is not None:
        if node.parent.op.kind == OpKind.IF:
            yield facts.graph.core(node.parent.op.inputs[0]) or "", node.branch
        node = node.parent


def _row_of(tile: Access, row: Access, at: Atom) -> bool:
    """Whether a row lies where a tile does, with the count of a loop for the lanes of one axis."""
    lanes = {a for index in tile.index for a in index.top() if a.kind is AtomKind.LANE}
    own = {a.value for index in row.index for a in index.top() if a.kind is AtomKind.LANE}
    return any(
        _same([_with(index, lane, at) for index in tile.index], [*row.index])
        for lane in lanes
        if len(lanes) == 2 and len(own) == 1
    )


def _same(one: list[Expr], two: list[Expr]) -> bool:
    """Whether indices agree, whichever axis of a tile their lanes count."""
    plain = [[_texts(index) for index in indices] for indices in (one, two)]
    return plain[0] == plain[1]


def _texts(index: Expr) -> list[tuple[list[str], int]]:
    named = [
        (sorted("lanes" if a.kind is AtomKind.LANE else a.text for a in atoms), n)
        for atoms, n in index.terms
    ]
    return sorted(named)
