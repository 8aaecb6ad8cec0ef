"""Whether the loads of one round wait for what the round computes."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_pointer import TWO_PRODUCTS
from extractors.patterns.cases_rows import ADD_POINTER, LAYER_NORM_POINTER, SOFTMAX
from extractors.patterns.cases_rows_pointer import (
    DELTA,
    NORM_BACKWARD_POINTER,
    ROW_NORM_CHUNKS_POINTER,
    STEPS,
)
from extractors.patterns.cases_walks import LINEAR
from extractors.patterns.weight_load_order import WeightLoadOrder, several
from kb.analysis.accesses import Access
from kb.analysis.carried_sums import leads
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop, Role
from kb.evidence import Decision
from kb.ops import OpKind

CHUNKS = (
    TILE
    + """
@ct.kernel
def chunks(w, u, k, out, n: Int, T: Int, W: Int):
    state = ct.full((W, W), 0.0, dtype=ct.float32)
    for i in range(n):
        x = ct.load(w, index=(i, 0), shape=(T, W))
        y = ct.load(u, index=(i, 0), shape=(T, W))
        y = y - ct.mma(x, ct.astype(state, x.dtype), ct.full((T, W), 0.0, dtype=ct.float32))
        z = ct.load(k, index=(0, i), shape=(W, T))
        state = ct.mma(z, ct.astype(y, z.dtype), state)
    ct.store(out, index=(0, 0), tile=ct.astype(state, out.dtype))
"""
)
_CHOSEN = vary(
    STEPS, ("tl.load(v + i * W", "tl.load(v + tl.max(y, axis=0).to(tl.int32) * W")
)  # fmt: skip


class StepLoads(Pattern):
    """Tiles of several arrays are loaded in each round of a loop that hands a state on or stores
    in every round, or beside the one reduction of a kernel without loops; none of their addresses
    is computed from a product or a reduction of that round, or one is."""

    name = "loads-of-a-round-beside-its-compute"
    axis = "load_order"
    source = "NVIDIA, CUDA C++ Best Practices Guide: independent loads in flight hide latency"
    matches = (
        Case(STEPS, "independent of the reduction"),
        Case(CHUNKS, "independent of the product"),
        Case(_CHOSEN, "operands after the reduction"),
        Case(DELTA, "independent of the reduction"),
        Case(NORM_BACKWARD_POINTER, "independent of the reduction"),
        Case(LINEAR, "independent of the product"),
    )
    near_misses = (
        NearMiss(
            vary(STEPS, ("tl.load(q + i * W + lanes)", "1.0"), ("tl.load(v + i * W", "(lanes + i * W")),  # noqa: E501
            why="one array",
        ),
        NearMiss(TWO_PRODUCTS, why="no product takes in another one"),
        NearMiss(PRODUCT, why="operands of a sum of products stream by"),
        NearMiss(ATTENTION, why="scores of an attention: told there"),
        NearMiss(ATTENTION_POINTER, why="scores of an attention: told there"),
        NearMiss(SOFTMAX, why="one array"),
        NearMiss(LAYER_NORM_POINTER, why="the weights enter no reduction: told there"),
        NearMiss(ROW_NORM_CHUNKS_POINTER, why="one array is reduced"),
        NearMiss(ADD_POINTER, why="nothing is reduced"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        computed = [*facts.contractions, *facts.reductions]
        if not computed or facts.of_threads:
            return
        places = {a.loop for a in facts.loads}
        scored = {p.loop for p in facts.score_products}
        for place in places - scored:
            loop = facts.loop(place)
            if place is not None and (
                loop is None or not (_keeps(facts, loop) or _chained(facts, loop))
            ):
                continue
            if place is None and facts.loops:
                continue
            inside = [n for n in computed if place is None or n.inside(place)]
            loads = [a for a in facts.loads if a.loop is place and facts.types.shape(a.value)]
            arrays = {a.array for a in loads}
            if inside and (len(arrays) > 1 or (place is None and several(loads))):
                yield from self._order(facts, inside, loads, whole=place is None)

    def _order(
        self, facts: Facts, computed: list[Node], loads: list[Access], whole: bool
    ) -> Iterable[Decision]:
        taken = [a for a in loads if any(facts.graph.rests_on(n.result, a.node) for n in computed)]
        if whole and (facts.contractions or len(taken) < len(loads)):
            return
        late = [a for a in loads for n in computed if _waits(facts, a, n)]
        what = "product" if any(n in facts.contractions for n in computed) else "reduction"
        value = f"operands after the {what}" if late else f"independent of the {what}"
        decision = self.decide(facts, value, loads)
        if late or not self._told(facts, decision):
            yield decision

    def _told(self, facts: Facts, decision: Decision) -> bool:
        """Whether the order of weights and statistics says of the same loads that none waits."""
        others = WeightLoadOrder().seen(facts)
        return any(
            one.value.startswith("independent") and {*decision.lines} <= {*one.lines}
            for one in others
        )


def _waits(facts: Facts, access: Access, node: Node) -> bool:
    return any(facts.graph.rests_on(value, node) for value in access.node.op.inputs)


def _chained(facts: Facts, loop: Loop) -> bool:
    """True for a loop in which one product is an operand of another one."""
    inside = [n for n in facts.contractions if n.loop is loop.node]
    return any(
        one is not other and facts.graph.rests_on(value, one)
        for one in inside
        for other in inside
        for role, value in other.op.operands
        if role != "acc"
    )


def _keeps(facts: Facts, loop: Loop) -> bool:
    """True for a loop that stores in every round, or that computes products or sums with the tile
    that the round before left."""
    if any(a.node.inside(loop.node) for a in facts.stores):
        return True
    tiles = [
        c
        for c in loop.carried
        if c.role is not Role.COUNTER and facts.types.shape(c.argument)
        if facts.graph.kind_of(c.init) != OpKind.UNDEF
    ]
    taken = [
        value
        for node in (*facts.contractions, *facts.reductions)
        if node.inside(loop.node)
        for role, value in node.op.operands
        if role != "acc"
    ]
    return any(leads(facts.graph, value, c.argument) for c in tiles for value in taken)
