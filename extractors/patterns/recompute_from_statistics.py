"""What a backward pass gets from the forward pass: statistics to compute from, not the
intermediate tensor."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, ATTENTION_LSE, BACKWARD_KEYS, vary
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER, FLASH_POINTER
from extractors.patterns.cases_rows import NORM_BACKWARD, ROW_NORM, SOFTMAX
from extractors.patterns.cases_threads import BACKWARD_KEYS_THREADS, FLASH_THREADS
from kb.analysis.accesses import Access
from kb.analysis.derivatives import differentiated
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import recomputed
from kb.analysis.rebuilt import coefficients, normalised, width
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, REDUCTIONS, OpKind

_ROOTS = frozenset({OpKind.RSQRT, OpKind.LOG, OpKind.LOG2, OpKind.SQRT})


_SQUASHED = """import triton
import triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def back(gy, x, gx, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    t = libdevice.tanh(tl.load(x + at, mask=at < n))
    tl.store(gx + at, tl.load(gy + at, mask=at < n) * (1 - libdevice.pow(t, 2)), mask=at < n)
"""


class RecomputeFromStatistics(Pattern):
    """A row statistic is stored beside the output, or loaded to rebuild what the forward pass
    computed."""

    name = "recompute-from-statistics-instead-of-storing-p"
    axis = "recompute"
    source = "Dao et al., FlashAttention (2022), section 3.1, recomputation"
    matches = (
        Case(BACKWARD_KEYS, "recompute P = exp2(S*scale - LSE)"),
        Case(ATTENTION_LSE, "statistics saved"),
        Case(ROW_NORM, "statistics saved"),
        Case(NORM_BACKWARD, "recompute activation"),
        Case(_SQUASHED, "recompute activation"),
        Case(vary(_SQUASHED, ("libdevice.pow(t, 2)", "t * t")), "recompute activation"),
        Case(BACKWARD_KEYS_POINTER, "recompute P = exp2(S*scale - LSE)"),
        Case(BACKWARD_KEYS_THREADS, "recompute P = exp2(S*scale - LSE)"),
    )
    near_misses = (
        NearMiss(
            vary(_SQUASHED, ("pow(t, 2)", "pow(t, 3)")),
            why="one less a cube is no derivative of a hyperbolic tangent",
        ),
        NearMiss(ATTENTION, why="the statistic stays in the loop and is dropped"),
        NearMiss(SOFTMAX, why="the output is all that is stored"),
        NearMiss(FLASH_POINTER, why="the statistic stays in the loop and is dropped"),
        NearMiss(FLASH_THREADS, why="the statistic stays in the loop and is dropped"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        rebuilt = recomputed(facts)
        if rebuilt:
            where = [
                node
                for e in facts.exponentials
                if e.node in rebuilt
                for node in (e.difference, e.node)
            ]
            value = "recompute P = exp2(S*scale - LSE)"
            yield self.decide(facts, value, where)
            gradient = self._gradient(facts)
            if gradient:
                yield self.decide(facts, "dS = P*(dP - Delta), Delta loaded", gradient)
            return
        saved = self._saved(facts)
        if saved:
            yield self.decide(facts, "statistics saved", saved)
            return
        again = [*normalised(facts), *differentiated(facts)] or coefficients(facts)
        if again:
            yield self.decide(facts, "recompute activation", again)

    def _gradient(self, facts: Facts) -> list[Node]:
        """probability * (product - loaded row)."""
        found = []
        for node in facts.graph.of(OpKind.SUB):
            over, under = node.op.inputs[:2]
            product = facts.graph.producer(facts.graph.core(over))
            if (
                product is None
                or product.op.kind not in CONTRACTIONS
                or not facts.held_loads(under)
            ):
                continue
            found += [n for n in facts.graph.downstream(node.result) if n.op.kind == OpKind.MUL][:1]
        return found

    def _saved(self, facts: Facts) -> list[Where]:
        """Stores of a root or logarithm of a reduction, one number per row, beside a wider
        output."""
        found: list[Where] = []
        for store in facts.stores:
            made = self._statistic(facts, store)
            if made is not None and any(_wider(facts, other, store) for other in facts.stores):
                found += [made, store]
        return found

    def _statistic(self, facts: Facts, store: Access) -> Node | None:
        core = facts.graph.core(store.value)
        node = facts.graph.producer(core)
        if node is None or not facts.graph.roots(core, *REDUCTIONS):
            return None
        if node.op.kind == OpKind.ADD:
            sides = [facts.graph.kind_of(facts.graph.core(v)) for v in node.op.inputs[:2]]
            return node if any(kind in _ROOTS for kind in sides) else None
        if node.op.kind == OpKind.DIV:
            sides = [facts.graph.kind_of(facts.graph.core(v)) for v in node.op.inputs[:2]]
            return node if OpKind.SQRT in sides or OpKind.REDUCE_SUM in sides else None
        return node if node.op.kind in _ROOTS else None


def _wider(facts: Facts, other: Access, store: Access) -> bool:
    return width(facts, other.value) > width(facts, store.value)
