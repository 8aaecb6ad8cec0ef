"""States of a softmax that threads have found, put together two at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_rows_threads import SOFTMAX_CHUNKS_THREADS, SOFTMAX_THREADS
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.exponentials import Exponential, exponentials_of
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Graph, Node
from kb.analysis.merging import merge_of
from kb.evidence import Decision
from kb.ops import OpKind

_LANES = """__global__ void soft(float* out, const float* x, int n) {
    float top = -INFINITY, sum = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) {
        float most = fmaxf(top, x[blockIdx.x * n + i]);
        sum = sum * expf(top - most) + expf(x[blockIdx.x * n + i] - most);
        top = most;
    }
    for (int o = 16; o > 0; o /= 2) {
        float its = __shfl_xor_sync(0xffffffff, top, o);
        float part = __shfl_xor_sync(0xffffffff, sum, o);
        float most = fmaxf(top, its);
        sum = sum * expf(top - most) + part * expf(its - most);
        top = most;
    }
    for (int i = threadIdx.x; i < n; i += 32)
        out[blockIdx.x * n + i] = expf(x[blockIdx.x * n + i] - top) / sum;
}
"""
_BRANCH = vary(
    _LANES,
    ("        float most = fmaxf(top, its);\n"
     "        sum = sum * expf(top - most) + part * expf(its - most);\n        top = most;\n",
     "        if (its > top) {\n            sum *= expf(top - its);\n            top = its;\n"
     "        } else {\n            part *= expf(its - top);\n        }\n        sum += part;\n"),
)  # fmt: skip
_SHARED = vary(
    _LANES,
    ("    for (int o = 16; o > 0; o /= 2) {\n"
     "        float its = __shfl_xor_sync(0xffffffff, top, o);\n"
     "        float part = __shfl_xor_sync(0xffffffff, sum, o);\n",
     "    __shared__ float tops[32], sums[32];\n    tops[threadIdx.x] = top;\n"
     "    sums[threadIdx.x] = sum;\n    __syncthreads();\n    top = -INFINITY;\n    sum = 0.f;\n"
     "    for (int j = 0; j < 32; ++j) {\n        float its = tops[j], part = sums[j];\n"),
)  # fmt: skip
_STATES = LOOPS | {OpKind.LOAD, OpKind.SHUFFLE, OpKind.EXTRACT}
_POWERS = (OpKind.EXP, OpKind.EXP2)
_ONE_BY_ONE = "sequential online merge"
_BY_BRANCH = "side with the lesser maximum rescaled by a branch"


class StatesOfLanes(Pattern):
    """Two sums, each times the exponential of what its maximum lies below the greater one, are
    added; or the one with the lesser maximum alone is scaled, by a branch."""

    name = "states-of-lanes-merged-by-pairs"
    axis = "reduction_combine"
    source = "Milakov and Gimelshein (2018), section 3.1: two states put together"
    matches = (
        Case(_LANES, _ONE_BY_ONE),
        Case(_SHARED, _ONE_BY_ONE),
        Case(_BRANCH, _BY_BRANCH),
    )
    near_misses = (
        NearMiss(
            vary(_LANES, ("+ part * expf(its - most)", "+ expf(its - most)")),
            why="a score comes in, no sum",
        ),
        NearMiss(
            vary(_BRANCH, ("part *= expf(its - top);", "part *= 0.5f;")),
            why="one side alone is scaled by an exponential",
        ),
        NearMiss(SOFTMAX_CHUNKS_THREADS, why="the maximum is known before sums are made"),
        NearMiss(SOFTMAX_THREADS, why="one sum for all"),
        NearMiss(FLASH_THREADS, why="scores come in, no sums"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        graph = facts.threads
        if not facts.of_threads or len(graph.of(*_POWERS)) < 2 or merge_of(facts) is not None:
            return
        found: dict[str, dict[Node, None]] = {}
        powers = exponentials_of(graph, facts.thread_values)
        for number, one in enumerate(powers):
            for other in powers[number + 1 :]:
                for value, node in _merged(graph, one, other):
                    found.setdefault(value, {})[node] = None
        for value, nodes in found.items():
            yield self.decide(facts, value, nodes)


def _merged(graph: Graph, one: Exponential, other: Exponential) -> Iterator[tuple[str, Node]]:
    """What puts two states together that two exponentials weigh."""
    sides = [_sides(graph, power) for power in (one, other)]
    if sides[0] is None or sides[1] is None:
        return
    (low, top), (its, most) = sides[0], sides[1]
    made = graph.producer(top)
    crossed = low == most and its == top and one.node.excludes(other.node)
    if not crossed:
        if top != most or made is None or made.op.kind != OpKind.MAXIMUM:
            return
        if {graph.core(v) for v in made.op.inputs[:2]} != {low, its}:
            return
    factors = [_weighed(graph, power) for power in (one, other)]
    for added in graph.of(OpKind.ADD, OpKind.FMA) if all(factors) else ():
        if all(any(graph.rests_on(added.result, f) for f in side) for side in factors):
            value = _BY_BRANCH if crossed else _ONE_BY_ONE
            tops = [made] if made is not None and not crossed else []
            for node in (*tops, one.node, other.node, *factors[0], *factors[1], added):
                yield value, node
            return


def _sides(graph: Graph, power: Exponential) -> tuple[str | None, str | None] | None:
    """The maximum of a state and the greater one that it is taken from."""
    if power.difference is None or power.difference.op.kind != OpKind.SUB:
        return None
    first, second = power.difference.op.inputs[:2]
    return graph.core(first), graph.core(second)


def _weighed(graph: Graph, power: Exponential) -> list[Node]:
    """Products of an exponential with a sum that was carried, loaded or handed on."""
    return [
        user
        for user in graph.users(power.node.result)
        if user.op.kind in (OpKind.MUL, OpKind.FMA)
        if any(_state(graph, v) for v in user.op.inputs[:2] if v != power.node.result)
    ]


def _state(graph: Graph, value: str) -> bool:
    core = graph.core(value)
    made = graph.producer(core)
    return core in graph.arguments or (made is not None and made.op.kind in _STATES)
