"""Several query heads read one key head: its index is the query head's, divided."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, vary
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER, DECODE_PART, FLASH_POINTER
from extractors.patterns.cases_threads import BACKWARD_KEYS_THREADS, FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import persistent
from kb.analysis.symbolic import Atom, AtomKind, Expr, nested
from kb.evidence import Decision
from kb.ops import OpKind

_CHOSEN = (
    "    kv = head // R\n",
    "    if R > 1:\n        kv = head // R\n    else:\n        kv = head\n",
)
_DECODE = vary(
    DECODE_PART,
    ("W: tl.constexpr,", "G: tl.constexpr, N: tl.constexpr, W: tl.constexpr,"),
    ("    share = ", "    kv = who % N // G\n    share = "),
    ("    place = at", "    place = kv * hop * T + at"),
)


class GqaHeadSharing(Pattern):
    """One array is indexed by a head, another by that head divided by a group size."""

    name = "gqa-head-sharing-by-integer-division"
    axis = "kv_head_mapping"
    source = "Ainslie et al., GQA: Training Generalized Multi-Query Transformer Models (2023)"
    matches = (
        Case(ATTENTION, "integer-division sharing"),
        Case(FLASH_POINTER, "integer-division sharing"),
        Case(_DECODE, "integer-division sharing"),
        Case(FLASH_THREADS, "integer-division sharing"),
        Case(vary(ATTENTION, _CHOSEN), "integer-division sharing"),
        Case(vary(FLASH_POINTER, _CHOSEN), "integer-division sharing"),
        Case(
            vary(FLASH_THREADS, ("kv = head / R", "kv = R > 1 ? head / R : head")),
            "integer-division sharing",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_DECODE, ("who % N // G", "who % N")), why="every query head has its own key head"
        ),
        NearMiss(
            vary(ATTENTION, ("kv = head // R", "kv = head")),
            why="every query head has its own key head",
        ),
        NearMiss(
            vary(ATTENTION, (_CHOSEN[0], _CHOSEN[1].replace("head // R", "head"))),
            why="every query head has its own key head on either side",
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
        if not facts.contractions and not facts.graph.of(OpKind.REDUCE_SUM):
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
            or head.has(AtomKind.LANE, AtomKind.LOADED)
            or not (head.has(AtomKind.BLOCK) or head.has(AtomKind.INDUCTION))
            or (head.has(AtomKind.INDUCTION) and not self._item(facts, head))
        ):
            return False
        if any(_same(facts, node, n) for n in facts.graph.of(OpKind.MOD)):
            return False
        divided = [a for a in facts.loads if _uses(facts, node, a.index)]
        own = {a for a in (head.atom, _with_batch(head)) if a is not None}
        whole = [
            a
            for a in facts.accesses
            if not _uses(facts, node, a.index)
            and any(head == e or own & set(e.top()) for e in a.index)
        ]
        feeds = [
            a
            for a in divided
            if any(facts.graph.rests_on(p.result, a.node) for p in _products(facts))
        ]
        return bool(feeds) and bool(whole) and _same_rank(divided, whole)

    def _item(self, facts: Facts, head: Expr) -> bool:
        """True when the only loop variables of a head are those of walks over work items."""
        walks = {
            facts.values.expr(loop.induction).atom
            for loop in facts.loops
            if persistent(loop, facts.values)
        }
        return all(a in walks for a in head.atoms() if a.kind is AtomKind.INDUCTION)


def _same(facts: Facts, node: Node, other: Node) -> bool:
    """The remainder to a quotient: the number is two numbers in one."""
    pairs = zip(node.op.inputs[:2], other.op.inputs[:2], strict=True)
    return all(facts.values.expr(a) == facts.values.expr(b) for a, b in pairs)


def _with_batch(head: Expr) -> Atom | None:
    """The number that a head is the remainder of: that of the batch and the head in one."""
    atom = head.atom
    return atom.args[0].atom if atom is not None and atom.kind is AtomKind.MOD else None


def _products(facts: Facts) -> list[Node]:
    """Matrix products; or sums of elementwise products of two loaded tiles."""
    return facts.contractions or [
        total
        for total in facts.graph.of(OpKind.REDUCE_SUM)
        if facts.graph.kind_of(facts.graph.core(total.op.inputs[0])) == OpKind.MUL
        and len({a.array for a in facts.feeding(total.op.inputs[0])}) > 1
    ]


def _uses(facts: Facts, node: Node, index: tuple) -> bool:  # type: ignore[type-arg]
    """True when an index holds a quotient, perhaps on one side of a choice."""
    atom = facts.values.expr(node.result).atom
    return any(atom in set(part.top()) for e in index for part in nested(e))


def _same_rank(divided: list, whole: list) -> bool:  # type: ignore[type-arg]
    return any(len(a.index) == len(b.index) for a in divided for b in whole)
