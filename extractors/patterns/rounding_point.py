"""Where a value is rounded to the storage type relative to a multiplication."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import UNKNOWN, Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from extractors.patterns.cases_rows_threads import ROW_NORM_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import OpKind

_GATE = (
    POINTER
    + """
@triton.jit
def gate(x, y, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n).to(tl.float32)
    w = tl.load(y + at, mask=at < n)
    tl.store(out + at, (v * tl.sigmoid(v)).to(w.dtype) * w, mask=at < n)
"""
)


_ROUNDED_THREADS = vary(
    ROW_NORM_THREADS, ("__float2half(v * r * g)", "__hmul(__float2half(v * r), w[at])")
)


class RoundingPoint(Pattern):
    """A computed 32-bit value is narrowed, and the narrowed value is multiplied by a loaded one."""

    name = "rounding-point-selection"
    axis = "intermediate_dtype"
    source = "tilelore catalogue, P68; Micikevicius et al., Mixed Precision Training (2018)"
    matches = (
        Case(_GATE, "rounded before the multiplication"),
        Case(
            vary(ROW_NORM, ("ct.astype(v * r * g, x.dtype)", "ct.astype(v * r, x.dtype) * g")),
            "rounded before the multiplication",
        ),
        Case(_ROUNDED_THREADS, "rounded before the multiplication"),
    )
    near_misses = (
        NearMiss(ROW_NORM, why="the product is rounded once, right before the store"),
        NearMiss(PRODUCT, why="the sum is rounded right before the store"),
        NearMiss(ADD_POINTER, why="nothing is rounded"),
        NearMiss(ROW_NORM_THREADS, why="the product is rounded once, right before the store"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions:
            return
        rounded = [n for n in facts.graph.of(*CASTS) if self._narrows(facts, n)]
        found = [n for n in rounded if self._multiplied(facts, n)]
        if found:
            yield self.decide(facts, "rounded before the multiplication", found)

    def _narrows(self, facts: Facts, node: Node) -> bool:
        """A cast of an arithmetic result to less than 32 bits or to the type of an array."""
        core = facts.graph.producer(facts.graph.through(node.op.inputs[0], VIEWS))
        if core is None or core.op.kind not in (OpKind.MUL, OpKind.DIV, OpKind.ADD, OpKind.FMA):
            return False
        dtype = facts.types.dtype(node.result)
        return dtype.startswith("dtypeof") or dtype in ("f16", "bf16", UNKNOWN)

    def _multiplied(self, facts: Facts, node: Node) -> bool:
        """The narrowed value, perhaps chosen by a branch, is a factor beside a load."""
        pending = [node.result]
        for value in pending[:]:
            for user in facts.graph.downstream(value, 12):
                if user.op.kind != OpKind.MUL or not facts.graph.rests_on(user.result, node):
                    continue
                others = [v for v in user.op.inputs[:2] if not facts.graph.rests_on(v, node)]
                if any(facts.feeding(v) for v in others):
                    return True
        return False
