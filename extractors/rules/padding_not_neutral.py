"""Lanes outside an array enter a reduction with a number that changes its result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from extractors.host.render import leaves
from extractors.host.values import Expr
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, SOFTMAX
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.padding import Lanes, Outside, PaddedLanes
from kb.analysis.sums import NEUTRAL, is_neutral, products_with_outside, reductions_with_outside
from kb.evidence import Finding

_LARGEST = (
    POINTER
    + """
@triton.jit
def largest(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    tl.store(out + tl.program_id(0), tl.max(v, axis=0))
"""
)
_SPREAD = (
    TILE
    + """
@ct.kernel
def spread(x, out, N: Int, T: Int):
    at = ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, (ct.bid(0), at), check_bounds=True, padding_value=0.0)
    mean = ct.sum(v, axis=0, keepdims=True) / N
    c = v - mean
    ct.scatter(out, ct.bid(0), ct.sum(c * c, axis=0, keepdims=False))
"""
)


class PaddingNotNeutral(Rule):
    """Lanes that a mask or the bounds of an array leave out take part in a sum, a maximum, a
    product: with another number than the neutral one, or with one that arithmetic made of it."""

    name = "padding-not-neutral"
    matches = (
        Case(vary(SOFTMAX, ("padding_value=-math.inf", "padding_value=0.0")), "maximum"),
        Case(_SPREAD, "sum"),
        Case(_LARGEST, "maximum"),
        Case(vary(LAYER_NORM_POINTER, ("tl.where(inside, c, 0.0)", "c")), "sum"),
    )
    near_misses = (
        NearMiss(SOFTMAX, why="minus infinity leaves a maximum as it is, and exp makes it zero"),
        NearMiss(LAYER_NORM_POINTER, why="a select puts zero back after centring"),
        NearMiss(vary(_LARGEST, ("tl.max(v", "tl.max(tl.abs(v)")), why="no value is below zero"),
        NearMiss(
            vary(_SPREAD, ("ct.sum(c * c", "ct.sum(v * v")), why="the square of the padding is zero"
        ),
    )

    seen = (
        Seen(
            "tilegym",
            "tilegym/suites/flashinfer/cutile/fmha_prefill_bsr.py",
            "_prefill_attention_ragged_kernel",
            625,
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        lanes = PaddedLanes(subject.facts)
        yield from self._reductions(subject, lanes)
        yield from self._products(subject, lanes)

    def _reductions(self, subject: Subject, lanes: PaddedLanes) -> Iterator[Finding]:
        for folded in reductions_with_outside(subject.facts, lanes):
            outside, kind = folded.outside, folded.node.op.kind
            if not _told(outside) or kind not in NEUTRAL or is_neutral(subject.facts, folded):
                continue
            if math.isinf(NEUTRAL[kind]) and _intermediate(subject, outside):
                continue
            yield self.finding(
                subject,
                f"lanes outside hold {_shown(outside)} when they enter a {_NAMES[kind]}, which "
                f"only {NEUTRAL[kind]:g} leaves as it is",
                f"select {NEUTRAL[kind]:g} for the lanes outside right before the {_NAMES[kind]}, "
                "or pad the load so that they arrive with it",
                [*outside.loads, folded.node],
            )

    def _products(self, subject: Subject, lanes: PaddedLanes) -> Iterator[Finding]:
        for node, left, right in products_with_outside(subject.facts, lanes):
            if all(_told(side) and not _zero(side) for side in (left, right)):
                yield self.finding(
                    subject,
                    f"lanes outside hold {_shown(left)} and {_shown(right)} along the axis that a "
                    "matrix product sums over",
                    "pad one operand with 0 along that axis",
                    [*left.loads, *right.loads, node],
                )


_NAMES = {
    kind: kind.replace("reduce_", "").replace("max", "maximum").replace("min", "minimum")
    for kind in NEUTRAL
}


def _told(outside: Outside) -> bool:
    return bool(outside.loads) and outside.lanes in (Lanes.NUMBER, Lanes.SOME)


def _intermediate(subject: Subject, outside: Outside) -> bool:
    """True when the host made the array itself: its values may have a bound that we do not see."""
    material = subject.host.material
    given = [
        leaf
        for launch in (material.launches if material is not None else ())
        for name, value in launch.args
        if name in {load.array for load in outside.loads}
        for leaf in leaves(value)
    ]
    return bool(given) and all(isinstance(leaf, Expr) and leaf.op == "tensor" for leaf in given)


def _zero(outside: Outside) -> bool:
    return outside.lanes is Lanes.NUMBER and outside.number == 0


def _shown(outside: Outside) -> str:
    if outside.lanes is Lanes.NUMBER:
        return f"{outside.number:g}"
    return "what arithmetic made of their padding"
