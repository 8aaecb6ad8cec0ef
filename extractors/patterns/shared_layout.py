"""How arrays lie in shared memory."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_rows_threads import ADD_THREADS, TURN_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.shared import SharedMemory
from kb.analysis.values import Values
from kb.evidence import Decision
from kb.ops import OpKind

BANKS = 32
"""Banks of shared memory. Source: CUDA C++ Programming Guide, shared memory."""

_PLAIN = vary(TURN_THREADS, ("tile[T][T + 1]", "tile[T][T]"))
_SWIZZLED = vary(
    _PLAIN,
    ("tile[threadIdx.y][threadIdx.x] =", "tile[threadIdx.y][threadIdx.x ^ threadIdx.y] ="),
    ("tile[threadIdx.x][threadIdx.y]", "tile[threadIdx.x][threadIdx.y ^ threadIdx.x]"),
)


class SharedLayout(Pattern):
    """Rows with some elements more than a tile has, or positions mixed by an exclusive or."""

    name = "layout-of-shared-arrays"
    axis = "smem_layout"
    source = "Harris, An Efficient Matrix Transpose in CUDA C/C++ (2013); CUTLASS, swizzled layouts"
    matches = (
        Case(TURN_THREADS, "padded rows"),
        Case(PRODUCT_THREADS, "padded rows"),
        Case(_SWIZZLED, "xor swizzle"),
        Case(_PLAIN, "no padding, no swizzle"),
    )
    near_misses = (
        NearMiss(ADD_THREADS, why="there is no shared array"),
        NearMiss(_PLAIN, why="rows are as wide as the tile", value="padded rows"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.program is facts.source:
            return
        shared, values = SharedMemory(facts.threads), Values(facts.threads)
        arrays = shared.allocations
        padded = [node for node in arrays if self._padded(values, node)]
        mixed = [
            node
            for node in facts.threads.of(OpKind.LOAD, OpKind.STORE)
            if shared.holds(node.op)
            and facts.threads.roots(node.op.operand("pointer"), OpKind.BIT_XOR)
        ]
        if padded:
            yield self.decide(facts, "padded rows", padded)
        if mixed:
            yield self.decide(facts, "xor swizzle", mixed)
        if arrays and not padded and not mixed:
            yield self.decide(facts, "no padding, no swizzle", arrays)

    def _padded(self, values: Values, node: Node) -> bool:
        """True when the innermost extent of several is a little more than a name or whole banks."""
        extents = [values.expr(v) for v in values.items(node.op.operand("shape"))]
        if len(extents) < 2:
            return False
        number = extents[-1].constant
        if number is not None:
            return number > BANKS // 2 and 0 < number % (BANKS // 2) <= 8
        return any(not factors and 0 < count <= 8 for factors, count in extents[-1].terms)
