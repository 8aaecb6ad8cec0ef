"""Softmax in one pass: a running maximum, and sums rescaled when it grows."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, BACKWARD_KEYS
from extractors.patterns.cases_rows import SOFTMAX_CHUNKS
from extractors.patterns.cases_rows_pointer import SOFTMAX_CHUNKS_POINTER
from extractors.patterns.cases_rows_threads import PAIRS_THREADS, SOFTMAX_CHUNKS_THREADS
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Loop, Role
from kb.evidence import Decision
from kb.ops import OpKind


class OnlineSoftmax(Pattern):
    """A loop carries a maximum, and what it sums is multiplied by exp(old maximum - new
    maximum)."""

    name = "online-softmax"
    axis = "softmax_scheme"
    source = "Milakov and Gimelshein, Online normalizer calculation for softmax (2018)"
    matches = (
        Case(ATTENTION, "online (1 pass)"),
        Case(ATTENTION_POINTER, "online (1 pass)"),
        Case(FLASH_THREADS, "online (1 pass)"),
        Case(PAIRS_THREADS, "online 2-pass"),
    )
    near_misses = (
        NearMiss(SOFTMAX_CHUNKS, why="the maximum is final before the sum begins"),
        NearMiss(
            PAIRS_THREADS.replace("small.sum * expf", "big.sum * expf"),
            why="the sum that is scaled down is not that of the smaller maximum",
        ),
        NearMiss(BACKWARD_KEYS, why="the statistic is loaded, nothing runs"),
        NearMiss(SOFTMAX_CHUNKS_POINTER, why="the maximum is final before the sum begins"),
        NearMiss(SOFTMAX_CHUNKS_THREADS, why="the maximum is final before the sum begins"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Node]] = {}
        for loop in facts.loops:
            maxima = loop.of(Role.RUNNING_MAXIMUM)
            factors = [e.node for e in facts.exponentials if e.rescale and e.node.inside(loop.node)]
            rescaled = [
                c for c in loop.carried if _scaled(facts, c.next, factors) and c not in maxima
            ]
            if not maxima or not rescaled:
                continue
            grows = [node for c in maxima for node in _growths(facts, c.next)]
            scales = [n for c in rescaled for n in _scalings(facts, c.next, factors)]
            value = (
                "online (1 pass)"
                if loop.of(Role.ACCUMULATOR) or _only(facts, loop)
                else "online 2-pass"
            )
            found.setdefault(value, []).extend((*grows, *factors, *scales))
        for value, where in found.items():
            yield self.decide(facts, value, where)


def _scaled(facts: Facts, value: str, factors: list[Node]) -> bool:
    return any(facts.graph.rests_on(value, factor) for factor in factors)


def _growths(facts: Facts, value: str) -> list[Node]:
    """The maximum that a state grows by; that of each side where a branch makes it."""
    ends = [n for n in facts.graph.ends(value, VIEWS | CASTS) if n.op.kind == OpKind.MAXIMUM]
    nearest = (n for n in facts.graph.upstream(value) if n.op.kind == OpKind.MAXIMUM)
    return ends or list(islice(nearest, 1))


def _scalings(facts: Facts, value: str, factors: list[Node]) -> list[Node]:
    """The products that take the factor in, and the sums they enter."""
    found = []
    for node in facts.graph.upstream(value, lambda n: n in factors):
        if node.op.kind in (OpKind.MUL, OpKind.FMA) and any(
            facts.graph.producer(facts.graph.core(v)) in factors for v in node.op.inputs[:2]
        ):
            found.append(node)
    return found


def _only(facts: Facts, loop: Loop) -> bool:
    """True when no later exponential normalises the row again."""
    return not any(
        e.node.index > loop.node.index and not e.node.inside(loop.node) and not e.rescale
        for e in facts.exponentials
    )
