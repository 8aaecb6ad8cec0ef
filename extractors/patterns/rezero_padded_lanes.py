"""Padded lanes are set back to zero after a shift has made them something else."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, POINTER, TILE, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER
from extractors.patterns.cases_rows_pointer import LAYER_NORM
from extractors.patterns.cases_rows_threads import LAYER_NORM_THREADS
from extractors.patterns.cases_threads import BACKWARD_KEYS_THREADS
from kb.analysis.accesses import Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.idioms import LARGE, against_extent, comparisons
from kb.evidence import Decision
from kb.ops import OpKind

_RUNNING = (
    POINTER
    + """
@triton.jit
def grow(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=-float("inf"))
    tl.store(out + tl.program_id(0) * n + at, tl.cumsum(tl.where(at < n, v, 0.0), 0), mask=at < n)
"""
)
_FLAT_ROWS = (
    TILE
    + """
@ct.kernel
def total(x, out, N: Int, T: Int):
    at = ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, ct.bid(0) * N + at)
    ct.scatter(out, (ct.bid(0),), ct.sum(ct.where(at < N, v, 0.0), axis=0))
"""
)
_LARGEST = vary(_FLAT_ROWS, ("v, 0.0", "v, -1.0e30"), ("ct.sum(", "ct.max("))
_BOUNDED = vary(
    _RUNNING,
    ('other=-float("inf")', "other=0.0"),
    ("    tl.store", "    v = tl.minimum(v + 1.0, 8.0)\n    tl.store"),
)
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
_MOVED = frozenset({OpKind.ADD, OpKind.MINIMUM, OpKind.MAXIMUM, OpKind.CLAMP})
"""What makes another number of zero."""


class RezeroPaddedLanes(Pattern):
    """A choice by a tail mask, or a product with one, keeps a difference, or keeps a loaded tile
    that is not padded with zeros, or what was added to one or held between bounds, and feeds a
    reduction or a running sum; or it puts the lowest number in the place of what was
    loaded past the end."""

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
        Case(_RUNNING, "padded lanes zeroed before a sum"),
        Case(_BOUNDED, "padded lanes zeroed before a sum"),
        Case(_FLAT_ROWS, "padded lanes zeroed before a sum"),
        Case(_LARGEST, "padded lanes lowered before a maximum"),
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
            _RUNNING.replace('other=-float("inf")', "other=0.0"), why="padded with zero already"
        ),
        NearMiss(
            vary(_LARGEST, ("-1.0e30", "1.0e30")),
            why="the highest number is what a maximum takes",
        ),
        NearMiss(
            _FLAT_ROWS.replace("ct.where(at < N, v, 0.0)", "ct.where(v > 0.0, v, 0.0)"),
            why="values are chosen, no places",
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
        if not summed:
            return
        shifted: list[Node] = []
        loaded: list[Node] = []
        lowest: list[Node] = []
        for node in facts.graph.of(OpKind.SELECT, OpKind.MUL):
            kept, low = self._kept(facts, node)
            made = facts.graph.producer(facts.graph.through(kept, VIEWS | CASTS))
            if made is None or not any(facts.graph.rests_on(r.op.inputs[0], node) for r in summed):
                continue
            if facts.of_threads and _places(facts, node):
                continue
            access = facts.access(made)
            if low and (access is None or access.padding == "neg_inf"):
                continue
            if _moved(facts, kept):
                shifted.append(node)
            elif node.op.kind == OpKind.SELECT and access is not None:
                if low or access.mode is Mode.ELEMENT or access.padding not in ("", "zero"):
                    (lowest if low else loaded).append(node)
            elif node.op.kind == OpKind.SELECT and made.op.kind in _MOVED:
                loaded += [node] if facts.feeding(made.result) else []
        for node in shifted:
            yield self.decide(facts, "where(mask, x-mean, 0)", (node,))
        if loaded:
            yield self.decide(facts, "padded lanes zeroed before a sum", loaded)
        if lowest:
            yield self.decide(facts, "padded lanes lowered before a maximum", lowest)

    def _kept(self, facts: Facts, node: Node) -> tuple[str | None, bool]:
        """What a choice with a tail mask keeps, zero elsewhere, or what no maximum takes; or what
        is multiplied by a tail mask."""
        if node.op.kind == OpKind.SELECT:
            rest = facts.graph.plain(node.op.operand("y"))
            low = _low(facts, rest)
            if not low and not _zero(facts, rest):
                return None, False
            masked, kept = node.op.operand("condition"), node.op.operand("x")
            return (kept if _tail(facts, masked) else None), low
        for kept, factor in (node.op.inputs[:2], node.op.inputs[1::-1]):
            cast = facts.graph.producer(facts.graph.through(factor, VIEWS))
            if cast is not None and cast.op.kind in CASTS and _tail(facts, cast.op.inputs[0]):
                return kept, False
        return None, False


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


def _tail(facts: Facts, condition: str | None) -> bool:
    return any(against_extent(facts, test) for test in comparisons(facts, condition))


def _low(facts: Facts, value: str | None) -> bool:
    """True for a number, or a tile of one, that no maximum takes."""
    made = facts.graph.producer(value)
    tiled = made is not None and made.op.kind == OpKind.FULL
    number = facts.values.literal(made.op.operand("value") if made and tiled else value)
    return isinstance(number, int | float) and number <= -LARGE


def _zero(facts: Facts, value: str | None) -> bool:
    """True for the number zero and for a tile of zeros."""
    return (
        facts.values.literal(value) == 0
        or facts.values.expr(value).constant == 0
        or facts.graph.kind_of(value) in (OpKind.ZEROS, OpKind.ZEROS_LIKE)
    )
