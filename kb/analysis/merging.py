"""Partial results of a softmax put together: weights are exponentials of loaded statistics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kb.analysis.exponentials import Exponential, Statistic
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.ops import CONTRACTIONS, OpKind

LOGARITHMS = (OpKind.LOG2, OpKind.LOG)
_CHOSEN = VIEWS | CASTS | {OpKind.SELECT}
_WEIGHING = frozenset({OpKind.MUL, OpKind.DIV})


@dataclass(frozen=True, slots=True)
class Merge:
    """Weights, the sums of weighted parts, the sums of weights, and the maxima that the weights are
    taken against; a `running` one takes the parts in one after the other."""

    weights: tuple[Node, ...]
    weighted: tuple[Node, ...]
    totals: tuple[Node, ...]
    maxima: tuple[Node, ...]
    arrays: frozenset[str | None]
    running: bool


def merge_of(facts: Facts) -> Merge | None:
    """How a kernel merges partial results; None when it does not."""
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
        any(e.rescale and e.node.loops for e in weights),
    )  # fmt: skip


def log_sums(facts: Facts) -> Iterator[tuple[Node, Node]]:
    """Logarithms of sums of two exponentials or more, each with where the maximum is added."""
    if len(facts.exponentials) < 2:
        return
    for node in facts.graph.of(*LOGARITHMS):
        inside = [e for e in facts.exponentials if facts.graph.rests_on(node.result, e.node)]
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
