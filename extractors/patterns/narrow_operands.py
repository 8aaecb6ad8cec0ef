"""Operands of a matrix product that are narrowed to a named type for the matrix unit."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.block_scaled_accumulation import SCALED_POINTER, BlockScaledAccumulation
from extractors.patterns.cases import ATTENTION_POINTER, PRODUCT, PRODUCT_POINTER, vary
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, TURNS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import READS, OpKind

_NARROW = ("f16", "bf16", "f8", "i8", "fp8")


class NarrowOperands(Pattern):
    """An operand that was computed is cast to a type of 16 bits or fewer that the source names, and
    not to that of an array; products are summed as whole numbers; or operands enter as they are
    stored, and every step's product is scaled."""

    name = "computed-operand-cast-to-a-named-narrow-type"
    axis = "mma_operand_precision"
    source = "NVIDIA, CUDA C++ Programming Guide, tensor core element types"
    matches = (
        Case(vary(PRODUCT_POINTER, ("tl.dot(x, y)", "tl.dot((x * 2.0).to(tl.float16), y)")), "f16"),
        Case(vary(PRODUCT, ("ct.mma(x, y, acc)", "ct.mma(ct.astype(x * 2.0, ct.bfloat16), y, acc)")), "bf16"),  # noqa: E501
        Case(vary(PRODUCT_POINTER, ("dtype=tl.float32", "dtype=tl.int32"), ("tl.dot(x, y)", "tl.dot(x, y, out_dtype=tl.int32)")), "integer"),  # noqa: E501
        Case(SCALED_POINTER, "quantised operands as they are stored"),
    )  # fmt: skip
    near_misses = (
        NearMiss(
            vary(SCALED_POINTER, ("tl.dot(x, y)", "tl.dot(x.to(y.dtype), y)")),
            why="one operand is brought to the type of the other one",
        ),
        NearMiss(
            vary(PRODUCT_POINTER, ("tl.dot(x, y)", "tl.dot((x * 2.0).to(y.dtype), y)")),
            why="the operand gets the type that the other one has",
        ),
        NearMiss(
            vary(PRODUCT, ("ct.mma(x, y, acc)", "ct.mma(ct.astype(x * 2.0, a.dtype), y, acc)")),
            why="the operand gets the type of its array",
        ),
        NearMiss(PRODUCT_POINTER, why="operands enter as they were loaded"),
        NearMiss(PRODUCT, why="operands enter as they were loaded"),
        NearMiss(ATTENTION_POINTER, why="probabilities get the type of the values"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            return
        found: dict[str, list[Node]] = {}
        for product in facts.contractions:
            whole = self._whole(facts, product)
            if whole:
                found.setdefault("integer", []).extend(whole)
            for role in ("lhs", "rhs"):
                cast = facts.graph.producer(facts.graph.through(product.op.operand(role), VIEWS))
                if cast is None or cast.op.kind not in CASTS or not self._computed(facts, cast):
                    continue
                dtype = facts.types.dtype(cast.result)
                if dtype.startswith(_NARROW):
                    found.setdefault(dtype, []).extend([cast, product])
        for dtype, nodes in found.items():
            yield self.decide(facts, dtype, nodes)
        scales = BlockScaledAccumulation().seen(facts) if facts.contractions and not found else ()
        if any(d.value.startswith("per-K-block") for d in scales):
            plain = [p for p in facts.contractions if p.loop and self._stored(facts, p)]
            if plain:
                yield self.decide(facts, "quantised operands as they are stored", plain)

    def _stored(self, facts: Facts, product: Node) -> bool:
        """Operands that are loaded, and turned at most."""
        sides = [facts.graph.ends(product.op.operand(r), VIEWS | TURNS) for r in ("lhs", "rhs")]
        return all(side and all(facts.access(n) for n in side) for side in sides)

    def _whole(self, facts: Facts, product: Node) -> list[Node]:
        """A product that is summed in whole numbers; its operands are whole numbers, too."""
        added = [
            n
            for n in facts.graph.users(product.result)
            if n.op.kind == OpKind.ADD and n.loops == product.loops
        ]
        held = [product, *added]
        return held if any(facts.types.dtype(n.result) == "i32" for n in held) else []

    def _computed(self, facts: Facts, cast: Node) -> bool:
        below = facts.graph.producer(facts.graph.core(cast.op.inputs[0]))
        return below is not None and below.op.kind not in READS
