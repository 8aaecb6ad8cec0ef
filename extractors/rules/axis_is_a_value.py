"""A reduction is given a second value where its axis stands."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import POINTER, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.graph import VIEWS
from kb.evidence import Finding
from kb.ops import OpKind

_RUNNING = (
    POINTER
    + """
@triton.jit
def largest(x, out, n, T: tl.constexpr, A: tl.constexpr):
    top = float("-inf")
    for j in range(0, n, T):
        v = tl.load(x + j + tl.arange(0, T), mask=j + tl.arange(0, T) < n, other=float("-inf"))
        block = tl.max(v, axis=0)
        top = tl.max(top, block)
    tl.store(out, top)
"""
)


class AxisIsAValue(Rule):
    """The axis of a reduction is computed by the kernel from what it loads: the elementwise
    operation of two values was meant, and the call does not compile."""

    name = "axis-is-a-value"
    dialects = ("triton",)
    matches = (
        Case(_RUNNING, "second"),
        Case(vary(_RUNNING, ("tl.max(top, block)", "tl.min(top, block)")), "second"),
    )
    near_misses = (
        NearMiss(
            vary(_RUNNING, ("tl.max(top, block)", "tl.maximum(top, block)")), why="elementwise"
        ),
        NearMiss(
            vary(_RUNNING, ("axis=0", "axis=A"), ("tl.max(top, block)", "tl.maximum(top, block)")),
            why="a compile-time axis",
        ),
    )
    seen = (
        Seen(
            "liger-kernel", "liger_kernel/ops/softmax.py", "_softmax_multi_block_forward_kernel", 51
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        for node in facts.reductions:
            axis = node.op.operand("axis")
            made = facts.graph.producer(facts.graph.through(axis, VIEWS)) if axis else None
            loaded = made is not None and (
                made.op.kind in (OpKind.LOAD, *(r.op.kind for r in facts.reductions))
            )
            if loaded:
                yield self.finding(
                    subject,
                    "the second argument of a reduction is its axis, and a value that the kernel "
                    "computes stands there",
                    "use the elementwise operation of two values (`tl.maximum`, `tl.minimum`)",
                    [node],
                )
