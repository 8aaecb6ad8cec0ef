"""Arrays that must be compact: a descriptor made by the kernel computes their strides from their
extents."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import PRODUCT_DESCRIPTOR
from kb.analysis import symbolic as s
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Decision
from kb.ops import OpKind


class CompactDescriptors(Pattern):
    """The stride of every axis of a descriptor is the product of the extents of the axes after
    it."""

    name = "compact-strides-written-into-a-descriptor"
    axis = "layout_contract"
    source = "Triton documentation, tl.make_tensor_descriptor: shape, strides"
    matches = (Case(PRODUCT_DESCRIPTOR, "compact strides written into a descriptor"),)
    near_misses = (
        NearMiss(
            vary(
                PRODUCT_DESCRIPTOR,
                ("M, N, K, TM", "M, N, K, pitch, TM"),
                ("[K, 1]", "[pitch, 1]"),
                ("[N, 1]", "[pitch, 1]"),
            ),
            why="the stride is handed in",
        ),
        NearMiss(
            vary(PRODUCT_DESCRIPTOR, ("[K, 1]", "[K + 8, 1]"), ("[N, 1]", "[N + 8, 1]")),
            why="rows stand apart from each other",
        ),
        NearMiss(PRODUCT_POINTER, why="no descriptor is made"),
        NearMiss(PRODUCT, why="views know their strides"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = [n for n in facts.graph.of(OpKind.DESCRIPTOR) if _compact(facts, n)]
        if found:
            yield self.decide(facts, "compact strides written into a descriptor", found)


def _compact(facts: Facts, node: Node) -> bool:
    """True for a descriptor of two axes or more whose strides follow from its shape."""
    shape, strides = (
        [facts.values.expr(v) for v in facts.values.items(node.op.operand(role))]
        for role in ("shape", "strides")
    )
    if len(shape) != len(strides) or len(shape) < 2 or strides[-1].constant != 1:
        return False
    return all(
        strides[axis] == s.mul(shape[axis + 1], strides[axis + 1]) for axis in range(len(shape) - 1)
    )
