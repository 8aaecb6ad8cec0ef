"""Neighbours of a tile that are packed into words just before they are stored."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.packing import packed
from kb.evidence import Decision
from kb.ops import READS, OpKind

_VALUE = "neighbours packed in words before the store"
_PAIRS = (
    POINTER
    + """
@triton.jit
def pack(x, words, n, T: tl.constexpr):
    row = tl.program_id(0)
    v = tl.load(x + row * T + tl.arange(0, T))
    code = (v > 0.25).to(tl.uint8) + (v > 0.75).to(tl.uint8)
    even, odd = tl.split(tl.reshape(code, (T // 2, 2)))
    tl.store(words + row * (T // 2) + tl.arange(0, T // 2), even | (odd << 4))
"""
)


class PackedEpilogue(Pattern):
    """A tile is split into neighbours, and these are shifted beside each other into the words that
    are stored."""

    name = "neighbours-packed-before-the-store"
    axis = "epilogue"
    source = "Rouhani et al., Microscaling Data Formats (2023): two E2M1 numbers in a byte"
    matches = (Case(_PAIRS, _VALUE),)
    near_misses = (
        NearMiss(vary(_PAIRS, ("odd << 4", "odd")), why="nothing is shifted"),
        NearMiss(
            vary(
                _PAIRS,
                (
                    "even, odd = tl.split(tl.reshape(code, (T // 2, 2)))",
                    "even, odd = tl.load(x + tl.arange(0, T // 2)), tl.load(x + row)",
                ),
            ),
            why="packed as they are loaded, no tile is split",
        ),
        NearMiss(ADD_POINTER, why="numbers as they are"),
        NearMiss(ADD_THREADS, why="numbers as they are"),
        NearMiss(PRODUCT, why="numbers as they are"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        joined = packed(facts) if facts.graph.of(OpKind.SPLIT) else []
        above = {
            n
            for word in joined
            for n in facts.graph.upstream(word.result, lambda n: n.op.kind in READS)
        }
        parted = [n for n in facts.graph.of(OpKind.SPLIT) if n in above]
        if parted:
            yield self.decide(facts, _VALUE, [*parted, *joined])
