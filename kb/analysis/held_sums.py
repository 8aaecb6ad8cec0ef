"""Sums that loops carry of products; sums and extremes that a thread takes over what it holds in
registers itself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from kb.analysis.carried_sums import accumulating
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Carried, Loop, Role, updates
from kb.ops import READS, WRITES, OpKind

_TOTALS = (Role.SUM, Role.RUNNING_SUM, Role.RUNNING_MAXIMUM)
_STEPS = (OpKind.ADD, OpKind.FMA, OpKind.MAXIMUM, OpKind.MINIMUM)
_ADDS = (OpKind.ADD, OpKind.FMA)
_MOST = 24
"""Elements of an array that one round of a loop adds to."""


@lru_cache(maxsize=2)
def accumulators(facts: Facts) -> tuple[tuple[Carried, Node | None], ...]:
    """Every accumulator of a loop with the product that is added to it."""
    states = (state for loop in facts.loops for state in loop.of(Role.ACCUMULATOR))
    return tuple((x, accumulating(facts.graph, x.argument, x.next)) for x in states)


def held_sums(facts: Facts) -> list[tuple[Role, Node]]:
    """The steps of loops with known rounds that add up or compare what was loaded, of which
    something is stored: what the program of the whole block has no loop for."""
    if not facts.of_threads:
        return []
    graph = facts.threads
    loads, stores = graph.of(*READS), [n for n in graph.of(*WRITES) if n.op.inputs]
    found = []
    for loop in facts.thread_loops:
        for state in loop.of(*_TOTALS) if _known(facts, loop) else ():
            steps = updates(graph, state.argument, state.next)
            made = next((n for n in steps if n.op.kind in _STEPS), None)
            if made is None or not any(graph.rests_on(state.next, load) for load in loads):
                continue
            if any(graph.rests_on(n.op.operand("value"), loop.node) for n in stores):
                found.append((state.role, made))
    return found


def sums_in_order(facts: Facts) -> list[Node]:
    """The additions by which the loops of a thread add up numbers with a point, one round after the
    other."""
    if not facts.of_threads:
        return []
    states = [state for x in facts.loops for state in x.of(Role.SUM, Role.RUNNING_SUM)]
    steps = [n for s in states for n in updates(facts.graph, s.argument, s.next)]
    held = [n for role, n in held_sums(facts) if role is not Role.RUNNING_MAXIMUM]
    added = [n for n in (*steps, *held, *array_sums(facts)) if n.op.kind in _ADDS]
    whole = [n for n in added if facts.types.dtype(n.result).startswith(("i", "u"))]
    return [n for n in dict.fromkeys(added) if n not in whole]


def array_sums(facts: Facts) -> list[Node]:
    """The steps of loops with known rounds in which a thread adds what it loads to every element of
    an array in registers that something is stored of."""
    return [step for _, step in _array_steps(facts)]


def summed_elements(facts: Facts) -> list[Node]:
    """Of these, the additions to an element that one loop adds to again and again."""
    found = []
    for loop, step in _array_steps(facts):
        taken = [facts.threads.producer(value) for value in step.op.inputs]
        places = [n.op.operand("index") for n in taken if n and n.op.kind == OpKind.EXTRACT]
        moved = loop.induction is None or any(
            place is None or facts.threads.rests_on_argument(place, loop.induction)
            for place in places[:1]
        )
        if places and not moved and step.op.kind in (OpKind.ADD, OpKind.FMA):
            found.append(step)
    return found


def _array_steps(facts: Facts) -> Iterator[tuple[Loop, Node]]:
    if not facts.of_threads:
        return
    graph = facts.threads
    loads, stores = graph.of(*READS), [n for n in graph.of(*WRITES) if n.op.inputs]
    for loop in facts.thread_loops:
        for state in loop.carried if _known(facts, loop) else ():
            if state.role in _TOTALS or not any(graph.rests_on(state.next, n) for n in loads):
                continue
            step = _element_step(facts, state.next, state.argument)
            kept = step is not None and any(
                graph.rests_on(n.op.operand("value"), loop.node) for n in stores
            )
            if step is not None and kept:
                yield loop, step


def _known(facts: Facts, loop: Loop) -> bool:
    """Whether the rounds of a loop are known: it is unrolled, or goes from number to number."""
    if loop.range is None or loop.range.op.kind == OpKind.STATIC_RANGE:
        return loop.range is not None
    ends = [facts.thread_values.expr(v) for v in (loop.low, loop.high) if v is not None]
    return len(ends) == 2 and all(end.constant is not None for end in ends)


def _element_step(facts: Facts, value: str, begun: str) -> Node | None:
    """The step that adds to an element of an array what is put in its place, from one value of the
    array to another; None where elements are put there in another way."""
    graph, inner = facts.threads, {x.node: x for x in facts.thread_loops}
    step: Node | None = None
    for _ in range(_MOST):
        node = graph.producer(value)
        if value == begun or node is None:
            return step if value == begun else None
        if node.op.kind == OpKind.FOR and node in inner:
            states = [s for s in inner[node].carried if s.result == value]
            step = _element_step(facts, states[0].next, states[0].argument) if states else None
            if step is None:
                return None
            value = states[0].init
        elif node.op.kind == OpKind.INSERT:
            step = graph.producer(node.op.operand("value"))
            if step is None or step.op.kind not in _STEPS or not _own(facts, node, step):
                return None
            value = node.op.operand("x") or ""
        else:
            return None
    return None


def _own(facts: Facts, put: Node, step: Node) -> bool:
    """Whether a step adds to the element in whose place it is put."""
    values, index = facts.values, put.op.operand("index")
    taken = (facts.threads.producer(value) for value in step.op.inputs)
    return any(
        n is not None and n.op.kind == OpKind.EXTRACT and n.op.operand("x") == put.op.operand("x")
        and index is not None and values.expr(n.op.operand("index")) == values.expr(index)
        for n in taken
    )  # fmt: skip
