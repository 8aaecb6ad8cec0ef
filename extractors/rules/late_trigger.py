# ruff: noqa: E501
"""The next kernel may begin only when this one is done."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Finding, Severity
from kb.ops import ATOMICS, CONTRACTIONS, READS, WRITES, OpKind

_WORK = READS | WRITES | ATOMICS | CONTRACTIONS | {
    OpKind.BARRIER, OpKind.SHUFFLE, OpKind.OPAQUE, OpKind.CALL, OpKind.ASYNC_COPY, OpKind.BULK_COPY,
}  # fmt: skip
_ROWS = """
__global__ void twice(const float* x, float* out, int n) {
  cudaGridDependencySynchronize();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = 2.0f * x[i]; }
  cudaTriggerProgrammaticLaunchCompletion();
}
"""


class LateTrigger(Rule):
    """A kernel lets the next one begin after the last thing that it does: where its blocks end they
    say so without being told, and nothing of the two overlaps but the launch."""

    name = "late-trigger"
    dialects = ("cuda",)
    matches = (
        Case(_ROWS, "after the last store"),
        Case(
            vary(
                _ROWS,
                (
                    "cudaTriggerProgrammaticLaunchCompletion();",
                    'asm volatile("griddepcontrol.launch_dependents;");',
                ),
            ),
            "after the last store",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_ROWS, ("  cudaTriggerProgrammaticLaunchCompletion();\n", ""),
                 ("  int i =", "  cudaTriggerProgrammaticLaunchCompletion();\n  int i =")),
            why="before the work",
        ),
        NearMiss(
            vary(_ROWS, ("  cudaTriggerProgrammaticLaunchCompletion();\n", ""),
                 ("out[i] =", "float v = x[i];\n    cudaTriggerProgrammaticLaunchCompletion();\n    out[i] ="),
                 ("2.0f * x[i]", "2.0f * v")),
            why="between the load and the store",
        ),
        NearMiss(
            vary(_ROWS, ("  cudaTriggerProgrammaticLaunchCompletion();\n", "")), why="nothing is said"
        ),
        NearMiss(
            vary(_ROWS, ("  if (i < n)", "  if (i < n) { out[i + n] = 3.0f * x[i]; }\n  for (int k = 0; k < 4; ++k) if (i < n)"),
                 ("2.0f * x[i]; }\n", "2.0f * x[i];\n  "), ("LaunchCompletion();", "LaunchCompletion(); }")),
            why="a loop goes on after it",
        ),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        triggers = facts.threads.of(OpKind.GRID_LAUNCH)
        stores = [n for n in facts.threads.nodes if n.op.kind in WRITES | ATOMICS]
        last = max(stores, key=lambda node: node.index, default=None)
        if not triggers or last is None or any(_goes_on(facts, one) for one in triggers):
            return
        home = facts.kernel.entry.span.path
        yield self.finding(
            subject,
            "the kernel triggers the launch of its dependents after the last store: the end of a "
            "block does the same without it, and the next kernel starts no earlier",
            "trigger once what the next kernel needs is on its way; it waits for the memory of this "
            "one all the same",
            [one for one in (*triggers, last) if one.op.span.path == home],
            Severity.NOTE,
        )


def _goes_on(facts: Facts, trigger: Node) -> bool:
    """Whether a thread does anything in memory after it says so, or may say so twice."""
    if trigger.loop is not None:
        return True
    return any(
        node.index > trigger.index and node.op.kind in _WORK and not trigger.excludes(node)
        for node in facts.threads.nodes
    )
