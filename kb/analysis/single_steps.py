"""Steps that one kernel may take before or behind others, each by the places where it is taken."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.composed_steps import (
    activated,
    again,
    divided,
    gates,
    shares,
    soft_targets,
    targets,
    weighted_sums,
    zeroed,
)
from kb.analysis.composed_sums import tapped
from kb.analysis.convolution import convolution
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.joined_steps import biases_before, gains_behind, left_out, triangles
from kb.analysis.normalisations import normalisations
from kb.analysis.rebuilt import normalised
from kb.analysis.register_taps import slid_products
from kb.analysis.rotations import rotations
from kb.analysis.row_operations import shares_of_sum
from kb.analysis.taps import weighted
from kb.analysis.windows import window_products
from kb.ops import OpKind


def norms(facts: Facts) -> list[Node]:
    """Where rows are normalised, or are again for their gradient."""
    norms = normalisations(facts)
    found = [n for norm in norms for n in (norm.root, *_squares(facts, norm.sums))]
    return found or normalised(facts)


def norms_again(facts: Facts) -> list[Node]:
    return again([norm.root for norm in normalisations(facts)], facts)


def _squares(facts: Facts, sums: Iterable[Node]) -> Iterable[Node]:
    """The sums over rows that a product's loop takes beside it."""
    loops = {p.loop for p in facts.contractions} - {None}
    return (n for n in sums if n.loop in loops)


def turned(facts: Facts) -> list[Node]:
    return [turn.node for turn in rotations(facts)]


def chosen(facts: Facts) -> list[Node]:
    """Sorts, and the places of the largest or least elements."""
    placed = [
        n
        for n in facts.graph.of(OpKind.REDUCE_MAX, OpKind.REDUCE_MIN)
        if facts.values.literal(n.op.operand("return_indices")) is True
    ]
    return placed + facts.graph.of(OpKind.SORT, OpKind.TOPK, OpKind.ARGMAX, OpKind.ARGMIN)


def _routed(facts: Facts) -> list[Node]:
    """Shares of a softmax of which some are selected."""
    return shares_of_sum(facts) if chosen(facts) else []


def convolved(facts: Facts) -> list[Node]:
    """Products of inputs and weights by taps."""
    found = None if facts.contractions else convolution(facts)
    if found is not None and found.product is not None:
        return [found.product]
    if facts.contractions:
        return []
    ways = (weighted, tapped, slid_products, window_products)
    return next((products for way in ways if (products := way(facts))), [])


def shared_rows(facts: Facts) -> list[Node]:
    return gains_behind(facts, activated(facts))


def shifted(facts: Facts) -> list[Node]:
    """Where a bias is added before an activation."""
    return biases_before(facts, activated(facts))


def gated(facts: Facts) -> list[Node]:
    """What an activation multiplies, but for rows that all rows share."""
    gains = shared_rows(facts)
    return [n for n in gates(facts, activated(facts)) if n not in gains]


def shared_out(facts: Facts) -> list[Node]:
    """Shares of a softmax, of which some are selected, or that are made again, or weigh."""
    weighed = weighted_sums(facts)
    powers = [e.node for e in facts.exponentials if not e.rescale] if weighed else []
    saved = shares(facts) or powers
    own = [e.node for e in facts.exponentials if not e.rescale] if soft_targets(facts) else []
    return _routed(facts) or saved or (divided(facts) if targets(facts) else []) or own


def aims(facts: Facts) -> list[Node]:
    """What shares are compared with, or what is taken off them."""
    return targets(facts) or soft_targets(facts)


def scanned(facts: Facts) -> list[Node]:
    return facts.graph.of(OpKind.CUMSUM, OpKind.SCAN)


def masked(facts: Facts) -> list[Node]:
    return triangles(facts) or left_out(facts) or zeroed(facts)
