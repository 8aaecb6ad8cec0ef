"""Padded lanes are set back to zero after a shift has made them something else."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, POINTER, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER
from extractors.patterns.cases_rows_pointer import LAYER_NORM
from extractors.patterns.cases_rows_threads import LAYER_NORM_THREADS
from extractors.patterns.cases_threads import BACKWARD_KEYS_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.padded import tail_choice
from kb.evidence import Decision
from kb.ops import OpKind

_SCALED = (
    POINTER
    + """
@triton.jit
def back(gy, x, means, stat, out, n, T: tl.constexpr, PLAIN: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    r = tl.load(stat + row)
    hat = v * r if PLAIN else (v - tl.load(means + row)) * r
    hat = tl.where(at < n, hat, 0.0)
    tl.store(out + row, tl.sum(hat * tl.load(gy + row * n + at), axis=0))
"""
)
_SQUARED = (
    POINTER
    + """
@triton.jit
def spread(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    c = v - tl.sum(v) / n
    tl.store(out + tl.program_id(0), tl.sum(tl.where(at < n, c * c, 0.0)) / n)
"""
)


class RezeroPaddedLanes(Pattern):
    """A choice by a tail mask, or a product with one, keeps a difference and feeds a reduction or a
    running sum."""

    name = "re-zero-padded-lanes-after-a-shift"
    axis = "boundary_handling"
    source = "tilelore catalogue, P67"
    matches = (
        Case(LAYER_NORM_POINTER, "where(mask, x-mean, 0)"),
        Case(LAYER_NORM, "where(mask, x-mean, 0)"),
        Case(
            vary(LAYER_NORM_POINTER, ("(inside, c, 0.0)", "(inside, c, tl.zeros_like(c))")),
            "where(mask, x-mean, 0)",
        ),
        Case(LAYER_NORM_THREADS, "where(mask, x-mean, 0)"),
        Case(
            vary(LAYER_NORM_POINTER, ("tl.where(inside, c, 0.0)", "c * inside.to(tl.float32)")),
            "where(mask, x-mean, 0)",
        ),
        Case(_SCALED, "where(mask, x-mean, 0)"),
        Case(_SQUARED, "where(mask, x-mean, 0)"),
    )
    near_misses = (
        NearMiss(
            vary(_SQUARED, ("tl.where(at < n, c * c, 0.0)", "c * c")),
            why="the squares of padded lanes are summed",
        ),
        NearMiss(
            vary(LAYER_NORM_POINTER, ("tl.where(inside, c, 0.0)", "c")),
            why="padded lanes stay shifted",
        ),
        NearMiss(
            vary(_SCALED, ("tl.load(means + row)", "tl.load(means + row * n + at)")),
            why="two rows are compared, none is moved by its mean",
        ),
        NearMiss(BACKWARD_KEYS, why="probabilities are masked, by a causal mask"),
        NearMiss(ATTENTION, why="no difference is masked"),
        NearMiss(BACKWARD_KEYS_THREADS, why="probabilities are masked, by a causal mask"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        summed = [*facts.reductions, *facts.graph.of(OpKind.CUMSUM)]
        for node in facts.graph.of(OpKind.SELECT, OpKind.MUL) if summed else ():
            kept, rest = tail_choice(facts, node)
            if rest != 0 or not any(facts.graph.rests_on(r.op.inputs[0], node) for r in summed):
                continue
            if _moved(facts, kept) and not (facts.of_threads and _places(facts, node)):
                yield self.decide(facts, "where(mask, x-mean, 0)", (node,))


def _moved(facts: Facts, kept: str | None) -> bool:
    """True for a difference from what was loaded, or one side of a branch; also for one from a
    number of the row that is scaled."""
    ends = facts.graph.ends(kept, VIEWS | CASTS)
    scaled = [
        end
        for n in ends
        if n.op.kind == OpKind.MUL
        for v in n.op.inputs[:2]
        for end in facts.graph.ends(v, VIEWS | CASTS)
        if end.op.kind == OpKind.SUB and _axes(facts, end, 1) < _axes(facts, end, 0)
    ]
    return any(n.op.kind == OpKind.SUB and facts.feeding(n.op.inputs[0]) for n in (*ends, *scaled))


def _places(facts: Facts, node: Node) -> bool:
    """Whether a number says where something lies."""
    return any(
        facts.graph.rests_on(value, node)
        for access in facts.accesses
        for role, value in access.node.op.operands
        if role in ("pointer", "index", "offsets")
    )


def _axes(facts: Facts, node: Node, side: int) -> int:
    """Along how many axes one side of an operation varies."""
    return sum(extent != "1" for extent in facts.types.shape(node.op.inputs[side]))
