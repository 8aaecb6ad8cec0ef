"""Products of a matrix and a vector that no matrix unit computes: multiplied lane by lane and
summed."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, DELTA_TILE, ROW_NORM
from extractors.patterns.cases_rows_pointer import DELTA
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.analysis.loops import Role
from kb.evidence import Decision
from kb.ops import OpKind

_GEMV = (
    POINTER
    + """
@triton.jit
def gemv(a, x, out, n, k, TN: tl.constexpr, TK: tl.constexpr):
    rows = tl.program_id(0) * TN + tl.arange(0, TN)
    cols = tl.arange(0, TK)
    w = tl.load(a + rows[:, None] * k + cols[None, :])
    v = tl.load(x + cols)
    tl.store(out + rows, tl.sum(w * v[None, :], axis=1), mask=rows < n)
"""
)
_LOOPED = vary(
    _GEMV,
    ("    cols = tl.arange(0, TK)\n",
     "    acc = tl.zeros([TN, TK], tl.float32)\n    for m in range(0, k, TK):\n"
     "        cols = m + tl.arange(0, TK)\n"),
    ("    w = tl.load", "        w = tl.load"),
    ("    v = tl.load(x + cols)\n",
     "        v = tl.load(x + cols)\n        acc += w * v[None, :]\n"),
    ("tl.sum(w * v[None, :], axis=1)", "tl.sum(acc, axis=1)"),
)  # fmt: skip
_GEMV_TILE = (
    TILE
    + """
@ct.kernel
def gemv(a, x, out, TN: Int, TK: Int):
    i = ct.bid(0)
    w = ct.load(a, index=(i, 0), shape=(TN, TK))
    v = ct.load(x, index=(0, 0), shape=(1, TK))
    ct.store(out, index=(i,), tile=ct.sum(w * v, axis=1))
"""
)
_PARTS = vary(
    _GEMV_TILE,
    ("index=(i, 0), shape=(TN, TK)", "index=(0, i, 0), shape=(TN, 4, TK)"),
    ("index=(0, 0), shape=(1, TK))", "index=(0, i), shape=(TN, 4)).reshape((TN, 4, 1))"),
    ("axis=1", "axis=0"),
)  # fmt: skip


class ProductSummed(Pattern):
    """A tile is multiplied by a vector that is spread over one of its axes, and the other axis is
    summed; the kernel holds no matrix product."""

    name = "matrix-times-vector-by-lanes"
    axis = "reduction_engine"
    source = "tilelore catalogue, axis reduction_engine; CUTLASS documentation, GEMV"
    matches = (
        Case(_GEMV, "elementwise mul + sum"),
        Case(_GEMV_TILE, "elementwise mul + sum"),
        Case(_PARTS, "elementwise mul + sum"),
        Case(DELTA, "elementwise mul + sum"),
        Case(DELTA_TILE, "elementwise mul + sum"),
        Case(_LOOPED, "elementwise mul + sum"),
        Case(
            vary(
                _GEMV,
                (
                    "w * v[None, :], axis=1)",
                    "tl.reshape(w * v[None, :], (TN, 4, TK // 4)), axis=2)",
                ),
                ("rows, tl.sum", "rows[:, None] * 4 + tl.arange(0, 4)[None, :], tl.sum"),
                (", mask=rows < n", ""),
            ),
            "elementwise mul + sum",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_GEMV, ("v = tl.load(x + cols)", "v = tl.load(x + rows)"), ("v[None, :]", "v[:, None]")),  # noqa: E501
            why="rows are scaled by one factor each and then summed",
        ),
        NearMiss(vary(_GEMV_TILE, ("w * v", "w * w")), why="squares are summed"),
        NearMiss(vary(_LOOPED, ("w * v[None, :]", "w * w")), why="squares are summed"),
        NearMiss(ROW_NORM, why="squares are summed"),
        NearMiss(ADD_POINTER, why="nothing is summed"),
        NearMiss(PRODUCT, why="the matrix unit multiplies"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions or facts.program is not facts.source:
            return
        found: list[Node] = []
        for total in facts.graph.of(OpKind.REDUCE_SUM):
            for made in self._made(facts, total):
                if made.op.kind == OpKind.MUL and self._spread(facts, made, total):
                    found += [made, total]
        if found:
            yield self.decide(facts, "elementwise mul + sum", found)

    def _made(self, facts: Facts, total: Node) -> list[Node]:
        """What makes the tile that is summed, or is added to it in every round of a loop."""
        core = facts.graph.core(total.op.inputs[0])
        made = facts.graph.producer(core)
        added = [
            facts.graph.producer(facts.graph.core(v))
            for loop in facts.loops
            for c in loop.of(Role.SUM)
            if c.result == core
            and (step := facts.graph.producer(c.next)) is not None
            and step.op.kind == OpKind.ADD
            for v in step.op.inputs[:2]
        ]
        return [n for n in (made, *added) if n is not None]

    def _spread(self, facts: Facts, product: Node, total: Node) -> bool:
        """One side fills two axes or more, the other fewer, the axis that is summed among them."""
        axis = facts.values.literal(total.op.operand("axis"))
        shapes = [self._own(facts, v) for v in product.op.inputs[:2]]
        if not isinstance(axis, int) or any(len(shape) < 2 for shape in shapes):
            return False
        folded = len(facts.types.shape(total.op.inputs[0])) > len(shapes[0])
        if self._rows(facts, product, shapes):
            return True
        for full, thin in (shapes, shapes[::-1]):
            wide, narrow = (sum(e != "1" for e in shape) for shape in (full, thin))
            if not 1 <= narrow < wide:
                continue
            if folded:
                return thin[-1] != "1" and axis == len(facts.types.shape(total.op.inputs[0])) - 1
            return thin[axis] != "1" if -len(thin) <= axis < len(thin) else False
        return False

    def _rows(self, facts: Facts, product: Node, shapes: list[tuple[str, ...]]) -> bool:
        """Two tiles of the same shape that different arrays hold: every row times its partner."""
        arrays = [{a.array for a in facts.held_loads(v)} for v in product.op.inputs[:2]]
        wide = all(sum(e != "1" for e in shape) > 1 for shape in shapes)
        return wide and all(arrays) and not arrays[0] & arrays[1]

    def _own(self, facts: Facts, value: str) -> tuple[str, ...]:
        """The shape of a value before it is spread to that of another one."""
        below = facts.graph.through(value, CASTS | {OpKind.COPY, OpKind.BROADCAST_TO})
        return facts.types.shape(below)
