"""A thread divides once and multiplies the elements of a loop with the quotient."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_merges import MERGE_LOOP_THREADS
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import READS, OpKind

_PASSED = VIEWS | CASTS | {OpKind.SELECT, OpKind.MAXIMUM, OpKind.MINIMUM}
_PAIR = """template <int W>
__global__ void mix(const float* a, const float* b, const float* s, float* out) {
    float l = s[blockIdx.x * 2], r = s[blockIdx.x * 2 + 1];
    float sum = l + r;
    float left = sum > 0.f ? l / sum : 0.f;
    float right = sum > 0.f ? r / sum : 0.f;
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * W;
#pragma unroll
    for (int i = 0; i < W; ++i) out[at + i] = left * a[at + i] + right * b[at + i];
}
"""
_ROW = """__global__ void scaled(const float* x, float* out, float top, int n) {
    float largest = x[blockIdx.x * n];
    float by = top / largest;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        out[blockIdx.x * n + i] = x[blockIdx.x * n + i] * by;
    }
}
"""
MAX_SEEN = 24
"""Values that a quotient is followed through on its way to a product."""


class QuotientKept(Pattern):
    """A quotient of two computed numbers is made outside of a loop over elements; the loop
    multiplies what it loads with it."""

    name = "quotient-taken-once-multiplied-per-element"
    axis = "division_strength"
    source = "NVIDIA, CUDA C++ Best Practices Guide, division and modulo operations"
    matches = (
        Case(_PAIR, "one quotient per thread, multiplied per element"),
        Case(_ROW, "one quotient per thread, multiplied per element"),
    )
    near_misses = (
        NearMiss(vary(_ROW, ("= top / largest", "= top - largest")), why="nothing is divided"),
        NearMiss(
            vary(_ROW, ("    float by = top / largest;\n", ""), ("* by;", "* (top / largest);")),
            why="divided in every round",
        ),
        NearMiss(
            vary(_ROW, ("* by;", "+ by;")), why="what is divided is added, it saves no division"
        ),
        NearMiss(vary(_ROW, ("top / largest", "1.f / largest")), why="told as a reciprocal"),
        NearMiss(
            vary(_ROW, ("float by = top / largest", "int by = n / 2"), ("i] * by", "i + by]")),
            why="a position is halved",
        ),
        NearMiss(MERGE_LOOP_THREADS, why="told as a reciprocal"),
        NearMiss(ADD_THREADS, why="nothing is divided"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads or facts.contractions:
            return
        found: list[Node] = []
        for node in facts.threads.of(OpKind.DIV):
            if _computed(facts, node):
                products = _products(facts, node)
                found += [node, *products] if products else []
        if found:
            yield self.decide(facts, "one quotient per thread, multiplied per element", found)


def _computed(facts: Facts, node: Node) -> bool:
    """A quotient of numbers of which neither is known, and which are no places; no mean over an
    extent."""
    values = facts.thread_values
    if facts.threads.core(node.op.inputs[1]) in facts.threads.function.parameter_names:
        return False
    if any(isinstance(values.literal(facts.threads.core(v)), int | float) for v in node.op.inputs):
        return False
    kinds = [facts.types.dtype(v) for v in node.op.inputs[:2]]
    return not any(kind.startswith(("i", "u")) for kind in kinds)


def _products(facts: Facts, quotient: Node) -> list[Node]:
    """Products in a loop that the quotient is made outside of, with what the loop loads or holds
    element by element."""
    graph = facts.threads
    pending, found = [quotient.result], list[Node]()
    for value in pending:
        for user in graph.users(value):
            if user.op.kind in _PASSED and len(pending) < MAX_SEEN:
                pending.append(user.result)
            elif user.op.kind == OpKind.YIELD and user.parent is not None:
                branch = user.parent.op.kind in (OpKind.IF, OpKind.IF_EXPRESSION)
                if branch and len(pending) < MAX_SEEN:
                    pending += graph.onward(user, value)
            elif user.op.kind in (OpKind.MUL, OpKind.FMA):
                loop = user.loop
                other = [v for v in user.op.inputs[:2] if v != value]
                if (
                    loop is not None
                    and not quotient.inside(loop)
                    and any(_moves(facts, v, loop) for v in other)
                ):
                    found.append(user)
    return found


def _moves(facts: Facts, value: str, loop: Node) -> bool:
    """Whether a value rests on loads and is made anew in every round of a loop."""
    made = facts.threads.producer(value)
    inside = made is None or made.inside(loop)
    return inside and bool(facts.threads.roots(value, *READS))
