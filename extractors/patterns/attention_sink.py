"""A virtual key that takes part in the normalisation but has no value."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, vary
from extractors.patterns.cases_merges import MERGE_PAIR_THREADS
from extractors.patterns.cases_pointer import FLASH_POINTER
from extractors.patterns.cases_rows import SOFTMAX_CHUNKS
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.carried_sums import leads
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Node
from kb.analysis.idioms import begun
from kb.analysis.loops import Loop, Role
from kb.analysis.merging import merge_of, sinks
from kb.dtypes import may_be_float
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, READS, OpKind

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


_SINK_FIRST = vary(
    _SINK_POINTER,
    ("    tot = tl.zeros([TM], tl.float32)", "    tot = tl.full([TM], 1.0, tl.float32)"),
    ("    tot = tot + tl.exp2(sink - top)\n", ""),
)
_SINK_THREADS = vary(
    FLASH_THREADS,
    ("half* out, float rate,", "half* out, const float* sinks, float rate,"),
    ("    float top = -INFINITY;", "    float sink = sinks[head];\n    float top = sink;"),
    ("    acc = acc / tot;", "    tot = tot + exp2f(sink - top);\n    acc = acc / tot;"),
)


_REAL = "ct.astype(ct.arange(TM, dtype=ct.int32) < 4, ct.float32)"
_SINK_LAST = vary(
    ATTENTION,
    ("out, rate: float", "out, sinks, rate: float"),
    (
        "    acc = ct.truediv(acc, tot,",
        "    sink = ct.gather(sinks, head)\n    tot = tot + ct.exp2(sink - top)\n"
        "    acc = ct.truediv(acc, tot,",
    ),
)
_SINK_RAISED = vary(
    FLASH_POINTER,
    ("out, rate,", "out, sinks, rate,"),
    (
        "    acc = acc / tot[:, None]",
        "    sink = tl.load(sinks + head)\n    old = top\n    top = tl.maximum(top, sink)\n"
        "    fade = tl.exp2(old - top)\n    acc = acc * fade[:, None]\n"
        "    tot = tot * fade + tl.exp2(sink - top)\n    acc = acc / tot[:, None]",
    ),
)
_SINK_LAST_THREADS = vary(
    _SINK_THREADS,
    ("    float sink = sinks[head];\n    float top = sink;", "    float top = -INFINITY;"),
    ("tot = tot + exp2f(sink - top)", "tot = tot + exp2f(sinks[head] - top)"),
)
_SINK_MERGED = vary(
    MERGE_PAIR_THREADS,
    ("const float* lb,", "const float* lb, const float* sinks,"),
    ("    float tot = wx + wy;", "    float tot = wx + wy;\n    tot += exp2f(sinks[row] - top);"),
)

_STEP = """        float v = row[i];
        float before = top;
        top = fmaxf(top, v);
        sum = sum * expf(before - top) + expf(v - top);
"""
_IN_TWO_LOOPS = f"""__global__ void softmax(const float* x, float* out, int n, int from) {{
    const float* row = x + (blockIdx.x * blockDim.x + threadIdx.x) * n;
    float top = -INFINITY, sum = 0.f;
    for (int i = from; i < n; ++i) {{
{_STEP}    }}
    for (int i = 0; i < from; ++i) {{
{_STEP}    }}
    for (int i = 0; i < n; ++i)
        out[(blockIdx.x * blockDim.x + threadIdx.x) * n + i] = expf(row[i] - top) / sum;
}}
"""
_IN_VECTORS = """__global__ void softmax(const float4* x, float* out, int n) {
    float top = -INFINITY, sum = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float4 v = x[blockIdx.x * n + i];
        const float own[4] = {v.x, v.y, v.z, v.w};
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            float before = top;
            top = fmaxf(top, own[k]);
            sum = sum * expf(before - top) + expf(own[k] - top);
        }
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[blockIdx.x * n + i] = expf(x[blockIdx.x * n + i].x - top) / sum;
}
"""
_LEFT_OVER = """__global__ void softmax(const float* x, float* out, int n) {
    const float* row = x + blockIdx.x * n;
    float top = -1e30f, sum = 0.f;
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) {
        float before = top;
        for (int k = 0; k < 4; ++k) top = fmaxf(top, row[4 * i + k]);
        sum *= expf(before - top);
        for (int k = 0; k < 4; ++k) sum += expf(row[4 * i + k] - top);
    }
    if (n / 4 * 4 + threadIdx.x < n) {
        float before = top;
        top = fmaxf(top, row[n / 4 * 4 + threadIdx.x]);
        sum = sum * expf(before - top) + expf(row[n / 4 * 4 + threadIdx.x] - top);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = top + logf(sum);
}
"""
_SINK_BESIDE = vary(
    FLASH_POINTER,
    ("out, rate,", "out, sinks, rate,"),
    (
        "    acc = acc / tot[:, None]",
        "    whole = top + tl.log2(tot)\n    sink = tl.load(sinks + head)\n"
        "    acc = acc * (tl.exp2(top) / (tl.exp2(whole) + tl.exp2(sink)))[:, None]",
    ),
)
_POWERS = frozenset({OpKind.EXP, OpKind.EXP2})
_LOGARITHMS = (OpKind.LOG, OpKind.LOG2)


class AttentionSink(Pattern):
    """The running maximum starts from a loaded number that also enters the sum after the loop, or
    whose weight of one the sum starts from; or only what follows the loop takes one in; or the sum
    of the weights of partial results takes in one that weighs nothing."""

    name = "attention-sink-as-virtual-key"
    axis = "softmax_variant"
    source = "Xiao et al., Efficient Streaming Language Models with Attention Sinks (2023)"
    matches = (
        Case(_SINK, "sink in the running max init + denominator in the epilogue"),
        Case(_SINK_POINTER, "sink in the running max init + denominator in the epilogue"),
        Case(_SINK_FIRST, "sink in the inits of the running max and sum"),
        Case(_SINK_THREADS, "sink in the running max init + denominator in the epilogue"),
        Case(_SINK_MERGED, "sink in the denominator of the merge"),
        Case(_SINK_LAST, "sink in the denominator after the loop"),
        *(
            Case(
                vary(
                    _SINK_LAST,
                    ("ct.gather(sinks, head)", f"ct.gather(sinks, head)\n    sink = {told}"),
                ),
                "sink in the denominator after the loop",
            )
            for told in (f"sink * {_REAL}", f"{_REAL} * sink")
        ),
        Case(_SINK_RAISED, "sink in the maximum and the denominator after the loop"),
        Case(_SINK_BESIDE, "sink in the denominator after the loop"),
        Case(_SINK_LAST_THREADS, "sink in the denominator after the loop"),
    )
    near_misses = (
        NearMiss(ATTENTION, why="the maximum starts at minus infinity"),
        NearMiss(SOFTMAX_CHUNKS, why="the maximum starts at minus infinity"),
        NearMiss(FLASH_POINTER, why="the maximum starts at minus infinity"),
        NearMiss(FLASH_THREADS, why="the maximum starts at minus infinity"),
        NearMiss(
            vary(_SINK_FIRST, ("tl.full([TM], 1.0", "tl.full([TM], 0.0")),
            why="the loaded number has no weight in the sum",
        ),
        NearMiss(
            vary(_SINK_LAST, ("tot = tot + ct.exp2(sink - top)", "tot = tot + sink")),
            why="the loaded number is added as it is",
        ),
        NearMiss(
            vary(_SINK_BESIDE, ("tl.exp2(sink)", "sink")),
            why="the loaded number is added as it is",
        ),
        NearMiss(
            vary(_SINK_BESIDE, ("(tl.exp2(whole) + ", "(tl.exp2(sink) + ")),
            why="what the loop summed is no part of it",
        ),
        NearMiss(
            vary(_SINK_RAISED, ("tl.exp2(sink - top)", "tl.exp2(-top)")),
            why="no loaded number is weighed",
        ),
        NearMiss(_IN_TWO_LOOPS, why="a second loop goes on with the maximum of the first"),
        NearMiss(_LEFT_OVER, why="an element of the row that the rounds of four leave over"),
        NearMiss(_IN_VECTORS, why="the elements of a vector go on with the maximum of all before"),
        NearMiss(MERGE_PAIR_THREADS, why="every weight weighs a part"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        merge = merge_of(facts)
        extra = sinks(facts, merge) if merge is not None else []
        if merge is not None and extra:
            added = [
                n for n in merge.totals if any(facts.graph.rests_on(n.result, e) for e in extra)
            ]
            yield self.decide(facts, "sink in the denominator of the merge", [*extra, *added])
            return
        for loop in facts.loops:
            for state in loop.of(Role.RUNNING_MAXIMUM):
                if facts.graph.core(state.init) in facts.graph.arguments:
                    continue  # a loop around this one hands its own maximum on
                reads = facts.graph.roots(state.init, *READS)
                # A row that an earlier loop began is no key of its own.
                loaded = [n for n in reads if n.loop is None or loop.node.inside(n.loop)]
                # An index or an address says where a score lies.
                loaded = [n for n in loaded if may_be_float(facts.types.dtype(n.result))]
                later = self._later(facts, loop.node, loaded)
                if loaded and (ones := _ones(facts, loop)):
                    value = "sink in the inits of the running max and sum"
                    yield self.decide(facts, value, [*loaded, *ones])
                    return
                if loaded and later:
                    value = "sink in the running max init + denominator in the epilogue"
                    yield self.decide(facts, value, [*loaded, *later])
                    return
        yield from self._after(facts)
        yield from self._beside(facts)

    def _after(self, facts: Facts) -> Iterable[Decision]:
        """Exponentials of a loaded number below the maximum that a loop found, perhaps raised to
        that number, that are added to the sum of the loop after it."""
        sums = [c.result for loop in facts.loops for c in loop.of(Role.RUNNING_SUM)]
        maxima = [c.result for loop in facts.loops for c in loop.of(Role.RUNNING_MAXIMUM)]
        for e in facts.exponentials if sums and maxima else ():
            if e.node.loops or e.score is None or e.statistic is None:
                continue
            fed = facts.feeding(e.score) or facts.feeding(e.scale or "")
            if facts.graph.roots(e.score, *CONTRACTIONS, *LOOPS) or not fed:
                continue
            if not any(leads(facts.graph, e.statistic, v) for v in maxima):
                continue
            if {a.array for a in fed} <= self._walked(facts):
                continue  # elements of the row itself that its rounds leave over
            added = [
                n
                for n in facts.graph.users(e.node.result)
                if n.op.kind in (OpKind.ADD, OpKind.FMA)
                and any(leads(facts.graph, n.result, v) for v in sums)
            ]
            if added:
                tops = facts.graph.roots(e.statistic, OpKind.MAXIMUM)
                raised = [n for n in tops if any(leads(facts.graph, n.result, v) for v in maxima)]
                where = "maximum and the denominator" if raised else "denominator"
                value = f"sink in the {where} after the loop"
                yield self.decide(facts, value, [*raised, e.node, *added])
                return

    def _beside(self, facts: Facts) -> Iterable[Decision]:
        """The exponential of a loaded number, added to that of the logarithm of the sum and the
        maximum that a loop found."""
        maxima = [c.result for loop in facts.loops for c in loop.of(Role.RUNNING_MAXIMUM)]
        for node in facts.graph.of(OpKind.ADD) if maxima else ():
            sides = [facts.graph.producer(facts.graph.core(v)) for v in node.op.inputs[:2]]
            raised = [n for n in sides if n is not None and n.op.kind in _POWERS and not n.loops]
            inputs = [n.op.inputs[0] for n in raised]
            sinks_ = [v for v in inputs if facts.held_loads(v)]
            sums = [v for v in inputs if facts.graph.roots(v, *_LOGARITHMS)]
            whole = [v for v in sums if any(leads(facts.graph, v, top) for top in maxima)]
            if len(raised) == 2 and sinks_ and whole:
                yield self.decide(facts, "sink in the denominator after the loop", [*raised, node])
                return

    def _walked(self, facts: Facts) -> set[str | None]:
        """Arrays whose elements the loops with a running maximum go over."""
        loops = [loop.node for loop in facts.loops if loop.of(Role.RUNNING_MAXIMUM)]
        return {a.array for a in facts.loads if any(a.node.inside(n) for n in loops)}

    def _later(self, facts: Facts, loop: Node, loaded: list[Node]) -> list[Node]:
        return [
            e.node
            for e in facts.exponentials
            if not e.node.inside(loop) and e.node.index > loop.index
            and any(facts.graph.rests_on(e.score, n) for n in loaded)
        ]  # fmt: skip


def _ones(facts: Facts, loop: Loop) -> list[Node]:
    """Where running sums of a loop are filled with ones."""
    made = [facts.graph.producer(begun(facts, c.init)) for c in loop.of(Role.RUNNING_SUM)]
    fills = [n for n in made if n is not None and n.op.kind in (OpKind.FULL, OpKind.ONES)]
    return [
        n
        for n in fills
        if n.op.kind == OpKind.ONES or facts.values.literal(n.op.operand("value")) == 1
    ]
