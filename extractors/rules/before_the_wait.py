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
from kb.ir import TileType
from kb.ops import OpKind

_INTEGERS = frozenset({"i16", "u16", "i32", "u32", "i64", "u64"})
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
    for that one, or loads lengths or places from one: the other may still read the array, or write
    it."""

    name = "before-the-wait"
    dialects = ("cuda",)
    matches = (
        Case(_LENGTHS, "`length` is read"),
        Case(_ZEROED, "`counts` is written"),
    )
    near_misses = (
        NearMiss(
            vary(_LENGTHS, ("  int n = length[blockIdx.x];\n", ""), ("Synchronize();", "Synchronize();\n  int n = length[blockIdx.x];")),
            why="it is read behind the wait",
        ),
        NearMiss(
            vary(_LENGTHS, ("  cudaGridDependencySynchronize();\n", "")), why="the kernel waits for nothing"
        ),
        NearMiss(
            vary(_LENGTHS, ("const int* length", "const float* length"), ("int n =", "float n =")),
            why="weights may be there long before",
        ),
        NearMiss(
            vary(_ZEROED, ("(int* counts", "(int counts"), ("  counts[", "  __shared__ int held[256];\n  held[")),
            why="the memory of the block",
        ),
        NearMiss(
            vary(_LENGTHS, ("  cudaGrid", "  for (int k = 0; k < n; ++k) cudaGrid")), why="where it waits is not known"
        ),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        found: dict[str, list[Node]] = {}
        for node, name in before_the_wait(facts):
            if node.op.kind != OpKind.LOAD:
                found.setdefault(f"`{name}` is written", []).append(node)
            elif _counts(facts, node):
                found.setdefault(f"`{name}` is read", []).append(node)
        home = facts.kernel.entry.span.path
        if found:
            yield self.finding(
                subject,
                f"{', '.join(found)} before the wait for the kernel before: where the launches "
                "overlap, that one may still read or write it",
                "wait first; only what no kernel before writes may be read ahead",
                [one for row in found.values() for one in row if one.op.span.path == home],
                Severity.NOTE,
            )


def _counts(facts: Facts, node: Node) -> bool:
    """Whether a whole number is loaded."""
    type_ = node.op.results[0].type if node.op.results else None
    return isinstance(type_, TileType) and not type_.shape and type_.dtype in _INTEGERS
