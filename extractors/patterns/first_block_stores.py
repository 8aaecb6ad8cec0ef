"""What the first block along an axis of the grid alone stores, beside what all of them do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ops import COMPARISONS, OpKind

_VALUE = "stored by the first block along an axis"
_EITHER = frozenset({OpKind.OR, OpKind.BIT_OR, OpKind.NOT, OpKind.BIT_NOT, OpKind.SELECT})
_NORM = (
    POINTER
    + """
@triton.jit
def norm(x, out, sizes, n, W: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    at = tl.arange(0, W)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    size = tl.sum(v * v, axis=0)
    own = part * T + tl.arange(0, T)
    u = tl.load(x + row * n + own, mask=own < n, other=0.0)
    tl.store(out + row * n + own, u / size, mask=own < n)
    if part == 0:
        tl.store(sizes + row, size)
"""
)
_NORM_TILE = (
    TILE
    + """
@ct.kernel
def norm(x, out, sizes, W: Int, T: Int):
    row = ct.bid(0)
    part = ct.bid(1)
    v = ct.load(x, index=(row, 0), shape=(1, W))
    size = ct.sum(v * v, axis=1, keepdims=True)
    u = ct.load(x, index=(row, part), shape=(1, T))
    ct.store(out, index=(row, part), tile=u / size)
    if part == 0:
        ct.store(sizes, index=(row, 0), tile=size)
"""
)
_MASKED = vary(
    _NORM,
    ("    if part == 0:\n        tl.store(sizes + row, size)",
     "    tl.store(sizes + row, size, mask=part == 0)"),
)  # fmt: skip


class FirstBlockStores(Pattern):
    """A branch or a mask that asks whether a block is the first along an axis of the grid holds the
    store of what all blocks have, at places that the axis does not move; other arrays are stored by
    all."""

    name = "stored-by-the-first-block-of-an-axis"
    axis = "side_output"
    source = "Dao, FlashAttention-2 (2023): statistics are stored beside each tile of the output"
    matches = (Case(_NORM, _VALUE), Case(_NORM_TILE, _VALUE), Case(_MASKED, _VALUE))
    near_misses = (
        NearMiss(vary(_NORM, ("if part == 0", "if row == 0")), why="each part of a row, in turn"),
        NearMiss(
            vary(
                _NORM, ("tl.store(sizes + row, size)", "tl.store(sizes + row, tl.sum(u, axis=0))")
            ),
            why="work of the first block alone",
        ),
        NearMiss(vary(_NORM, ("if part == 0", "if n == 0")), why="the same for all blocks"),
        NearMiss(vary(_NORM_TILE, ("part == 0", "part > 0")), why="all blocks but the first"),
        NearMiss(vary(_NORM, ("part == 0", "(part == 0) | (n < T)")), why="or all of them"),
        NearMiss(
            vary(
                _NORM,
                ("    tl.store(out + row * n + own, u / size, mask=own < n)\n", ""),
                (
                    "size)\n",
                    "size)\n    else:\n        tl.store(out + row * n + own, u, mask=own < n)\n",
                ),
            ),
            why="the others have an array of their own",
        ),
        NearMiss(
            vary(_NORM, ("    tl.store(out + row * n + own, u / size, mask=own < n)\n", "")),
            why="nothing is stored by all blocks",
        ),
        NearMiss(ADD_POINTER, why="every block stores"),
        NearMiss(PRODUCT, why="every block stores"),
        NearMiss(ATTENTION, why="every block stores"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            return
        held = {s: [*_first(facts, s)] for s in facts.stores if s.array and not s.is_atomic}
        free = {s.array for s, tests in held.items() if not tests and not _otherwise(facts, s)}
        alone = {s: tests for s, tests in held.items() if tests and s.array not in free}
        if alone and free:
            tests = [test for asked in alone.values() for test in asked]
            yield self.decide(facts, _VALUE, [*alone, *tests])


def _first(facts: Facts, store: Access) -> Iterator[Node]:
    """The comparisons that let the first block along an axis alone store, at a place that says
    nothing of the axis."""
    asked = [(store.mask, 0)]
    made = facts.graph.producer(facts.graph.core(store.value))
    for node in (store.node, *store.node.around()):
        around = node.parent
        if around is not None and around.op.kind == OpKind.IF and not _inside(made, around):
            asked.append((around.op.inputs[0], node.branch))
    taken = [value for value, side in asked if side == 0 and not _mixed(facts, value)]
    for condition in taken:
        for test in comparisons(facts, condition):
            place = _axis(facts, test)
            if place is not None and not _moved(store, place):
                yield test


def _inside(made: Node | None, branch: Node) -> bool:
    """Whether a branch makes a value of its own: work of the first block, no result of all."""
    return made is not None and made.inside(branch)


def _otherwise(facts: Facts, store: Access) -> bool:
    """Whether a store is on the other side of such a branch: blocks have different arrays."""
    held = [n for n in (store.node, *store.node.around()) if n.branch and n.parent is not None]
    asked = [n.parent.op.inputs for n in held if n.parent and n.parent.op.kind == OpKind.IF]
    tests = [test for inputs in asked for test in comparisons(facts, inputs[0])]
    return any(_axis(facts, test) is not None for test in tests)


def _mixed(facts: Facts, condition: str | None) -> bool:
    """Whether a condition holds for some that a comparison in it leaves out."""
    above = facts.graph.upstream(condition or "", lambda n: n.op.kind in COMPARISONS)
    return any(n.op.kind in _EITHER for n in above)


def _axis(facts: Facts, test: Node) -> Expr | None:
    """The place along an axis that is compared with the first one."""
    for place, against in (sides(facts, test), sides(facts, test)[::-1]):
        scalar = place.has(AtomKind.BLOCK) and not place.has(AtomKind.LANE, AtomKind.INDUCTION)
        if test.op.kind == OpKind.EQ and against.constant == 0 and scalar:
            return place
    return None


def _moved(store: Access, place: Expr) -> bool:
    """Whether an axis moves the place of a store."""
    atoms = {atom.text for index in store.index for atom in index.atoms()}
    return any(atom.text in atoms for atom in place.top())
