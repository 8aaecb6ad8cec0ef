"""What one thread reduces by itself, in a loop or over what it holds in registers."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.held_sums import array_sums, held_sums
from kb.analysis.loops import Loop, Role, grower
from kb.analysis.stages import (
    added_by_atomics,
    partials_joined,
    products_joined,
    second_stage,
    steps,
    tree_steps,
)
from kb.ops import OpKind

_TOGETHER = (OpKind.SORT, OpKind.CUMSUM, OpKind.CUMPROD, OpKind.SCAN)


def of_one_thread(facts: Facts) -> list[Node]:
    """The steps of the sums and extremes that single threads take, where no threads combine what
    they have and no matrix product is all that is summed."""
    if not facts.of_threads or (facts.contractions and not facts.score_products):
        return []
    together = [n for n in facts.threads.of(*_TOGETHER) if n.op.attribute("scope")]
    joined = [*steps(facts), *second_stage(facts), *tree_steps(facts), *products_joined(facts)]
    if together or joined or partials_joined(facts) or added_by_atomics(facts):
        return []
    alone = [n for loop in facts.rolled_loops for n in _summed(facts, loop)]
    return alone + [node for _, node in held_sums(facts)] + array_sums(facts)


def _summed(facts: Facts, loop: Loop) -> list[Node]:
    """What a loop of one thread adds up or takes the largest of, where a store keeps it."""
    roles = (Role.SUM, Role.RUNNING_SUM, Role.RUNNING_MAXIMUM)
    kept = [c for c in loop.of(*roles) if facts.feeding(c.next) and facts.stored_in(c.result)]
    made = [(c.argument, grower(facts.graph, c.next)) for c in kept]
    return [n for own, n in made if n is not None and _takes_in(facts, loop, n, own)]


def _takes_in(facts: Facts, loop: Loop, grown: Node, own: str) -> bool:
    """Whether what is added to a carried value is made by the round: a place that moves on by a
    fixed step sums nothing up."""
    more = [v for v in grown.op.inputs if not facts.graph.rests_on_argument(v, own)]
    made = [facts.graph.producer(v) for v in more]
    return not more or any(n is not None and n.inside(loop.node) for n in made)
