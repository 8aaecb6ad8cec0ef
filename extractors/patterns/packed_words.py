"""Numbers of few bits, several to a word."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import OpKind

_UNPACK = (
    POINTER
    + """
@triton.jit
def unpack(words, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    word = tl.load(words + at // 8, mask=at < n)
    tl.store(out + at, (word >> ((at % 8) * 4)) & 15, mask=at < n)
"""
)
_UNPACK_TILE = (
    TILE
    + """
@ct.kernel
def unpack(words, out, T: Int):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    word = ct.gather(words, at // 8)
    ct.scatter(out, at, (word >> ((at % 8) * 4)) & 15)
"""
)


class PackedWords(Pattern):
    """A loaded word is shifted by a distance that its place decides, and its low bits are kept."""

    name = "numbers-packed-in-words"
    axis = "operand_layout"
    source = "Frantar et al., GPTQ (2022), section 4: packed weights"
    matches = (
        Case(_UNPACK, "several numbers packed in one word"),
        Case(_UNPACK_TILE, "several numbers packed in one word"),
    )
    near_misses = (
        NearMiss(vary(_UNPACK, ("(at % 8) * 4", "16")), why="one part of every word is wanted"),
        NearMiss(vary(_UNPACK_TILE, ("(at % 8) * 4", "16")), why="one part of every word"),
        NearMiss(ADD_POINTER, why="no bits are taken"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Node] = []
        for node in facts.graph.of(OpKind.BIT_AND):
            for value in node.op.inputs[:2]:
                shift = facts.graph.producer(facts.graph.through(value, VIEWS | CASTS))
                if shift is not None and self._placed(facts, shift):
                    found += [shift, node]
        if found:
            yield self.decide(facts, "several numbers packed in one word", found)

    def _placed(self, facts: Facts, shift: Node) -> bool:
        """A loaded word shifted right by what is computed from a block id or a lane."""
        if shift.op.kind != OpKind.SHIFT_RIGHT or not facts.held_loads(shift.op.inputs[0]):
            return False
        by = shift.op.inputs[1]
        return not facts.feeding(by) and bool(facts.graph.roots(by, OpKind.ARANGE, OpKind.BLOCK_ID))
