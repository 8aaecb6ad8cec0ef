"""Weights that stay packed in memory: the kernel of the product makes numbers of them itself."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.dequantised_operand import WEIGHTS, scaled, unpacked_operands
from kb.analysis.facts import Facts
from kb.evidence import Decision

_PLAIN = vary(WEIGHTS, ("((u - z) * g).to(tl.float16)", "u.to(tl.float16)"))
_TABLE = vary(WEIGHTS, ("((u - z) * g).to(tl.float16)", "tl.load(zeros + u)"))


class UnpackedInProduct(Pattern):
    """An operand of a product is computed from bits of loaded words in the same kernel, or loaded
    from a table that they index."""

    name = "unpacking-fused-into-the-product"
    axis = "fusion"
    source = "Frantar et al., GPTQ (2022), section 4: kernels that dequantise on the fly"
    matches = (
        Case(WEIGHTS, "unpacking and dequantising in the kernel of the product"),
        Case(_TABLE, "unpacking in the kernel of the product"),
        Case(_PLAIN, "unpacking in the kernel of the product"),
    )
    near_misses = (
        NearMiss(
            vary(WEIGHTS, ("((u - z) * g)", "((y - z) * g)")),
            why="no bits are taken out of words",
        ),
        NearMiss(
            vary(_TABLE, ("tl.load(zeros + u)", "tl.load(zeros + k[:, None])")),
            why="a load that no bits place",
        ),
        NearMiss(PRODUCT_POINTER, why="operands are multiplied as they are loaded"),
        NearMiss(PRODUCT, why="operands are multiplied as they are loaded"),
        NearMiss(ADD_POINTER, why="no product"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        ways = unpacked_operands(facts)
        if ways:
            steps = any(scaled(facts, way) for way in ways)
            what = "unpacking and dequantising" if steps else "unpacking"
            where = [n for way in ways for n in way if not n.op.regions]
            yield self.decide(facts, f"{what} in the kernel of the product", where)
