"""Operands of a product that a thread holds in registers and uses several times."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_threads import PRODUCT_BLOCKED_THREADS, PRODUCT_THREADS
from kb.analysis.blocked_products import register_product
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_COLUMN = vary(
    PRODUCT_BLOCKED_THREADS,
    ("float x[4], y[4];", "float x, y[4];"),
    ("for (int i = 0; i < 4; ++i) x[i] = ta[k][row * 4 + i];", ""),
    ("for (int j = 0; j < 4; ++j) acc[i][j] += x[i] * y[j];",
     "{ x = ta[k][row * 4 + i]; for (int j = 0; j < 4; ++j) acc[i][j] += x * y[j]; }"),
)  # fmt: skip


class RegisterFragments(Pattern):
    """Elements of both shared tiles are taken to registers, and each is multiplied with several of
    the other."""

    name = "fragments-reused-from-registers"
    axis = "load_reuse"
    source = 'CUTLASS, "Efficient GEMM in CUDA": thread-level GEMM'
    matches = (
        Case(PRODUCT_BLOCKED_THREADS, "fragments in registers"),
        Case(_COLUMN, "fragments in registers"),
    )
    near_misses = (
        NearMiss(PRODUCT_THREADS, why="every element is read from the shared tile for one product"),
        NearMiss(
            vary(PRODUCT_BLOCKED_THREADS, ("acc[i][j] += x[i] * y[j]", "acc[i][j] += x[i] + y[j]")),
            why="nothing is multiplied",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads or not facts.contractions or facts.threads.of(*CONTRACTIONS):
            return
        shared = facts.shared
        where: list[Node] = []
        for loop in facts.threads.of(OpKind.FOR):
            found = register_product(facts.threads, shared, loop.op)
            if found is not None and not any(loop.inside(other) for other in where):
                loads = [n for n in facts.threads.of(OpKind.LOAD) if n.op in found[:2]]
                where += [loop, *loads]
        if where:
            yield self.decide(facts, "fragments in registers", where)
