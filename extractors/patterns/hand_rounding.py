"""Rounding to whole numbers that is written out: half is added away from zero before the cast."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import OpKind

_ROUND = (
    POINTER
    + """
@triton.jit
def small(x, out, rate, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n) * rate
    v += 0.5 * tl.where(v >= 0, 1, -1)
    tl.store(out + at, v.to(tl.int8), mask=at < n)
"""
)
_ROUND_TILE = (
    TILE
    + """
@ct.kernel
def small(x, out, rate, T: Int):
    i = ct.bid(0)
    v = ct.load(x, index=(i,), shape=(T,)) * rate
    v = v + ct.where(v >= 0, 0.5, -0.5)
    ct.store(out, index=(i,), tile=ct.astype(v, ct.int8))
"""
)


_STEPS = (OpKind.ADD, OpKind.SUB)
_CLAMPS = frozenset({OpKind.CLAMP, OpKind.MINIMUM, OpKind.MAXIMUM})
_KEPT = CASTS | VIEWS | _CLAMPS
_EITHER = vary(
    _ROUND,
    ("rate, n, T: tl.constexpr", "rate, n, T: tl.constexpr, WHOLE: tl.constexpr"),
    (
        "    v += 0.5 * tl.where(v >= 0, 1, -1)\n",
        "    if WHOLE:\n        v = tl.where(v >= 0, v + 0.5, v - 0.5)\n",
    ),
    ("v.to(tl.int8)", "tl.clamp(v, -127.0, 127.0)"),
)
_CUT = vary(
    _ROUND,
    (
        "v += 0.5 * tl.where(v >= 0, 1, -1)",
        "v = tl.where(v >= 0, tl.floor(v + 0.5), tl.ceil(v - 0.5))",
    ),
    ("v.to(tl.int8)", "v / rate"),
)


class HandRounding(Pattern):
    """One half with the sign of a number is added to it, and the sum is cast to an integer, or cut
    to a whole number."""

    name = "half-added-before-an-integer-cast"
    axis = "rounding_mode"
    source = "IEEE 754-2019, section 4.3.1: roundTiesToAway"
    matches = (
        Case(_ROUND, "half away from zero by hand"),
        Case(_EITHER, "half away from zero by hand"),
        Case(_ROUND_TILE, "half away from zero by hand"),
        Case(_CUT, "half away from zero by hand"),
    )
    near_misses = (
        NearMiss(vary(_ROUND, ("tl.int8", "tl.float16")), why="the cast keeps the fraction"),
        NearMiss(
            vary(_ROUND_TILE, ("v + ct.where(v >= 0, 0.5, -0.5)", "v + 1.0")),
            why="a whole number is added",
        ),
        NearMiss(vary(_EITHER, ("v - 0.5)", "v + 0.5)")), why="a half is added to every number"),
        NearMiss(vary(_CUT, ("ceil(v - 0.5)", "ceil(v)")), why="numbers below zero are cut"),
        NearMiss(ADD_POINTER, why="nothing is cast to an integer"),
        NearMiss(PRODUCT, why="nothing is cast to an integer"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Node] = []
        for cast in facts.graph.of(*CASTS):
            if not facts.types.dtype(cast.result).startswith(("i", "u")):
                continue
            made = self._made(facts, cast.op.inputs[0])
            found += [*made, cast] if made else []
        for store in facts.stores:
            above = facts.graph.upstream(store.value, lambda n: n.op.kind not in _KEPT)
            for clamp in (n for n in above if n.op.kind in _CLAMPS):
                for value in clamp.op.inputs:
                    made = self._made(facts, value)
                    found += [*made, clamp] if made else []
        for choice in facts.graph.of(OpKind.SELECT):
            if len(self._down(facts, choice)) == 2 and self._both(facts, choice):
                found.append(choice)
        if found:
            yield self.decide(facts, "half away from zero by hand", found)

    def _made(self, facts: Facts, value: str) -> list[Node]:
        """Where a half of the right sign is added to what a value is; one side of a flag may."""
        ends = facts.graph.ends(value, CASTS | VIEWS)
        return [
            node
            for node in ends
            if (node.op.kind == OpKind.ADD and self._halves(facts, node)) or self._both(facts, node)
        ]

    def _both(self, facts: Facts, node: Node) -> bool:
        """A choice, by a comparison of a number, between it plus a half and it less a half."""
        if node.op.kind != OpKind.SELECT:
            return False
        cut = self._down(facts, node)
        ends = [n.op.inputs[0] if n in cut else n.result for n in self._sides(facts, node)]
        sides = [facts.graph.producer(facts.graph.core(end)) for end in ends]
        test = facts.graph.producer(facts.graph.core(node.op.operand("condition")))
        if test is None or len(sides) != 2 or any(n is None or n.kind not in _STEPS for n in sides):
            return False
        taken = [(n.op.kind, *n.op.inputs[:2]) for n in sides if n is not None]
        of = {facts.graph.core(v) for _, v, _ in taken}
        steps = [
            (-1 if kind == OpKind.SUB else 1) * number
            for kind, _, by in taken
            if (number := facts.number(by)) is not None
        ]
        compared = {facts.graph.core(v) for v in test.op.inputs}
        return len(of) == 1 and of <= compared and sorted(steps) == [-0.5, 0.5]

    def _sides(self, facts: Facts, choice: Node) -> list[Node]:
        made = [facts.graph.producer(facts.graph.core(choice.op.operand(r))) for r in ("x", "y")]
        return [n for n in made if n is not None]

    def _down(self, facts: Facts, choice: Node) -> list[Node]:
        """Of a choice, the sides that are cut down or up to whole numbers."""
        return [n for n in self._sides(facts, choice) if n.op.kind in (OpKind.FLOOR, OpKind.CEIL)]

    def _halves(self, facts: Facts, total: Node) -> bool:
        """One side is plus or minus one half, by a comparison of the other side."""
        return any(
            self._signed(facts, this, 1.0, other)
            for this, other in (total.op.inputs[:2], total.op.inputs[1::-1])
        )

    def _signed(self, facts: Facts, value: str, by: float, of: str) -> bool:
        node = facts.graph.producer(facts.graph.core(value))
        if node is None:
            return False
        if node.op.kind == OpKind.MUL:
            for this, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
                number = facts.values.literal(this)
                if isinstance(number, int | float):
                    return self._signed(facts, other, by * number, of)
        if node.op.kind != OpKind.SELECT:
            return False
        ends = [facts.values.literal(facts.graph.core(node.op.operand(r))) for r in ("x", "y")]
        test = facts.graph.producer(facts.graph.core(node.op.operand("condition")))
        if test is None or facts.graph.core(of) not in {
            facts.graph.core(v) for v in test.op.inputs
        }:
            return False
        return [n * by for n in ends if isinstance(n, int | float)] in ([0.5, -0.5], [-0.5, 0.5])
