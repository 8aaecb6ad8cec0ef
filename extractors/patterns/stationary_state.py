"""A matrix of state stays on chip while the steps that change it stream by."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT
from extractors.patterns.cases_rows import NORM_BACKWARD, ROW_NORM_CHUNKS
from extractors.patterns.cases_rows_pointer import RECURRENT, RECURRENT_READ_ONCE
from extractors.patterns.state_in_registers import states
from kb.analysis.facts import Facts
from kb.analysis.loops import updates
from kb.evidence import Decision


class StationaryState(Pattern):
    """A tile of two axes is carried over a loop, which loads what changes it and what reads it."""

    name = "recurrent-state-stays-and-steps-stream"
    axis = "stationary_operand"
    source = "Yang et al., Gated Linear Attention (2023), recurrent form"
    matches = (Case(RECURRENT, "state kept, steps streamed"),)
    near_misses = (
        NearMiss(RECURRENT_READ_ONCE, why="a sum that is read once, after the loop"),
        NearMiss(ROW_NORM_CHUNKS, why="partial sums of one row"),
        NearMiss(NORM_BACKWARD, why="partial sums that are read after the loop"),
        NearMiss(PRODUCT, why="an accumulator that is read after the loop"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Where] = []
        for loop, state, read in states(facts):
            made = updates(facts.graph, state.argument, state.next)
            loads = [a for a in facts.feeding(state.next) if a.node.inside(loop.node)]
            loads += [a for n in read for v in n.op.inputs for a in facts.held_loads(v)]
            found += [facts.graph.producer(state.init), *made, *read, *loads]
        if found:
            yield self.decide(facts, "state kept, steps streamed", found)
