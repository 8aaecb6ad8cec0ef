"""A product that is taken in one orientation or the other, by a flag."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import HELD, Facts
from kb.analysis.graph import TURNS, Node
from kb.evidence import Decision

_TILE = vary(
    PRODUCT,
    ("TK: Int):", "TK: Int, SWAP: Int):"),
    (
        "        acc = ct.mma(x, y, acc)\n",
        "        if SWAP:\n"
        "            z = ct.full((TN, TM), 0.0, dtype=ct.float32)\n"
        "            part = ct.transpose(ct.mma(ct.transpose(y), ct.transpose(x), z))\n"
        "        else:\n"
        "            part = ct.mma(x, y, ct.full((TM, TN), 0.0, dtype=ct.float32))\n"
        "        acc = acc + part\n",
    ),
)
_POINTER = vary(
    PRODUCT_POINTER,
    ("TK: tl.constexpr):", "TK: tl.constexpr, SWAP: tl.constexpr):"),
    (
        "        acc += tl.dot(x, y)\n",
        "        if SWAP:\n            acc += tl.trans(tl.dot(tl.trans(y), tl.trans(x)))\n"
        "        else:\n            acc += tl.dot(x, y)\n",
    ),
)


class EitherOrientation(Pattern):
    """On the two sides of a branch the operands of a matrix product change places, and the outcome
    is turned on one of them."""

    name = "product-in-either-orientation"
    axis = "mma_orientation"
    source = "NVIDIA PTX ISA, wgmma: the row count is fixed at 64, the column count is not"
    matches = (
        Case(_TILE, "A@B or (B^T@A^T)^T by a flag"),
        Case(_POINTER, "A@B or (B^T@A^T)^T by a flag"),
    )
    near_misses = (
        NearMiss(
            vary(_POINTER, ("tl.trans(tl.dot(tl.trans(y), tl.trans(x)))", "tl.dot(x, y) * 2.0")),
            why="the operands stay where they are",
        ),
        NearMiss(
            vary(
                _TILE, ("        else:\n            part =", "        if True:\n            part =")
            ),
            why="not two sides of one branch",
        ),
        NearMiss(PRODUCT, why="one product"),
        NearMiss(PRODUCT_POINTER, why="one product"),
        NearMiss(ATTENTION, why="the two products have other operands"),
        NearMiss(PRODUCT_THREADS, why="one product"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Node] = []
        for one in facts.contractions if len(facts.contractions) > 1 else ():
            for other in facts.contractions:
                if one.parent is not other.parent or one.branch >= other.branch:
                    continue
                sides = [self._arrays(facts, p) for p in (one, other)]
                if all(all(side) for side in sides) and sides[0] == sides[1][::-1]:
                    turns = [u for p in (one, other) for u in self._turned(facts, p)]
                    found += [one, other, *turns] if turns and sides[0][0] != sides[0][1] else []
        if found:
            yield self.decide(facts, "A@B or (B^T@A^T)^T by a flag", found)

    def _arrays(self, facts: Facts, product: Node) -> list[frozenset[str | None]]:
        """The arrays that the operands of a product were loaded from."""
        operands = [product.op.operand(role) for role in ("lhs", "rhs")]
        return [frozenset(a.array for a in facts.held_loads(v)) for v in operands]

    def _turned(self, facts: Facts, product: Node) -> list[Node]:
        """The turns of a product's outcome."""
        users = facts.graph.users(product.result)
        return [u for u in users if u.op.kind in TURNS & HELD]
