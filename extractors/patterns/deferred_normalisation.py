"""The weighted sum is divided by the sum of weights: once after the loop, or in every iteration."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, PRODUCT, vary
from extractors.patterns.cases_merges import (
    MERGE,
    MERGE_LOOP_THREADS,
    MERGE_TWICE_POINTER,
    WEIGHED_ROWS_POINTER,
)
from extractors.patterns.cases_pointer import DECODE_PART, FLASH_STAGED
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER, SOFTMAX_TWICE_POINTER
from extractors.patterns.cases_rows_threads import SOFTMAX_THREADS
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, TURNS, VIEWS, Node
from kb.analysis.lane_products import score_sums
from kb.analysis.loops import Loop, Role
from kb.analysis.merging import Form, Merge, merge_of
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_BRANCHED = vary(
    ATTENTION_POINTER,
    (
        "    acc = acc / tot",
        "    if TRI:\n        acc = acc * 1.0\n    else:\n        acc = acc\n    acc = acc / tot",
    ),
)
_LOOP = ATTENTION_POINTER[
    ATTENTION_POINTER.index("    for n in range") : ATTENTION_POINTER.index("    acc = acc / tot")
]
_HALF = "".join(f"    {line}\n" for line in _LOOP.splitlines())
_IN_TWO_LOOPS = vary(
    ATTENTION_POINTER,
    (
        _LOOP,
        "    if not TRI:\n"
        + _HALF.replace("range(0, last", "range(0, x * TM")
        + "    if TM > 1:\n"
        + _HALF.replace("range(0, last", "range(x * TM, last"),
    ),
)


_OVER_ROWS = vary(
    WEIGHED_ROWS_POINTER,
    ("tl.store(out + b * T + d, acc / tot)", "acc = acc / tot\n    tl.store(out + b * T + d, acc)"),
)


class DeferredNormalisation(Pattern):
    """An accumulator of a loop is divided by a sum that the same loop carried."""

    name = "deferred-normalisation"
    axis = "softmax_scheme"
    source = "Dao, FlashAttention-2 (2023), section 3.1"
    matches = (
        Case(SOFTMAX_TWICE_POINTER, "divide per element in a later pass"),
        Case(_BRANCHED, "divide once in the epilogue"),
        Case(ATTENTION, "divide once in the epilogue"),
        Case(
            vary(
                ATTENTION_POINTER, ("acc = acc / tot[:, None]", "acc = acc * (1.0 / tot)[:, None]")
            ),
            "multiply by reciprocal",
        ),
        Case(vary(DECODE_PART, ("acc / total", "acc * (1.0 / total)")), "multiply by reciprocal"),
        Case(FLASH_THREADS, "divide once in the epilogue"),
        Case(MERGE_TWICE_POINTER, "divide once in the epilogue"),
        Case(FLASH_STAGED, "divide once in the epilogue"),
        Case(_IN_TWO_LOOPS, "divide once in the epilogue"),
        Case(MERGE, "divide once in the epilogue"),
        Case(
            vary(
                SOFTMAX_TWICE_POINTER,
                ("tl.exp(v - top) / tot", "tl.exp(v - top) * (1.0 / tot)"),
            ),
            "multiply by reciprocal",
        ),
        Case(
            vary(ATTENTION_POINTER, ("acc / tot", "(acc * rate) / tot")),
            "divide once in the epilogue",
        ),
        Case(_OVER_ROWS, "divide once in the epilogue"),
    )
    near_misses = (
        NearMiss(
            vary(_OVER_ROWS, ("acc / tot", "acc / count")), why="divided by a number that is given"
        ),
        NearMiss(SOFTMAX, why="numerator and denominator come from one tile, no loop carries them"),
        NearMiss(
            vary(SOFTMAX_TWICE_POINTER, ("tl.exp(v - top) / tot", "v / tot")),
            why="the elements are divided as they are",
        ),
        NearMiss(
            vary(_IN_TWO_LOOPS, ("acc / tot[:, None]", "acc / size")),
            why="divided by a number that no loop carried",
        ),
        NearMiss(PRODUCT, why="nothing is divided"),
        NearMiss(
            vary(ATTENTION_POINTER, ("acc / tot[:, None]", "(tot * tot)[:, None] / tot[:, None]")),
            why="what is divided is no accumulator",
        ),
        NearMiss(MERGE_LOOP_THREADS, why="told as one reciprocal per row"),
        NearMiss(
            SOFTMAX_POINTER,
            why="numerator and denominator come from one tile, no loop carries them",
        ),
        NearMiss(
            SOFTMAX_THREADS,
            why="numerator and denominator come from one tile, no loop carries them",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        merge = merge_of(facts)
        if merge is not None and merge.form is not Form.PAIRWISE:
            once = [n for n in merge.quotients if _whole(facts, n, merge)]
            if once:
                yield self.decide(facts, "divide once in the epilogue", once)
            return
        found: dict[str, list[Node]] = {}
        for loop in facts.loops:
            sums = loop.of(Role.RUNNING_SUM, Role.SUM)
            axes = {c.result: self._axes(facts, c.result) for c in sums}
            least = min(axes.values(), default=0)
            grown = loop.of(Role.ACCUMULATOR) + [
                c for c in sums if axes[c.result] > max(1, least) or axes[c.result] > least == 0
            ]
            if not loop.of(Role.RUNNING_MAXIMUM) or not sums:
                continue
            for node in facts.graph.of(OpKind.DIV):
                value = self._divides(
                    facts, node, loop, [c.result for c in grown], [c.result for c in sums]
                )
                if value is not None:
                    found.setdefault(value, []).append(node)
        for value, where in found.items():
            yield self.decide(facts, value, dict.fromkeys(where))

    def _axes(self, facts: Facts, value: str) -> int:
        """Axes of a tile; none where it is a single number."""
        shape = facts.types.shape(value)
        return len(shape) if any(extent != "1" for extent in shape) else 0

    def _divides(
        self, facts: Facts, node: Node, loop: Loop, grown: list[str], sums: list[str]
    ) -> str | None:
        if node.inside(loop.node):
            return None
        over, under = node.op.inputs[:2]
        if self._again(facts, over, under, sums):
            return "divide per element in a later pass"
        if not self._from(facts, under, sums, loop):
            return None
        if set(_sides(facts, over)) & set(grown):
            return "divide once in the epilogue"
        scored = facts.contractions or score_sums(facts)
        once = bool(scored) and not facts.graph.rests_on(over, loop.node)
        return "multiply by reciprocal" if once or self._weighs(facts, node, under, sums) else None

    def _weighs(self, facts: Facts, node: Node, under: str, sums: list[str]) -> bool:
        """The reciprocal of the finished sum, which multiplies exponentials taken once more."""
        if facts.number(node.op.inputs[0]) != 1 or facts.graph.core(under) not in sums:
            return False
        raised = {e.node.result for e in facts.exponentials if e.node.loops}
        for user in facts.graph.downstream(node.result, 8):
            if user.op.kind == OpKind.MUL and {*map(facts.graph.core, user.op.inputs)} & raised:
                return True
        return False

    def _again(self, facts: Facts, over: str, under: str, sums: list[str]) -> bool:
        """An exponential that is taken once more in another loop, over the finished sum."""
        core = facts.graph.core(over)
        raised = any(e.node.result == core and e.node.loops for e in facts.exponentials)
        return raised and facts.graph.core(under) in sums

    def _from(self, facts: Facts, value: str, sums: list[str], loop: Loop) -> bool:
        """True when a value is one of the sums, perhaps guarded against zero, or gone on with in a
        branch behind the loop."""
        if facts.graph.core(value) in sums:
            return True
        core = facts.graph.core(value)
        if core is not None and facts.graph.kind_of(core) == OpKind.IF:
            return bool({facts.graph.core(v) for v in facts.graph.feeds(core)} & set(sums))
        if not facts.graph.rests_on(value, loop.node):
            return False
        online = [x.node for x in facts.loops if x.of(Role.RUNNING_MAXIMUM)]
        products = facts.graph.roots(value, OpKind.MMA)
        return all(any(n.inside(x) for x in online) for n in products)


def _whole(facts: Facts, quotient: Node, merge: Merge) -> bool:
    """A sum of weighted parts is divided."""
    return any(facts.graph.rests_on(quotient.op.inputs[0], n) for n in merge.weighted)


def _sides(facts: Facts, value: str, depth: int = 3) -> list[str]:
    """The value below reshapes, casts, turns and products with a scalar; what each side of a branch
    hands on; what a product after the loop is added to."""
    core = facts.graph.through(value, VIEWS | CASTS | TURNS)
    made = facts.graph.producer(core)
    if core is None or made is None or not depth:
        return [core] if core is not None else []
    if made.op.kind == OpKind.IF:
        return [v for end in facts.graph.feeds(core) for v in _sides(facts, end, depth - 1)]
    if made.op.kind in CONTRACTIONS and (grown := made.op.operand("acc")) is not None:
        rescaled = facts.graph.producer(facts.graph.core(grown))
        scaled = rescaled is not None and rescaled.op.kind == OpKind.MUL
        ends = rescaled.op.inputs[:2] if rescaled is not None and scaled else (grown,)
        return [v for end in ends for v in _sides(facts, end, depth - 1)]
    if made.op.kind == OpKind.MUL:
        tiles = [v for v in made.op.inputs[:2] if facts.types.shape(v)]
        return _sides(facts, tiles[0], depth - 1) if len(tiles) == 1 else [core]
    return [core]
