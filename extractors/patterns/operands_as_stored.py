"""Operands that enter a product in the type in which they are stored."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import (
    ATTENTION,
    ATTENTION_POINTER,
    PRODUCT,
    PRODUCT_POINTER,
    vary,
)
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.narrow_operands import NarrowOperands
from extractors.patterns.tf32_operands import Tf32Operands
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, TURNS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import OpKind

_LOOKS = VIEWS | TURNS
_STORED = "as they are stored"
_ROUNDED = "computed, rounded to a storage type"
_WIDE = "fp32"
_EITHER = "as they are stored, or cast by a flag"
_WIDENED = vary(
    PRODUCT,
    ("ct.mma(x, y, acc)", "ct.mma(ct.astype(x, ct.float32), ct.astype(y, ct.float32), acc)"),
)
_FLAGGED = vary(
    PRODUCT_POINTER,
    ("TK: tl.constexpr", "TK: tl.constexpr, WIDE: tl.constexpr"),
    ("        acc +=", "        if WIDE:\n            x = x.to(tl.float32)\n        acc +="),
)
_WIDE_SCORES = vary(
    ATTENTION_POINTER,
    ("tl.dot(q, tl.trans(k))", "tl.dot(q.to(tl.float32), tl.trans(k.to(tl.float32)))"),
    ("tl.dot(p.to(v.dtype), v, acc)", "acc + tl.dot(p, v.to(tl.float32))"),
)
_NAMED = vary(PRODUCT_POINTER, ("tl.dot(x, y)", 'tl.dot(x, y, input_precision="tf32x3")'))


class OperandsAsStored(Pattern):
    """Both operands of a product are loaded tiles without a cast; or one is computed and cast to
    the type of an array; or they are cast to 32-bit floats. Nothing else is said of their
    precision."""

    name = "operands-of-a-product-in-a-storage-type"
    axis = "mma_operand_precision"
    source = "NVIDIA, CUDA C++ Programming Guide, tensor core element types"
    matches = (
        Case(PRODUCT_POINTER, _STORED),
        Case(PRODUCT, _STORED),
        Case(vary(PRODUCT_POINTER, ("tl.dot(x, y)", "tl.dot(x, (y * 2.0).to(x.dtype))")), _ROUNDED),
        Case(_WIDENED, _WIDE),
        Case(_FLAGGED, _EITHER),
        Case(_WIDE_SCORES, _WIDE),
    )
    near_misses = (
        NearMiss(
            vary(_WIDE_SCORES, ("tl.dot(p, v.to(tl.float32))", "tl.dot(p.to(v.dtype), v)")),
            why="only the scores are products of 32-bit floats",
        ),
        NearMiss(
            vary(PRODUCT, ("ct.mma(x, y, acc)", "ct.mma(ct.astype(x, ct.float32), y, acc)")),
            why="the other operand may be narrower",
            value=_WIDE,
        ),
        NearMiss(_NAMED, why="the product names the precision of its operands"),
        NearMiss(
            vary(PRODUCT_POINTER, ("tl.dot(x, y)", "tl.dot((x * 2.0).to(tl.float16), y)")),
            why="the operand is cast to a type that is named",
        ),
        NearMiss(ATTENTION, why="probabilities are no operands in storage"),
        NearMiss(ATTENTION_POINTER, why="probabilities are no operands in storage"),
        NearMiss(PRODUCT_THREADS, why="threads multiply numbers in 32 bits"),
        NearMiss(SOFTMAX, why="nothing is multiplied"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads or not facts.contractions:
            return
        if any(True for other in (Tf32Operands(), NarrowOperands()) for _ in other.seen(facts)):
            return
        if facts.score_products:
            if wide := self._all_widened(facts):
                yield self.decide(facts, _WIDE, wide)
            return
        rounded = [
            n
            for p in facts.contractions
            for v in (p.op.operand("lhs"), p.op.operand("rhs"))
            if (cast := self._rounded(facts, v)) is not None
            for n in (cast, p)
        ]
        if rounded:
            yield self.decide(facts, _ROUNDED, rounded)
            return
        stored = [p for p in facts.contractions if self._loaded(facts, p)]
        if stored:
            yield self.decide(facts, _STORED, stored)
            return
        either = [n for p in facts.contractions for n in self._either(facts, p)]
        if either:
            yield self.decide(facts, _EITHER, either)
            return
        wide = [n for p in facts.contractions for n in self._widened(facts, p)]
        if wide:
            yield self.decide(facts, _WIDE, wide)

    def _widened(self, facts: Facts, product: Node) -> list[Node]:
        """A product of two tiles in 32 bits, with the casts that make them so."""
        sides = [facts.graph.through(product.op.operand(r), _LOOKS) for r in ("lhs", "rhs")]
        made = [facts.graph.producer(one) for one in sides]
        casts = [n for n in made if n is not None and n.op.kind in CASTS]
        wide = all(one is not None and facts.types.dtype(one) == "f32" for one in sides)
        return [product, *casts] if wide and casts else []

    def _all_widened(self, facts: Facts) -> list[Node]:
        """Products of scores and of weights with all operands in 32 bits, each with a cast."""
        wide = [self._widened(facts, p) for p in facts.contractions]
        return [n for nodes in wide for n in nodes] if all(wide) else []

    def _either(self, facts: Facts, product: Node) -> list[Node]:
        """A product of loaded tiles, with the casts of some on one side of a branch."""
        found = [product]
        plain = 0
        for role in ("lhs", "rhs"):
            for end in facts.graph.ends(product.op.operand(role), _LOOKS):
                below = facts.graph.core(end.op.inputs[0]) if end.op.kind in CASTS else end.result
                loaded = facts.graph.producer(below)
                if loaded is None or facts.access(loaded) is None:
                    return []
                plain += loaded is end
                found += [end] if loaded is not end else []
        return found if plain and len(found) > 1 and self._branched(facts, product) else []

    def _branched(self, facts: Facts, product: Node) -> bool:
        """Whether a branch gives an operand."""
        sides = (facts.graph.through(product.op.operand(r), _LOOKS) for r in ("lhs", "rhs"))
        return any(facts.graph.kind_of(v) in (OpKind.IF, OpKind.IF_EXPRESSION) for v in sides)

    def _loaded(self, facts: Facts, product: Node) -> bool:
        """Operands that are loaded, and turned at most."""
        sides = [facts.graph.ends(product.op.operand(r), _LOOKS) for r in ("lhs", "rhs")]
        return all(side and all(facts.access(n) for n in side) for side in sides)

    def _rounded(self, facts: Facts, value: str | None) -> Node | None:
        """The cast of a computed tile to a type that an array or another tile has."""
        cast = facts.graph.producer(facts.graph.through(value, _LOOKS))
        if cast is None or cast.op.kind not in CASTS:
            return None
        below = facts.graph.producer(facts.graph.core(cast.op.inputs[0]))
        computed = below is not None and below.op.kind in _ARITHMETIC
        return cast if computed and facts.types.dtype(cast.result).startswith("dtypeof") else None


_ARITHMETIC = frozenset({
    OpKind.MUL, OpKind.SUB, OpKind.ADD, OpKind.FMA, OpKind.SELECT, OpKind.DIV, OpKind.IF,
})  # fmt: skip
