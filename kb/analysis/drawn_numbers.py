"""Numbers that a kernel draws, and what becomes of them."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import is_wide
from kb.analysis.stored import computed
from kb.ops import COMPARISONS, REDUCTIONS, OpKind

_RANDOM = (OpKind.RAND, OpKind.RANDN, OpKind.RAND4, OpKind.PHILOX, OpKind.RANDINT, OpKind.RANDINT4)


def random(facts: Facts) -> str | None:
    """Numbers drawn: a drop-out keeps an element or not by a draw alone. Draws in the results of a
    row operation, or that round what they meet there, make no operation of their own."""
    draws = computed(facts, facts.graph.of(*_RANDOM) or _hashes(facts))
    if not draws or facts.contractions:
        return None
    data = [a.node for a in facts.loads if is_wide(facts, a.value)]
    if facts.graph.of(OpKind.ARGMAX, OpKind.ARGMIN, OpKind.SORT, OpKind.TOPK):
        return "random_map"
    reduced = computed(facts, facts.graph.of(*REDUCTIONS))
    if any(facts.graph.rests_on(n.op.inputs[0], d) for n in reduced for d in data):
        return None
    kept = [
        (gate, other)
        for n in computed(facts, facts.graph.of(OpKind.SELECT, OpKind.MUL))
        for gate in n.op.inputs
        for other in n.op.inputs
        if other != gate
    ]
    return (
        "dropout"
        if any(
            _drawn(facts, gate, draws, data) and any(facts.graph.rests_on(other, d) for d in data)
            for gate, other in kept
        )
        else "random_map"
    )


def _drawn(facts: Facts, value: str, draws: list[Node], data: list[Node]) -> bool:
    """Whether a value is a comparison of what was drawn with a number, not with an element."""
    node = facts.graph.producer(facts.graph.core(value))
    return (
        node is not None
        and node.op.kind in COMPARISONS
        and any(facts.graph.rests_on(value, d) for d in draws)
        and not any(facts.graph.rests_on(value, d) for d in data)
    )


def _hashes(facts: Facts) -> list[Node]:
    """Exclusive ors of shifted positions: a generator written out."""
    mixed = facts.graph.of(OpKind.BIT_XOR)
    lanes = [
        n
        for n in mixed
        if facts.graph.roots(n.result, OpKind.ARANGE)
        and not any(facts.types.shape(a.value) for a in facts.feeding(n.result))
    ]
    return lanes if len(lanes) >= 2 and facts.graph.of(OpKind.SHIFT_RIGHT) else []
