"""Which operand stays on chip while the others stream by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import FLASH_POINTER
from extractors.patterns.cases_rows import NORM_PERSISTENT
from extractors.patterns.cases_rows_pointer import NORM_PERSISTENT_POINTER
from extractors.patterns.cases_rows_threads import NORM_PERSISTENT_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import queries_first
from kb.analysis.loops import Role
from kb.evidence import Decision
from kb.ops import CONTRACTIONS


class StationaryOperandChoice(Pattern):
    """Loads that feed the products of a loop are split into those before the loop and those inside
    it."""

    name = "stationary-operand-choice"
    axis = "stationary_operand"
    source = "Dao et al., FlashAttention (2022); Dao, FlashAttention-2 (2023), section 3"
    matches = (
        Case(ATTENTION, "Q-stationary (loop KV)"),
        Case(BACKWARD_KEYS, "KV-stationary (loop Q)"),
        Case(PRODUCT, "C-stationary GEMM"),
        Case(FLASH_POINTER, "Q-stationary (loop KV)"),
        Case(PRODUCT_THREADS, "C-stationary GEMM"),
        Case(vary(PRODUCT_POINTER, ("dot(x, y)", "dot(x, y * 0.5 + 1.0)")), "C-stationary GEMM"),
    )
    near_misses = (
        NearMiss(FLASH_POINTER, why="one loop, one choice", value="KV-stationary (loop Q)"),
        NearMiss(
            vary(PRODUCT_POINTER, ("+= tl.dot(x, y)", "= tl.exp(acc) * tl.dot(x, y * 0.5)")),
            why="nothing is added up",
        ),
        NearMiss(NORM_PERSISTENT, why="the weight stays, but no product is taken"),
        NearMiss(NORM_PERSISTENT_POINTER, why="the weight stays, but no product is taken"),
        NearMiss(NORM_PERSISTENT_THREADS, why="the weight stays, but no product is taken"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        seen: set[Node] = set()
        places: dict[str, list[Where]] = {}
        for product in facts.contractions:
            loop = product.loop
            if loop is None or loop in seen:
                continue
            seen.add(loop)
            sides = [self._loads(facts, product.op.operand(role), loop) for role in ("lhs", "rhs")]
            found = self._name(facts, product, sides, loop)
            if found is not None:
                value, kept = found
                places.setdefault(value, []).extend((*kept, loop))
        for value, where in places.items():
            yield self.decide(facts, value, where)

    def _loads(self, facts: Facts, value: str | None, loop: Node) -> list[Access]:
        """The loads that an operand holds; of one that is computed, where the loop adds products
        up or hands no tile on, the tiles of the loop that it is computed from."""
        held = facts.held_loads(value)
        known = facts.loop(loop)
        if held or known is None or facts.program is not facts.source:
            return held
        tiles = [c for c in known.carried if facts.types.shape(c.argument)]
        if tiles and not known.of(Role.ACCUMULATOR):
            return []
        made = facts.feeding(value) if not facts.graph.roots(value, *CONTRACTIONS) else []
        return [a for a in made if a.node.inside(loop) and len(facts.types.shape(a.value)) > 1]

    def _name(
        self, facts: Facts, product: Node, sides: list[list[Access]], loop: Node
    ) -> tuple[str, Sequence[Access | Node]] | None:
        stays = [bool(side) and all(not a.node.inside(loop) for a in side) for side in sides]
        streams = [bool(side) and all(a.node.inside(loop) for a in side) for side in sides]
        if all(streams) and not facts.score_products:
            return "C-stationary GEMM", [product]
        if stays[0] == stays[1] or not (streams[0] or streams[1]):
            return None
        kept = self._kept(facts, loop)
        if product not in facts.score_products:
            return "weight-stationary persistent", kept
        first = queries_first(facts, product)
        if first is None:
            return None
        return ("Q-stationary (loop KV)" if stays[0] == first else "KV-stationary (loop Q)"), kept

    def _kept(self, facts: Facts, loop: Node) -> list[Access]:
        """Loads before the loop that feed products inside it."""
        inside = [p for p in facts.contractions if p.inside(loop)]
        operands = [p.op.operand(role) for p in inside for role in ("lhs", "rhs")]
        return [a for v in operands for a in facts.held_loads(v) if not a.node.inside(loop)]
