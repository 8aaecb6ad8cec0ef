"""Products of inputs are added up in the precision of the input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import VIEWS, Node
from kb.evidence import Finding, Severity
from kb.ops import OpKind

_POINTER = (
    POINTER
    + """
@triton.jit
def norm(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    row = tl.program_id(0).to(tl.int64) * n
    v = tl.load(x + row + at, mask=at < n, other=0.0)
    s = tl.sum(v * v, axis=0) / n
    tl.store(out + row + at, v * tl.rsqrt(s), mask=at < n)
"""
)
_TILED = (
    TILE
    + """
@ct.kernel
def norm(x, out, N: Int, T: Int):
    row = ct.bid(0)
    v = ct.load(x, index=(row, 0), shape=(1, T), padding_mode=ct.PaddingMode.ZERO)
    s = ct.sum(v * v, axis=1, keepdims=True) / N
    ct.store(out, index=(row, 0), tile=v * ct.rsqrt(s))
"""
)


class InputPrecisionSum(Rule):
    """A sum takes the square of a loaded value that was never widened: with 16-bit floats the
    square overflows at 256 and is rounded before it is added."""

    name = "input-precision-sum"
    matches = (Case(_POINTER, "`x`"), Case(_TILED, "`x`"))
    near_misses = (
        NearMiss(
            vary(_POINTER, ("other=0.0)", "other=0.0).to(tl.float32)")), why="widened when loaded"
        ),
        NearMiss(
            vary(_POINTER, ("tl.sum(v * v", "tl.sum(v.to(tl.float32) * v")),
            why="one factor is widened, and so is the product",
        ),
        NearMiss(
            vary(_POINTER, ("v * v, axis", "v, axis")), why="nothing is multiplied before the sum"
        ),
    )
    seen = (Seen("liger-kernel", "liger_kernel/ops/rms_norm.py", "_rms_norm_forward_kernel", 128),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        for array, product, total in _narrow(subject.facts):
            yield self.finding(
                subject,
                f"squares of `{array}` are computed and added up in its own dtype: in fp16 a value "
                "of 256 overflows, and each square is rounded before the sum",
                "convert what is loaded to 32-bit floats before it is squared",
                [product, total],
                Severity.NOTE,
            )
            return


def _narrow(facts: Facts) -> Iterator[tuple[str, Node, Node]]:
    """Array, square and sum, where the dtype of the array goes all the way."""
    for total in facts.graph.of(OpKind.REDUCE_SUM):
        product = facts.graph.producer(facts.graph.through(total.op.inputs[0], VIEWS))
        if product is None or product.op.kind != OpKind.MUL:
            continue
        left, right = (facts.graph.through(value, VIEWS) for value in product.op.inputs[:2])
        if left != right:
            continue
        for array in _loaded(facts, left):
            yield array, product, total
            return


def _loaded(facts: Facts, value: str | None) -> Iterator[str]:
    """The array that a value was loaded from as it stands, in a branch at least."""
    pending = [value]
    for current in pending:
        node = facts.graph.producer(facts.graph.through(current, VIEWS))
        if node is None or len(pending) > 16:
            continue
        access = facts.access(node)
        if access is not None and not access.is_store and access.array is not None:
            dtype = facts.types.dtype(node.result)
            if dtype not in _WIDE and not dtype.startswith(("i", "u")):
                yield access.array
        elif node.op.kind in (OpKind.IF, OpKind.IF_EXPRESSION):
            pending += facts.graph.feeds(current or "")


_WIDE = ("f32", "f64", "tf32")
