"""Partial results of a softmax put together: weights are exponentials of loaded statistics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from kb.analysis.accesses import Access
from kb.analysis.exponentials import Exponential, Statistic, maxima
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
    OWN = "own part weighted by the LSE of all"
    SUMS = "sums rescaled to the common maximum"


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
    arrays = frozenset(a.array for e in weights for a in chosen_loads(facts, e.score))
    nodes = [e.node for e in weights]
    apart = any(a is not b and not a.excludes(b) for a in nodes for b in nodes)
    if not apart or not arrays:
        return None
    sums = [n for n in facts.graph.of(OpKind.ADD, OpKind.FMA) if _adds(facts, n, weights)]
    own = {a.array for e in weights for a in facts.feeding(e.node.result)}
    weighted = [n for n in sums if not {a.array for a in facts.feeding(n.result)} <= own]
    plain = [n for n in sums if n not in weighted]
    totals = [n for n in plain if not facts.graph.roots(n.result, *LOGARITHMS)]
    logs = [n for n in facts.graph.of(*LOGARITHMS) if any(_rests(facts, n, t) for t in totals)]
    weighted = [n for n in weighted if not any(_rests(facts, n, log) for log in logs)]
    if not weighted or not totals:
        return None
    tops = [n for e in weights for n in maxima(facts.graph, e.statistic)]
    used = [e.node for e in weights if any(facts.graph.rests_on(n.result, e.node) for n in sums)]
    running = any(e.rescale and e.node.loops for e in weights)
    return Merge(
        tuple(used), tuple(weighted), tuple(totals), tuple(dict.fromkeys(tops)), arrays,
        Form.RUNNING if running else Form.PAIRWISE,
        _divided(facts, totals, weighted) if running else (),
    )  # fmt: skip


def _rests(facts: Facts, node: Node, below: Node) -> bool:
    """Whether a result is computed from another one."""
    return node is not below and facts.graph.rests_on(node.result, below)


def _together(facts: Facts) -> Iterator[Merge]:
    """Statistics whose maximum is known before they weigh: all in one tile, or in a loop that comes
    after the one over the maximum."""
    if any(e.rescale for e in facts.exponentials):
        return
    for weight in facts.exponentials:
        same = [
            e.node
            for e in facts.exponentials
            if (e.score, e.statistic) == (weight.score, weight.statistic)
        ]
        loads = _statistics(facts, weight)
        resident = facts.graph.roots(weight.statistic, OpKind.REDUCE_MAX)
        tops = resident or maxima(facts.graph, weight.statistic)
        if not loads or not tops:
            continue
        form = Form.RESIDENT if resident else Form.TWICE
        sums = _sums(facts, same, form)
        own = {a.array for a in facts.feeding(weight.node.result)}
        read = {n: {a.array for a in facts.feeding(n.result)} for n in sums}
        width = {n: _width(facts, n) for n in sums}
        wide = max(width.values(), default=0)
        totals = [n for n in sums if read[n] <= own or width[n] < wide]
        weighted = [n for n in sums if n not in totals and _takes_parts(facts, n, same, own)]
        quotients = _divided(facts, totals, weighted)
        if quotients and not weighted:
            form, weighted = Form.OWN, _scaled(facts, quotients, own)
        elif weighted and not totals and resident and _kept(facts, tops):
            form, totals, weighted = Form.SUMS, weighted, []
        if totals and (form is Form.SUMS or (weighted and quotients)):
            yield Merge(
                tuple(dict.fromkeys(same)), tuple(weighted), tuple(totals), tuple(tops),
                frozenset(a.array for a in loads), form, quotients,
            )  # fmt: skip


def _takes_parts(facts: Facts, node: Node, weights: list[Node], own: set[str | None]) -> bool:
    """True for a sum of products of a weight with what another array holds."""
    if node.op.kind in CONTRACTIONS:
        return True
    above = facts.graph.upstream(node.result, lambda n: n in weights or facts.access(n) is not None)
    return any(
        any(facts.graph.rests_on(this, w) for w in weights)
        and not any(facts.graph.rests_on(other, w) for w in weights)
        and {a.array for a in facts.feeding(other)} - own
        for made in above
        if made.op.kind in (OpKind.MUL, OpKind.FMA)
        for this, other in (made.op.inputs[:2], made.op.inputs[1::-1])
    )


def _width(facts: Facts, node: Node) -> int:
    return len([e for e in facts.types.shape(node.result) if e != "1"])


def _kept(facts: Facts, tops: list[Node]) -> bool:
    """True when a maximum is stored beside the sum that is taken against it."""
    kept = {facts.graph.core(s.value) for s in facts.stores}
    return any(top.result in kept for top in tops)


def _scaled(facts: Facts, quotients: tuple[Node, ...], own: set[str | None]) -> list[Node]:
    """Products of a loaded tile of another array with an exponential that the sum of all weights
    was taken away from."""
    powers = [e.node for e in facts.exponentials if e.difference in quotients]
    return [
        node
        for node in facts.graph.of(OpKind.MUL)
        for this, other in (node.op.inputs[:2], node.op.inputs[1::-1])
        if any(facts.graph.rests_on(this, power) for power in powers)
        and {a.array for a in facts.held_loads(other)} - own
    ]


def _statistics(facts: Facts, weight: Exponential) -> list[Access]:
    """The loads of what is raised, less the maximum of the same loads; none where the two are of
    different arrays or are computed with."""
    if weight.origin is not Statistic.REDUCED or weight.score is None:
        return []
    if facts.graph.roots(weight.node.result, *CONTRACTIONS):
        return []
    loads = chosen_loads(facts, weight.score)
    compared = {a.array for a in facts.feeding(weight.statistic)}
    return loads if {a.array for a in loads} <= compared else []


def chosen_loads(facts: Facts, value: str | None) -> list[Access]:
    """The loads whose tile a value is, or another number where a test says so."""
    if value is None:
        return []
    nodes = facts.graph.upstream(value, lambda n: n.op.kind not in HELD | {OpKind.SELECT})
    return [a for n in nodes if (a := facts.access(n)) is not None and not a.is_store]


def _sums(facts: Facts, weights: list[Node], form: Form) -> list[Node]:
    """What adds weights up, alone or with the parts that they weigh."""
    if form is Form.RESIDENT:
        found = facts.graph.of(OpKind.REDUCE_SUM, *CONTRACTIONS)
    else:
        ends = [c.next for loop in facts.loops for c in loop.of(Role.SUM)]
        found = [n for end in ends if (n := facts.graph.producer(end)) is not None]
    return [n for n in found if any(facts.graph.rests_on(n.result, w) for w in weights)]


def _divided(facts: Facts, totals: list[Node], weighted: list[Node]) -> tuple[Node, ...]:
    """What is divided by the sum of the weights: those, or what they weighed; or what its logarithm
    is taken away from before it is raised."""
    raised = [e.difference for e in facts.exponentials if e.difference is not None]
    return tuple(
        node
        for node in (*facts.graph.of(OpKind.DIV), *raised)
        if any(facts.graph.rests_on(node.op.inputs[1], n) for n in totals)
        and not any(facts.graph.rests_on(node.op.inputs[1], n) for n in weighted)
        and (node not in raised or facts.graph.roots(node.op.inputs[1], *LOGARITHMS))
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
    return found.rescale or bool(chosen_loads(facts, found.score))


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
