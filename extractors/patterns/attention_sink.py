"""A virtual key that takes part in the normalisation but has no value."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, vary
from extractors.patterns.cases_pointer import FLASH_POINTER
from extractors.patterns.cases_rows import SOFTMAX_CHUNKS
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Role
from kb.evidence import Decision
from kb.ops import READS

_SINK = vary(
    ATTENTION,
    ("out, rate: float", "out, sinks, rate: float"),
    ("    top = ct.full((TM, 1), -math.inf, dtype=ct.float32)",
     "    sink = ct.gather(sinks, head)\n    top = ct.full((TM, 1), 0.0, dtype=ct.float32) + sink"),
    ("    acc = ct.truediv(acc, tot,", "    tot = tot + ct.exp2(sink - top)\n    acc = ct.truediv(acc, tot,"),  # noqa: E501
)  # fmt: skip


_SINK_POINTER = vary(
    FLASH_POINTER,
    ("out, rate,", "out, sinks, rate,"),
    ('    top = tl.full([TM], float("-inf"), tl.float32)',
     "    sink = tl.load(sinks + head)\n    top = tl.full([TM], 0.0, tl.float32) + sink"),
    ("    acc = acc / tot[:, None]", "    tot = tot + tl.exp2(sink - top)\n    acc = acc / tot[:, None]"),  # noqa: E501
)  # fmt: skip


_SINK_THREADS = vary(
    FLASH_THREADS,
    ("half* out, float rate,", "half* out, const float* sinks, float rate,"),
    ("    float top = -INFINITY;", "    float sink = sinks[head];\n    float top = sink;"),
    ("    acc = acc / tot;", "    tot = tot + exp2f(sink - top);\n    acc = acc / tot;"),
)


class AttentionSink(Pattern):
    """The running maximum starts from a loaded number, which also enters the sum after the loop."""

    name = "attention-sink-as-virtual-key"
    axis = "softmax_variant"
    source = "Xiao et al., Efficient Streaming Language Models with Attention Sinks (2023)"
    matches = (
        Case(_SINK, "sink in the running max init + denominator in the epilogue"),
        Case(_SINK_POINTER, "sink in the running max init + denominator in the epilogue"),
        Case(_SINK_THREADS, "sink in the running max init + denominator in the epilogue"),
    )
    near_misses = (
        NearMiss(ATTENTION, why="the maximum starts at minus infinity"),
        NearMiss(SOFTMAX_CHUNKS, why="the maximum starts at minus infinity"),
        NearMiss(FLASH_POINTER, why="the maximum starts at minus infinity"),
        NearMiss(FLASH_THREADS, why="the maximum starts at minus infinity"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        for loop in facts.loops:
            for state in loop.of(Role.RUNNING_MAXIMUM):
                loaded = facts.graph.roots(state.init, *READS)
                later = self._later(facts, loop.node, loaded)
                if loaded and later:
                    value = "sink in the running max init + denominator in the epilogue"
                    yield self.decide(facts, value, [*loaded, *later])
                    return

    def _later(self, facts: Facts, loop: Node, loaded: list[Node]) -> list[Node]:
        return [
            e.node
            for e in facts.exponentials
            if not e.node.inside(loop) and e.node.index > loop.index
            and any(facts.graph.rests_on(e.score, n) for n in loaded)
        ]  # fmt: skip
