"""How threads wait for each other."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Decision
from kb.ops import OpKind

_SCOPES = {
    "block": "block barrier",
    "warp": "warp barrier",
    "grid": "grid-wide",
    "cluster": "cluster barrier",
}
_WAITED = vary(
    PRODUCT_POINTER, ("        acc += tl.dot", "        tl.debug_barrier()\n        acc += tl.dot")
)
_NAMED = vary(
    PRODUCT_THREADS,
    ("        __syncthreads();\n    }", '        asm volatile("bar.sync 1, 128;");\n    }'),
)


class ThreadBarriers(Pattern):
    """Barriers by their scope; barriers in memory that copies complete."""

    name = "barriers-between-threads"
    axis = "synchronization"
    source = (
        "NVIDIA, PTX ISA, bar, barrier and mbarrier; CUDA C++ Programming Guide, synchronization"
    )
    matches = (
        Case(PRODUCT_THREADS, "block barrier"),
        Case(_WAITED, "block barrier"),
        Case(_NAMED, "named barriers"),
    )
    near_misses = (
        NearMiss(ADD_THREADS, why="threads do not wait"),
        NearMiss(PRODUCT_POINTER, why="the compiler places barriers, the kernel none"),
        NearMiss(PRODUCT, why="the language has no barriers"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Node]] = {}
        for node in facts.threads.of(OpKind.BARRIER):
            scope = str(node.op.attribute("scope") or "block")
            named = str(node.op.attribute("opcode")).startswith(("bar.", "barrier."))
            value = "named barriers" if named else _SCOPES.get(scope, f"{scope} barrier")
            found.setdefault(value, []).append(node)
        waits = facts.threads.of(OpKind.BARRIER_WAIT, OpKind.BARRIER_INIT)
        if waits:
            found["mbarrier pipeline"] = waits
        for value, nodes in found.items():
            yield self.decide(facts, value, nodes)
