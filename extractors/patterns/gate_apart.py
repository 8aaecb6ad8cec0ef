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


_GRADIENTS = (
    POINTER
    + """
@triton.jit
def back(g, a, b, da, db, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    gy = tl.load(g + at, mask=at < n)
    v = tl.load(a + at, mask=at < n).to(tl.float32)
    u = tl.load(b + at, mask=at < n)
    s = tl.sigmoid(v)
    tl.store(db + at, gy * v * s, mask=at < n)
    tl.store(da + at, gy * u * (s + v * s * (1 - s)), mask=at < n)
"""
)


class GateApart(Pattern):
    """An activation of elements of one array multiplies the elements of another one at the same
    places, and nothing else is read that is as wide; or a gradient is multiplied by the activation
    in one result, and in the other by its derivative and those elements."""

    name = "gate-and-up-in-two-arrays"
    axis = "operand_layout"
    source = "Shazeer, GLU Variants Improve Transformer (2020)"
    matches = (
        Case(_APART, "gate and up as two tensors"),
        Case(GATE_TILE, "gate and up as two tensors"),
        Case(_GRADIENTS, "gate and up as two tensors"),
    )
    near_misses = (
        NearMiss(GATE, why="both halves lie in one array"),
        NearMiss(_BACK, why="a gradient times a derivative"),
        NearMiss(
            vary(_GRADIENTS, ("b + at, mask=at < n)", "a + n + at, mask=at < n)")),
            why="both halves lie in one array",
        ),
        NearMiss(vary(_GRADIENTS, ("gy * u * (", "gy * (")), why="nothing was gated"),
        NearMiss(vary(_APART, ("tl.load(b + at, mask=at < n)", "tl.load(b)")), why="one number"),
        NearMiss(
            vary(_APART, ("tl.load(b + at, mask=at < n)", "tl.load(b + tl.arange(0, T))")),
            why="a row that all blocks share",
        ),
        NearMiss(PRODUCT, why="no activation"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads or facts.contractions or facts.reductions:
            return
        wide = [a for a in facts.loads if a.array is not None and is_wide(facts, a.value)]
        if taken := differentiated(facts):
            own = {a.array for one, _ in taken for a in facts.feeding(one.result)}
            wide = _gated(facts, own, wide)
        elif not gates(facts, activated(facts)):
            return
        if len({a.array for a in wide}) != 2:
            return
        pairs = [(one, two) for one in wide for two in wide if _alike(one, two)]
        if pairs:
            names = dict.fromkeys(a.array or "" for a in wide)
            where: list[Where] = [*facts.declared(*names), *dict.fromkeys(wide)]
            where += [n for a in dict.fromkeys(wide) for n in _moved(facts, a)]
            yield self.decide(facts, "gate and up as two tensors", where)


def _gated(facts: Facts, own: set[str | None], wide: list[Access]) -> list[Access]:
    """Loads of the array whose activation is differentiated, and of the one that it multiplied: one
    result is made of the first and a gradient, another of all three."""
    made = [{a.array for a in facts.feeding(s.value) if a in wide} for s in facts.stores]
    every = {a.array for a in wide}
    rest = {array for arrays in made if own < arrays < every for array in every - arrays}
    if len(own) != 1 or len(every) != 3 or every not in made or len(rest) != 1:
        return []
    return [a for a in wide if a.array in own | rest]


def _alike(one: Access, two: Access) -> bool:
    """Whether two arrays are read at the same places."""
    return one.array != two.array and one.index == two.index


def _moved(facts: Facts, access: Access) -> list[Node]:
    """Where the pointer to an array is moved to what a block reads of it."""
    way = facts.graph.upstream(access.base or "", lambda n: n.op.kind != OpKind.ADD)
    return [n for n in way if any(facts.graph.core(v) == access.array for v in n.op.inputs)]
