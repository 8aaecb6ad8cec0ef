"""What is told of loops beside how many there are: where one begins that goes down, and which only
look something up."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind
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


def picks(facts: Facts, loop: Loop) -> bool:
    """True for a loop that reads single numbers only, one of them where another says."""
    inside = [a for a in facts.loads if a.node.inside(loop.node)]
    return (
        not facts.of_threads
        and not any(facts.types.shape(a.value) for a in inside)
        and any(i.has(AtomKind.LOADED) for a in inside for i in a.index)
    )
