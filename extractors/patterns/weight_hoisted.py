"""A tile that does not change with the work item is loaded once, or again for every item."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT_PERSISTENT, vary
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
_STRIPS = (
    POINTER
    + """
@triton.jit
def strips(x, w, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    g = tl.load(w + at) * 1.0
    for i in range(n):
        v = tl.load(x + i * T * tl.num_programs(0) + at)
        tl.store(out + i * T * tl.num_programs(0) + at, v * g)
"""
)
_AGAIN = (
    ("    g = tl.load(w + at) * 1.0\n", ""),
    ("        v = ", "        g = tl.load(w + at)\n        v = "),
)


class WeightHoisted(Pattern):
    """A load outside a loop over work items, or over parts of one that go their own ways, feeds
    what the loop stores."""

    name = "weight-hoisted-out-of-the-persistent-loop"
    axis = "invariant_residency"
    source = "Aho et al., Compilers, loop-invariant code motion"
    matches = (
        Case(NORM_PERSISTENT, "load once per CTA"),
        Case(NORM_BACKWARD, "load once per CTA"),
        Case(_INSIDE, "reload per item"),
        Case(_STRIPS, "load once per CTA"),
        Case(vary(_STRIPS, *_AGAIN), "reload per item"),
        Case(NORM_PERSISTENT_POINTER, "load once per CTA"),
        Case(NORM_PERSISTENT_THREADS, "load once per CTA"),
    )
    near_misses = (
        NearMiss(ATTENTION, why="the loop runs over keys, not over work items"),
        NearMiss(
            vary(_STRIPS, ("tl.load(w + at) ", "(at + 1.0) ")), why="nothing is loaded before"
        ),
        NearMiss(
            vary(_STRIPS, ("        v = ", "        g += "), ("v * g)", "g)")),
            why="what was loaded is where a carried tile begins",
        ),
        NearMiss(SOFTMAX, why="every load belongs to its row"),
        NearMiss(PRODUCT_PERSISTENT, why="every load belongs to its tile"),
        NearMiss(FLASH_POINTER, why="the loop runs over keys, not over work items"),
        NearMiss(FLASH_THREADS, why="the loop runs over keys, not over work items"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for loop in facts.loops:
            items = loop in facts.item_loops and not facts.contractions
            items = items or persistent(loop, facts.values) or self._walks(facts, loop)
            inside = [s for s in facts.stores if s.node.inside(loop.node)]
            if not items and not self._apart(facts, loop, inside):
                continue
            before = [
                a
                for a in facts.loads
                if not a.node.inside(loop.node) and facts.types.shape(a.value)
                and (items or set(a.node.loops) <= set(loop.node.loops))
            ]  # fmt: skip
            kept = [a for a in before if any(facts.graph.rests_on(s.value, a.node) for s in inside)]
            if kept:
                where = [n for a in kept for n in (a.node, *self._casts(facts, a))]
                yield self.decide(facts, "load once per CTA", where)
            again = [
                a for a in facts.loads if a.node.inside(loop.node) and self._still(facts, a, loop)
            ]
            if again:
                yield self.decide(facts, "reload per item", again)

    def _apart(self, facts: Facts, loop: Loop, stores: list[Access]) -> bool:
        """True for a loop that stores something else in every iteration and hands no tile on."""
        if loop.induction is None or facts.program is not facts.source:
            return False
        step = facts.values.expr(loop.induction).atom
        moved = any(step in set(e.atoms()) for s in stores for e in s.index)
        return moved and not any(facts.types.shape(c.argument) for c in loop.carried)

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
