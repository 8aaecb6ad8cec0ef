"""The maximum is taken out of an exponential and multiplied back at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, TURNS, VIEWS, Node
from kb.evidence import Finding, Severity
from kb.ops import OpKind

_SAME = CASTS | COPIES | VIEWS | TURNS
_POWERS = (OpKind.EXP, OpKind.EXP2)

_SHIFTED = (
    POINTER
    + """
@triton.jit
def powers(x, out, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=float("-inf"))
    top = tl.max(v, axis=0)
    p = tl.exp(v - top) * tl.exp(top)
    tl.store(out + row * n + at, p, mask=at < n)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def powers(x, out, T: Int):
    v = ct.load(x, index=(ct.bid(0), 0), shape=(1, T))
    top = ct.max(v, axis=1, keepdims=True)
    e = ct.exp(top)
    ct.store(out, index=(ct.bid(0), 0), tile=e * ct.exp(v - top))
"""
)
_THREADS = """
__global__ void powers(const float* x, const float* tops, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float top = tops[blockIdx.x];
  out[i] = expf(x[i] - top) * expf(top);
}
"""


class ExponentialUndone(Rule):
    """The exponential of a difference is multiplied with the exponential of what was taken off: the
    product is the exponential that the difference was to avoid, with its range, for one more
    exponential and the reduction that found the maximum."""

    name = "exponential-undone"
    dialects = ("cuda", "cutile", "triton")
    matches = (
        Case(_SHIFTED, "multiplied back"),
        Case(_TILES, "multiplied back"),
        Case(_THREADS, "multiplied back"),
    )
    near_misses = (
        NearMiss(
            vary(_SHIFTED, ("* tl.exp(top)", "/ tl.sum(tl.exp(v - top), axis=0)")), why="a softmax"
        ),
        NearMiss(
            vary(_SHIFTED, ("* tl.exp(top)", "* tl.exp(top - 1.0)")),
            why="another number is raised",
        ),
        NearMiss(vary(_TILES, ("e * ct", "e + ct")), why="a sum"),
    )
    seen = (Seen("liger-kernel", "liger_kernel/ops/jsd.py", "_jsd_kernel", 62),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        found = dict.fromkeys(_undone(subject.facts))
        if found:
            yield self.finding(
                subject,
                "what is taken off before an exponential is multiplied back right after it: the "
                "product is the exponential itself, as large and as small, for a reduction and an "
                "exponential more",
                "take the exponential of the number itself, or divide by the sum of the shifted "
                "ones",
                found,
                Severity.NOTE,
            )


def _undone(facts: Facts) -> Iterator[Node]:
    """Exponentials of a difference, those of what was taken off, and their products."""
    for product in facts.graph.of(OpKind.MUL):
        powers = [_power(facts, value) for value in product.op.inputs[:2]]
        for shifted, other in (powers, powers[::-1]):
            if shifted is None or other is None or shifted.op.kind != other.op.kind:
                continue
            taken = facts.graph.producer(facts.graph.through(shifted.op.inputs[0], _SAME))
            if taken is None or taken.op.kind != OpKind.SUB:
                continue
            off = facts.graph.through(taken.op.inputs[1], _SAME)
            if off is not None and off == facts.graph.through(other.op.inputs[0], _SAME):
                yield from (shifted, other, product)


def _power(facts: Facts, value: str) -> Node | None:
    made = facts.graph.producer(facts.graph.through(value, _SAME))
    return made if made is not None and made.op.kind in _POWERS else None
