"""Blocks without work leave at once; the grid was sized for the largest problem."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, POINTER, TILE, vary
from extractors.patterns.cases_early import (
    COMPUTED,
    LOOPED,
    SKIPPED,
    SKIPPED_LOADED,
    SKIPPED_POINTER,
    TRIANGLE,
    TRIANGLE_THREADS,
)
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS, HELPER_LEAVES_THREADS
from extractors.patterns.runtime_branch import past_extent
from extractors.patterns.thread_guard import handed_none
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.grid_places import read_places
from kb.analysis.loops import Loop, once, persistent
from kb.analysis.symbolic import AtomKind
from kb.dtypes import is_float
from kb.evidence import Decision
from kb.ops import COMPARISONS, CONTRACTIONS, OWN_THREAD, READS, OpKind

_HALF = "early return on one side of the diagonal"
_BOUND = "upper-bound grid + early return"
_MARKS = "early return for marked items"
_NONE = "early return for empty items"
_LEAVES = (
    POINTER
    + """
@triton.jit
def ragged(x, lengths, out, T: tl.constexpr):
    own = tl.load(lengths + tl.program_id(1))
    first = tl.program_id(0) * T
    if first >= own:
        return
    at = first + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < own), mask=at < own)
"""
)


_EMPTY = (
    POINTER
    + """
@triton.jit
def ragged(x, offsets, out, T: tl.constexpr):
    own = tl.program_id(0) // 8
    first = tl.load(offsets + own)
    last = tl.load(offsets + own + 1)
    if last - first == 0:
        return
    at = first + tl.arange(0, T)
    tl.store(out + at, tl.load(x + at, mask=at < last), mask=at < last)
"""
)


_LEAVES_TILE = (
    TILE
    + """
@ct.kernel
def ragged(x, lengths, out, T: Int):
    own = ct.gather(lengths, ct.bid(1)).item()
    i = ct.bid(0)
    if i * T >= own:
        return
    ct.store(out, index=(ct.bid(1), i), tile=ct.load(x, index=(ct.bid(1), i), shape=(1, T)))
"""
)


_LEAVES_THREADS = """__global__ void ragged(const float* x, const int* lengths, float* out, int s) {
    int own = lengths[blockIdx.y];
    int first = blockIdx.x * 128;
    if (first >= own) return;
    int at = first + threadIdx.x;
    if (at < own) out[blockIdx.y * s + at] = x[blockIdx.y * s + at];
}
"""
_HELD_THREADS = _LEAVES_THREADS.replace("first >= own) return;", "first < own) {").replace(
    "at];\n", "at]; }\n"
)
_MARKED = (
    POINTER
    + """
@triton.jit
def loss(x, y, out, n, left_out, T: tl.constexpr):
    row = tl.program_id(0)
    own = tl.load(y + row)
    if own == left_out:
        return
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(out + row, tl.sum(v, axis=0))
"""
)
_MARKED_THREADS = """__global__ void loss(const float* x, const int* y, float* out, int n, int z) {
    int row = blockIdx.x;
    if (y[row] == z) return;
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[row * n + i] = x[row * n + i] * 2.f;
}
"""


_EACH_THREADS = """__global__ void loss(const float* x, const int* y, float* out, int z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (y[i] == z) return;
    out[i] = x[i] * 2.f;
}
"""
_SHORT_THREADS = _MARKED_THREADS.replace(
    "return;",
    "{\n        out[row * n] = x[row * n];\n        return;\n    }",
)


_PAST = vary(
    _LEAVES, ("lengths, out,", "own, out,"), ("    own = tl.load(lengths + tl.program_id(1))\n", "")
)
_PAST_TILE = vary(
    _LEAVES_TILE,
    ("lengths, out,", "own: int, out,"),
    ("    own = ct.gather(lengths, ct.bid(1)).item()\n", ""),
)


_SLOT = vary(_EMPTY, ("    if last - first == 0:", "    if first == -1:"))
_CALLED = (
    POINTER
    + """
@triton.jit
def body(x, slots, out, own, T: tl.constexpr):
    at = own * T + tl.arange(0, T)
    slot = tl.load(slots + own)
    if slot < 0:
        tl.store(out + at, tl.zeros((T,), dtype=tl.float32))
        return
    tl.store(out + at, tl.load(x + slot * T + tl.arange(0, T)))

@triton.jit
def rows(x, slots, out, T: tl.constexpr):
    body(x, slots, out, tl.program_id(0), T)
"""
)
_GUARDED = vary(
    _LEAVES_TILE,
    ("    if i * T >= own:\n        return\n    ct.store", "    if i * T < own:\n        ct.store"),
)


class EarlyExit(Pattern):
    """A branch that compares a block's first position with a loaded length, or its places along two
    axes of the grid, ends the kernel."""

    name = "over-provisioned-grid-with-data-dependent-early-exit"
    axis = "grid_mapping"
    source = "tilelore catalogue, P09"
    matches = (
        Case(_LEAVES, _BOUND),
        Case(_LEAVES_TILE, _BOUND),
        Case(_EMPTY, _NONE),
        Case(LOOPED, _BOUND),
        Case(_SLOT, _MARKS),
        Case(_CALLED, _MARKS),
        Case(_GUARDED, _BOUND),
        Case(SKIPPED, "items past a loaded length are skipped"),
        Case(SKIPPED_POINTER, "items past a loaded length are skipped"),
        Case(SKIPPED_LOADED, "items past a loaded length are skipped"),
        Case(_PAST, "early return past the extent"),
        Case(_PAST_TILE, "early return past the extent"),
        Case(vary(_MARKED, ("own == left_out", "not own")), _MARKS),
        Case(_MARKED, _MARKS),
        Case(_MARKED_THREADS, _MARKS),
        Case(HELPER_LEAVES_THREADS, _MARKS),
        Case(TRIANGLE, _HALF),
        Case(TRIANGLE_THREADS, _HALF),
        Case(_LEAVES_THREADS, _BOUND),
        Case(_HELD_THREADS, _BOUND),
    )
    near_misses = (
        NearMiss(
            _LEAVES_THREADS.replace("    if (first >= own) return;\n", ""),
            why="threads ask, their block goes on",
        ),
        NearMiss(_EACH_THREADS, why="threads leave, their block stays"),
        NearMiss(_SHORT_THREADS, why="marked rows have work of their own"),
        NearMiss(COMPUTED, why="what was computed decides, not where the block is"),
        NearMiss(vary(LOOPED, ("(0, work, 1)", "(0, s, 1)")), why="a loop over the row"),
        NearMiss(vary(_EMPTY, ("offsets + own", "offsets")), why="a switch, no size of the share"),
        NearMiss(vary(_CALLED, ("if slot < 0:", "if T < 64:")), why="parameters decide for all"),
        NearMiss(
            vary(
                _CALLED,
                (
                    "    tl.store(out + at, tl.load(x",
                    "    tl.store(out, 1.0)\n    tl.store(out + at, tl.load(x",
                ),
                ("        return\n", ""),
            ),
            why="nothing leaves: work follows the branch",
        ),
        NearMiss(
            vary(_MARKED, ("tl.load(y + row)", "tl.load(y)")), why="one switch for all blocks"
        ),
        NearMiss(vary(TRIANGLE, ("if j > i:", "if n > 7:")), why="the same for all blocks"),
        NearMiss(
            TRIANGLE_THREADS.replace("if (blockIdx.y > blockIdx.x) return;", ""),
            why="every block works",
        ),
        NearMiss(ADD_POINTER, why="the tail is masked, nothing leaves"),
        NearMiss(ATTENTION, why="branches choose bounds, nothing leaves"),
        NearMiss(
            vary(
                _GUARDED,
                ("if i * T < own:", "if i * T < own + T or T > 9:"),
                ("ct.gather(lengths, ct.bid(1)).item()", "T"),
            ),
            why="no number is loaded: what lies past the extent",
        ),
        NearMiss(vary(SKIPPED, ("if i * T < own:", "if own > 0:")), why="no place is compared"),
        NearMiss(
            vary(SKIPPED_POINTER, ("own = tl.load(lengths + item // wide)", "own = n")),
            why="one length for all items: the end of the walk",
        ),
        NearMiss(SKIPPED_POINTER.replace("first < own", "item % wide < 4"), why="no length"),
        NearMiss(ADD_THREADS, why="the tail is masked, nothing leaves"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Where]] = {}
        for branch in facts.graph.of(OpKind.IF):
            value, where = self._leaving(facts, branch)
            if value:
                found.setdefault(value, []).extend(where)
        for value, where in found.items():
            yield self.decide(facts, value, [*where, *read_places(facts, where)])
        if found:
            return
        for loop in facts.loops:
            if _holds_all(facts, loop):
                tests = facts.graph.roots(loop.high, *COMPARISONS)
                placed = [n for n in tests if facts.graph.roots(n.result, *READS)]
                if any(self._placed(facts, n) for n in placed):
                    held: list[Where] = [loop.node.head, *placed]
                    yield self.decide(facts, _BOUND, [*held, *read_places(facts, placed)])
                    return

    def _leaving(self, facts: Facts, branch: Node) -> tuple[str, list[Where]]:
        """How a branch leaves early, and where that is decided; nothing for another branch."""
        leaves = _leaves(branch)
        skips = _skips(facts, branch) if len(branch.loops) == 1 else []
        if skips:
            return "items past a loaded length are skipped", [*skips]
        computed = facts.graph.roots(branch.op.inputs[0], *CONTRACTIONS)
        if computed or branch.loops or not (leaves or _parts(facts, branch)):
            return "", []
        above = facts.graph.upstream(branch.op.inputs[0])
        tests = [n for n in above if n.op.kind in COMPARISONS]
        alike = not facts.threads.roots(branch.op.inputs[0], *OWN_THREAD)
        ends = leaves or (alike and facts.of_threads)
        tests = [n for n in tests if not (ends and handed_none(facts, n))]
        placed = [n for n in tests if self._placed(facts, n)]
        held = leaves or alike
        if held and any(facts.graph.roots(n.result, *READS) for n in placed):
            return self._why(facts, placed), [branch, *placed]
        if not leaves and not facts.of_threads:
            return "", []
        between = [n for n in tests if _between_blocks(facts, n)]
        if leaves and between and len(between) == len(tests):
            return _HALF, [branch, *between]
        beyond = [n for n in tests if past_extent(facts, n)]
        if beyond and len(beyond) == len(tests) and not facts.of_threads:
            return "early return past the extent", [branch, *beyond]
        marks = [n for n in tests if self._marked(facts, n)] or _flags(facts, branch, tests)
        if (
            marks
            and len(marks) >= len(tests)
            and not (facts.of_threads and (not alike or _works(facts, branch)))
        ):
            return _MARKS, [branch, *marks]
        return "", []

    def _why(self, facts: Facts, tests: list[Node]) -> str:
        """What lets a block leave: where it is, or what was loaded for its own items, a mark or the
        number of them."""
        sides = [[facts.values.expr(v) for v in n.op.inputs[:2]] for n in tests]
        if any(e.has(AtomKind.BLOCK) for side in sides for e in side):
            return _BOUND
        loaded = [
            sum(1 for e in side for a in e.atoms() if a.kind is AtomKind.LOADED) for side in sides
        ]
        return _MARKS if max(loaded, default=0) < 2 else _NONE

    def _placed(self, facts: Facts, test: Node) -> bool:
        """A comparison of where the block is, or of numbers of its own items."""
        blocks = (facts.values.expr(v).has(AtomKind.BLOCK) for v in test.op.inputs)
        return any(blocks) or self._own(facts, test)

    def _marked(self, facts: Facts, test: Node) -> bool:
        """A number that was loaded from where the block id says, compared with one that stands for
        items to be left out."""
        for value, mark in (test.op.inputs[:2], test.op.inputs[1::-1]):
            held = facts.held_loads(value)
            own = held and all(any(i.has(AtomKind.BLOCK) for i in a.index) for a in held)
            handed = facts.graph.core(mark) in facts.graph.function.parameter_names
            if own and handed and test.op.kind in (OpKind.EQ, OpKind.NE):
                return not facts.types.shape(value)
        return False

    def _own(self, facts: Facts, test: Node) -> bool:
        """A number of items compared with none, or a number that names one with a mark: each side
        is loaded from where the block id says, by no loop, or zero, one or minus one."""
        loads = [a for v in test.op.inputs[:2] for a in facts.feeding(v)]
        compared = [facts.values.expr(v) for v in test.op.inputs[:2]]
        return (
            bool(loads)
            and not any(a.node.loops for a in loads)
            and not any(is_float(facts.types.dtype(v)) for v in test.op.inputs[:2])
            and all(any(i.has(AtomKind.BLOCK) for i in a.index) for a in loads)
            and all(e.has(AtomKind.LOADED) or e.constant in (0, 1, -1) for e in compared)
        )


def _flags(facts: Facts, branch: Node, tests: list[Node]) -> list[Node]:
    """The loads of a condition that is loaded, one number from where the block id says."""
    found = [] if tests else facts.feeding(branch.op.inputs[0])
    own = all(any(i.has(AtomKind.BLOCK) for i in a.index) for a in found)
    rounds = any(i.has(AtomKind.INDUCTION) for a in found for i in a.index)
    return [a.node for a in found] if own and not rounds else []


def _holds_all(facts: Facts, loop: Loop) -> bool:
    """Whether a branch that is written as a loop holds every tile that is moved."""
    tiles = [a.node for a in facts.accesses if facts.types.shape(a.value)]
    alone = once(loop, facts.values) and not loop.node.loops
    return alone and bool(tiles) and all(n.inside(loop.node) for n in tiles)


def _leaves(branch: Node) -> bool:
    ends = [r.terminator for r in branch.op.regions]
    return any(end is not None and end.kind == OpKind.RETURN for end in ends)


def _skips(facts: Facts, branch: Node) -> list[Node]:
    """A branch that holds all that a round of a walk over work items stores, and compares where
    the item begins with a loaded number: the branch, its test and what was loaded."""
    loop = facts.loop(branch.loops[0])
    if facts.of_threads or loop is None or not persistent(loop, facts.values):
        return []
    stored = [a.node for a in facts.stores if a.node.inside(loop.node)]
    test = facts.graph.producer(facts.graph.core(branch.op.inputs[0]))
    if test is None or test.op.kind not in COMPARISONS or not stored:
        return []
    if not all(node.inside(branch) for node in stored):
        return []
    for place, length in (test.op.inputs[:2], test.op.inputs[1::-1]):
        own = [a for a in facts.feeding(length) if a.node.inside(loop.node)]
        given = [a for a in facts.feeding(place) if a.node.inside(loop.node)]
        counted = own and facts.values.expr(length).has(AtomKind.LOADED)
        if counted and not given and facts.values.expr(place).has(AtomKind.INDUCTION):
            return [branch, test, *(a.node for a in own)]
    return []


def _works(facts: Facts, branch: Node) -> bool:
    """Whether the side of a branch that leaves reads memory: another way to the result."""
    loads = [a.node for a in facts.loads if a.node.inside(branch)]
    return _leaves(branch) and bool(loads)


def _parts(facts: Facts, branch: Node) -> bool:
    """True for the last step of a kernel that holds all that it writes: a helper that leaves early
    and is all that the kernel calls, or a guard."""
    last = branch.op in facts.graph.function.body.ops[-2:-1]
    return last and all(a.node.inside(branch) for a in facts.stores)


def _between_blocks(facts: Facts, test: Node) -> bool:
    """A block's place along one axis of the grid, compared in order with that along another."""
    sides = [facts.values.expr(v) for v in test.op.inputs[:2]]
    blocks = [{a for a in e.atoms() if a.kind is AtomKind.BLOCK} for e in sides]
    counted = any(e.has(AtomKind.LOADED, AtomKind.LANE) for e in sides)
    ordered = test.op.kind not in (OpKind.EQ, OpKind.NE)
    return ordered and not counted and all(blocks) and any(e.atom is not None for e in sides)
