"""Partial results of a softmax put together: weights are exponentials of loaded statistics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from kb.analysis.accesses import Access
from kb.analysis.exponentials import Exponential, Statistic
from kb.analysis.facts import HELD, Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Role
from kb.ops import CONTRACTIONS, OpKind

LOGARITHMS = (OpKind.LOG2, OpKind.LOG)
_CHOSEN = VIEWS | CASTS | {OpKind.SELECT}
_WEIGHING = frozenset({OpKind.MUL, OpKind.DIV})


class Form(StrEnum):
    """In which order a merge takes its parts in; as the catalogue names it."""

    PAIRWISE = "pairwise softmax over LSE"
    RUNNING = "sequential online merge"
    RESIDENT = "parallel softmax over LSE"
    TWICE = "maximum first, then weighted sums"


@dataclass(frozen=True, slots=True)
class Merge:
    """Weights, the sums of weighted parts, the sums of weights, and the maxima that the weights are
    taken against; where parts are not taken in one by one, also what is divided by those sums."""

    weights: tuple[Node, ...]
    weighted: tuple[Node, ...]
    totals: tuple[Node, ...]
    maxima: tuple[Node, ...]
    arrays: frozenset[str | None]
    form: Form
    quotients: tuple[Node, ...] = ()


def merge_of(facts: Facts) -> Merge | None:
    """How a kernel merges partial results; None when it does not."""
    return _by_parts(facts) or next(_together(facts), None)


def _by_parts(facts: Facts) -> Merge | None:
    """Parts taken in two by two, or one after the other."""
    weights = [e for e in facts.exponentials if _weighs(facts, e)]
    arrays = frozenset(a.array for e in weights for a in facts.held_loads(e.score))
    if len(weights) < 2 or not arrays:
        return None
    sums = [n for n in facts.graph.of(OpKind.ADD, OpKind.FMA) if _adds(facts, n, weights)]
    weighted = [n for n in sums if not {a.array for a in facts.feeding(n.result)} <= arrays]
    plain = [n for n in sums if n not in weighted]
    totals = [n for n in plain if not facts.graph.roots(n.result, *LOGARITHMS)]
    if not weighted or not totals:
        return None
    tops = [n for e in weights for n in facts.graph.roots(e.statistic, OpKind.MAXIMUM)]
    used = [e.node for e in weights if any(facts.graph.rests_on(n.result, e.node) for n in sums)]
    return Merge(
        tuple(used), tuple(weighted), tuple(totals), tuple(dict.fromkeys(tops)), arrays,
        Form.RUNNING if any(e.rescale and e.node.loops for e in weights) else Form.PAIRWISE,
    )  # fmt: skip


def _together(facts: Facts) -> Iterator[Merge]:
    """Statistics whose maximum is known before they weigh: all in one tile, or in a loop that comes
    after the one over the maximum."""
    if any(e.rescale for e in facts.exponentials):
        return
    for weight in facts.exponentials:
        loads = _statistics(facts, weight)
        resident = facts.graph.roots(weight.statistic, OpKind.REDUCE_MAX)
        tops = resident or facts.graph.roots(weight.statistic, OpKind.MAXIMUM)
        if not loads or not tops:
            continue
        form = Form.RESIDENT if resident else Form.TWICE
        sums = _sums(facts, weight.node, form)
        own = {a.array for a in facts.feeding(weight.node.result)}
        read = {n: {a.array for a in facts.feeding(n.result)} for n in sums}
        totals = [n for n in sums if read[n] <= own]
        weighted = [n for n in sums if not read[n] <= own]
        quotients = _divided(facts, totals, weighted)
        if totals and weighted and quotients:
            yield Merge(
                (weight.node,), tuple(weighted), tuple(totals), tuple(tops),
                frozenset(a.array for a in loads), form, quotients,
            )  # fmt: skip


def _statistics(facts: Facts, weight: Exponential) -> list[Access]:
    """The loads of what is raised, less the maximum of the same loads; none where the two are of
    different arrays or are computed with."""
    if weight.origin is not Statistic.REDUCED or weight.score is None:
        return []
    if facts.graph.roots(weight.node.result, *CONTRACTIONS):
        return []
    nodes = facts.graph.upstream(weight.score, lambda n: n.op.kind not in HELD | {OpKind.SELECT})
    loads = [a for n in nodes if (a := facts.access(n)) is not None and not a.is_store]
    maxima = {a.array for a in facts.feeding(weight.statistic)}
    return loads if {a.array for a in loads} <= maxima else []


def _sums(facts: Facts, weight: Node, form: Form) -> list[Node]:
    """What adds weights up, alone or with the parts that they weigh."""
    if form is Form.RESIDENT:
        found = facts.graph.of(OpKind.REDUCE_SUM, *CONTRACTIONS)
    else:
        ends = [c.next for loop in facts.loops for c in loop.of(Role.SUM)]
        found = [n for end in ends if (n := facts.graph.producer(end)) is not None]
    return [n for n in found if facts.graph.rests_on(n.result, weight)]


def _divided(facts: Facts, totals: list[Node], weighted: list[Node]) -> tuple[Node, ...]:
    """What is divided by the sum of the weights: those, or what they weighed."""
    return tuple(
        node
        for node in facts.graph.of(OpKind.DIV)
        if any(facts.graph.rests_on(node.op.inputs[1], n) for n in totals)
        and not any(facts.graph.rests_on(node.op.inputs[1], n) for n in weighted)
    )


def log_sums(facts: Facts) -> Iterator[tuple[Node, Node]]:
    """Logarithms of sums of two exponentials or more, each with where the maximum is added."""
    if len(facts.exponentials) < 2:
        return
    for node in facts.graph.of(*LOGARITHMS):
        summed = {*facts.graph.upstream(node.op.inputs[0], lambda n: n.op.kind in LOGARITHMS)}
        inside = [e for e in facts.exponentials if e.node in summed]
        if len(inside) < 2 or all(e.origin is not Statistic.REDUCED for e in inside):
            continue
        for user in facts.graph.downstream(node.result, 12):
            others = [v for v in user.op.inputs if not facts.graph.rests_on(v, node)]
            if user.op.kind in (OpKind.ADD, OpKind.FMA) and any(
                facts.graph.roots(v, OpKind.MAXIMUM) for v in others
            ):
                yield node, user
                break


def _weighs(facts: Facts, found: Exponential) -> bool:
    """An exponential of a loaded number, or of a state, less a maximum of such numbers."""
    if found.origin is not Statistic.REDUCED or found.difference is None:
        return False
    if facts.graph.roots(found.node.result, *CONTRACTIONS, OpKind.REDUCE_MAX):
        return False
    return found.rescale or bool(facts.held_loads(found.score))


def _adds(facts: Facts, node: Node, weights: list[Exponential]) -> bool:
    """An addition that takes weights in on both sides, two or more in all."""
    inputs = node.op.inputs
    terms = [inputs[:2], inputs[2:3]] if node.op.kind == OpKind.FMA else [inputs[:1], inputs[1:2]]
    held = [
        {e.node.result for e in weights if any(facts.graph.rests_on(v, e.node) for v in term)}
        for term in terms
    ]
    return all(held) and len(held[0] | held[1]) > 1


def sinks(facts: Facts, merge: Merge) -> list[Node]:
    """Exponentials of an array that enter the sum of weights, where none of that array weighs."""
    if merge.form is Form.RESIDENT:
        return []
    own = {
        e.node: {a.array for a in facts.held_loads(e.score)}
        for e in facts.exponentials
        if e.node in merge.weights and not e.rescale
    }
    weighing = {a for node, arrays in own.items() if _weighing(facts, node) for a in arrays}
    return [n for n, arrays in own.items() if arrays and not arrays & weighing]


def _weighing(facts: Facts, node: Node) -> bool:
    return any(user.op.kind in _WEIGHING for user in _uses(facts, node))


def _uses(facts: Facts, node: Node) -> Iterator[Node]:
    """What reads a value, perhaps after it was chosen or cast."""
    pending = [node.result]
    for value in pending:
        for user in facts.graph.users(value):
            yield user
            if user.op.kind in _CHOSEN and len(pending) < 16:
                pending += [r.name for r in user.op.results if r.name not in pending]
