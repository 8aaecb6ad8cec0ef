"""Output tiles are taken up in groups of rows, so that neighbours share operands in the cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT, PRODUCT_PERSISTENT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import PRODUCT_PERSISTENT_POINTER
from extractors.patterns.cases_threads import PRODUCT_PERSISTENT_THREADS, PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind, Expr, mul, of
from kb.evidence import Decision
from kb.ops import OpKind

_CHOSEN = vary(
    PRODUCT_PERSISTENT_POINTER,
    (
        "high = tl.minimum(rows - first, GROUP)",
        "high = tl.where(first + GROUP > rows, rows % GROUP, GROUP)",
    ),
)


_EXACT = vary(
    PRODUCT_POINTER,
    (
        "    m = tl.program_id(0) * TM",
        "    own = tl.program_id(0)\n    wide = GROUP * tl.cdiv(N, TN)\n    rest = own % wide\n"
        "    m = (own // wide * GROUP + rest % GROUP) * TM",
    ),
    ("    n = tl.program_id(1) * TN", "    n = rest // GROUP * TN"),
    ("TM: tl.constexpr", "GROUP: tl.constexpr, TM: tl.constexpr"),
)
_EXACT_TILE = vary(
    PRODUCT,
    ("TM: Int", "GROUP: Int, WIDE: Int, TM: Int"),
    (
        "    m = ct.bid(0)\n",
        "    own = ct.bid(0) % (WIDE * GROUP)\n"
        "    m = ct.bid(0) // (WIDE * GROUP) * GROUP + own % GROUP\n",
    ),
    ("    n = ct.bid(1)\n", "    n = own // GROUP\n"),
)


GROUPED_AXES = vary(
    PRODUCT_POINTER,
    (
        "    m = tl.program_id(0) * TM",
        "    i = tl.program_id(0)\n    j = tl.program_id(1)\n"
        "    i, j = tl.swizzle2d(i, j, tl.num_programs(0), tl.num_programs(1), 8)\n    m = i * TM",
    ),
    ("    n = tl.program_id(1) * TN", "    n = j * TN"),
)
"""Numbers of a tile along two axes of the grid, regrouped."""


class GroupedRasterisation(Pattern):
    """first = id // (group * columns) * group; rows = min(all - first, group); row = first + id %
    rows. Or all groups are of one size, or a branch chooses the size."""

    name = "grouped-rasterisation"
    axis = "rasterization"
    source = "Triton documentation, Matrix Multiplication tutorial, L2 cache optimizations"
    matches = (
        Case(PRODUCT_PERSISTENT, "grouped-M"),
        Case(PRODUCT_PERSISTENT_POINTER, "grouped-M"),
        Case(PRODUCT_PERSISTENT_THREADS, "grouped-M"),
        Case(_CHOSEN, "grouped-M"),
        Case(GROUPED_AXES, "grouped-M"),
        Case(_EXACT, "groups of one size"),
        Case(_EXACT_TILE, "groups of one size"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="rows and columns are two grid axes"),
        NearMiss(
            ATTENTION,
            why="quotient and remainder by one number find batch and head, nothing is grouped",
        ),
        NearMiss(
            vary(_EXACT, ("own // wide * GROUP + rest % GROUP", "own // wide")),
            why="three indexes out of one, nothing is grouped",
        ),
        NearMiss(
            vary(
                _EXACT, ("own = tl.program_id(0)\n", "own = tl.program_id(0) + tl.arange(0, TM)\n")
            ),
            why="places of lanes",
        ),
        NearMiss(
            vary(_EXACT_TILE, ("* GROUP + own % GROUP", "* WIDE + own % GROUP")),
            why="the first row is no multiple of the group",
        ),
        NearMiss(PRODUCT_POINTER, why="rows and columns are two grid axes"),
        NearMiss(PRODUCT_THREADS, why="rows and columns are two grid axes"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        regrouped = facts.graph.of(OpKind.SWIZZLE_2D)
        if regrouped:
            yield self.decide(facts, "grouped-M", regrouped)
            return
        for height, first in self.heights(facts):
            rows = facts.values.expr(height.result).atom
            steps = [
                n
                for n in facts.graph.of(OpKind.MOD, OpKind.FLOOR_DIV)
                if facts.values.expr(n.op.inputs[1]).atom == rows
            ]
            if len({n.op.kind for n in steps}) == 2:
                yield self.decide(facts, "grouped-M", (first, height, *steps))
                return
        for steps in self._twice(facts):
            yield self.decide(facts, "groups of one size", steps)
            return

    def heights(self, facts: Facts) -> Iterator[tuple[Node, Node]]:
        """Where the number of tiles in a group is found, at most the group's, and its first."""
        for height in facts.graph.of(OpKind.MINIMUM, OpKind.SELECT, OpKind.IF_EXPRESSION):
            first = self._first(facts, height)
            if first is not None:
                yield height, first

    def _twice(self, facts: Facts) -> Iterable[list[Node]]:
        """The steps of id // (group * others) * group + id % (group * others) % group, and the
        quotient that is left for the others."""
        meant = facts.values.expr
        quotients, remainders = (
            {(meant(n.op.inputs[0]), meant(n.op.inputs[1])): n for n in facts.graph.of(kind)}
            for kind in (OpKind.FLOOR_DIV, OpKind.MOD)
        )
        for (whole, width), high in quotients.items():
            low = remainders.get((whole, width))
            if low is None or facts.types.shape(high.result):
                continue
            if not whole.has(AtomKind.BLOCK, AtomKind.INDUCTION):
                continue
            for (rest, group), inner in remainders.items():
                outer = quotients.get((rest, group))
                if outer is None or rest != meant(low.result) or not _divides(group, width):
                    continue
                first = mul(meant(high.result), group)
                for place in facts.graph.of(OpKind.ADD):
                    begun = any(meant(v) == first for v in place.op.inputs[:2])
                    if begun and facts.graph.rests_on(place.result, inner):
                        yield [high, low, inner, outer, place]

    def _first(self, facts: Facts, height: Node) -> Node | None:
        """The multiplication that gives the first row of the group: min(all - group * quotient,
        group), or a choice of all % group and group."""
        values = [facts.values.expr(v) for v in facts.graph.feeds(height.result)[-2:]]
        for rest, group in (values, values[::-1]):
            if height.op.kind == OpKind.MINIMUM:
                quotient = self._quotient(rest, group)
                firsts = [] if quotient is None else [quotient]
            else:
                firsts = self._firsts(facts, rest, group)
            for node in facts.graph.of(OpKind.MUL):
                if facts.values.expr(node.result) in firsts:
                    return node
        return None

    def _firsts(self, facts: Facts, rest: Expr, group: Expr) -> list[Expr]:
        """Multiples of a group's height, by the quotients of a number and a multiple of it, where
        the height of the last group is a remainder by the others'."""
        if rest.atom is None or rest.atom.kind is not AtomKind.MOD or rest.atom.args[1] != group:
            return []
        quotients = [facts.values.expr(n.result).atom for n in facts.graph.of(OpKind.FLOOR_DIV)]
        scaled = [mul(of(q), group) for q in quotients if q is not None and _holds(q, group)]
        return [product for product in scaled if product is not None]

    def _quotient(self, rest: Expr, group: Expr) -> Expr | None:
        """The part of `all - group * (id // width)` that is subtracted."""
        taken = [(f, -n) for f, n in rest.terms if n < 0]
        if len(taken) != 1:
            return None
        factors, number = taken[0]
        divided = [a for a in factors if a.kind is AtomKind.FLOOR_DIV]
        if not divided or (group.constant is None and group.atom not in factors):
            return None
        if group.constant is not None and group.constant != number:
            return None
        return Expr(((factors, number),))


def _divides(group: Expr, width: Expr) -> bool:
    """True when every term of a width has the group as a factor, and another one."""
    atom, size = group.atom, group.constant
    if atom is not None:
        return all(atom in factors and len(factors) > 1 for factors, _ in width.terms)
    known = size is not None and size > 1 and width.constant is None
    return known and all(number % (size or 1) == 0 for _, number in width.terms)


def _holds(quotient: Atom, group: Expr) -> bool:
    """True when what a number is divided by is a multiple of the group's height."""
    return quotient.kind is AtomKind.FLOOR_DIV and group.atom in quotient.args[1].atoms()
