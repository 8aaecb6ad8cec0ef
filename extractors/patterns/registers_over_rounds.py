"""Arrays of registers that are filled once, before a loop that takes from them in every round."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_rows_threads import ADD_THREADS, OWN_ROW_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop
from kb.analysis.register_rows import from_loads, puts
from kb.evidence import Decision
from kb.ir import ParameterKind
from kb.ops import OpKind

_TAPS = """__global__ void taps(const float* x, const float* w, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float tap[4];
    for (int i = 0; i < 4; ++i) tap[i] = w[at * 4 + i];
    for (int t = 0; t < n; ++t) {
        float sum = 0.f;
        for (int i = 0; i < 4; ++i) sum += tap[i] * x[at * n + t + i];
        out[at * n + t] = sum;
    }
}
"""
_FILLED = "    for (int i = 0; i < 4; ++i) tap[i] = w[at * 4 + i];\n"


_COSTLY = frozenset({
    OpKind.EXP, OpKind.EXP2, OpKind.LOG, OpKind.LOG2, OpKind.POW, OpKind.SIN, OpKind.COS,
    OpKind.SQRT, OpKind.RSQRT, OpKind.EXTERN_MATH,
})  # fmt: skip


class RegistersOverRounds(Pattern):
    """Elements that are loaded, or come from functions, are put into an array of registers, and
    every round of a later loop, of which nobody knows the number when the kernel is compiled, takes
    the same ones out."""

    name = "registers-filled-before-the-rounds"
    axis = "invariant_residency"
    source = "Aho et al., Compilers (2006), section 9.1: loop-invariant code motion"
    matches = (
        Case(_TAPS, "kept in registers over the rounds"),
        Case(vary(_TAPS, ("= w[at * 4 + i]", "= w[at * 4 + i] * 2.f + 1.f"))),
        Case(vary(_TAPS, ("= w[at * 4 + i]", "= expf(-0.5f * i)"))),
    )
    near_misses = (
        NearMiss(
            vary(
                _TAPS, (_FILLED, ""), ("        float sum", f"    {_FILLED}        float sum")
            ),
            why="filled in every round",
        ),
        NearMiss(vary(_TAPS, ("t < n", "t < 8")), why="the compiler knows the rounds"),
        NearMiss(vary(_TAPS, ("sum += tap[i]", "sum += tap[t]")), why="a round takes its own"),
        NearMiss(
            vary(_TAPS, ("        out[", "        tap[t % 4] = sum;\n        out[")),
            why="rounds change it",
        ),
        NearMiss(vary(_TAPS, ("= w[at * 4 + i]", "= 0.5f * i")), why="nothing is loaded or costly"),
        NearMiss(OWN_ROW_THREADS, why="no rounds"),
        NearMiss(PRODUCT_THREADS, why="sums lie in registers"),
        NearMiss(ADD_THREADS, why="no registers"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            return
        graph = facts.threads
        loops = {loop.node: loop for loop in facts.thread_loops if _rounds(facts, loop)}
        found: dict[Node, None] = {}
        known: dict[str, list[Node]] = {}
        for taken in graph.of(OpKind.EXTRACT) if loops else ():
            array = taken.op.inputs[0]
            if array not in known:
                known[array] = puts(graph, array)
            written = known[array]
            for loop in (loops[one] for one in taken.loops if one in loops):
                if any(n.inside(loop.node) for n in written) or _own(facts, loop, taken):
                    continue
                for put in written:
                    made = from_loads(graph, put) or _functions(facts, put)
                    if put.index < loop.node.index and made and not _grows(facts, put):
                        found.update(dict.fromkeys([*made, put]))
        if found:
            yield self.decide(facts, "kept in registers over the rounds", found)


def _rounds(facts: Facts, loop: Loop) -> bool:
    """Whether the call, or memory, says how many rounds a loop has."""
    if loop.range is None or loop.range.op.kind == OpKind.STATIC_RANGE:
        return loop.range is None and loop.node.op.kind == OpKind.WHILE
    given = {p.name for p in facts.kernel.entry.parameters if p.kind is not ParameterKind.CONSTEXPR}
    for value in (v for v in (loop.low, loop.high) if v is not None):
        above = [*facts.threads.upstream(value)]
        read = {value, *(v for n in above for v in n.op.inputs)}
        if read & given or any(n.op.kind == OpKind.LOAD for n in above):
            return True
    return False


def _own(facts: Facts, loop: Loop, taken: Node) -> bool:
    """Whether a round takes elements of its own."""
    index = taken.op.operand("index")
    handed = [one.name for region in loop.node.op.regions for one in region.arguments]
    return index is None or any(facts.threads.rests_on_argument(index, one) for one in handed)


def _functions(facts: Facts, put: Node) -> list[Node]:
    """Functions that an element is computed by."""
    above = facts.threads.upstream(put.op.operand("value") or "")
    return [n for n in above if n.op.kind in _COSTLY]


def _grows(facts: Facts, put: Node) -> bool:
    """Whether an element goes on with what it held: a sum."""
    return facts.threads.rests_on(put.op.operand("value"), put)
