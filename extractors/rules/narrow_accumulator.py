"""Partial sums are kept in less than 32 bits over many terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.graph import CASTS, Graph, Node
from kb.analysis.loops import Loop, Role
from kb.evidence import Finding
from kb.ops import OpKind

_NARROW = frozenset({"f16", "bf16", "f8e4m3", "f8e5m2"})
_BRANCHES = (OpKind.IF, OpKind.IF_EXPRESSION)
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
_GUARDED = vary(
    PRODUCT_POINTER,
    ("dtype=tl.float32", "dtype=tl.float16"),
    (
        "acc += tl.dot(x, y)",
        "if tl.max(x) > 0.0:\n            acc = tl.dot(x, y, acc, out_dtype=tl.float16)",
    ),
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
        Case(_GUARDED, "f16"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="the accumulator holds 32-bit floats"),
        NearMiss(_ROWS, why="the sum holds 32-bit floats"),
        NearMiss(PRODUCT_POINTER, why="16 bits only when the result is stored"),
        NearMiss(
            vary(_GUARDED, ("float16", "float32")),
            why="the accumulator that a branch updates holds 32-bit floats",
        ),
        NearMiss(
            vary(_GUARDED, ("tl.dot(x, y, acc, out_dtype=tl.float16)", "acc * 0.5")),
            why="the branch scales what it holds and adds nothing",
        ),
    )
    seen = (Seen("flag-gems", "flag_gems/fused/DSA/sparse_mla.py", "triton_sparse_mla_fwd", 129),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        graph, types = subject.facts.graph, subject.facts.types
        for loop in subject.facts.loops:
            if not _repeats(subject, loop):
                continue
            added: dict[str, list[Node]] = {}
            for carried in loop.of(Role.ACCUMULATOR, Role.SUM, Role.RUNNING_SUM):
                dtype = types.dtype(carried.argument)
                if dtype in _NARROW:
                    added.setdefault(dtype, []).extend(_made(graph, carried.next))
            for dtype, nodes in added.items():
                if nodes:
                    yield self.finding(
                        subject,
                        f"a loop adds into a tile of {dtype}: every step rounds to it",
                        "keep the running sum in 32-bit floats and narrow it before the store",
                        nodes,
                    )


def _made(graph: Graph, value: str) -> Iterator[Node]:
    """The operations that make a value, in each branch that it may come from."""
    pending = [value]
    for current in pending:
        node = graph.producer(graph.through(current, CASTS))
        if node is not None and node.op.kind in _BRANCHES:
            pending += graph.feeds(graph.through(current, CASTS) or current)
        elif node is not None and not node.op.regions and node.op.kind != OpKind.CONST:
            yield node


def _repeats(subject: Subject, loop: Loop) -> bool:
    """False for a loop of a few steps that are known before the launch."""
    values = subject.facts.values
    low, high = values.expr(loop.low), values.expr(loop.high)
    if loop.high is None or low.constant is None or high.constant is None:
        return True
    return high.constant - low.constant > 8
