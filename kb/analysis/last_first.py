"""Loops of which a carried place goes down from round to round."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop
from kb.ops import OpKind


def last_first(facts: Facts, loop: Loop) -> list[Node]:
    """What a place that goes down from round to round begins at, beside what counts the rounds."""
    made = [(facts.graph.producer(c.next), facts.graph.producer(c.init)) for c in loop.carried]
    return [
        begin
        for step, begin in made
        if step is not None and step.op.kind == OpKind.SUB and begin is not None
        if begin.op.kind == OpKind.SUB and facts.values.expr(step.op.inputs[1]).constant == 1
    ]
