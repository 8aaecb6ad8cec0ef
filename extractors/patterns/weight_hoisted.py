"""A tile that does not change with the work item is loaded once, or again for every item."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT_PERSISTENT, vary
from extractors.patterns.cases_pointer import FLASH_POINTER
from extractors.patterns.cases_rows import NORM_BACKWARD, NORM_PERSISTENT, SOFTMAX
from extractors.patterns.cases_rows_pointer import NORM_PERSISTENT_POINTER
from extractors.patterns.cases_rows_threads import NORM_PERSISTENT_THREADS
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.analysis.loops import Loop, Role, blocked, persistent
from kb.evidence import Decision

_INSIDE = vary(
    NORM_PERSISTENT,
    (
        "    g = ct.astype(ct.load(w, index=(0,), shape=(TN,), padding_mode=ct.PaddingMode.ZERO), ct.float32)\n",  # noqa: E501
        "",
    ),
    (
        "        y = v * r *",
        "        g = ct.astype(ct.load(w, index=(0,), shape=(TN,)), ct.float32)\n        y = v * r *",  # noqa: E501
    ),
)


class WeightHoisted(Pattern):
    """A load outside a loop over work items feeds what the loop stores."""

    name = "weight-hoisted-out-of-the-persistent-loop"
    axis = "invariant_residency"
    source = "Aho et al., Compilers, loop-invariant code motion"
    matches = (
        Case(NORM_PERSISTENT, "load once per CTA"),
        Case(NORM_BACKWARD, "load once per CTA"),
        Case(_INSIDE, "reload per item"),
        Case(NORM_PERSISTENT_POINTER, "load once per CTA"),
        Case(NORM_PERSISTENT_THREADS, "load once per CTA"),
    )
    near_misses = (
        NearMiss(ATTENTION, why="the loop runs over keys, not over work items"),
        NearMiss(SOFTMAX, why="every load belongs to its row"),
        NearMiss(PRODUCT_PERSISTENT, why="every load belongs to its tile"),
        NearMiss(FLASH_POINTER, why="the loop runs over keys, not over work items"),
        NearMiss(FLASH_THREADS, why="the loop runs over keys, not over work items"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for loop in facts.loops:
            items = loop in facts.item_loops and not facts.contractions
            if not (items or persistent(loop, facts.values) or self._walks(facts, loop)):
                continue
            inside = [s for s in facts.stores if s.node.inside(loop.node)]
            before = [
                a
                for a in facts.loads
                if not a.node.inside(loop.node) and facts.types.shape(a.value)
            ]
            kept = [a for a in before if any(facts.graph.rests_on(s.value, a.node) for s in inside)]
            if kept:
                where = [n for a in kept for n in (a.node, *self._casts(facts, a))]
                yield self.decide(facts, "load once per CTA", where)
            again = [
                a for a in facts.loads if a.node.inside(loop.node) and self._still(facts, a, loop)
            ]
            if again:
                yield self.decide(facts, "reload per item", again)

    def _walks(self, facts: Facts, loop: Loop) -> bool:
        return (
            blocked(loop, facts.values)
            and not loop.of(Role.RUNNING_MAXIMUM)
            and not facts.contractions
        )

    def _casts(self, facts: Facts, access: Access) -> list[Node]:
        return [n for n in facts.graph.users(access.value) if n.op.kind in CASTS]

    def _still(self, facts: Facts, access: Access, loop: Loop) -> bool:
        """True when nothing in the index changes with the loop."""
        if (
            access.loop is not loop.node
            or not facts.types.shape(access.value)
            or loop.induction is None
        ):
            return False
        step = facts.values.expr(loop.induction).atom
        moved = {facts.values.expr(c.argument).atom for c in loop.carried} | {step}
        return not any(a in moved for e in access.index for a in e.atoms())
