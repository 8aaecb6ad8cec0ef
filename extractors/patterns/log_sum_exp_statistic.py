"""In which base the log-sum-exp of a row is kept."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, ATTENTION_LSE, BACKWARD_KEYS, vary
from extractors.patterns.cases_merges import (
    GATED_THREADS,
    MERGE,
    MERGE_APART_POINTER,
    MERGE_PAIR_THREADS,
    MERGE_SUMS_POINTER,
    MERGE_TWICE_POINTER,
    PAIR_POINTER,
)
from extractors.patterns.cases_pointer import FLASH_POINTER, FLASH_POINTER_LSE
from extractors.patterns.cases_rows import ROW_NORM
from extractors.patterns.cases_stages import TARGET
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.exponentials import Exponential, Statistic, is_log2e
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import is_wide, recomputed, same_tile
from kb.analysis.loops import Role
from kb.analysis.merging import Merge, chosen_loads, log_sums, merge_of
from kb.evidence import Decision
from kb.ops import OpKind

_PAIR = vary(
    ATTENTION_LSE,
    ("    info = (top + ct.log2(tot)).reshape((TM,))\n", ""),
    (
        "ct.scatter(stat, at, info)",
        "ct.scatter(stat, at, top.reshape((TM,)))\n    ct.scatter(stat, at + 1, tot.reshape((TM,)))",  # noqa: E501
    ),
)


_LSE_THREADS = vary(
    FLASH_THREADS,
    ("half* out, float rate,", "half* out, float* stat, float rate,"),
    (
        "    acc = acc / tot;",
        "    if (threadIdx.x == 0) stat[(bat * G + head) * size + row] = top + log2f(tot);\n    acc = acc / tot;",  # noqa: E501
    ),
)


_OF_PAIRS = """__global__ void together(const float2* parts, float* stat, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    float2 part = parts[at];
    stat[at] = part.x * 1.4426950408889634f + log2f(part.y);
}
"""


class LogSumExpStatistic(Pattern):
    """maximum + log(sum) is stored, the two loaded perhaps; or the two apart; or it is loaded to
    rebuild probabilities."""

    name = "base-2-log-sum-exp-statistic"
    axis = "statistic_encoding"
    source = "Dao, FlashAttention-2 (2023), section 3.1: only the log-sum-exp is kept"
    matches = (
        Case(TARGET, "natural LSE"),
        Case(ATTENTION_LSE, "base-2 LSE"),
        Case(vary(ATTENTION_LSE, ("ct.log2(", "ct.log(")), "natural LSE"),
        Case(_PAIR, "(m,l) pair"),
        Case(FLASH_POINTER_LSE, "base-2 LSE"),
        Case(_LSE_THREADS, "base-2 LSE"),
        Case(MERGE_PAIR_THREADS, "base-2 LSE"),
        Case(MERGE, "base-2 LSE"),
        Case(
            vary(
                MERGE,
                (
                    "    w = ct.exp2(",
                    "    here = ct.arange(S, dtype=ct.int32) < S - 1\n"
                    "    lse = ct.where(here, lse, ct.full((S,), -1e30, dtype=ct.float32))\n"
                    "    w = ct.exp2(",
                ),
            ),
            "base-2 LSE",
        ),
        Case(MERGE_SUMS_POINTER, "(m,l) pair"),
        Case(PAIR_POINTER, "(m,l) pair"),
        Case(MERGE_TWICE_POINTER, "natural LSE"),
        Case(MERGE_APART_POINTER, "(m,l) pair"),
        Case(vary(ATTENTION_LSE, ("ct.log2(tot)", "ct.log2(tot) / RATE")), "natural LSE"),
        Case(_OF_PAIRS, "base-2 LSE"),
        Case(BACKWARD_KEYS, "base-2 LSE"),
        Case(vary(BACKWARD_KEYS, ("lse[None, :]", "(lse * RATE)[None, :]")), "natural LSE"),
        Case(
            vary(
                BACKWARD_KEYS,
                (
                    "ct.exp2(s * rate2 - lse[None, :], flush_to_zero=True)",
                    "ct.exp2((s * rate - lse[None, :]) * RATE)",
                ),
            ),
            "natural LSE",
        ),
    )
    near_misses = (
        NearMiss(ATTENTION, why="nothing but the output is stored"),
        NearMiss(_OF_PAIRS.replace("1.4426950408889634f", "3.f"), why="no change of base"),
        NearMiss(_OF_PAIRS.replace("part.x *", "0.5f *"), why="a number is added to a logarithm"),
        NearMiss(
            vary(PAIR_POINTER, ("tl.sum(e, axis=0)", "tl.sum(e * v, axis=0)")),
            why="what is summed is weighted",
        ),
        NearMiss(ROW_NORM, why="a root is stored, no logarithm"),
        NearMiss(FLASH_POINTER, why="nothing but the output is stored"),
        NearMiss(FLASH_THREADS, why="nothing but the output is stored"),
        NearMiss(GATED_THREADS, why="a softplus: one exponential, nothing is summed"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for node in facts.graph.of(OpKind.LOG2, OpKind.LOG):
            summed = self._sum(facts, node.op.inputs[0])
            for added in self._added(facts, node):
                stores = facts.stored_in(added.result)
                if not (summed or self._of_loaded(facts, node, added)):
                    continue
                if stores:
                    value = self._stored(facts, node, added)
                    yield self.decide(facts, value, (added, node, *stores))
                    return
        for node, added in log_sums(facts):
            stores = facts.stored_in(added.result)
            if stores:
                value = self._stored(facts, node, added)
                yield self.decide(facts, value, (added, node, *stores))
                return
        rebuilt = recomputed(facts)
        for exponential in facts.exponentials:
            loads = facts.feeding(exponential.statistic) if exponential.node in rebuilt else []
            saved = bool(loads) and not any(is_wide(facts, a.value) for a in loads)
            if exponential.node in rebuilt and (facts.contractions or saved):
                where = [exponential.difference, exponential.node]
                yield self.decide(facts, self._read(facts, exponential), [*where, *loads])
                return
        merge = merge_of(facts)
        for exponential in facts.exponentials if merge is not None else ():
            loads = chosen_loads(facts, exponential.score)
            if merge is not None and exponential.node in merge.weights and loads:
                read: list[Where] = [exponential.difference, exponential.node, *loads]
                value = "(m,l) pair" if _of_pairs(facts, merge) else self._read(facts, exponential)
                yield self.decide(facts, value, read)
                return
        pair = self._pair(facts)
        if pair:
            yield self.decide(facts, "(m,l) pair", pair)

    def _stored(self, facts: Facts, logarithm: Node, added: Node) -> str:
        """The base of a logarithm, unless log2(e) turns it into the other one before it is
        added."""
        turned = any(
            node.op.kind in (OpKind.MUL, OpKind.DIV, OpKind.FMA)
            and facts.graph.rests_on(node.result, logarithm)
            and any(self._turns(facts, v) for v in node.op.inputs[:2])
            for node in facts.graph.upstream(added.result, lambda n: n is logarithm)
        )
        return "base-2 LSE" if (logarithm.op.kind == OpKind.LOG2) != turned else "natural LSE"

    def _turns(self, facts: Facts, value: str) -> bool:
        """log2(e), or its inverse."""
        number = facts.values.literal(facts.graph.core(value))
        if not isinstance(number, int | float) or not number:
            return False
        return is_log2e(float(number)) or is_log2e(1 / number)

    def _read(self, facts: Facts, exponential: Exponential) -> str:
        """The base that a loaded statistic is in: that of the exponential, unless it is multiplied
        on the way there or the difference is."""
        made = facts.graph.producer(facts.graph.core(exponential.statistic))
        around = exponential.product is not None and exponential.difference is not None and (
            facts.graph.rests_on(exponential.product.result, exponential.difference)
        )  # fmt: skip
        turned = around or (made is not None and made.op.kind in (OpKind.MUL, OpKind.DIV))
        return "base-2 LSE" if exponential.base2 != turned else "natural LSE"

    def _sum(self, facts: Facts, value: str) -> bool:
        """A sum of exponentials: over lanes, or carried by a loop."""
        if not facts.graph.roots(value, OpKind.EXP, OpKind.EXP2):
            return False
        core = facts.graph.core(value)
        carried = any(
            core == c.result for loop in facts.loops for c in loop.of(Role.SUM, Role.RUNNING_SUM)
        )
        return carried or bool(facts.graph.roots(value, OpKind.REDUCE_SUM))

    def _of_loaded(self, facts: Facts, logarithm: Node, added: Node) -> bool:
        """A loaded number, turned to the base of the logarithm of another loaded number, in a sum
        with that."""
        if not facts.held_loads(logarithm.op.inputs[0]):
            return False
        for value in added.op.inputs[:2]:
            made = facts.graph.producer(facts.graph.core(value))
            sides = made.op.inputs[:2] if made is not None and made.op.kind == OpKind.MUL else ()
            turned = any(self._turns(facts, side) for side in sides)
            if turned and any(facts.held_loads(side) for side in sides):
                return True
        return False

    def _added(self, facts: Facts, node: Node) -> list[Node]:
        users = list(facts.graph.downstream(node.result, 12))
        return [n for n in users if n.op.kind in (OpKind.ADD, OpKind.FMA)][:1]

    def _pair(self, facts: Facts) -> list[Where]:
        """Running maximum and running sum of one loop, or maximum of a resident tile and sum of the
        exponentials of what is left of it, both stored as they are."""
        for loop in facts.loops:
            tops = [a for c in loop.of(Role.RUNNING_MAXIMUM) for a in self._as_is(facts, c.result)]
            sums = [a for c in loop.of(Role.RUNNING_SUM) for a in self._as_is(facts, c.result)]
            if tops and sums:
                return [*tops, *sums]
        for one in (e for e in facts.exponentials if e.origin is Statistic.REDUCED):
            tops = [a for n in facts.graph.of(OpKind.REDUCE_MAX)
                    if facts.graph.rests_on(one.statistic, n)
                    for a in self._as_is(facts, n.result)]  # fmt: skip
            sums = [a for n in facts.graph.of(OpKind.REDUCE_SUM)
                    if same_tile(facts, n.op.inputs[0], one.node)
                    for a in self._as_is(facts, n.result)]  # fmt: skip
            if tops and sums:
                return [*tops, *sums]
        return []

    def _as_is(self, facts: Facts, value: str) -> list[Where]:
        return [a for a in facts.stores if facts.graph.core(a.value) == value]


def _of_pairs(facts: Facts, merge: Merge) -> bool:
    """True where the sum of the weights sums loaded numbers that they multiply: a maximum and a sum
    of each part."""
    for total in merge.totals:
        made = facts.graph.producer(facts.graph.core(total.op.inputs[0]))
        if made is not None and made.op.kind == OpKind.MUL:
            return any(facts.held_loads(v) for v in made.op.inputs[:2])
    return False
