"""Products that several blocks compute alike, each for its own piece of what is made of them."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_pointer import FLASH_POINTER
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision

_CHUNK = (
    POINTER
    + """
@triton.jit
def chunk(q, k, v, out, D: tl.constexpr, V, T: tl.constexpr, TV: tl.constexpr):
    m = tl.program_id(0) * T + tl.arange(0, T)
    cols = tl.program_id(1) * TV + tl.arange(0, TV)
    d = tl.arange(0, D)
    x = tl.load(q + m[:, None] * D + d[None, :])
    y = tl.load(k + m[None, :] * D + d[:, None])
    s = tl.where(m[:, None] >= m[None, :], tl.dot(x, y), 0.0)
    z = tl.load(v + m[:, None] * V + cols[None, :])
    tl.store(out + m[:, None] * V + cols[None, :], tl.dot(s, z))
"""
)
_CHUNK_TILE = (
    TILE
    + """
@ct.kernel
def chunk(q, k, v, out, D: Int, T: Int, TV: Int):
    m = ct.bid(0)
    n = ct.bid(1)
    x = ct.load(q, index=(m, 0), shape=(T, D))
    y = ct.load(k, index=(0, m), shape=(D, T))
    s = ct.mma(x, y, ct.full((T, T), 0.0, dtype=ct.float32))
    z = ct.load(v, index=(m, n), shape=(T, TV))
    ct.store(out, index=(m, n), tile=ct.mma(s, z, ct.full((T, TV), 0.0, dtype=ct.float32)))
"""
)


class ProductComputedAgain(Pattern):
    """A product takes another one that does not depend on a block id, and an operand that does: all
    blocks along that axis of the grid compute the first product."""

    name = "product-computed-again-by-every-block-of-an-axis"
    axis = "recompute"
    source = "Yang et al., Gated Linear Attention (2023): chunkwise parallel form"
    matches = (
        Case(_CHUNK, "product computed again by every block along an axis"),
        Case(_CHUNK_TILE, "product computed again by every block along an axis"),
    )
    near_misses = (
        NearMiss(
            vary(_CHUNK, ("tl.load(k + m[None, :] * D", "tl.load(k + cols[None, :] * D")),
            why="every block has a product of its own",
        ),
        NearMiss(vary(_CHUNK, ("tl.dot(s, z))", "s)")), why="one product"),
        NearMiss(ATTENTION, why="every block has queries of its own"),
        NearMiss(FLASH_POINTER, why="every block has queries of its own"),
        NearMiss(PRODUCT, why="one product"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if len(facts.contractions) < 2 or facts.of_threads:
            return
        found: dict[Node | Access, None] = {}
        for first in facts.contractions:
            loads = [a for role in ("lhs", "rhs") for a in _loads(facts, first.op.operand(role))]
            own = {name for load in loads for name in _blocks(load)}
            for second in facts.contractions:
                sides = [second.op.operand(role) for role in ("lhs", "rhs")]
                takes = [facts.graph.rests_on(side, first) for side in sides]
                if second is first or takes[0] == takes[1] or not own:
                    continue
                other = _loads(facts, sides[takes.index(False)])
                if any(_blocks(load) - own for load in other):
                    found |= dict.fromkeys((first, second, *loads))
        if found:
            yield self.decide(facts, "product computed again by every block along an axis", found)


def _loads(facts: Facts, value: str | None) -> list[Access]:
    return [a for a in facts.feeding(value) if facts.types.shape(a.value)]


def _blocks(access: Access) -> set[str]:
    """Block ids that say where a tile lies."""
    atoms = (atom for index in access.index for atom in index.atoms())
    return {atom.text for atom in atoms if atom.kind is AtomKind.BLOCK}
