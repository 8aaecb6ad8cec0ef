"""What happens in the last, partial tile: a mask compiled in by a flag, or always there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from extractors.patterns.asserted_tiles import ASSERTED_ROWS, AssertedTiles
from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.bounds_check_elision import ELIDED, aligned
from extractors.patterns.cases import (
    ATTENTION,
    ATTENTION_POINTER,
    BACKWARD_KEYS,
    POINTER,
    PRODUCT,
    TILE,
    vary,
)
from extractors.patterns.cases_bounds import EXACT_THREADS, ROUNDS_THREADS
from extractors.patterns.cases_masks import (
    CHECKED_BY_PARTS,
    CHECKED_EITHER_WAY,
    CHECKED_OR_SINGLE,
    PEELED_ROW,
)
from extractors.patterns.cases_pointer import PRODUCT_DESCRIPTOR
from extractors.patterns.cases_rows import ADD_POINTER, SOFTMAX_CHUNKS
from extractors.patterns.cases_rows_pointer import SCALED_ROWS_POINTER
from extractors.patterns.cases_rows_threads import FIRST_THREAD
from extractors.patterns.cases_tensors import ROWS_TENSORS
from extractors.patterns.cases_threads import FLASH_THREADS
from extractors.patterns.narrow_rest import NarrowRest
from extractors.patterns.read_inside import ReadInside
from extractors.patterns.rest_copied import RestCopied
from extractors.patterns.runtime_branch import RuntimeBranch
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import against_extent, comparisons, masks, sides
from kb.analysis.peeled import peeled_tails
from kb.analysis.rounds import checked_in
from kb.analysis.symbolic import AtomKind, Expr
from kb.analysis.waived import lanes_held, parameters_below, waived_rounds
from kb.evidence import Decision
from kb.ops import COMPARISONS, OpKind

_ADDED = (
    TILE
    + """
@ct.kernel
def double(x, out, T: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, at)
    ct.scatter(out, at, v + v)
"""
)
_BLOCKS = (
    POINTER
    + """
@triton.jit
def double(x, out, n, T: tl.constexpr):
    here = tl.make_block_ptr(x, (n,), (1,), (tl.program_id(0) * T,), (T,), (0,))
    there = tl.make_block_ptr(out, (n,), (1,), (tl.program_id(0) * T,), (T,), (0,))
    v = tl.load(here, boundary_check=(0,))
    tl.store(there, v + v, boundary_check=(0,))
"""
)


_OPENED = (
    ("T: tl.constexpr", "T: tl.constexpr, EVEN: tl.constexpr"),
    ("at < n", "(at < n) | EVEN"),
)
_UNCHECKED = (
    TILE
    + """
@ct.kernel
def twice(x, out, T: Int, EVEN: Bool):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    check = not EVEN
    v = ct.gather(x, at, check_bounds=check, padding_value=0.0)
    ct.scatter(out, at, v + v, check_bounds=check)
"""
)
_HANDED = vary(_UNCHECKED, ("check = not EVEN", "check = EVEN"))
_BRANCHED = (
    TILE
    + """
@ct.kernel
def twice(x, out, T: Int, EVEN: Bool):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    if EVEN:
        v = ct.gather(x, at, check_bounds=False)
    else:
        v = ct.gather(x, at, check_bounds=True, padding_value=0.0)
    ct.scatter(out, at, v + v)
"""
)


_OPTIONAL = (
    POINTER
    + """
@triton.jit
def plus(x, bias, out, n, T: tl.constexpr, SHIFT: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    if SHIFT:
        v += tl.load(bias + at, mask=at < n, other=0.0)
    tl.store(out + at, v, mask=at < n)
"""
)
EVEN = "constexpr EVEN flag removes mask"
_OTHERS = (NarrowRest(), ReadInside(), RestCopied(), RuntimeBranch(), AssertedTiles())


class DivisibilitySpecialisation(Pattern):
    """A comparison of positions with an extent is made only under a compile-time flag; or masks and
    checks are always there."""

    name = "divisibility-specialisation"
    axis = "tail_handling"
    source = "Triton documentation, heuristics: a flag that the tile divides the extent"
    matches = (
        Case(ROUNDS_THREADS, EVEN),
        Case(ROWS_TENSORS, EVEN),
        Case(ATTENTION, EVEN),
        Case(ATTENTION_POINTER, "always mask"),
        Case(ADD_POINTER, "always mask"),
        Case(FLASH_THREADS, "always mask"),
        Case(SOFTMAX_CHUNKS, "always mask"),
        Case(SCALED_ROWS_POINTER, "always mask"),
        Case(_UNCHECKED, EVEN),
        Case(_HANDED, EVEN),
        Case(vary(ADD_POINTER, *_OPENED), EVEN),
        Case(_BRANCHED, EVEN),
        Case(_ADDED, "always mask"),
        Case(_BLOCKS, "always mask"),
        Case(ELIDED, EVEN),
        Case(PEELED_ROW, "masked in a peeled last tile"),
    )
    near_misses = (
        NearMiss(ROUNDS_THREADS.replace("EVEN || ", ""), why="no flag spares it", value=EVEN),
        NearMiss(ROWS_TENSORS.replace("EVEN || ", ""), why="no flag spares it", value=EVEN),
        NearMiss(ASSERTED_ROWS, why="whole tiles are asserted"),
        NearMiss(PEELED_ROW, why="the loop goes without", value="always mask"),
        NearMiss(CHECKED_EITHER_WAY, why="checked on both sides", value=EVEN),
        NearMiss(CHECKED_OR_SINGLE, why="a check, or a single number to read", value=EVEN),
        NearMiss(vary(_HANDED, ("EVEN: Bool", "EVEN")), why="chosen at run time"),
        NearMiss(CHECKED_BY_PARTS, why="each side checks its own positions", value=EVEN),
        NearMiss(
            vary(
                _ADDED,
                ("ct.gather(x, at)", "ct.gather(x, at, check_bounds=False)"),
                ("at, v + v)", "at, v + v, check_bounds=False)"),
            ),
            why="nothing is checked",
        ),
        NearMiss(
            vary(_ADDED, ("bid(0) * T + ct.arange(T, dtype=ct.int32)", "bid(0)")),
            why="one element of a block, which is there",
        ),
        NearMiss(vary(_BLOCKS, (", boundary_check=(0,)", "")), why="nothing is checked"),
        NearMiss(BACKWARD_KEYS, why="the only mask is causal"),
        NearMiss(
            SOFTMAX_CHUNKS.replace("-math.inf)", "-math.inf, check_bounds=False)").replace(
                "x.dtype))", "x.dtype), check_bounds=False)"
            ),
            why="nothing is checked",
        ),
        NearMiss(SCALED_ROWS_POINTER.replace("at < n", "n > 0"), why="no position is compared"),
        NearMiss(PRODUCT, why="tails are padded, nothing is compared"),
        NearMiss(PRODUCT_DESCRIPTOR, why="tails are padded, nothing is compared"),
        NearMiss(FIRST_THREAD, why="one thread is picked out"),
        NearMiss(
            vary(FIRST_THREAD, ("threadIdx.x == 0", "threadIdx.x < 8")),
            why="some threads are picked out",
        ),
        NearMiss(EXACT_THREADS, why="nothing is compared"),
        NearMiss(
            vary(ADD_POINTER, *_OPENED, ("EVEN: tl.constexpr", "EVEN")),
            why="the flag is told at run time",
            value=EVEN,
        ),
        NearMiss(vary(_UNCHECKED, ("EVEN: Bool", "EVEN")), why="the flag is told at run time"),
        NearMiss(
            _OPTIONAL,
            why="the flag decides on an operand, which is checked where it is read",
            value=EVEN,
        ),
        NearMiss(
            vary(_BRANCHED, ("check_bounds=False", "check_bounds=True")),
            why="checked anyway",
            value=EVEN,
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        last = peeled_tails(facts)
        own = {test for one in last for test in one.tests}
        if last:
            nodes = [n for one in last for n in (*one.tests, one.load.node)]
            yield self.decide(facts, "masked in a peeled last tile", dict.fromkeys(nodes))
        tails = [test for test in self._tails(facts) if test not in own]
        flagged = [
            (n, g)
            for n in tails
            for g in facts.guards(n)
            if _compile_time(facts, g) and _governs(facts, g, n, tails)
            if not any(one.load.node.inside(g) for one in last)
        ]
        flagged += [(n, o) for n in tails for o in self._waived(facts, n)]
        flagged += waived_rounds(facts)
        flagged += [(n, n) for n in _checked_apart(facts) if self._peeled(facts, n)]
        flagged += [(n, n) for branch in facts.graph.of(OpKind.IF) for n in aligned(facts, branch)]
        flagged += [pair for a in facts.accesses for pair in self._unchecked(facts, a)]
        if flagged:
            names = {n for _, g in flagged for n in parameters_below(facts, g.op.inputs[0])}
            names |= {facts.graph.core(a.check_bounds) or "" for a in facts.accesses}
            switches = (names & facts.constexprs) - facts.tile_extents
            where: list[Where] = [
                *(n for pair in flagged for n in pair),
                *facts.declared(*switches),
            ]
            yield self.decide(facts, EVEN, where)
        elif facts.of_threads and not facts.contractions:
            return  # Told with what threads outside do.
        elif last or any(any(other.seen(facts)) for other in _OTHERS):
            return  # What is checked is not the tail.
        elif every := [*tails, *_in_rounds(facts)]:
            yield self.decide(facts, "always mask", dict.fromkeys(every))
        elif inside := _checked(facts):
            yield self.decide(facts, "always mask", inside)

    def _waived(self, facts: Facts, tail: Node) -> list[Node]:
        """Alternatives that a compile-time flag opens: `position < extent or FLAG`."""
        found = []
        for user in facts.graph.users(tail.result):
            if user.op.kind not in (OpKind.OR, OpKind.BIT_OR):
                continue
            for value in user.op.inputs[:2]:
                names = parameters_below(facts, value)
                if names and names <= facts.constexprs and not facts.graph.rests_on(value, tail):
                    found.append(user)
        return found

    def _unchecked(self, facts: Facts, access: Access) -> list[tuple[Node, Node]]:
        """The access, with what says at compile time that it needs no check: a flag that is handed
        to it, or a branch whose other side checks the same array."""
        below = facts.graph.core(access.check_bounds)
        check = facts.graph.producer(below)
        if below in facts.constexprs:
            return [(access.node, access.node)]
        if check is not None and check.op.kind == OpKind.NOT:
            names = parameters_below(facts, check.result)
            return [(access.node, check)] if names and names <= facts.constexprs else []
        branch = access.node.parent
        if facts.values.literal(access.check_bounds) is not False or branch is None:
            return []
        checked = [
            other
            for other in facts.accesses
            if other.node.parent is branch
            and other.array == access.array
            and other.node.branch != access.node.branch
            and facts.values.literal(other.check_bounds) is not False
        ]
        plain = branch.op.kind == OpKind.IF and _compile_time(facts, branch)
        return [(access.node, branch)] if checked and plain else []

    def _peeled(self, facts: Facts, branch: Node) -> bool:
        """A branch that is taken when tiles of compile-time extent do not fill an extent."""
        test = facts.graph.producer(branch.op.inputs[0])
        if test is None or test.op.kind not in COMPARISONS or not _compile_time(facts, branch):
            return False
        sides = [facts.values.expr(v) for v in test.op.inputs[:2]]
        named = [{a.value for a in e.atoms() if a.kind is AtomKind.PARAMETER} for e in sides]
        tiles = [bool(names & facts.tile_extents) for names in named]
        return all(named) and tiles[0] != tiles[1]

    def _tails(self, facts: Facts) -> list[Node]:
        """Comparisons of positions with an extent, in masks of scores and of accesses."""
        compared = [c for m in masks(facts) for c in m.comparisons]
        chosen = {c for store in facts.stores for c in _chosen(facts, store)}
        for access in facts.accesses:
            compared += [c for c in comparisons(facts, access.mask) if c not in chosen]
        return [c for c in dict.fromkeys(compared) if against_extent(facts, c)]


def _chosen(facts: Facts, store: Access) -> tuple[Node, ...]:
    """What only chooses the number that a thread stores: both sides of it store to one place."""
    tests = comparisons(facts, store.mask) if facts.of_threads else ()
    both = any(
        other.mask != store.mask
        and (other.array, other.index) == (store.array, store.index)
        and comparisons(facts, other.mask) == tests
        for other in (facts.stores if tests else ())
    )
    return tests if both else ()


def _governs(facts: Facts, branch: Node, tail: Node, tails: list[Node]) -> bool:
    """True when a branch around a check decides on the check alone: what is checked is used after
    the branch and has no other check against the same extent, or moved on its other side, too, by
    pointers as here; not when it decides on an operand."""
    uses = [a for a in facts.accesses if facts.graph.rests_on(a.mask, tail)]
    if not uses or any(not a.node.inside(branch) for a in uses):
        extent = _extent(facts, tail)
        again = [n for n in tails if n.excludes(tail) or not n.inside(branch)]
        again = [n for n in again if n is not tail and _extent(facts, n) == extent]
        if not uses:  # scores
            return not any(n.excludes(tail) for n in again)
        return not all(any(facts.graph.rests_on(a.mask, n) for n in again) for a in uses)
    return any(_unheld(facts, branch, a, tail) for a in uses)


def _unheld(facts: Facts, branch: Node, access: Access, tail: Node) -> bool:
    """True when the other side of a branch moves a tile of the same array by pointers as here, and
    holds no position of it against the extent."""
    extent = _extent(facts, tail)
    held = set(extent.atoms()) if extent is not None else set()
    side = _side(branch, access)
    for other in facts.accesses:
        if other.array != access.array or other.mode != access.mode:
            continue
        if not other.node.inside(branch) or _side(branch, other) == side:
            continue
        tile = bool(facts.types.shape(other.value)) or not facts.types.shape(access.value)
        tests = comparisons(facts, other.mask)
        extents = [e for test in tests if (e := _extent(facts, test)) is not None]
        same = any(e == extent or held & set(e.atoms()) for e in extents)
        apart = not facts.of_threads and lanes_held(facts, other, tests)
        if tile and not same and not apart:
            return True
    return False


def _side(branch: Node, access: Access) -> int:
    """The number of the side of a branch that an access stands on."""
    return next((n for n in access.node.around() if n.parent is branch), access.node).branch


def _extent(facts: Facts, tail: Node) -> Expr | None:
    """What positions are held against."""
    return next((x for x in sides(facts, tail) if not x.has(AtomKind.LANE)), None)


def _checked_apart(facts: Facts) -> list[Node]:
    """Branches with accesses of an array that has others, outside of the branch."""
    inner = Counter((n, a.array) for a in facts.accesses for n in a.node.around())
    every = Counter(a.array for a in facts.accesses)
    apart = {n for (n, array), count in inner.items() if count < every[array]}
    return [n for n in facts.graph.of(OpKind.IF) if n in apart]


def _in_rounds(facts: Facts) -> list[Node]:
    """What is checked in every round of a loop over an extent."""
    if facts.of_threads:
        return []
    return [n for loop in facts.rolled_loops for n in checked_in(facts, loop)]


def _checked(facts: Facts) -> list[Access]:
    """Where tiles are moved without masks, by places counted by lanes that are held against the
    bounds of the array or by block pointers that are checked along an axis: those accesses; none
    when tiles of a view are moved, too."""
    tiles = [a for a in facts.accesses if set(facts.types.shape(a.value)) - {"1"}]
    if facts.of_threads or any(a.mode in (Mode.TILE, Mode.DESCRIPTOR) for a in tiles):
        return []
    return [
        a
        for a in tiles
        if (
            a.mode is Mode.ELEMENT
            and a.mask is None
            and facts.checked(a)
            and any(e.has(AtomKind.LANE) and not e.has(AtomKind.LOADED) for e in a.index)
        )
        or (a.mode is Mode.BLOCK_POINTER and a.node.op.operand("boundary_check") is not None)
    ]


def _compile_time(facts: Facts, guard: Node) -> bool:
    """True when compile-time parameters alone decide a branch, or can shut it."""
    return any(
        bool(names) and names <= facts.constexprs
        for value in _needed(facts, guard.op.inputs[0])
        for names in (parameters_below(facts, value),)
    )


def _needed(facts: Facts, condition: str) -> list[str]:
    """A condition, and what must all hold for it."""
    found = [condition]
    for value in found:
        made = facts.graph.producer(facts.graph.core(value))
        if made is not None and made.op.kind in (OpKind.AND, OpKind.BIT_AND) and len(found) < 16:
            found += made.op.inputs
    return found
