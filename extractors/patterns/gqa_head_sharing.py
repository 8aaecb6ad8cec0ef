"""Several query heads read one key head: its index is the query head's, divided."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, vary
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER, FLASH_POINTER
from extractors.patterns.cases_threads import BACKWARD_KEYS_THREADS, FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind


class GqaHeadSharing(Pattern):
    """One array is indexed by a head, another by that head divided by a group size."""

    name = "gqa-head-sharing-by-integer-division"
    axis = "kv_head_mapping"
    source = "Ainslie et al., GQA: Training Generalized Multi-Query Transformer Models (2023)"
    matches = (
        Case(ATTENTION, "integer-division sharing"),
        Case(FLASH_POINTER, "integer-division sharing"),
        Case(FLASH_THREADS, "integer-division sharing"),
    )
    near_misses = (
        NearMiss(
            vary(ATTENTION, ("kv = head // R", "kv = head")),
            why="every query head has its own key head",
        ),
        NearMiss(BACKWARD_KEYS, why="the query head is built from the key head, not divided"),
        NearMiss(
            BACKWARD_KEYS_POINTER, why="the query head is built from the key head, not divided"
        ),
        NearMiss(
            BACKWARD_KEYS_THREADS, why="the query head is built from the key head, not divided"
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.contractions:
            return
        shared = [n for n in facts.graph.of(OpKind.FLOOR_DIV) if self._shares(facts, n)]
        if shared:
            readers = [a for n in shared for a in facts.loads if _uses(facts, n, a.index)]
            yield self.decide(facts, "integer-division sharing", (*shared, *readers))

    def _shares(self, facts: Facts, node: Node) -> bool:
        head = facts.values.expr(node.op.inputs[0])
        quotient = facts.values.expr(node.result).atom
        if (
            quotient is None
            or head.constant is not None
            or head.has(AtomKind.LANE, AtomKind.INDUCTION)
        ):
            return False
        if not head.has(AtomKind.BLOCK):
            return False
        divided = [a for a in facts.loads if _uses(facts, node, a.index)]
        whole = [
            a
            for a in facts.accesses
            if not _uses(facts, node, a.index)
            and any(
                head == e or (head.atom is not None and head.atom in set(e.top())) for e in a.index
            )
        ]
        feeds = [
            a
            for a in divided
            if any(facts.graph.rests_on(p.result, a.node) for p in facts.contractions)
        ]
        return bool(feeds) and bool(whole) and _same_rank(divided, whole)


def _uses(facts: Facts, node: Node, index: tuple) -> bool:  # type: ignore[type-arg]
    atom = facts.values.expr(node.result).atom
    return any(atom in set(e.top()) for e in index)


def _same_rank(divided: list, whole: list) -> bool:  # type: ignore[type-arg]
    return any(len(a.index) == len(b.index) for a in divided for b in whole)
