"""A tile divided by a row, and the same tile times the reciprocal of the row: one rewrite for two
axes."""

from __future__ import annotations

from collections.abc import Callable

from generators.rewrites.base import Site
from generators.rewrites.edit import Step
from kb.analysis.graph import COPIES, Node
from kb.ops import OpKind

Chosen = Callable[[Site, Node], bool]


def to_reciprocal(site: Site, chosen: Chosen) -> bool:
    """t / r becomes t * (1 / r); rounding and flags stay on the division."""
    touched = False
    for node in site.facts.graph.of(OpKind.DIV):
        step = site.draft.producer(node.result)
        if step is None or _one(site, step.inputs[0]) or not chosen(site, node):
            continue
        over = step.operands[0][1]
        one = site.draft.before(site.draft.start(step)).constant(1.0)
        result = step.results[0]
        step.set_operand(step.operands[0][0], one)
        step.results = [site.draft.fresh("inverse")]
        operands = [("lhs", over), ("rhs", step.result)]
        product = Step(OpKind.MUL, operands, [], [result], [], step.span, step.block)
        site.draft.after(step).put(product)
        touched = True
    return touched


def to_division(site: Site, chosen: Chosen) -> bool:
    """t * (1 / r) becomes t / r, when the reciprocal has no other use."""
    touched = False
    for node in site.facts.graph.of(OpKind.DIV):
        step = site.draft.producer(node.result)
        if step is None or not _one(site, step.inputs[0]) or not chosen(site, node):
            continue
        users = site.draft.users(step.result)
        if len(users) != 1 or users[0].kind != OpKind.MUL or users[0].block is not step.block:
            continue
        product = users[0]
        over = next((v for v in product.inputs if v != step.result), step.result)
        step.set_operand(step.operands[0][0], over)
        step.results = [product.results[0]]
        step.block.steps.remove(step)
        product.block.steps.insert(product.index, step)
        site.draft.remove(product)
        touched = True
    return touched


def _one(site: Site, value: str) -> bool:
    return site.facts.values.literal(site.facts.graph.through(value, COPIES)) == 1
