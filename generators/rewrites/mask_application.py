"""mask_application: minus infinity added to masked scores, or put in their place."""

from __future__ import annotations

from generators.rewrites.base import NotApplicable, Rewrite, Site, change_functions, refuse_mixed
from generators.rewrites.edit import Step
from kb.analysis.idioms import Applied, Mask, masks
from kb.ir import Kernel
from kb.ops import OpKind

ADDED = "additive -inf"
SELECTED = "select -inf before max"


class MaskApplication(Rewrite):
    """s + (0 or -inf) and (s or -inf) are the same number for every finite score.

    Source: Dao et al., FlashAttention (2022), algorithm 2: masked scores are minus infinity.
    """

    axis = "mask_application"
    values = (ADDED, SELECTED)

    def apply(self, kernel: Kernel, value: str) -> Kernel:
        """Exchange the way in which every infinite mask acts."""
        seen: list[str] = []
        changed = change_functions(kernel, lambda site: _exchange(site, value, seen))
        if changed is None and value not in seen:
            raise NotApplicable(
                "no mask sets scores to minus infinity.",
                where=f"{kernel.entry.span} {kernel.name}",
                hint="Masks with a finite number, or on probabilities, say something else.",
            )
        if changed is not None and value in seen:
            refuse_mixed(kernel, value)
        return changed or kernel


def _exchange(site: Site, value: str, seen: list[str]) -> bool:
    touched = False
    for mask in masks(site.facts):
        if mask.fill != float("-inf") or not site.owns(mask.node):
            continue
        select = site.draft.producer(mask.node.result)
        if select is None or mask.applied is Applied.ZEROED:
            continue
        has = ADDED if mask.applied is Applied.ADDED else SELECTED
        if has == value:
            seen.append(has)
        elif value == SELECTED:
            _select(site, mask, select)
            touched = True
        else:
            _add(site, mask, select)
            touched = True
    return touched


def _infinite(site: Site, select: Step) -> str:
    """The role of the operand that is minus infinity; the other belongs to places that are kept."""
    literal = site.facts.values.literal(site.facts.graph.plain(select.operand("y")))
    return "y" if literal == float("-inf") else "x"


def _select(site: Site, mask: Mask, select: Step) -> None:
    draft = site.draft
    added = draft.producer(mask.combined.result) if mask.combined is not None else None
    others = [step for step in draft.users(select.result) if step is not added]
    if added is None or added.kind != OpKind.ADD or others or select.result not in added.inputs:
        raise NotApplicable(
            "the mask is reshaped, or used twice, before it is added.", where=str(select.span),
            hint="Add the result of the select itself.",
        )  # fmt: skip
    kept = "x" if _infinite(site, select) == "y" else "y"
    score = next(v for v in added.inputs if v != select.result)
    select.set_operand(kept, score)
    if select.block is not added.block:
        raise NotApplicable("the mask is made elsewhere.", where=str(select.span))
    select.results, name = [added.results[0]], select.result
    draft.remove(added)
    draft.replace_uses(name, select.result)


def _add(site: Site, mask: Mask, select: Step) -> None:
    draft = site.draft
    kept = "x" if _infinite(site, select) == "y" else "y"
    score = select.operand(kept) or ""
    zero = draft.before(draft.start(select)).constant(0.0)
    result = select.results[0]
    bias = draft.fresh("")
    select.set_operand(kept, zero)
    select.results = [bias]
    cursor = draft.after(select)
    operands = [("lhs", score), ("rhs", bias.name)]
    cursor.put(Step(OpKind.ADD, operands, [], [result], [], select.span, select.block))
