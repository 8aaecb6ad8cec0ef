"""Rows of a product are multiplied by a weight of their own before they are scattered."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

_ROUTED = vary(
    PRODUCT_POINTER,
    ("def product(a, b, out,", "def product(a, b, ids, rates, out,"),
    ("    k = tl.arange", "    own = tl.load(ids + m)\n    k = tl.arange"),
    ("pa = a + m[:, None]", "pa = a + (own // 2)[:, None]"),
    ("    tl.store(out + m[:, None]",
     "    acc *= tl.load(rates + own)[:, None]\n    tl.store(out + own[:, None]"),
)  # fmt: skip
_ROUTED_TILE = vary(
    PRODUCT,
    ("def product(a, b, out,", "def product(a, b, ids, rates, out,"),
    ("    acc = ct.full",
     "    own = ct.gather(ids, m * TM + ct.arange(TM, dtype=ct.int32))\n    acc = ct.full"),
    ("    ct.store(out, index=(m, n), tile=ct.astype(acc, out.dtype))",
     "    acc = acc * ct.expand_dims(ct.gather(rates, own), axis=1)\n"
     "    cols = n * TN + ct.arange(TN, dtype=ct.int32)\n"
     "    ct.scatter(out, (own[:, None], cols[None, :]), ct.astype(acc, out.dtype))"),
)  # fmt: skip


class RoutedWeight(Pattern):
    """What a product left is multiplied by a load at the loaded row that it is stored in."""

    name = "routing-weight-in-the-epilogue"
    axis = "fusion"
    source = "Gale et al., MegaBlocks (2022), section 5: weights of experts applied as rows scatter"
    matches = (
        Case(_ROUTED, "row weight in the epilogue"),
        Case(_ROUTED_TILE, "row weight in the epilogue"),
        Case(
            vary(
                _ROUTED,
                ("ids, rates, out,", "ids, rates, out, BACK: tl.constexpr,"),
                (
                    "    acc *= tl.load(rates",
                    "    to = own if BACK else m\n    acc *= tl.load(rates",
                ),
                ("tl.store(out + own[:, None]", "tl.store(out + to[:, None]"),
            ),
            "row weight in the epilogue",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_ROUTED, ("rates + own)", "rates + own // 2)")),
            why="a number of the row that is read, such as its scale",
        ),
        NearMiss(
            vary(_ROUTED_TILE, ("ct.gather(rates, own)", "ct.gather(rates, own // 2)")),
            why="a number of the row that is read, such as its scale",
        ),
        NearMiss(vary(_ROUTED, ("rates + own)", "rates + m)")), why="no loaded row"),
        NearMiss(
            vary(_ROUTED, ("rates + own)[:, None]", "rates + own[:, None] * N + n[None, :])")),
            why="a tile of another array, such as the other half of a gate",
        ),
        NearMiss(
            vary(_ROUTED, ("own = tl.load(ids + m)", "own = tl.load(ids) + m")),
            why="rows from where a sequence begins on",
        ),
        NearMiss(PRODUCT, why="nothing is multiplied"),
        NearMiss(ATTENTION, why="nothing is scattered"),
        NearMiss(ADD_POINTER, why="no product"),
        NearMiss(PRODUCT_THREADS, why="nothing is multiplied"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Where] = [n for pair in routed(facts) for n in pair]
        if found:
            yield self.decide(facts, "row weight in the epilogue", found)


def routed(facts: Facts) -> list[tuple[Node, Access]]:
    """Multiplications of what a product left by numbers of the loaded rows that it is stored in,
    with the loads of those."""
    if not facts.contractions or not any(_rows(facts, s) for s in facts.stores):
        return []
    found = []
    for node in facts.graph.of(OpKind.MUL):
        for product, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
            weights = [w for w in facts.held_loads(other) if _rows(facts, w) and _single(facts, w)]
            made = weights and any(facts.graph.rests_on(product, p) for p in facts.contractions)
            stores = facts.stored_in(node.result) if made else []
            if any(_rows(facts, s) >= _rows(facts, w) for w in weights for s in stores):
                found += [(node, weight) for weight in weights]
    return found


def _single(facts: Facts, access: Access) -> bool:
    """One number for a row."""
    return sum(extent != "1" for extent in facts.types.shape(access.value)) < 2


def _rows(facts: Facts, access: Access) -> frozenset[Atom]:
    """Loaded rows, of several lanes, that an access is at, as they were loaded; also those that it
    is at on one way of a choice."""
    found = set[Atom]()
    pending = [*access.index]
    for index in pending:
        for atom in index.top():
            if atom.kind is AtomKind.LOADED and {*facts.types.shape(atom.value)} - {"1"}:
                found.add(atom)
            elif atom.kind is AtomKind.CHOICE:
                pending += atom.args
    return frozenset(found)
