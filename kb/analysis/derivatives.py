"""Activations whose derivative is taken: a backward pass that computes them again."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.ops import OpKind

_SQUASHING = frozenset({OpKind.SIGMOID, OpKind.TANH})
_POWERS = frozenset({OpKind.EXP, OpKind.EXP2})
_LOOKS = VIEWS | CASTS


def differentiated(facts: Facts) -> list[Node]:
    """Logistic functions and hyperbolic tangents of a loaded tile whose derivative is used.

    The derivative of f is `f * (1 - f)` or `1 - f * f`: one less f meets f, its square, or a
    multiple of what f was taken of. A gate `(1 - f) * other` meets neither.
    """
    found = []
    for node in facts.graph.of(*_SQUASHING, OpKind.DIV):
        if node.op.kind == OpKind.DIV and not _logistic(facts, node):
            continue
        if facts.feeding(node.result) and _derived(facts, node):
            found.append(node)
    return found


def _logistic(facts: Facts, node: Node) -> bool:
    """1 / (1 + exp(x))."""
    over, under = node.op.inputs[:2]
    total = facts.graph.producer(facts.graph.through(under, _LOOKS))
    if not _is_one(facts, over) or total is None or total.op.kind != OpKind.ADD:
        return False
    sides = total.op.inputs[:2]
    powers = [v for v in sides if facts.graph.kind_of(facts.graph.through(v, _LOOKS)) in _POWERS]
    return len(powers) == 1 and any(_is_one(facts, v) for v in sides)


def _derived(facts: Facts, activation: Node) -> bool:
    roots = {a.node for a in facts.feeding(activation.result)}
    for less in facts.graph.of(OpKind.SUB):
        one, value = less.op.inputs[:2]
        if not _is_one(facts, one) or not facts.graph.rests_on(value, activation):
            continue
        core = facts.graph.producer(facts.graph.through(value, _LOOKS))
        if core is not activation and not _square(facts, core, activation):
            continue
        if core is not activation:
            return True
        for user in facts.graph.users(less.result):
            others = [v for v in user.op.inputs[:2] if v != less.result]
            if user.op.kind == OpKind.MUL and any(
                {a.node for a in facts.feeding(v)} == roots for v in others
            ):
                return True
    return False


def _square(facts: Facts, node: Node | None, activation: Node) -> bool:
    if node is None:
        return False
    external = str(node.op.attribute("spelling")).rpartition(".")[2] == "pow"
    if node.op.kind == OpKind.POW or (node.op.kind == OpKind.EXTERN_MATH and external):
        base = facts.graph.producer(facts.graph.through(node.op.inputs[0], _LOOKS))
        return base is activation and facts.values.literal(node.op.inputs[1]) == 2
    if node.op.kind != OpKind.MUL:
        return False
    sides = [facts.graph.producer(facts.graph.through(v, _LOOKS)) for v in node.op.inputs[:2]]
    return all(side is activation for side in sides)


def _is_one(facts: Facts, value: str) -> bool:
    return facts.values.literal(facts.graph.core(value)) in (1, 1.0)
