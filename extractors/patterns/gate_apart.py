"""A gate and what it multiplies come from two arrays."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, vary
from extractors.patterns.cases_stages import GATE, GATE_TILE
from kb.analysis.accesses import Access
from kb.analysis.composed_steps import activated, gates
from kb.analysis.derivatives import differentiated
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import is_wide
from kb.evidence import Decision
from kb.ops import OpKind

_APART = (
    POINTER
    + """
@triton.jit
def gated(a, b, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(a + at, mask=at < n).to(tl.float32)
    u = tl.load(b + at, mask=at < n)
    tl.store(out + at, (v * tl.sigmoid(v)).to(u.dtype) * u, mask=at < n)
"""
)
_BACK = vary(
    _APART,
    ("    tl.store(", "    s = tl.sigmoid(v)\n    tl.store("),
    ("(v * tl.sigmoid(v)).to(u.dtype) * u", "u * s * (1.0 - s)"),
)


class GateApart(Pattern):
    """An activation of elements of one array multiplies the elements of another one at the same
    places, and nothing else is read that is as wide."""

    name = "gate-and-up-in-two-arrays"
    axis = "operand_layout"
    source = "Shazeer, GLU Variants Improve Transformer (2020)"
    matches = (
        Case(_APART, "gate and up as two tensors"),
        Case(GATE_TILE, "gate and up as two tensors"),
    )
    near_misses = (
        NearMiss(GATE, why="both halves lie in one array"),
        NearMiss(_BACK, why="a gradient times a derivative"),
        NearMiss(vary(_APART, ("tl.load(b + at, mask=at < n)", "tl.load(b)")), why="one number"),
        NearMiss(
            vary(_APART, ("tl.load(b + at, mask=at < n)", "tl.load(b + tl.arange(0, T))")),
            why="a row that all blocks share",
        ),
        NearMiss(PRODUCT, why="no activation"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads or facts.contractions or facts.reductions or differentiated(facts):
            return
        wide = [a for a in facts.loads if a.array is not None and is_wide(facts, a.value)]
        if len({a.array for a in wide}) != 2 or not gates(facts, activated(facts)):
            return
        pairs = [(one, two) for one in wide for two in wide if _alike(one, two)]
        if pairs:
            names = dict.fromkeys(a.array or "" for a in wide)
            where: list[Where] = [*facts.declared(*names), *dict.fromkeys(wide)]
            where += [n for a in dict.fromkeys(wide) for n in _moved(facts, a)]
            yield self.decide(facts, "gate and up as two tensors", where)


def _alike(one: Access, two: Access) -> bool:
    """Whether two arrays are read at the same places."""
    return one.array != two.array and one.index == two.index


def _moved(facts: Facts, access: Access) -> list[Node]:
    """Where the pointer to an array is moved to what a block reads of it."""
    way = facts.graph.upstream(access.base or "", lambda n: n.op.kind != OpKind.ADD)
    return [n for n in way if any(facts.graph.core(v) == access.array for v in n.op.inputs)]
