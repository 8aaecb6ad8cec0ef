"""scale_placement: the softmax scale on the scores before the row maximum, or after it in (s *
scale - m)."""

from __future__ import annotations

from dataclasses import dataclass

from generators.rewrites.base import NotApplicable, Rewrite, Site, change_functions, refuse_mixed
from generators.rewrites.edit import Step
from generators.rewrites.scores import (
    outer_scale,
    scales_before,
    scaling,
    score_maxima,
)
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.idioms import masks
from kb.ir import Kernel
from kb.ops import CONTRACTIONS, OpKind

FOLDED = "scale folded into (s*scale - m) FMA"
BEFORE = "scale S before max"


class ScalePlacement(Rewrite):
    """max(c s) = c max(s) for c > 0, so the product with the scale may stand on either side of the
    row maximum.

    Masked scores stay masked: c times minus infinity is minus infinity.
    Source: Dao, FlashAttention-2 (2023), section 3.1.
    """

    axis = "scale_placement"
    values = (FOLDED, BEFORE)

    def apply(self, kernel: Kernel, value: str) -> Kernel:
        """Move the scale."""
        seen: list[str] = []
        change = _to_before if value == BEFORE else _to_folded
        changed = change_functions(kernel, lambda site: change(site, seen))
        if changed is None and not seen:
            raise NotApplicable(
                "no row maximum of scaled scores.", where=f"{kernel.entry.span} {kernel.name}",
                hint="The axis speaks of a softmax over scores of a matrix product.",
            )  # fmt: skip
        if changed is not None and value in seen:
            refuse_mixed(kernel, value)
        return changed or kernel


# -- to: before the maximum


@dataclass(frozen=True, slots=True)
class _Folded:
    """Scores `tile` with their maximum; `outer` scales the maximum, `products` scale the scores
    afterwards."""

    maximum: Node
    outer: Node
    products: tuple[Node, ...]
    tile: str
    factor: str


def _to_before(site: Site, seen: list[str]) -> bool:
    touched = False
    for maximum in score_maxima(site.facts):
        if not site.owns(maximum):
            continue
        if scales_before(site.facts, maximum.op.inputs[0]):
            seen.append(BEFORE)
            continue
        found = _folded(site, maximum)
        if found is not None:
            _hoist(site, found)
            touched = True
    return touched


def _folded(site: Site, maximum: Node) -> _Folded | None:
    facts = site.facts
    outer = outer_scale(facts, maximum)
    if outer is None:
        return None
    products: dict[str, Node] = {}
    for e in facts.exponentials:
        if e.product is None or e.rescale or not site.owns(e.product):
            continue
        pair = scaling(facts, e.product)
        if pair is not None and facts.graph.core(pair[0]) == facts.graph.core(maximum.op.inputs[0]):
            products[e.product.result] = e.product
    if not products:
        return None
    factors = {
        pair[1] for n in (outer, *products.values()) if (pair := scaling(facts, n)) is not None
    }
    if len(factors) != 1:
        raise NotApplicable(
            "the maximum and the scores are scaled by different values.",
            where=str(outer.op.span), hint="Scale both by one value.",
        )  # fmt: skip
    return _Folded(maximum, outer, tuple(products.values()), maximum.op.inputs[0], factors.pop())


def _hoist(site: Site, found: _Folded) -> None:
    """One product in front of everything that the maximum reads, and none behind it."""
    draft = site.draft
    first = _needed(draft.producer(found.products[0].result), found.products[0])
    anchor = _place(site, found.tile)
    if anchor is None:
        maximum = _needed(draft.producer(found.maximum.result), found.maximum)
        cursor, tile = draft.before(draft.start(maximum)), found.tile
        readers = [maximum]
    else:
        cursor, tile = draft.after(anchor), anchor.result
        readers = draft.users(tile)
    operands = [(role, tile if value != found.factor else value) for role, value in first.operands]
    hint = found.tile.rpartition(".")[0] or "score"
    scaled = cursor.add(first.kind, operands, first.attributes, hint)
    draft.replace_uses(tile, scaled, readers)
    for product in found.products:
        below = scaled if anchor is None else found.tile
        draft.replace_uses(product.result, below)
    outer = _needed(draft.producer(found.outer.result), found.outer)
    inner = next(v for v in outer.inputs if v != found.factor)
    draft.replace_uses(outer.result, inner)


def _place(site: Site, tile: str) -> Step | None:
    """The matrix product of the scores when only masks stand between it and the maximum, else
    None."""
    facts, products = site.facts, []
    own = {n.result for mask in masks(facts) for n in (mask.node, mask.combined) if n is not None}
    pending, seen = [tile], {tile}
    for value in pending:
        node = facts.graph.producer(value)
        if node is None:
            return None
        if node.op.kind in CONTRACTIONS:
            products.append(node)
            continue
        below = _below(site, node, own)
        if below is None:
            return None
        pending += [v for v in below if v not in seen]
        seen.update(below)
    same = len({id(node) for node in products}) == 1 and site.owns(products[0])
    return site.draft.producer(products[0].result) if same else None


def _below(site: Site, node: Node, masked: set[str]) -> list[str] | None:
    """The scores that a branch, a mask or a view takes in; None when the operation is none of
    these."""
    graph = site.facts.graph
    if node.op.kind in VIEWS | CASTS:
        return [node.op.inputs[0]]
    if node.op.kind == OpKind.IF:
        return [v for result in node.op.results for v in graph.feeds(result.name)]
    if node.op.kind in (OpKind.SELECT, OpKind.ADD) and node.result in masked:
        sides = [v for role, v in node.op.operands if role != "condition"]
        return [v for v in sides if graph.roots(v, *CONTRACTIONS)]
    return None


# -- to: after the maximum


def _to_folded(site: Site, seen: list[str]) -> bool:
    touched = False
    for maximum in score_maxima(site.facts):
        if not site.owns(maximum):
            continue
        before = scales_before(site.facts, maximum.op.inputs[0])
        if before:
            _sink(site, maximum, before)
            touched = True
        elif outer_scale(site.facts, maximum) is not None:
            seen.append(FOLDED)
    return touched


def _sink(site: Site, maximum: Node, before: list[Node]) -> None:
    """Scale the maximum and every difference instead of the scores."""
    draft, facts = site.draft, site.facts
    if len(before) != 1 or not site.owns(before[0]):
        raise NotApplicable(
            f"{len(before)} scalars multiply the scores.", where=str(before[0].op.span),
            hint="Multiply them into one scale before the loop.",
        )  # fmt: skip
    pair = scaling(facts, before[0])
    product = _needed(draft.producer(before[0].result), before[0])
    if pair is None:
        raise NotApplicable(
            "the scale is no scalar.", where=str(product.span), hint="Use a scalar scale."
        )
    _only_masks(site, maximum, before[0])
    scores = maximum.op.inputs[0]
    readers = [s for s in draft.users(scores) if s.result != maximum.result]
    if any(s.kind != OpKind.SUB or s.inputs[0] != scores for s in readers) or not readers:
        raise NotApplicable(
            "scaled scores are read by more than the maximum and the differences from it.",
            where=str(product.span), hint="Only a plain softmax can scale after the maximum.",
        )  # fmt: skip
    reduced = _needed(draft.producer(maximum.result), maximum)
    factor = [(role, pair[1] if value == pair[1] else "") for role, value in product.operands]
    draft.take_over(before[0].result, pair[0])
    below = reduced.inputs[0]
    after = draft.after(reduced)
    users = draft.users(reduced.result)
    scaled = after.add(
        product.kind, [(r, v or reduced.result) for r, v in factor], product.attributes
    )
    draft.replace_uses(reduced.result, scaled, users)
    for step in readers:
        cursor = draft.before(draft.start(step))
        again = cursor.add(product.kind, [(r, v or below) for r, v in factor], product.attributes)
        draft.replace_uses(below, again, [step])


def _only_masks(site: Site, maximum: Node, product: Node) -> None:
    """Raises NotApplicable when something that is no mask is added between the scale and the
    maximum."""
    facts = site.facts
    own = {n.result for mask in masks(facts) for n in (mask.node, mask.combined) if n is not None}
    kinds = (OpKind.ADD, OpKind.SUB, OpKind.SELECT, OpKind.FMA)
    for node in facts.graph.upstream(maximum.op.inputs[0], lambda n: n is product):
        if node.op.kind not in kinds or not facts.graph.rests_on(node.result, product):
            continue
        if node.result not in own:
            raise NotApplicable(
                "something is added to the scaled scores before the maximum.",
                where=str(node.op.span), hint="A bias must be divided by the scale first.",
            )  # fmt: skip


def _needed(step: Step | None, node: Node) -> Step:
    if step is None:
        raise NotApplicable("the operation is made by a helper.", where=str(node.op.span))
    return step
