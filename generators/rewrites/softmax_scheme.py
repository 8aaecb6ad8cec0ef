"""softmax_scheme: the accumulator of a softmax divided by its sum, or multiplied by the reciprocal
of it."""

from __future__ import annotations

from generators.rewrites.base import NotApplicable, Rewrite, Site, change_functions, refuse_mixed
from generators.rewrites.reciprocals import to_division, to_reciprocal
from kb.analysis.graph import Node
from kb.analysis.loops import Role
from kb.ir import Kernel
from kb.ops import OpKind

DIVIDED = "divide once in the epilogue"
MULTIPLIED = "multiply by reciprocal"


class SoftmaxScheme(Rewrite):
    """Of the values of this axis, those about the deferred normalisation: a / l = a * (1 / l) but
    for rounding.

    Source: Dao, FlashAttention-2 (2023), section 3.1.
    """

    axis = "softmax_scheme"
    values = (DIVIDED, MULTIPLIED)
    follows = frozenset({"division_strength"})

    def apply(self, kernel: Kernel, value: str) -> Kernel:
        """Exchange the normalisation after the loop."""
        change = to_reciprocal if value == MULTIPLIED else to_division
        changed = change_functions(kernel, lambda site: change(site, _normalises))
        if changed is None and not _has(kernel, value):
            raise NotApplicable(
                "no accumulator is divided by a running sum.",
                where=f"{kernel.entry.span} {kernel.name}",
                hint="The axis speaks of an online softmax.",
            )
        if changed is not None and _has(kernel, value):
            refuse_mixed(kernel, value)
        return changed or kernel


def _normalises(site: Site, node: Node) -> bool:
    """True when the divisor is a sum that a loop with a running maximum carried."""
    core = site.facts.graph.core(node.op.inputs[1])
    for loop in site.facts.loops:
        sums = [c.result for c in loop.of(Role.RUNNING_SUM, Role.SUM)]
        if loop.of(Role.RUNNING_MAXIMUM) and not node.inside(loop.node) and core in sums:
            return True
    return False


def _has(kernel: Kernel, value: str) -> bool:
    """True when the program normalises in this way already."""
    site = Site(kernel, kernel.entry)
    found = [n for n in site.facts.graph.of(OpKind.DIV) if _normalises(site, n)]
    scaled = [
        n for n in found if not site.facts.graph.roots(n.op.inputs[0], OpKind.FOR, OpKind.WHILE)
    ]
    ones = [n for n in scaled if site.facts.values.literal(n.op.inputs[0]) == 1]
    if len(ones) < len(scaled):
        raise NotApplicable(
            "the reciprocal of the sum carries another factor.",
            where=str(next(n for n in scaled if n not in ones).op.span),
            hint="Multiply by the factor in a step of its own: divided at once, the two could "
            "not be told apart again.",
        )
    return bool(ones) if value == MULTIPLIED else len(found) > len(ones)
