"""Gradients of a shared head are summed over its query heads inside one block."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, PRODUCT_PERSISTENT
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER, FLASH_POINTER
from extractors.patterns.cases_threads import BACKWARD_KEYS_THREADS, FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop, Role
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind


class GroupGradient(Pattern):
    """Accumulators go through an outer loop over heads and an inner loop over tiles, and are
    stored once."""

    name = "group-gradient-reduction-inside-the-kv-stationary-cta"
    axis = "grouped_gradient_accumulation"
    source = "Ainslie et al., GQA (2023); tilelore catalogue, P12"
    matches = (
        Case(BACKWARD_KEYS, "in-CTA loop over the query group"),
        Case(BACKWARD_KEYS_POINTER, "in-CTA loop over the query group"),
        Case(BACKWARD_KEYS_THREADS, "in-CTA loop over the query group"),
    )
    near_misses = (
        NearMiss(ATTENTION, why="one query head per block"),
        NearMiss(PRODUCT_PERSISTENT, why="the accumulator starts anew for every output tile"),
        NearMiss(FLASH_POINTER, why="one query head per block"),
        NearMiss(FLASH_THREADS, why="one query head per block"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for outer in facts.loops:
            inner = [loop for loop in facts.loops if loop.node.loop is outer.node]
            grown = [c.result for c in outer.of(Role.ACCUMULATOR)]
            if not inner or not grown or not self._counts(facts, outer):
                continue
            heads = self._heads(facts, outer)
            stores = [s for value in grown for s in facts.stored_in(value)]
            if (
                heads
                and stores
                and not any(s.is_atomic or s.node.inside(outer.node) for s in stores)
            ):
                where: list[Where] = [outer.node.head, *heads, *stores]
                yield self.decide(facts, "in-CTA loop over the query group", where)

    def _counts(self, facts: Facts, outer: Loop) -> bool:
        """The trip count is a parameter by itself."""
        atom = facts.values.expr(outer.high).atom
        return outer.high is not None and atom is not None and atom.kind is AtomKind.PARAMETER

    def _heads(self, facts: Facts, outer: Loop) -> list[Node]:
        """head = shared head * group + loop variable, used to index loads of the inner loop."""
        found = []
        for node in facts.graph.of(OpKind.ADD):
            if not node.inside(outer.node) or outer.induction is None:
                continue
            expr = facts.values.expr(node.result)
            step = facts.values.expr(outer.induction).atom
            if step is None or expr.coefficient(step).constant != 1 or expr.has(AtomKind.LANE):
                continue
            if any(
                expr in a.index or _scaled(expr, a.index)
                for a in facts.loads
                if a.node.inside(outer.node)
            ):
                found.append(node)
        return found


def _scaled(head: Expr, index: tuple[Expr, ...]) -> bool:
    """True when a pointer offset holds every term of the head times one stride."""
    for offset in index:
        for factors, _ in offset.terms:
            for stride in factors:
                if stride.kind in (AtomKind.PARAMETER, AtomKind.EXTENT):
                    moved = {
                        tuple(sorted((*f, stride), key=lambda a: a.text)) for f, _ in head.terms
                    }
                    own = {tuple(sorted(f, key=lambda a: a.text)) for f, _ in offset.terms}
                    if moved <= own:
                        return True
    return False
