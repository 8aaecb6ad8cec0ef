"""In which precision probabilities enter the second product."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import FLASH_POINTER
from extractors.patterns.cases_threads import FLASH_THREADS, PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_LOOKS = VIEWS | {OpKind.TRANSPOSE, OpKind.PERMUTE, OpKind.IF}


class IntermediateDowncast(Pattern):
    """The operand of a product is itself computed from a product, and narrowed right before."""

    name = "intermediate-downcast-before-the-second-mma"
    axis = "intermediate_dtype"
    source = (
        "Dao et al., FlashAttention (2022): P is rounded to the input type for the second product"
    )
    matches = (Case(ATTENTION, "cast P to input dtype"), Case(BACKWARD_KEYS, "cast P to input dtype"),  # noqa: E501
               Case(vary(ATTENTION, ("p.astype(a.dtype)", "p")), "keep fp32/tf32"),
Case(FLASH_POINTER, "cast P to input dtype"),
Case(FLASH_THREADS, "cast P to input dtype"))  # fmt: skip
    near_misses = (
        NearMiss(
            vary(
                PRODUCT,
                ("ct.mma(x, y, acc)", "ct.mma(x.astype(out.dtype), y.astype(out.dtype), acc)"),
            ),
            why="loaded tiles are cast, not results of a product",
        ),
        NearMiss(PRODUCT_POINTER, why="no operand is computed from a product"),
        NearMiss(PRODUCT_THREADS, why="no operand is computed from a product"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        narrowed: list[Node] = []
        kept: list[Node] = []
        for product in facts.contractions:
            for role in ("lhs", "rhs"):
                self._operand(facts, product, product.op.operand(role) or "", (narrowed, kept))
        if narrowed:
            yield self.decide(facts, "cast P to input dtype", narrowed)
        elif kept:
            yield self.decide(facts, "keep fp32/tf32", kept)

    def _operand(
        self, facts: Facts, product: Node, value: str, found: tuple[list[Node], list[Node]]
    ) -> None:
        core = facts.graph.producer(facts.graph.through(value, _LOOKS))
        if not any(
            p is not product and p.loops[:1] == product.loops[:1] for p in self._made(facts, value)
        ):
            if core is not None and self._rounded(facts, core):
                found[0].extend((core, product))
            return
        if core is not None and core.op.kind in CASTS:
            found[0].extend((core, product))
        elif facts.types.dtype(value) == "f32":
            found[1].append(product)

    def _rounded(self, facts: Facts, core: Node) -> bool:
        """A cast of computed numbers to less than 32 bits or to the type of an array."""
        if core.op.kind not in CASTS or facts.types.dtype(core.result) == "f32":
            return False
        below = facts.graph.producer(facts.graph.through(core.op.inputs[0], _LOOKS))
        return below is not None and below.op.kind in (OpKind.MUL, OpKind.SUB, OpKind.DIV)

    def _made(self, facts: Facts, value: str) -> list[Node]:
        """Products that a value is computed from in the same iteration."""
        return [
            n
            for n in facts.graph.upstream(value, lambda n: n.op.kind in CONTRACTIONS)
            if n.op.kind in CONTRACTIONS
        ]
