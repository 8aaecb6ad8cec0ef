"""Partial sums are kept in less than 32 bits over many terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.analysis.graph import CASTS, Node
from kb.analysis.loops import Loop, Role
from kb.evidence import Finding
from kb.ops import OpKind

_NARROW = frozenset({"f16", "bf16", "f8e4m3", "f8e5m2"})
_ROWS = (
    POINTER
    + """
@triton.jit
def rows(x, out, n, T: tl.constexpr):
    total = tl.zeros((T,), dtype=tl.float32)
    for first in range(0, n, T):
        at = first + tl.arange(0, T)
        total += tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out, tl.sum(total, axis=0))
"""
)


class NarrowAccumulator(Rule):
    """A loop adds into a tile of 16 or 8 bits: every step rounds, and the error grows with the
    number of steps."""

    name = "narrow-accumulator"
    matches = (
        Case(vary(PRODUCT, ("dtype=ct.float32", "dtype=ct.float16")), "f16"),
        Case(vary(_ROWS, ("tl.float32", "tl.bfloat16"), ("+= tl", "+= 1 * tl")), "bf16"),
        Case(
            vary(
                PRODUCT_POINTER,
                ("dtype=tl.float32", "dtype=tl.float16"),
                ("acc += tl.dot(x, y)", "acc += tl.dot(x, y).to(tl.float16)"),
            ),
            "f16",
        ),
    )
    near_misses = (
        NearMiss(PRODUCT, why="the accumulator holds 32-bit floats"),
        NearMiss(_ROWS, why="the sum holds 32-bit floats"),
        NearMiss(PRODUCT_POINTER, why="16 bits only when the result is stored"),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        for loop in subject.facts.loops:
            for value, node in self._sums(subject, loop):
                dtype = subject.facts.types.dtype(value)
                if dtype in _NARROW and _repeats(subject, loop):
                    yield self.finding(
                        subject,
                        f"a loop adds into a tile of {dtype}: every step rounds to it",
                        "keep the running sum in 32-bit floats and narrow it before the store",
                        [node],
                    )

    def _sums(self, subject: Subject, loop: Loop) -> Iterator[tuple[str, Node]]:
        graph = subject.facts.graph
        for carried in loop.of(Role.ACCUMULATOR, Role.SUM, Role.RUNNING_SUM):
            node = graph.producer(graph.through(carried.next, CASTS))
            if node is not None and not node.op.regions and node.op.kind != OpKind.CONST:
                yield carried.argument, node


def _repeats(subject: Subject, loop: Loop) -> bool:
    """False for a loop of a few steps that are known before the launch."""
    values = subject.facts.values
    low, high = values.expr(loop.low), values.expr(loop.high)
    if loop.high is None or low.constant is None or high.constant is None:
        return True
    return high.constant - low.constant > 8
