"""Arrays, rows and states that are brought together in one kernel, where frameworks take a kernel
for each: joined, gathered and added up, changed and read, mixed."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER, SOFTMAX
from extractors.patterns.cases_rows_pointer import RECURRENT, RECURRENT_READ_ONCE
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_stages import (
    COMBINED,
    COMBINED_THREADS,
    JOINED,
    MIXED,
    SHIFTED,
    SQUARES,
    STEP,
    SUMMED_THREADS,
)
from extractors.patterns.stages_joined import steps
from extractors.patterns.state_in_registers import states
from kb.analysis.composed_sums import (
    added_up,
    beside_products,
    gathered_sums,
    joined,
    mixed,
    shifted_state,
    states_read,
)
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import updates
from kb.analysis.single_steps import convolved
from kb.evidence import Decision

_STATE = "state changed and read in one kernel"
_TAPS = "convolution and update of its state in one kernel"
_JOINED = "several arrays joined in one kernel"
_GATHERED = "gather, weights and sum in one kernel"
_BESIDE = "product and sums over an operand in one kernel"
_MIXED = "products of several arrays added up in one kernel"
_SUMS = "several additions in one kernel"


class BroughtTogether(Pattern):
    """A state is changed and read, a window is moved on beside its convolution, parts of two arrays
    go into one, rows that loaded numbers choose are weighed and added up, an operand is summed
    beside its product, or elements of three arrays or more meet in sums alone."""

    name = "arrays-brought-together-in-one-kernel"
    axis = "fusion"
    source = "NVIDIA, CUDA C++ Best Practices Guide, 10.2: fewer passes over global memory"
    matches = (
        Case(RECURRENT, _STATE),
        Case(STEP, _STATE),
        Case(SHIFTED, _TAPS),
        Case(JOINED, _JOINED),
        Case(COMBINED, _GATHERED),
        Case(COMBINED_THREADS, _GATHERED),
        Case(SQUARES, _BESIDE),
        Case(MIXED, _MIXED),
        Case(SUMMED_THREADS, _SUMS),
    )
    near_misses = (
        NearMiss(RECURRENT_READ_ONCE, why="a sum that is read once, after the loop"),
        NearMiss(vary(STEP, ("ct.sum(h * ct", "ct.sum(ct")), why="what is summed up is no state"),
        NearMiss(
            vary(
                SHIFTED,
                ("ct.scatter(state, (at, 0), b)", ""),
                ("ct.scatter(state, (at, 1), v)", ""),
            ),
            why="a convolution alone",
        ),
        NearMiss(vary(JOINED, ("tl.load(b + at - half", "tl.load(a + at - half")), why="one array"),
        NearMiss(vary(COMBINED, ("x + row * n", "x + k * n")), why="every row, in order"),
        NearMiss(
            vary(COMBINED_THREADS, ("x[row * n + at]", "x[k * n + at]")), why="every row, in order"
        ),
        NearMiss(
            vary(MIXED, ("ct.load(y, index", "ct.load(a, index")),
            why="both products take elements of one array",
        ),
        NearMiss(vary(SUMMED_THREADS, (" + c[i]", "")), why="one addition"),
        NearMiss(ADD_POINTER, why="one addition"),
        NearMiss(ADD_THREADS, why="one addition"),
        NearMiss(SOFTMAX, why="one array"),
        NearMiss(PRODUCT, why="a product alone"),
        NearMiss(PRODUCT_POINTER, why="a product alone"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for value, nodes in (*_told(facts), *_sums(facts)):
            yield self.decide(facts, value, [*nodes, *facts.stored_in(nodes[-1].result)[:1]])


def _told(facts: Facts) -> Iterable[tuple[str, list[Node]]]:
    changed = [n for _, s, read in states(facts)
               for n in (*updates(facts.graph, s.argument, s.next), *read)]  # fmt: skip
    if nodes := changed or states_read(facts):
        yield _STATE, nodes
    taps = convolved(facts)
    if nodes := shifted_state(facts, taps):
        yield _TAPS, [*nodes, *taps]
    if nodes := joined(facts):
        yield _JOINED, nodes
    if nodes := gathered_sums(facts):
        yield _GATHERED, nodes
    if nodes := beside_products(facts):
        yield _BESIDE, [*facts.contractions, *nodes]


def _sums(facts: Facts) -> Iterable[tuple[str, list[Node]]]:
    """Sums of many arrays, where a kernel has no steps that have names of their own."""
    value, nodes = _MIXED, mixed(facts)
    if not nodes:
        value, nodes = _SUMS, added_up(facts)
    if nodes and len(steps(facts)) < 2:
        yield value, nodes
