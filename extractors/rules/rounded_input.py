"""Inputs are rounded to the dtype of another array before they are computed with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import VIEWS, Node
from kb.evidence import Finding, Severity
from kb.ops import OpKind

_POINTER = (
    POINTER
    + """
@triton.jit
def softmax(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    row = tl.program_id(0).to(tl.int64) * n
    v = tl.load(x + row + at, mask=at < n, other=float("-inf")).to(out.dtype.element_ty)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row + at, e / tl.sum(e, axis=0), mask=at < n)
"""
)
_TILED = (
    TILE
    + """
@ct.kernel
def softmax(x, out, T: Int):
    row = ct.bid(0)
    v = ct.load(x, index=(row, 0), shape=(1, T), padding_mode=ct.PaddingMode.NEG_INF)
    v = ct.astype(v, out.dtype)
    e = ct.exp(v - ct.max(v, axis=1, keepdims=True))
    ct.store(out, index=(row, 0), tile=e / ct.sum(e, axis=1, keepdims=True))
"""
)
_COMPUTING = frozenset({
    OpKind.EXP, OpKind.EXP2, OpKind.LOG, OpKind.REDUCE_MAX, OpKind.REDUCE_SUM, OpKind.MUL,
    OpKind.SUB, OpKind.ADD, OpKind.DIV,
})  # fmt: skip


class RoundedInput(Rule):
    """What is loaded is cast to the element type of an array that the kernel only writes, and an
    exponential or reduction is computed from it: with a narrower output the input loses digits."""

    name = "rounded-input"
    matches = (Case(_POINTER, "`out`"), Case(_TILED, "`out`"))
    near_misses = (
        NearMiss(
            vary(_POINTER, (".to(out.dtype.element_ty)", ".to(tl.float32)")), why="it is widened"
        ),
        NearMiss(
            vary(_POINTER, (".to(out.dtype.element_ty)", ".to(x.dtype.element_ty)")),
            why="its own dtype changes nothing",
        ),
        NearMiss(
            vary(_POINTER, (".to(out.dtype.element_ty)", ""),
                 ("e / tl.sum(e, axis=0)", "(e / tl.sum(e, axis=0)).to(out.dtype.element_ty)")),
            why="the result is rounded, and nothing is computed after",
        ),
    )  # fmt: skip
    seen = (Seen("flag-gems", "flag_gems/ops/softmax.py", "softmax_kernel_inner", 105),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        found = list(_rounded(subject.facts))
        if found:
            arrays = ", ".join(dict.fromkeys(f"`{load.array}`" for load, _, _ in found))
            target = found[0][2]
            yield self.finding(
                subject,
                f"{arrays}: what is loaded is rounded to the dtype of the output `{target}` before "
                "it is computed with: fp32 input of a half-precision output loses its digits",
                "compute in 32-bit floats and round the result when it is stored",
                [cast for _, cast, _ in found],
                Severity.NOTE,
            )


def _rounded(facts: Facts) -> Iterator[tuple[Access, Node, str]]:
    """Load, cast and the array whose element type it is cast to."""
    written = {a.array for a in facts.stores} - {a.array for a in facts.loads}
    for cast in facts.graph.of(OpKind.CAST):
        made = facts.graph.producer(facts.graph.through(cast.op.inputs[0], VIEWS))
        load = facts.access(made) if made is not None else None
        if load is None or load.is_store or load.array is None:
            continue
        target = _array_of(facts, cast)
        if target is not None and target in written and _exponential(facts, cast):
            yield load, cast, target


def _array_of(facts: Facts, cast: Node) -> str | None:
    """The parameter whose element type a cast names."""
    value = cast.op.inputs[1] if len(cast.op.inputs) > 1 else None
    for _ in range(6):
        node = facts.graph.producer(value)
        if node is None:
            break
        value = node.op.inputs[0] if node.op.inputs else None
    return value if value in facts.kernel.entry.parameter_names else None


def _exponential(facts: Facts, cast: Node) -> bool:
    """Whether an exponential or a reduction is computed from the cast value."""
    return any(
        facts.graph.rests_on(node.op.inputs[0], cast)
        for node in (*facts.reductions, *(e.node for e in facts.exponentials))
    )
