"""Work past the end of an extent is left out by a branch at run time."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import against_extent, comparisons, sides
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ops import COMPARISONS, OpKind

_HEADS = (
    POINTER
    + """
@triton.jit
def twice(q, k, s, n, m, T: tl.constexpr):
    head = tl.program_id(0)
    at = tl.arange(0, T)
    if head < n:
        tl.store(q + head * s + at, tl.load(q + head * s + at) * 2)
    if head < m:
        tl.store(k + head * s + at, tl.load(k + head * s + at) * 2)
"""
)
_ROWS = (
    TILE
    + """
@ct.kernel
def twice(x, out, n: int, per: Int, T: Int):
    for i in range(per):
        row = ct.bid(0) * per + i
        if row < n:
            v = ct.load(x, index=(row, 0), shape=(1, T))
            ct.store(out, index=(row, 0), tile=v * 2)
"""
)
_FIXED = (
    POINTER
    + """
@triton.jit
def total(x, out, n, s, MOST: tl.constexpr, T: tl.constexpr):
    at = tl.arange(0, T)
    acc = tl.zeros((T,), dtype=tl.float32)
    for i in tl.static_range(0, MOST):
        if i < n:
            acc += tl.load(x + i * s + at)
    tl.store(out + at, acc)
"""
)
_MOVES = (AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.LOADED)


_WHOLE = (
    POINTER
    + """
@triton.jit
def twice(x, out, n, T: tl.constexpr):
    i = tl.program_id(0)
    at = i * T + tl.arange(0, T)
    if (i + 1) * T <= n:
        tl.store(out + at, 2 * tl.load(x + at))
    else:
        tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)
"""
)


class RuntimeBranch(Pattern):
    """A branch around loads and stores compares where a block is with an extent; its other side
    moves nothing."""

    name = "runtime-branch-past-the-extent"
    axis = "tail_handling"
    source = "Triton documentation, control flow: scalar conditions are branches at run time"
    matches = (
        Case(_HEADS, "runtime branch"),
        Case(_ROWS, "runtime branch"),
        Case(_FIXED, "runtime branch"),
        Case(_WHOLE, "runtime branch between whole and checked tiles"),
    )
    near_misses = (
        NearMiss(
            vary(_HEADS, ("n, m, T", "n: tl.constexpr, m: tl.constexpr, T"), ("head < n", "n > 1"),
                 ("head < m", "m > 1")),
            why="flags, told at compile time",
        ),
        NearMiss(vary(_ROWS, ("row < n", "row < ct.bid(1)")), why="two places, no extent"),
        NearMiss(vary(_HEADS, ("head < n", "s < n"), ("head < m", "s < m")), why="a switch"),
        NearMiss(vary(_WHOLE, ("    if (i + 1) * T <= n:", "    if n <= 64:")),
                 why="the size of the problem is asked for, no tile"),
        NearMiss(vary(_FIXED, ("i < n", "i < MOST")), why="every round runs"),
        NearMiss(ADD_POINTER, why="the tail is masked"),
        NearMiss(ADD_THREADS, why="one element of a thread, a mask of the block"),
        NearMiss(ATTENTION, why="branches choose bounds"),
        NearMiss(PRODUCT, why="nothing is compared"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            return
        found = []
        for branch in facts.graph.of(OpKind.IF):
            tests = [n for n in tests_of(facts, branch) if past_extent(facts, n)]
            if tests and self._one_side(facts, branch):
                found += [branch, *tests]
            elif rounds := [n for n in tests_of(facts, branch) if _in_fixed_rounds(facts, n)]:
                read = [a for a in facts.loads if _side(a.node, branch) == [0]]
                stays = all(
                    r.terminator is not None and r.terminator.kind == OpKind.YIELD
                    for r in branch.op.regions
                )
                if stays and any(facts.types.shape(a.value) for a in read):
                    found += [branch, *rounds]
        if found:
            yield self.decide(facts, "runtime branch", found)
        whole = [n for branch in facts.graph.of(OpKind.IF) for n in self._whole(facts, branch)]
        if whole:
            yield self.decide(facts, "runtime branch between whole and checked tiles", whole)

    def _whole(self, facts: Facts, branch: Node) -> list[Where]:
        """A branch that asks at run time about the extent of a tile, with the accesses of one side
        that are held below an extent, where the other side moves the same arrays unchecked."""
        asked = [e for n in tests_of(facts, branch) for e in sides(facts, n)]
        sizes = {a.value for e in asked for a in e.atoms() if a.kind is AtomKind.PARAMETER}
        run = sizes - facts.constexprs or any(e.has(AtomKind.LOADED) for e in asked)
        if not run or not sizes & facts.tile_extents:
            return []
        moved = [(side, a) for a in facts.accesses for side in _side(a.node, branch)]
        held = {a: any(against_extent(facts, c) for c in comparisons(facts, a.mask))
                for _, a in moved}  # fmt: skip
        for side in (0, 1):
            checked = [a for at, a in moved if at == side and held[a]]
            plain = {a.array for at, a in moved if at != side and not held[a]}
            if checked and plain and not any(held[a] for at, a in moved if at != side):
                if len({at for at, _ in moved}) == 2:
                    return [branch.head, *(a.node for a in checked)]
        return []

    def _one_side(self, facts: Facts, branch: Node) -> bool:
        """True when one side alone reads and writes, and the other does not leave."""
        if any(
            r.terminator is None or r.terminator.kind != OpKind.YIELD for r in branch.op.regions
        ):
            return False
        moved = [(side, a) for a in facts.accesses for side in _side(a.node, branch)]
        sides = {side for side, _ in moved}
        return len(sides) == 1 and {a.is_store for _, a in moved} == {True, False}


def tests_of(facts: Facts, branch: Node) -> list[Node]:
    """The comparison that a branch asks, or those that it joins."""
    found, pending = [], [branch.op.inputs[0]]
    for value in pending:
        node = facts.graph.producer(facts.graph.core(value))
        if node is not None and node.op.kind in (OpKind.AND, OpKind.BIT_AND):
            pending += node.op.inputs if len(pending) < 16 else ()
        elif node is not None and node.op.kind in COMPARISONS:
            found.append(node)
    return found


def past_extent(facts: Facts, test: Node) -> bool:
    """A place of a block, without lanes, below an extent that is handed in."""
    if test.op.kind in (OpKind.EQ, OpKind.NE):
        return False
    sides = [facts.values.expr(v) for v in test.op.inputs[:2]]
    placed = [e for e in sides if e.has(AtomKind.BLOCK) and not e.has(AtomKind.LANE)]
    extents = [e for e in sides if _extent(e)]
    return len(placed) == len(extents) == 1


def _in_fixed_rounds(facts: Facts, test: Node) -> bool:
    """The number of a round, of rounds that are compiled in, below a count that is handed in."""
    if test.op.kind not in (OpKind.LT, OpKind.GT, OpKind.LE, OpKind.GE):
        return False
    sides = [facts.values.expr(v) for v in test.op.inputs[:2]]
    fixed = [
        facts.values.expr(x.induction)
        for x in facts.loops
        if x.range is not None and x.range.op.kind == OpKind.STATIC_RANGE
    ]
    counts = [e for e in sides if _extent(e) and not facts.values.compile_time(e)]
    return len(counts) == 1 and any(e in fixed for e in sides)


def _extent(expr: Expr) -> bool:
    atom = expr.atom
    return atom is not None and atom.kind in (AtomKind.PARAMETER, AtomKind.EXTENT)


def _side(node: Node, branch: Node) -> list[int]:
    """The side of a branch that a node stands in."""
    while node.parent is not None:
        if node.parent is branch:
            return [node.branch]
        node = node.parent
    return []
