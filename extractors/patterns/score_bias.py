"""A bias that is added to the scores of an attention."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, PRODUCT, vary
from extractors.patterns.mask_tensor import BIASED, MaskTensor
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import COMPARISONS, CONTRACTIONS, READS, REDUCTIONS, OpKind

_SEEN_AS = VIEWS | CASTS | {OpKind.NEG}
_ENDS = REDUCTIONS | CONTRACTIONS | COMPARISONS
_BIAS = "bias added"
_LINE = "linear in the distance (ALiBi)"

_KEYS = vary(
    ATTENTION_POINTER,
    ("def attend(a, b, c,", "def attend(a, b, c, bias,"),
    ("        keep = cols", "        s += tl.load(bias + cols)[None, :]\n        keep = cols"),
)
_KEYS_TILE = vary(
    ATTENTION,
    ("def attend(a, b, c,", "def attend(a, b, c, bias,"),
    (
        "        s = ct.mma(fixed, k, s)\n",
        "        s = ct.mma(fixed, k, s)\n"
        "        s = s + ct.load(bias, index=(0, j), shape=(1, TN))\n",
    ),
)
_DISTANCE = vary(
    ATTENTION_POINTER,
    ("def attend(a, b, c,", "def attend(a, b, c, slopes,"),
    (
        "        keep = cols",
        "        s += tl.load(slopes + y) * (cols[None, :] - rows[:, None])\n        keep = cols",
    ),
)


class ScoreBias(Pattern):
    """Scores are summed with what is loaded for their keys, with a loaded tile where another one
    is the mask, or with a multiple of the distance between positions."""

    name = "bias-added-to-the-scores"
    axis = "score_transform"
    source = "Press et al., Train Short, Test Long: Attention with Linear Biases (2022)"
    matches = (
        Case(BIASED, _BIAS),
        Case(_KEYS, _BIAS),
        Case(_KEYS_TILE, _BIAS),
        Case(_DISTANCE, _LINE),
    )
    near_misses = (
        NearMiss(
            vary(_KEYS, ("tl.load(bias + cols)[None, :]", "tl.load(bias)")),
            why="one number for all scores",
        ),
        NearMiss(
            vary(_DISTANCE, ("(cols[None, :] - rows[:, None])", "size")),
            why="the same for all positions",
        ),
        NearMiss(ATTENTION, why="the mask is made of positions"),
        NearMiss(ATTENTION_POINTER, why="the mask is made of positions"),
        NearMiss(PRODUCT, why="no scores"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.score_products:
            return
        tiles = MaskTensor()
        added: list[Where] = tiles.added(facts) if tiles.chosen(facts) else []
        along: list[Where] = []
        for node in facts.graph.of(OpKind.ADD, OpKind.SUB, OpKind.FMA):
            if not tiles.scores(facts, node, facts.score_products):
                continue
            for value in node.op.inputs[:3]:
                if self._of_scores(facts, value):
                    continue
                if node.op.kind != OpKind.SUB and (vector := self._vector(facts, value)):
                    added += [*vector, node]
                elif self._distance(facts, value):
                    along.append(node)
        if added:
            yield self.decide(facts, _BIAS, dict.fromkeys(added))
        if along:
            yield self.decide(facts, _LINE, along)

    def _of_scores(self, facts: Facts, value: str) -> bool:
        return any(facts.graph.rests_on(value, p) for p in facts.score_products)

    def _vector(self, facts: Facts, value: str) -> list[Where]:
        """Loads of one number for each key of the round, perhaps scaled."""
        made = facts.graph.producer(facts.graph.through(value, VIEWS | CASTS))
        if made is not None and made.op.kind == OpKind.MUL:
            value = made.op.inputs[0]
        wide = [e for e in facts.types.shape(value) if e != "1"]
        loops = {p.loop for p in facts.score_products}
        return [a for a in facts.held_loads(value) if a.loop in loops] if len(wide) == 1 else []

    def _distance(self, facts: Facts, value: str) -> bool:
        """A product of a number and positions, of which none is compared."""
        made = facts.graph.producer(facts.graph.through(value, frozenset(_SEEN_AS)))
        if made is None or made.op.kind != OpKind.MUL:
            return False
        above = [made, *facts.graph.upstream(made.result)]
        if any(n.op.kind in _ENDS for n in above):
            return False
        if not any(n.op.kind == OpKind.SUB and self._lanes(facts, n) for n in above):
            return False
        read = (facts.access(n) for n in above if n.op.kind in READS)
        return not any(a is None or set(facts.types.shape(a.value)) - {"1"} for a in read)

    def _lanes(self, facts: Facts, node: Node) -> bool:
        return all(facts.graph.roots(v, OpKind.ARANGE) for v in node.op.inputs[:2])
