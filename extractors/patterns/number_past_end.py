"""What is stored where there are no rows: a number that later kernels can read."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.idioms import comparisons
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import WRITES, OpKind

_LOOKS = VIEWS | CASTS
_BOUNDS = frozenset({OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE})
_SCALES = (
    POINTER
    + """
@triton.jit
def scales(x, out, rows, padded, n, R: tl.constexpr, T: tl.constexpr):
    m = tl.program_id(0) * R + tl.arange(0, R)
    at = tl.arange(0, T)
    inside = (m[:, None] < rows) & (at[None, :] < n)
    v = tl.load(x + m[:, None] * n + at[None, :], mask=inside, other=0.0)
    s = tl.where(m < rows, tl.max(tl.abs(v), axis=1) / 448.0, 1.0)
    tl.store(out + m, s, mask=m < padded)
"""
)
_TILE = """import cuda.tile as ct
@ct.kernel
def sums(x, out, rows, T: ct.Constant[int], R: ct.Constant[int]):
    m = ct.bid(0) * R + ct.arange(R, dtype=ct.int32)
    v = ct.load(x, index=(ct.bid(0), 0), shape=(R, T), padding_mode=ct.PaddingMode.ZERO)
    s = ct.where(m < rows, ct.log(ct.sum(ct.exp(v), 1)), ct.full((R,), 1e30, dtype=ct.float32))
    ct.scatter(out, m, s)
"""


class NumberPastEnd(Pattern):
    """A number is chosen in place of a result where a place lies past a bound, and stored there,
    too."""

    name = "number-stored-past-the-end"
    axis = "oob_rows"
    source = "NVIDIA, cuBLAS documentation: block scaling factors, padding"
    matches = (
        Case(_SCALES, "number stored past the end"),
        Case(_TILE, "number stored past the end"),
    )
    near_misses = (
        NearMiss(vary(_SCALES, ("m < padded", "m < rows")), why="nothing is stored there"),
        NearMiss(vary(_SCALES, ("448.0, 1.0)", "448.0, m)")), why="no number is chosen"),
        NearMiss(
            vary(_SCALES, ("tl.where(m < rows,", "tl.where(tl.load(x + m) < n,")),
            why="a loaded element is asked for",
        ),
        NearMiss(
            vary(_SCALES, ("mask=m < padded)", "mask=m < padded)\n    tl.store(x + m, s + 1.0)")),
            why="what is chosen is computed with",
        ),
        NearMiss(
            vary(_SCALES, ("where(m < rows,", "where(tl.rand(n, m) < 0.5,")), why="chosen by chance"
        ),
        NearMiss(ADD_POINTER, why="nothing is chosen"),
        NearMiss(PRODUCT, why="nothing is chosen"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            return
        found = [n for s in facts.stores for n in _chosen(facts, s)]
        if found:
            yield self.decide(facts, "number stored past the end", found)


def _chosen(facts: Facts, store: Access) -> list[Node | Access]:
    """The choice of a result or a number by the place of a row, with the store that takes it and
    does not ask for the same."""
    node = facts.graph.producer(facts.graph.through(store.value or "", _LOOKS))
    if node is None or node.op.kind != OpKind.SELECT:
        return []
    if not _stored_alone(facts, node):
        return []
    numbers = [facts.number(facts.graph.through(v, _LOOKS) or v) for v in node.op.inputs[1:3]]
    if (numbers[0] is None) == (numbers[1] is None):
        return []
    tests = comparisons(facts, node.op.inputs[0])
    if not tests or not all(_by_place(facts, test) for test in tests):
        return []
    if not facts.feeding(node.result) or any(_asked(facts, store, test) for test in tests):
        return []
    return [node, store]


def _stored_alone(facts: Facts, node: Node) -> bool:
    """Whether nothing but stores takes what is chosen, perhaps in another shape or type."""
    pending = [node.result]
    for value in pending:
        for user in facts.graph.users(value):
            if user.op.kind in _LOOKS:
                pending.append(user.result)
            elif user.op.kind not in WRITES:
                return False
    return True


def _by_place(facts: Facts, test: Node) -> bool:
    """Whether the numbers of lanes are compared with a bound."""
    places = [facts.values.expr(v) for v in test.op.inputs[:2]]
    lanes = [any(a.kind is AtomKind.LANE for a in place.top()) for place in places]
    return (
        test.op.kind in _BOUNDS
        and lanes[0] != lanes[1]
        and not places[not lanes[0]].has(AtomKind.LOADED, AtomKind.OPAQUE)
        and not places[lanes[0]].has(AtomKind.INDUCTION)
    )


def _asked(facts: Facts, store: Access, test: Node) -> bool:
    """Whether the mask of a store compares the same."""
    sides = {str(facts.values.expr(v)) for v in test.op.inputs[:2]}
    return any(
        {str(facts.values.expr(v)) for v in other.op.inputs[:2]} == sides
        for other in comparisons(facts, store.mask)
    )
