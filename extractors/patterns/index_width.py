"""How wide index arithmetic is."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION
from extractors.patterns.cases_pointer import PRODUCT_DESCRIPTOR
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, TURN
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.evidence import Decision
from kb.ops import OpKind

_WIDE = frozenset({"i64", "u64"})


_SCALARS_THREADS = """__global__ void once(float* x) {
    x[0] = x[0] + 1.f;
}
"""


class IndexWidth(Pattern):
    """Positions are counted in 32 bits, or widened before they are multiplied."""

    name = "32-bit-index-arithmetic"
    axis = "index_width"
    source = "NVIDIA, CUDA C++ Best Practices Guide: 64-bit integer arithmetic is emulated"
    matches = (
        Case(ATTENTION, "int32"),
        Case(LAYER_NORM_POINTER, "int64 opt-in"),
        Case(FLASH_THREADS, "int32"),
    )
    near_misses = (
        NearMiss(TURN, why="tiles are addressed by block ids, no position is computed"),
        NearMiss(
            PRODUCT_DESCRIPTOR,
            why="descriptors are told where a tile begins, no position per lane is computed",
        ),
        NearMiss(_SCALARS_THREADS, why="one number is read and written, no position is computed"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        wide = [n for n in facts.graph.of(*CASTS) if self._widens(facts, n)]
        wide += [n for n in self._lanes(facts) if facts.types.dtype(n.result) in _WIDE]
        if wide:
            yield self.decide(facts, "int64 opt-in", wide)
            return
        lanes = [n for n in self._lanes(facts) if facts.types.dtype(n.result) in ("i32", "u32")]
        if lanes:
            ids = [n for n in facts.graph.of(OpKind.BLOCK_ID) if self._placed(facts, n)]
            where = [*lanes, *ids, *self._positions(facts), *self._narrowed(facts)]
            yield self.decide(facts, "int32", where)
        elif self._narrowed(facts):
            yield self.decide(facts, "int32", self._narrowed(facts))

    def _lanes(self, facts: Facts) -> list[Node]:
        return facts.graph.of(OpKind.ARANGE)

    def _positions(self, facts: Facts) -> list[Node]:
        """The additions that complete linear positions."""
        found = []
        for access in facts.accesses:
            for value in facts.values.items(access.node.op.operand("index")):
                node = facts.graph.producer(facts.graph.core(value))
                if node is not None and node.op.kind == OpKind.ADD and facts.types.shape(value):
                    found.append(node)
        return found

    def _widens(self, facts: Facts, node: Node) -> bool:
        """A cast to 64 bits whose result reaches an address."""
        return facts.types.named(node.op.operand("dtype")) in _WIDE and self._placed(facts, node)

    def _narrowed(self, facts: Facts) -> list[Node]:
        """Casts of coordinates to 32 bits."""
        return [
            n
            for n in facts.graph.of(*CASTS)
            if facts.types.named(n.op.operand("dtype")) in ("i32", "u32") and self._placed(facts, n)
        ]

    def _placed(self, facts: Facts, node: Node) -> bool:
        return any(
            facts.graph.rests_on(value, node)
            for access in facts.accesses
            for role, value in access.node.op.operands
            if role in ("pointer", "index", "offsets", "mask")
        )
