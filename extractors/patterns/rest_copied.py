"""Rows of which a part is computed and the rest is stored as it was loaded."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.narrow_rest import NarrowRest
from extractors.patterns.read_inside import ReadInside
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ops import COMPARISONS, OpKind

_PART = (
    POINTER
    + """
@triton.jit
def part(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    v = tl.load(x + tl.program_id(0) * T + at)
    tl.store(out + tl.program_id(0) * T + at, tl.where(at < n, v * 2.0 + 1.0, v))
"""
)
_PART_TILE = (
    TILE
    + """
@ct.kernel
def part(x, out, n: int, T: Int):
    row = ct.bid(0)
    v = ct.load(x, (row, 0), (1, T))
    at = ct.reshape(ct.arange(T, dtype=ct.int32), (1, T))
    ct.store(out, (row, 0), ct.where(at < n, v * 2.0 + 1.0, v))
"""
)
_PART_THREADS = """__global__ void part(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[at];
    if (threadIdx.x < n) v = v * 2.f + 1.f;
    out[at] = v;
}
"""
_SIDES = (OpKind.IF, OpKind.IF_EXPRESSION, OpKind.SELECT)


class RestCopied(Pattern):
    """Where a lane stands before an extent, what it loaded is computed with; behind it, what it
    loaded is stored as it is."""

    name = "rest-of-a-row-copied-as-it-is"
    axis = "tail_handling"
    source = "Black et al., GPT-NeoX-20B (2022): rotary embeddings of a part of each head"
    matches = (
        Case(_PART, "rest copied as it is"),
        Case(_PART_TILE, "rest copied as it is"),
        Case(_PART_THREADS, "rest copied as it is"),
    )
    near_misses = (
        NearMiss(vary(_PART, ("+ 1.0, v)", "+ 1.0, 0.0)")), why="the rest is zero"),
        NearMiss(vary(_PART, ("at < n, ", "v < n, ")), why="the value says, not its place"),
        NearMiss(
            _PART_THREADS.replace("v = v * 2.f + 1.f", "v = 2.f"),
            why="what takes its place is not computed from it",
        ),
        NearMiss(_PART_THREADS.replace("threadIdx.x < n", "n > 3"), why="the same for all lanes"),
        NearMiss(vary(_PART_TILE, ("v * 2.0 + 1.0, v", "-v, v")), why="a sign is chosen"),
        NearMiss(ADD_POINTER, why="nothing is stored as it was loaded"),
        NearMiss(ADD_THREADS, why="nothing is stored as it was loaded"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        parts = [parts_of_rows(facts, choice) for choice in facts.graph.of(*_SIDES)]
        found = [n for part in parts if part and _open(facts, part[-1]) for n in part]
        if found and not any(any(other.seen(facts)) for other in (ReadInside(), NarrowRest())):
            yield self.decide(facts, "rest copied as it is", found)


def parts_of_rows(facts: Facts, choice: Node) -> list[Node]:
    """A choice, by the place of the lane, between what was loaded and what is computed from it, of
    which something is stored; with the comparison."""
    test = facts.graph.producer(facts.graph.core(choice.op.inputs[0]))
    if test is None or test.op.kind not in COMPARISONS or not _by_place(facts, test):
        return []
    for result, *sides in _sides(choice):
        for made, kept in (sides, sides[::-1]):
            loads = {a.node for a in facts.held_loads(kept) if not a.node.inside(choice)}
            if not loads or facts.held_loads(made) or _negated(facts, made):
                continue
            stored = any(facts.graph.rests_on(s.value, choice) for s in facts.stores)
            if stored and result and facts.graph.rests_on_any(made, facts.graph.node_set(loads)):
                return [choice, test]
    return []


def _negated(facts: Facts, made: str) -> bool:
    """Whether only the sign is turned: a part of what is computed, no rest."""
    return facts.graph.kind_of(facts.graph.core(made)) == OpKind.NEG


def _open(facts: Facts, test: Node) -> bool:
    """Whether there may be a rest: threads that are as many as an extent of their compiler have
    none."""
    sides = (facts.values.expr(v) for v in test.op.inputs[:2])
    ends = [a for end in sides if not end.has(AtomKind.LANE) for a in end.atoms()]
    names = {a.value for a in ends if a.kind in (AtomKind.PARAMETER, AtomKind.EXTENT)}
    return not facts.of_threads or bool(names - facts.constexprs)


def _by_place(facts: Facts, test: Node) -> bool:
    """Whether the place of a lane is compared with what the problem gives."""
    left, right = (facts.values.expr(v) for v in test.op.inputs[:2])
    return any(
        at.has(AtomKind.LANE) and not at.has(AtomKind.LOADED, AtomKind.BLOCK) and _given(end)
        for at, end in ((left, right), (right, left))
    )


def _given(end: Expr) -> bool:
    return not end.has(AtomKind.LANE) and end.has(AtomKind.PARAMETER, AtomKind.EXTENT)


def _sides(choice: Node) -> list[tuple[str, ...]]:
    """Results with what each side gives for them."""
    if choice.op.kind == OpKind.SELECT:
        return [(choice.result, *choice.op.inputs[1:3])]
    ends = [region.terminator for region in choice.op.regions]
    given = [end.inputs if end is not None and end.kind == OpKind.YIELD else () for end in ends]
    names = tuple(row.name for row in choice.op.results)
    return list(zip(names, *given, strict=False)) if len(given) == 2 else []
