"""A condition that is multiplied in as zero or one."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, vary
from extractors.patterns.cases_rows import ROW_NORM
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import COMPARISONS, OpKind

_HELD = VIEWS | CASTS
_LOGIC = frozenset({OpKind.BIT_AND, OpKind.BIT_OR, OpKind.BIT_NOT, OpKind.NOT})
_BOTH = [0, 1]
_RELU = (
    POINTER
    + """
@triton.jit
def back(x, dy, dx, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    by = tl.where(v > 0.0, 1.0, 0.0)
    tl.store(dx + at, tl.load(dy + at, mask=at < n, other=0.0) * by, mask=at < n)
"""
)
_CAST = vary(_RELU, ("tl.where(v > 0.0, 1.0, 0.0)", "(v > 0.0).to(tl.float32)"))
_TILE = """import cuda.tile as ct
@ct.kernel
def back(y, dy, dx, T: ct.Constant[int]):
    v = ct.load(y, index=(ct.bid(0),), shape=(T,))
    g = ct.load(dy, index=(ct.bid(0),), shape=(T,))
    part = ct.astype(v > 0.0, ct.float32) * g
    ct.store(dx, index=(ct.bid(0),), tile=part)
"""


class FactorOfMask(Pattern):
    """A comparison, cast to a number or chosen as one and zero, multiplies what is computed on the
    way to a store."""

    name = "condition-multiplied-in"
    axis = "mask_application"
    source = "PyTorch documentation, threshold_backward"
    matches = (
        Case(_RELU, "multiplied by 0 or 1"),
        Case(vary(_RELU, ("1.0, 0.0", "0.0, 1.0")), "multiplied by 0 or 1"),
        Case(_CAST, "multiplied by 0 or 1"),
        Case(_TILE, "multiplied by 0 or 1"),
    )
    near_misses = (
        NearMiss(vary(_RELU, ("1.0, 0.0", "1.0, 0.1")), why="a slope, nothing is left out"),
        NearMiss(
            vary(_RELU, ("tl.where(v > 0.0, 1.0, 0.0)", "1.0"),
                 ("other=0.0) * by", "other=0.0) * tl.where(v > 0.0, v, 0.0)")),
            why="a choice of the element itself",
        ),
        NearMiss(
            vary(_RELU, (" * by", ""), ("tl.store(dx + at,", "tl.store(dx + n, tl.sum(by))\n    tl.store(dx + at,")),  # noqa: E501
            why="the condition is counted",
        ),
        NearMiss(
            vary(_RELU, ("= tl.where(v > 0.0, 1.0, 0.0)", "= (v > 0.0).to(tl.int32) * n"),
                 ("other=0.0) * by", "other=0.0)"), ("tl.store(dx + at", "tl.store(dx + at + by")),
            why="a place is chosen, no number with a point",
        ),
        NearMiss(ROW_NORM, why="no condition"),
        NearMiss(PRODUCT, why="no condition"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            return
        found: list[Node] = []
        for product in facts.graph.of(OpKind.MUL):
            if not facts.stored_in(product.result):
                continue
            for value, other in (product.op.inputs[:2], product.op.inputs[1::-1]):
                factor = _factor(facts, value)
                if factor is not None and _pointed(facts, product, other):
                    found += [factor, product]
        if found:
            yield self.decide(facts, "multiplied by 0 or 1", dict.fromkeys(found))


def _factor(facts: Facts, value: str) -> Node | None:
    """The choice of one or zero, or the cast of a condition, that a value is."""
    node = facts.graph.producer(facts.graph.through(value, VIEWS))
    if node is not None and node.op.kind in CASTS:
        below = facts.graph.producer(facts.graph.through(node.op.inputs[0], _HELD))
        if below is not None and below.op.kind in COMPARISONS | _LOGIC:
            return node if _condition(facts, below.result) else None
        node = below
    if node is None or node.op.kind != OpKind.SELECT:
        return None
    sides = [facts.number(v) for v in node.op.inputs[1:3]]
    return node if None not in sides and sorted(float(v or 0) for v in sides) == _BOTH else None


def _condition(facts: Facts, value: str) -> bool:
    """Whether a value is a comparison, or some that are joined."""
    node = facts.graph.producer(facts.graph.through(value, _HELD))
    if node is None or node.op.kind in COMPARISONS:
        return node is not None
    return node.op.kind in _LOGIC and all(_condition(facts, v) for v in node.op.inputs)


def _pointed(facts: Facts, product: Node, other: str) -> bool:
    """Whether what is multiplied may be a number with a point, and rests on loads."""
    whole = any(facts.types.dtype(v).startswith(("i", "u")) for v in (other, product.result))
    return not whole and bool(facts.feeding(other))
