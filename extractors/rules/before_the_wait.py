# ruff: noqa: E501
"""Memory is touched before the kernel waits for the one before it."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.waiting import before_the_wait
from kb.evidence import Finding, Severity
from kb.ops import OWN_THREAD, OpKind

_LENGTHS = """
__global__ void scale(const int* length, const float* x, float* out) {
  int n = length[blockIdx.x];
  cudaGridDependencySynchronize();
  if (threadIdx.x < n) { out[threadIdx.x] = 2.0f * x[threadIdx.x]; }
}
"""
_ZEROED = """
__global__ void scale(int* counts, const float* x, float* out) {
  counts[threadIdx.x] = 0;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  out[threadIdx.x] = 2.0f * x[threadIdx.x];
}
"""


class BeforeTheWait(Rule):
    """A kernel that may begin while the one before it still runs stores to an array before it waits
    for that one: the other may still read the array, or write it. What is only read ahead is a
    constraint: mostly no kernel before writes it."""

    name = "before-the-wait"
    dialects = ("cuda",)
    matches = (
        Case(_ZEROED, "`counts` is written"),
        Case(
            vary(
                _ZEROED,
                ("(int* counts", "(int n, int* counts"),
                ("  asm volatile", "  if (n > 0) asm volatile"),
            ),
            "`counts` is written",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_ZEROED, ("  counts[threadIdx.x] = 0;\n", ""), ("memory\");", "memory\");\n  counts[threadIdx.x] = 0;")),
            why="it is written behind the wait",
        ),
        NearMiss(
            vary(_ZEROED, ("  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n", "")), why="the kernel waits for nothing"
        ),
        NearMiss(_LENGTHS, why="it is only read"),
        NearMiss(
            vary(_ZEROED, ("(int* counts", "(int counts"), ("  counts[", "  __shared__ int held[256];\n  held[")),
            why="the memory of the block",
        ),
        NearMiss(
            vary(_ZEROED, ("  asm", "  for (int k = 0; k < 2; ++k) asm")), why="where it waits is not known"
        ),
        NearMiss(
            vary(_ZEROED, ("  counts[", "  if (threadIdx.x >= 32) {\n  counts["), ("  asm", "  } else\n  asm")),
            why="other warps wait, and these may wait for them",
        ),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        found: dict[str, list[Node]] = {}
        for node, name in before_the_wait(facts):
            if node.op.kind != OpKind.LOAD and not _of_other_warps(facts, node):
                found.setdefault(f"`{name}` is written", []).append(node)
        home = facts.kernel.entry.span.path
        if found:
            yield self.finding(
                subject,
                f"{', '.join(found)} before the wait for the kernel before: where the launches "
                "overlap, that one may still read it, or write it",
                "wait first; only what no kernel before writes may be read ahead",
                [one for row in found.values() for one in row if one.op.span.path == home],
                Severity.NOTE,
            )


def _of_other_warps(facts: Facts, node: Node) -> bool:
    """Whether a branch on the thread leads here, and the wait is in its other side."""
    graph = facts.threads
    wait = graph.of(OpKind.GRID_WAIT)[0]
    sides = {one.parent: one.branch for one in (wait, *wait.around())}
    return any(
        sides.get(one.parent, one.branch) != one.branch
        and any(graph.roots(v, *OWN_THREAD) for v in one.parent.op.inputs[:1])
        for one in (node, *node.around())
        if one.parent is not None
    )
