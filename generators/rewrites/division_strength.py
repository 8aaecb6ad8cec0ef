"""division_strength: every element of a row divided, or one reciprocal per row and a product per
element."""

from __future__ import annotations

from generators.rewrites.base import NotApplicable, Rewrite, Site, change_functions, refuse_mixed
from generators.rewrites.reciprocals import to_division, to_reciprocal
from kb.analysis.graph import Node
from kb.ir import Kernel
from kb.ops import CONTRACTIONS, REDUCTIONS, OpKind

DIVIDED = "divide per element"
ONCE = "one reciprocal per row"


class DivisionStrength(Rewrite):
    """t / r = t * (1 / r) but for rounding, where r is reduced from a row; not in kernels with
    matrix products.

    Source: NVIDIA, CUDA C++ Best Practices Guide: division is slower than multiplication by a
    reciprocal.
    """

    axis = "division_strength"
    values = (DIVIDED, ONCE)
    follows = frozenset({"softmax_scheme"})

    def apply(self, kernel: Kernel, value: str) -> Kernel:
        """Exchange every division of a tile by its row."""
        change = to_reciprocal if value == ONCE else to_division
        found = change_functions(kernel, lambda site: change(site, _of_row))
        if found is None and not _has(kernel, value):
            raise NotApplicable(
                "no tile is divided by a number reduced from its rows.",
                where=f"{kernel.entry.span} {kernel.name}",
                hint="In attention the axis is softmax_scheme.",
            )
        if found is not None and _has(kernel, value):
            refuse_mixed(kernel, value)
        return found or kernel


def _of_row(site: Site, node: Node) -> bool:
    facts = site.facts
    if facts.contractions or not facts.graph.roots(node.op.inputs[1], *REDUCTIONS):
        return False
    under = [extent for extent in facts.types.shape(node.op.inputs[1]) if extent != "1"]
    wide = [node.op.inputs[0]]
    if facts.values.literal(node.op.inputs[0]) == 1:
        wide = [v for user in facts.graph.users(node.result) for v in user.op.inputs]
    return any(len([e for e in facts.types.shape(v) if e != "1"]) > len(under) for v in wide)


def _has(kernel: Kernel, value: str) -> bool:
    site = Site(kernel, kernel.entry)
    if site.facts.graph.of(*CONTRACTIONS):
        return False
    found = [n for n in site.facts.graph.of(OpKind.DIV) if _of_row(site, n)]
    ones = [n for n in found if site.facts.values.literal(n.op.inputs[0]) == 1]
    return bool(ones) if value == ONCE else len(found) > len(ones)
