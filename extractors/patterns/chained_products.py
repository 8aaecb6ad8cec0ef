"""A contraction in two parts: the second product starts from the first one's result."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT, vary
from extractors.patterns.cases_pointer import FLASH_POINTER
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS
from kb.evidence import Decision
from kb.ops import CONTRACTIONS

_CHAINED = vary(
    ATTENTION,
    ("s = ct.mma(fixed, k, s)",
     "s = ct.mma(fixed, k, s)\n        k2 = ct.load(c, index=(bat, kv, 0, j), shape=(1, 1, W, TN), order=(0, 1, 3, 2)).reshape((W, TN))\n"  # noqa: E501
     "        s = ct.mma(fixed, k2, s)"),
)  # fmt: skip


_CHAINED_POINTER = vary(
    FLASH_POINTER,
    ("s = tl.dot(fixed, k)",
     "s = tl.dot(fixed, k)\n        k2 = tl.load(c + bat * tb + kv * th + cols[None, :] * tn + lane[:, None])\n"  # noqa: E501
     "        s = tl.dot(fixed, k2, s)"),
)  # fmt: skip


_CHAINED_THREADS = vary(
    FLASH_THREADS,
    ("        int col = j + threadIdx.x;",
     "        for (int d = 0; d < T; ++d) s += __half2float(tq[threadIdx.y][d]) * __half2float(tv[threadIdx.x][d]);\n        int col = j + threadIdx.x;"),  # noqa: E501
)  # fmt: skip


class ChainedProducts(Pattern):
    """The third operand of a product is another product of the same iteration."""

    name = "chained-mma-accumulation-over-concatenated-contraction-dims"
    axis = "contraction_split"
    source = "DeepSeek-AI, DeepSeek-V2 (2024), multi-head latent attention"
    matches = (
        Case(_CHAINED, "two MMAs into one accumulator"),
        Case(_CHAINED_POINTER, "two MMAs into one accumulator"),
        Case(_CHAINED_THREADS, "two MMAs into one accumulator"),
    )
    near_misses = (
        NearMiss(ATTENTION, why="every product has an accumulator of its own"),
        NearMiss(PRODUCT, why="the accumulator comes from the iteration before"),
        NearMiss(FLASH_POINTER, why="every product has an accumulator of its own"),
        NearMiss(FLASH_THREADS, why="every product has an accumulator of its own"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for product in facts.contractions:
            first = facts.graph.producer(
                facts.graph.through(product.op.operand("acc"), VIEWS | CASTS)
            )
            if first is not None and first.op.kind in CONTRACTIONS and first.loop is product.loop:
                yield self.decide(facts, "two MMAs into one accumulator", (first, product))
