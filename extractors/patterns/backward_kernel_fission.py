"""How the gradients of an attention, or of a normalisation, are divided among kernels."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, vary
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER, FLASH_POINTER
from extractors.patterns.cases_rows import DELTA_TILE, NORM_BACKWARD, ROW_NORM
from extractors.patterns.cases_rows_pointer import DELTA, NORM_BACKWARD_LOCKED
from extractors.patterns.cases_rows_threads import NORM_BACKWARD_SHARED
from extractors.patterns.cases_threads import BACKWARD_KEYS_THREADS, FLASH_THREADS
from extractors.patterns.parameter_gradient import left_by_rows, sums_of_rows
from kb.analysis.facts import Facts
from kb.analysis.idioms import recomputed
from kb.analysis.locks import locked_sums
from kb.analysis.loops import Role
from kb.analysis.rebuilt import coefficients, normalised
from kb.evidence import Decision
from kb.ops import OpKind


class BackwardKernelFission(Pattern):
    """Probabilities are rebuilt, and this kernel sums some of the gradients; an atomic would sum
    the others too. Of a normalisation, the gradient of its parameters may stand beside that of the
    rows."""

    name = "backward-kernel-fission"
    axis = "kernel_boundaries"
    source = "Dao, FlashAttention-2 (2023), section 3.2, backward pass"
    matches = (
        Case(BACKWARD_KEYS, "two kernels, S recomputed twice"),
        Case(BACKWARD_KEYS_POINTER, "two kernels, S recomputed twice"),
        Case(NORM_BACKWARD, "row gradient and parameter sums in one kernel"),
        Case(NORM_BACKWARD_LOCKED, "row gradient and parameter sums in one kernel"),
        Case(NORM_BACKWARD_SHARED, "row gradient and parameter sums in one kernel"),
        Case(DELTA, "delta in a kernel of its own"),
        Case(DELTA_TILE, "delta in a kernel of its own"),
        Case(BACKWARD_KEYS_THREADS, "two kernels, S recomputed twice"),
    )
    near_misses = (
        NearMiss(ATTENTION, why="a forward pass"),
        NearMiss(
            vary(DELTA, ("tl.load(do + at)", "tl.load(o + at)")),
            why="squares are summed",
        ),
        NearMiss(BACKWARD_KEYS, why="two gradients", value="one kernel, S recomputed twice"),
        NearMiss(ROW_NORM, why="a forward pass"),
        NearMiss(
            vary(NORM_BACKWARD, ("    ct.store(parts, index=(own, 0), tile=acc)\n", "")),
            why="the gradient of the rows alone",
        ),
        NearMiss(FLASH_POINTER, why="a forward pass"),
        NearMiss(FLASH_THREADS, why="a forward pass"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not recomputed(facts):
            yield from self._delta(facts)
            yield from self._parameters(facts)
            return
        grown = [c for loop in facts.loops for c in loop.of(Role.ACCUMULATOR)]
        atomics = [a for a in facts.stores if a.is_atomic]
        line = facts.kernel.entry.span.line
        head: list[Where] = [(line, line)]
        if atomics and grown:
            yield self.decide(facts, "one fused backward with dQ atomics", [*head, *atomics])
        elif grown and len(self._gradients(facts)) > 2:
            yield self.decide(
                facts, "one kernel, S recomputed twice", [*head, *facts.contractions, *facts.stores]
            )
        elif grown:
            yield self.decide(
                facts, "two kernels, S recomputed twice", [*head, *facts.contractions]
            )

    def _parameters(self, facts: Facts) -> Iterable[Decision]:
        """Gradients of rows that were normalised, stored beside sums of several rows."""
        rows = [*normalised(facts), *coefficients(facts)]
        if not rows:
            return
        sums = locked_sums(facts)
        read = [x for x in facts.loops if any(a.node.inside(x.node) for a in facts.loads)]
        summed = {c.result for loop in read for c in loop.of(Role.SUM)}
        sums += [s for s in facts.stores if facts.graph.core(s.value) in summed]
        sums = [s for s in sums if facts.types.shape(s.value)] or left_by_rows(facts)
        own = [
            s
            for s in facts.stores
            if s not in sums
            and facts.types.shape(s.value)
            and any(facts.graph.rests_on(s.value, total) for total in facts.reductions)
        ]
        kept, handed = sums_of_rows(facts)
        if (sums or handed) and own:
            value = "row gradient and parameter sums in one kernel"
            yield self.decide(facts, value, [*own, *dict.fromkeys(sums), *kept, *handed])

    def _gradients(self, facts: Facts) -> set[str | None]:
        """Arrays that sums of the loops are stored in."""
        loops = [loop.node for loop in facts.loops if loop.of(Role.ACCUMULATOR)]
        return {
            s.array for s in facts.stores if any(facts.graph.rests_on(s.value, n) for n in loops)
        }

    def _delta(self, facts: Facts) -> Iterable[Decision]:
        """Rows of two arrays multiplied and summed, and nothing else stored: what a backward pass
        subtracts from the gradient of the probabilities."""
        if facts.contractions or len(facts.stores) != 1:
            return
        store = facts.stores[0]
        total = facts.graph.producer(facts.graph.core(store.value))
        if total is None or total.op.kind != OpKind.REDUCE_SUM:
            return
        made = facts.graph.producer(facts.graph.core(total.op.inputs[0]))
        if made is None or made.op.kind != OpKind.MUL:
            return
        held = [facts.held_loads(v) for v in made.op.inputs[:2]]
        wide = all(a and len(facts.types.shape(a[0].value)) > 1 for a in held)
        if wide and held[0][0].index == held[1][0].index and held[0][0].array != held[1][0].array:
            yield self.decide(facts, "delta in a kernel of its own", [made, total, store])
