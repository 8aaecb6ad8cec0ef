# ruff: noqa: E501
"""A loop is to be unrolled whose rounds are counted at run time."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.analysis.facts import Facts
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind
from kb.evidence import Finding, Severity

_FACTOR = "loop_unroll_factor"
_ROWS = """
__global__ void sums(const float* x, float* out, int n) {
  float sum = 0.0f;
#pragma unroll
  for (int i = threadIdx.x; i < n; i += 256) { sum += x[blockIdx.x * n + i]; }
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
"""


class UnrollWithoutCount(Rule):
    """A pragma asks for a loop to be unrolled and gives no count, but a number that is passed or
    loaded says how many rounds there are: such a loop cannot be unrolled completely."""

    name = "unroll-without-count"
    dialects = ("cuda",)
    matches = (
        Case(_ROWS, "without a count"),
        Case(
            vary(
                _ROWS,
                ("int n)", "const int* sizes)"),
                ("  float sum", "  const int n = sizes[0];\n  float sum"),
            ),
            "without a count",
        ),
    )
    near_misses = (
        NearMiss(vary(_ROWS, ("#pragma unroll\n", "#pragma unroll 4\n")), why="a count is given"),
        NearMiss(vary(_ROWS, ("#pragma unroll\n", "")), why="nothing is asked for"),
        NearMiss(vary(_ROWS, ("i < n", "i < 2048")), why="a number of the source"),
        NearMiss(
            vary(_ROWS, ("__global__", "template <int N>\n__global__"), ("i < n", "i < N")),
            why="known when it is compiled",
        ),
        NearMiss(
            vary(_ROWS, ("int i = threadIdx.x; i < n; i += 256", "int i = n; i < n + 4; ++i")),
            why="four rounds, wherever they begin",
        ),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        if not facts.of_threads:
            return
        home = facts.kernel.entry.span.path
        found = [loop for loop in facts.thread_loops if _all(facts, loop) and _open(facts, loop)]
        if found:
            yield self.finding(
                subject,
                "the pragma to unroll stands without a count on a loop whose bound is known only at "
                "run time: a loop is unrolled completely where its rounds are constant, and how far "
                "this one is unrolled is left to the compiler",
                "give the pragma a count, or make the bound a template parameter",
                [loop.node.head for loop in found if loop.node.op.span.path == home],
                Severity.NOTE,
            )


def _all(facts: Facts, loop: Loop) -> bool:
    """Whether a loop is to be unrolled completely."""
    factor = loop.range.op.operand(_FACTOR) if loop.range is not None else None
    return factor is not None and facts.thread_values.literal(factor) == 0


def _open(facts: Facts, loop: Loop) -> bool:
    """Whether the number of rounds is known only at run time."""
    values = facts.thread_values
    if loop.high is None or loop.low is None:
        return False
    passed = {p.name for p in facts.kernel.entry.parameters} - facts.constexprs
    high, low = values.expr(loop.high), values.expr(loop.low)
    given = [a for factors, _ in high.terms for a in factors]
    begun = {a.text for factors, _ in low.terms for a in factors}
    return any(
        atom.text not in begun
        and (
            atom.kind is AtomKind.LOADED
            or (atom.kind is AtomKind.PARAMETER and atom.value.partition(".")[0] in passed)
        )
        for atom in given
    )
