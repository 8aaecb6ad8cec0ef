"""How the gradients of an attention are divided among kernels."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER, FLASH_POINTER
from extractors.patterns.cases_rows import NORM_BACKWARD
from extractors.patterns.cases_threads import BACKWARD_KEYS_THREADS, FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.idioms import recomputed
from kb.analysis.loops import Role
from kb.evidence import Decision


class BackwardKernelFission(Pattern):
    """Probabilities are rebuilt, and this kernel sums some of the gradients; an atomic would sum
    the others too."""

    name = "backward-kernel-fission"
    axis = "kernel_boundaries"
    source = "Dao, FlashAttention-2 (2023), section 3.2, backward pass"
    matches = (
        Case(BACKWARD_KEYS, "two kernels, S recomputed twice"),
        Case(BACKWARD_KEYS_POINTER, "two kernels, S recomputed twice"),
        Case(BACKWARD_KEYS_THREADS, "two kernels, S recomputed twice"),
    )
    near_misses = (
        NearMiss(ATTENTION, why="a forward pass"),
        NearMiss(NORM_BACKWARD, why="no probabilities are rebuilt"),
        NearMiss(FLASH_POINTER, why="a forward pass"),
        NearMiss(FLASH_THREADS, why="a forward pass"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not recomputed(facts):
            return
        grown = [c for loop in facts.loops for c in loop.of(Role.ACCUMULATOR)]
        atomics = [a for a in facts.stores if a.is_atomic]
        line = facts.kernel.entry.span.line
        head: list[Where] = [(line, line)]
        if atomics and grown:
            yield self.decide(facts, "one fused backward with dQ atomics", [*head, *atomics])
        elif grown:
            yield self.decide(
                facts, "two kernels, S recomputed twice", [*head, *facts.contractions]
            )
