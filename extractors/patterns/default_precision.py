"""Products that say nothing of the precision of their operands."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import (
    ATTENTION,
    ATTENTION_POINTER,
    PRODUCT_POINTER,
    vary,
)
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.narrow_operands import NarrowOperands
from extractors.patterns.operands_as_stored import OperandsAsStored
from extractors.patterns.tf32_operands import Tf32Operands
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.dialects.registry import rounds_products
from kb.dtypes import parts
from kb.evidence import Decision
from kb.ops import OpKind

_COMPUTED = vary(PRODUCT_POINTER, ("tl.dot(x, y)", "tl.dot(tl.exp(x), y)"))
_HALVES = vary(
    PRODUCT_POINTER,
    ("tl.dot(x, y)", "tl.dot(tl.exp(x.to(tl.float32)).to(tl.float16), y)"),
)
_NAMED = frozenset({"f16", "bf16", "f8e4m3", "f8e5m2", "i1", "i8", "u8", "i16", "i32", "f64"})


class DefaultPrecision(Pattern):
    """Operands that may be 32-bit floats enter a product that names no precision, so that the
    language's default holds."""

    name = "default-precision-of-a-product"
    axis = "mma_operand_precision"
    source = "Triton documentation, dot: input_precision"
    matches = (Case(_COMPUTED, "default (tf32 for fp32 operands)"), Case(ATTENTION_POINTER))
    near_misses = (
        NearMiss(PRODUCT_POINTER, why="loaded operands: their type is told"),
        NearMiss(
            vary(_COMPUTED, ("tl.exp(x), y", "tl.exp(x), y, allow_tf32=False")),
            why="the product names the precision",
        ),
        NearMiss(
            vary(_COMPUTED, ("TK: tl.constexpr", "TK: tl.constexpr, TURN: tl.constexpr"),
                 ("tl.exp(x), y", "tl.exp(x), y, input_precision=TURN")),
            why="the caller names the precision",
        ),
        NearMiss(_HALVES, why="an operand of 16 bits is rounded no further"),
        NearMiss(ATTENTION, why="a language whose products round nothing by themselves"),
        NearMiss(PRODUCT_THREADS, why="threads multiply numbers in 32 bits"),
        NearMiss(SOFTMAX, why="nothing is multiplied"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        narrower = rounds_products(facts.kernel.dialect)
        if not narrower or not facts.contractions:
            return
        others = (Tf32Operands(), NarrowOperands(), OperandsAsStored())
        if any(True for other in others for _ in other.seen(facts)):
            return
        silent = [p for p in facts.contractions if self._silent(facts, p)]
        if silent:
            yield self.decide(facts, f"default ({narrower} for fp32 operands)", silent)

    def _silent(self, facts: Facts, product: Node) -> bool:
        """A product that names no precision, of operands that may both have 32 bits."""
        named = (product.op.operand(role) for role in ("input_precision", "allow_tf32"))
        types = [facts.types.dtype(product.op.operand(side) or "") for side in ("lhs", "rhs")]
        return (
            product.op.kind == OpKind.MMA
            and all(value is None for value in named)
            and all("f32" in parts(t) or not _NAMED.intersection(parts(t)) for t in types)
        )  # fmt: skip
