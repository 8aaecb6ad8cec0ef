"""What a thread counts, beside what it sums."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.loops import Carried, Loop, Role, updates
from kb.ir import TypeKind
from kb.ops import OpKind


def counts_up(facts: Facts, loop: Loop, state: Carried) -> bool:
    """True for what a thread counts up by a number, or moves on by a stride."""
    if not facts.of_threads or state.role is not Role.SUM:
        return False
    kind = next((r.type for r in loop.node.op.results if r.name == state.result), None)
    if kind is not None and kind.kind is TypeKind.POINTER:
        return True
    steps = updates(facts.graph, state.argument, state.next)
    added = [n for n in steps if n.op.kind in (OpKind.ADD, OpKind.FMA)]
    return bool(added) and all(any(_given(facts, loop, v) for v in n.op.inputs[:2]) for n in added)


def _given(facts: Facts, loop: Loop, value: str) -> bool:
    """True for a whole number, what the launch gives, or what is computed before a loop."""
    if isinstance(facts.values.literal(value), int):
        return True
    made = facts.graph.producer(facts.graph.core(value))
    while made is not None and made.op.kind == OpKind.ATTRIBUTE:
        field = facts.graph.core(made.op.inputs[0])
        made = facts.graph.producer(field)
        if made is None:  # of the launch, or of a struct that a loop further out hands on
            return field not in {a.name for r in loop.node.op.regions for a in r.arguments}
    return made is not None and not made.inside(loop.node)
