"""Scores are bounded by a hyperbolic tangent."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, vary
from extractors.patterns.cases_pointer import FLASH_POINTER
from extractors.patterns.cases_rows import COPY
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.facts import Facts
from kb.evidence import Decision
from kb.ops import OpKind

_CAPPED = vary(
    ATTENTION,
    ("        new = max(top,", "        s = ct.tanh(s / 50.0) * 50.0\n        new = max(top,"),
)
_GELU = vary(
    COPY,
    ("tile=ct.load(x, index=(i,), shape=(T,))", "tile=ct.tanh(ct.load(x, index=(i,), shape=(T,)))"),
)


_CAPPED_POINTER = vary(
    FLASH_POINTER,
    ("import triton.language as tl\n",
     "import triton.language as tl\nfrom triton.language.extra import libdevice\n"),
    ("        new = tl.maximum(top,",
     "        s = libdevice.tanh(s / 50.0) * 50.0\n        new = tl.maximum(top,"),
)  # fmt: skip


_CAPPED_THREADS = vary(
    FLASH_THREADS,
    ("        int col = j", "        s = tanhf(s / 50.f) * 50.f;\n        int col = j"),
)


class SoftCapping(Pattern):
    """tanh stands between the score product and the exponential."""

    name = "logit-soft-capping"
    axis = "score_transform"
    source = "Gemma Team, Gemma 2 (2024), logit soft-capping"
    matches = (
        Case(_CAPPED, "cap*tanh(x/cap)"),
        Case(_CAPPED_POINTER, "cap*tanh(x/cap)"),
        Case(_CAPPED_THREADS, "cap*tanh(x/cap)"),
    )
    near_misses = (
        NearMiss(ATTENTION, why="scores go to the maximum as they are"),
        NearMiss(_GELU, why="an activation, no scores"),
        NearMiss(FLASH_POINTER, why="scores go to the maximum as they are"),
        NearMiss(FLASH_THREADS, why="scores go to the maximum as they are"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        capped = [
            n
            for n in facts.graph.of(OpKind.TANH)
            if any(facts.graph.rests_on(e.score, n) for e in facts.exponentials)
            and facts.graph.roots(n.result, OpKind.MMA)
        ]
        if capped:
            around = [u for n in capped for u in facts.graph.users(n.result)]
            yield self.decide(facts, "cap*tanh(x/cap)", [*capped, *around])
