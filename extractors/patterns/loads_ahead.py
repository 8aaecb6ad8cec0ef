"""Loads of several rounds that one thread issues before it uses the first."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop
from kb.analysis.symbolic import Expr
from kb.evidence import Decision
from kb.ops import OpKind

_SUM = """__global__ void sum(const float* x, float* out, int n) {
    float total = 0.f;
    for (int i = 0; i < n; i += 4) {
        float held[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) held[j] = x[(i + j) * 128 + threadIdx.x];
#pragma unroll
        for (int j = 0; j < 4; ++j) total = total * 0.5f + held[j];
    }
    out[threadIdx.x] = total;
}
"""
_BY_PARAMETER = """template <int AHEAD> __global__ void twice(const float* x, float* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x * AHEAD) {
        float held[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; ++j)
            if (i + j * blockDim.x < n) held[j] = x[i + j * blockDim.x];
#pragma unroll
        for (int j = 0; j < AHEAD; ++j)
            if (i + j * blockDim.x < n) out[i + j * blockDim.x] = held[j] * 2.f;
    }
}
"""


class LoadsAhead(Pattern):
    """In a loop that goes on by several rounds at a time, an inner loop over those rounds loads
    into registers, and another one behind it uses what was loaded."""

    name = "loads-of-several-rounds-before-the-first-use"
    axis = "prefetch_depth"
    source = "Volkov, Better Performance at Lower Occupancy (2010): memory-level parallelism"
    matches = (
        Case(_SUM, "loads of 4 rounds before the first use"),
        Case(_BY_PARAMETER, "loads of AHEAD rounds before the first use"),
    )
    near_misses = (
        NearMiss(_SUM.replace("i += 4", "i += 1"), why="the loop goes on by single rounds"),
        NearMiss(
            _SUM.replace(
                "        for (int j = 0; j < 4; ++j) total = total * 0.5f + held[j];", ""
            ).replace("128 + threadIdx.x];", "128 + threadIdx.x], total += held[j];"),
            why="each is used where it is loaded",
        ),
        NearMiss(_SUM.replace("x[(i + j) * 128 + threadIdx.x]", "i + j"), why="nothing is loaded"),
        NearMiss(ROW_NORM_THREADS, why="one element at a time"),
        NearMiss(ADD_THREADS, why="no loop"),
        NearMiss(ADD_POINTER, why="no loop"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        values = facts.thread_values
        found: dict[str, list[Where]] = {}
        loops = {loop.node: loop for loop in facts.thread_loops}
        for inner in facts.thread_loops:
            around = loops.get(inner.node.loops[-1]) if inner.node.loops else None
            rounds = values.expr(inner.high) if inner.high else None
            if around is None or rounds is None or not _by_rounds(facts, around, rounds):
                continue
            loads = _kept(facts, inner)
            users = _users(facts, inner) if loads else []
            if users:
                where = found.setdefault(f"loads of {rounds} rounds before the first use", [])
                where += [inner.node, *loads, *users]
        for value, places in found.items():
            yield self.decide(facts, value, places)


def _by_rounds(facts: Facts, loop: Loop, rounds: Expr) -> bool:
    """Whether a loop goes on by so many rounds, or a multiple, and they are more than one."""
    step = facts.thread_values.expr(loop.step) if loop.step else None
    if step is None or not step.terms:
        return False
    if rounds.constant is not None:
        return rounds.constant > 1 and all(n % rounds.constant == 0 for _, n in step.terms)
    return rounds.atom is not None and all(rounds.atom in factors for factors, _ in step.terms)


def _kept(facts: Facts, inner: Loop) -> list[Node]:
    """Loads of an inner loop whose numbers are put into an array of the thread."""
    graph = facts.threads
    loads = [n for n in graph.of(OpKind.LOAD) if n.inside(inner.node)]
    puts = [n for n in graph.of(OpKind.INSERT) if loads and n.inside(inner.node)]
    return [n for n in loads if any(graph.rests_on(p.op.operand("value"), n) for p in puts)]


def _users(facts: Facts, inner: Loop) -> list[Node]:
    """Loops behind an inner one, in the same round, that take what it hands on."""
    around = inner.node.parent
    given = {result.name for result in inner.node.op.results}
    if around is not None and around.op.kind == OpKind.IF:
        given |= {result.name for result in around.op.results}
    behind = [loop.node for loop in facts.thread_loops if loop.node.loops == inner.node.loops]
    users = [n for value in given for n in facts.threads.users(value)]
    return [
        node
        for node in behind
        if node.index > inner.node.index and any(user.inside(node) for user in users)
    ]
