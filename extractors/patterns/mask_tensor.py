"""A mask or bias for every score that the caller gives as an array."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, PRODUCT, PRODUCT_POINTER, vary
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.idioms import LARGE
from kb.evidence import Decision
from kb.ops import COMPARISONS, OpKind

_LOOKS = VIEWS | CASTS

_ADDED = vary(
    ATTENTION_POINTER,
    ("def attend(a, b, c,", "def attend(a, b, c, bias,"),
    (
        "        keep = cols",
        "        s += tl.load(bias + rows[:, None] * size + cols[None, :])\n        keep = cols",
    ),
)
_ADDED_TILE = vary(
    ATTENTION,
    ("def attend(a, b, c,", "def attend(a, b, c, bias,"),
    (
        "        s = ct.mma(fixed, k, s)\n",
        "        s = ct.mma(fixed, k, s)\n"
        "        s = s + ct.load(bias, index=(x, j), shape=(TM, TN))\n",
    ),
)
_SELECTED = vary(
    _ADDED,
    (
        "        s += tl.load(bias + rows[:, None] * size + cols[None, :])\n",
        "        seen = tl.load(bias + rows[:, None] * size + cols[None, :])\n"
        '        s = tl.where(seen, s, float("-inf"))\n',
    ),
)
_SUM = "loaded tile added to the scores"
_CHOICE = "loaded mask selects scores"

BIASED = vary(
    _ADDED,
    ("c, bias,", "c, bias, seen,"),
    (
        "        keep = cols",
        "        there = tl.load(seen + rows[:, None] * size + cols[None, :])\n"
        '        s = tl.where(there, s, float("-inf"))\n'
        "        keep = cols",
    ),
)
"""A bias and a mask, each for every score."""

_SENT = vary(
    PRODUCT_POINTER,
    ("def product(a, b,", "def product(seen, a, b,"),
    (
        "acc.to(",
        'tl.where(tl.load(seen + m[:, None] * N + n[None, :]) > 0, acc, float("-inf")).to(',
    ),
)


class MaskTensor(Pattern):
    """A loaded tile with rows and columns is added to the scores of an attention, or chooses where
    they stay. Beside one that chooses, what is added is no mask."""

    name = "mask-tensor-on-the-scores"
    axis = "mask_application"
    source = "PyTorch documentation, scaled_dot_product_attention: attn_mask"
    matches = (
        Case(_ADDED, _SUM),
        Case(_ADDED_TILE, _SUM),
        Case(_SELECTED, _CHOICE),
        Case(_SENT, _CHOICE),
    )
    near_misses = (
        NearMiss(
            vary(_ADDED, ("tl.load(bias + rows[:, None] * size + cols[None, :])", "tl.load(bias)")),
            why="one number for all scores",
        ),
        NearMiss(
            vary(_ADDED_TILE, ("ct.load(bias, index=(x, j), shape=(TM, TN))", "shift")),
            why="one number for all scores, given",
        ),
        NearMiss(BIASED, why="another tile chooses: what is added is a bias", value=_SUM),
        NearMiss(ATTENTION_POINTER, why="the mask is made of positions"),
        NearMiss(ATTENTION, why="the mask is made of positions"),
        NearMiss(vary(_SENT, ('float("-inf")', "0.0")), why="zeros are no masked scores"),
        NearMiss(PRODUCT, why="no scores"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.contractions:
            return
        chosen = self.chosen(facts)
        added = [] if chosen else self.added(facts)
        if added:
            yield self.decide(facts, _SUM, added)
        if chosen:
            yield self.decide(facts, _CHOICE, chosen)

    def added(self, facts: Facts) -> list[Where]:
        """Loads of tiles and the sums that take them to the scores."""
        products = facts.score_products
        found: list[Where] = []
        for node in facts.graph.of(OpKind.ADD, OpKind.FMA):
            for value in node.op.inputs[:3]:
                loads = self._tile(facts, value)
                if loads and self.scores(facts, node, products):
                    found += [*loads, node]
        return [*dict.fromkeys(found)]

    def chosen(self, facts: Facts) -> list[Where]:
        """Loads of tiles and the choices that they make between scores."""
        products = facts.score_products
        found: list[Where] = [
            place
            for node in facts.graph.of(OpKind.SELECT)
            for load in self._tile(facts, node.op.operand("condition") or "")
            if self.scores(facts, node, products) or self._sent(facts, node)
            for place in (load, node)
        ]
        return [*dict.fromkeys(found)]

    def _tile(self, facts: Facts, value: str) -> list[Access]:
        """The loads of a tile that has rows and columns, perhaps scaled or compared."""
        node = facts.graph.producer(facts.graph.through(value, _LOOKS))
        taken = node is not None and node.op.kind in {OpKind.MUL, *COMPARISONS}
        for one in node.op.inputs[:2] if node is not None and taken else (value,):
            wide = [e for e in facts.types.shape(one) if e != "1"]
            if len(wide) > 1 and (loads := facts.held_loads(one)):
                return loads
        return []

    def scores(self, facts: Facts, node: Node, products: list[Node]) -> bool:
        """Whether what is computed here are scores of a product before their exponential."""
        return any(facts.graph.rests_on(node.result, p) for p in products) and any(
            facts.graph.rests_on(e.score, node) for e in facts.exponentials if not e.rescale
        )

    def _sent(self, facts: Facts, node: Node) -> bool:
        """Whether a product stays where a mask says, and far less than zero is stored elsewhere:
        scores that another kernel takes exponentials of."""
        sides = [node.op.operand(role) for role in ("x", "y")]
        numbers = [facts.values.literal(facts.graph.plain(v)) for v in sides]
        return any(
            isinstance(number, int | float)
            and number <= -LARGE
            and any(facts.graph.rests_on(kept, p) for p in facts.contractions)
            for number, kept in zip(numbers, sides[::-1], strict=True)
        )
