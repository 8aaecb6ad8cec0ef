"""Tiles without memory that are made once before a loop that computes with them."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import READS, OpKind

_MASKED = vary(
    PRODUCT_POINTER,
    ("    acc = ", "    late = tl.arange(0, TM)[:, None] >= tl.arange(0, TN)[None, :]\n    acc = "),
    ("acc += tl.dot(x, y)", "acc += tl.where(late, tl.dot(x, y), 0.0)"),
)
_MASKED_TILE = vary(
    PRODUCT,
    ("    acc = ct.full", "    at = ct.arange(TM, dtype=ct.int32)\n"
     "    late = ct.expand_dims(at, axis=1) >= ct.expand_dims(at, axis=0)\n    acc = ct.full"),
    ("acc = ct.mma(x, y, acc)", "acc = ct.mma(ct.where(late, x, 0.0), y, acc)"),
)  # fmt: skip
_FILLED_TILE = vary(
    PRODUCT,
    (
        "    acc = ct.full",
        "    least = ct.full((TM, TK), 1e-6, dtype=ct.float32)\n    acc = ct.full",
    ),
    ("acc = ct.mma(x, y, acc)", "acc = ct.mma(ct.maximum(x, least), y, acc)"),
)
_MASK = "mask made once before the loop"
_FILLED = "constant tile made once before the loop"
_ORDER = (OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)
_FILLS = (OpKind.FULL,)
_USES = frozenset({
    OpKind.SELECT, OpKind.AND, OpKind.BIT_AND, OpKind.OR, OpKind.BIT_OR, OpKind.NOT, OpKind.BIT_NOT,
})  # fmt: skip
_WORK = frozenset({
    OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.POW,
})  # fmt: skip
_LOOKS = VIEWS | CASTS


class MadeBeforeLoop(Pattern):
    """A mask of two axes that compares places of the tile alone, or a tile filled with one number,
    is made before a loop that selects or computes with it in every round."""

    name = "tile-made-before-the-loop-that-uses-it"
    axis = "invariant_residency"
    source = "Aho et al., Compilers (2006), section 9.1: loop-invariant code motion"
    matches = (
        Case(_MASKED, _MASK),
        Case(_MASKED_TILE, _MASK),
        Case(_FILLED_TILE, _FILLED),
        Case(vary(_FILLED_TILE, ("b, out,", "b, eps, out,"), ("1e-6", "eps")), _FILLED),
    )
    near_misses = (
        NearMiss(
            vary(_MASKED, ("tl.arange(0, TN)[None, :]\n", "k0 + tl.arange(0, TN)[None, :]\n"),
                 ("    late =", "    k0 = tl.load(a)\n    late =")),
            why="where the diagonal lies is loaded",
        ),
        NearMiss(
            vary(_MASKED, ("tl.where(late, tl.dot(x, y), 0.0)", "tl.dot(x, y)")),
            why="nothing in the loop uses it",
        ),
        NearMiss(
            vary(_FILLED_TILE, ("ct.maximum(x, least)", "x")), why="nothing in the loop uses it"
        ),
        NearMiss(_FILLED_TILE.replace("1e-6", "0.0"), why="what a sum or a bound begins with"),
        NearMiss(PRODUCT, why="what the accumulator begins with"),
        NearMiss(PRODUCT_POINTER, why="what the accumulator begins with"),
        NearMiss(PRODUCT_THREADS, why="a thread has no tiles"),
        NearMiss(ADD_POINTER, why="no loop"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.rolled_loops or facts.of_threads:
            return
        for value, kinds, uses in ((_MASK, _ORDER, _USES), (_FILLED, _FILLS, _WORK)):
            found = [
                n for n in facts.graph.of(*kinds) if _fixed(facts, n) and _used(facts, n, uses)
            ]
            if found:
                yield self.decide(facts, value, found)


def _fixed(facts: Facts, node: Node) -> bool:
    """A tile that rests on no load: of two axes for a mask, whose both sides are places in the
    tile; of one, of a parameter or a number other than zero, for a
    filled one."""
    wide = sum(extent != "1" for extent in facts.types.shape(node.result))
    if node.op.kind in _FILLS:
        given = facts.graph.core(node.op.operand("value")) in facts.graph.function.parameter_names
        return wide > 0 and (given or bool(facts.number(node.result)))
    sides = [facts.graph.roots(v, OpKind.ARANGE) for v in node.op.inputs[:2]]
    moved = facts.graph.roots(node.result, *READS, OpKind.BLOCK_ID, OpKind.FOR)
    return wide > 1 and all(sides) and not moved


def _used(facts: Facts, node: Node, kinds: frozenset[OpKind]) -> bool:
    """Whether a loop that the node is not in computes with it."""
    pending, seen = [node.result], {node.result}
    while pending:
        for user in facts.graph.users(pending.pop()):
            if user.op.kind in kinds and len(user.loops) > len(node.loops):
                return True
            if user.op.kind in _LOOKS and user.result not in seen:
                seen.add(user.result)
                pending.append(user.result)
    return False
