"""A cast is to the type that its operand has already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Finding, Severity
from kb.ir import Op, Region
from kb.ops import OpKind
from kb.planner.evaluation import DTYPE_BYTES

_ROWS = (
    POINTER
    + """
@triton.jit
def mean(x, out, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    total = tl.sum(v * 2.0, axis=0).to(tl.float32)
    tl.store(out + row, total / n)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def mean(x, out, W: Int):
    i = ct.bid(0)
    v = ct.astype(ct.load(x, index=(i, 0), shape=(1, W)), ct.float32)
    total = ct.astype(ct.sum(v * v, axis=1, keepdims=True), ct.float32)
    ct.store(out, index=(i, 0), tile=ct.astype(total, out.dtype))
"""
)


_THREADS = """
__global__ void twice(float* out, const float* x, int n) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) { out[i] = x[i] * 2.0f; }
}
"""


class CastWithoutEffect(Rule):
    """In the kernel itself a value whose element type is known is cast to that same type. Nothing
    is said of C++, where a conversion need not be written, and types of one width differ."""

    name = "cast-without-effect"
    matches = (Case(_ROWS, "f32"), Case(_TILES, "f32"))
    near_misses = (
        NearMiss(_THREADS, why="the index of a thread has no sign, and the number has"),
        NearMiss(
            vary(_ROWS, ("axis=0).to(tl.float32)", "axis=0)")), why="only what is loaded is cast"
        ),
        NearMiss(
            vary(_ROWS, ("other=0.0).to(tl.float32)", "other=0.0)")),
            why="the element type of the array is not known",
        ),
        NearMiss(
            vary(
                _ROWS,
                (
                    "other=0.0).to(tl.float32)",
                    "other=0.0)\n    if T > 64:\n        v = v.to(tl.float32)",
                ),
                ("    total = tl.sum(v * 2.0, axis=0).to", "    total = tl.sum(v, axis=0).to"),
            ),
            why="one side of the branch leaves the type of the array",
        ),
        NearMiss(
            vary(_TILES, ("keepdims=True), ct.float32)", "keepdims=True), ct.float16)")),
            why="it is cast to another type",
        ),
    )

    seen = (
        Seen(
            "fla-core",
            "fla/ops/hgrn/fused_recurrent.py",
            "fused_recurrent_hgrn_fwd_kernel",
            47,
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        if facts.of_threads or not facts.graph.of(OpKind.CAST):
            return
        own = {op.results[0].name for op in _casts(facts.kernel.entry.body)}
        found: list[Node] = []
        told: dict[str, None] = {}
        for node in facts.graph.of(OpKind.CAST):
            if node.result not in own:
                continue  # in a helper, which may be handed another type elsewhere
            before, after = facts.types.dtype(node.op.inputs[0]), facts.types.dtype(node.result)
            if before not in DTYPE_BYTES or before != after:
                continue
            if facts.values.literal(node.op.inputs[0]) is None and _certain(facts, node):
                found.append(node)
                told[before] = None
        if found:
            yield self.finding(
                subject,
                f"a value of type {', '.join(told)} is cast to the type that it has already",
                "leave the cast out",
                found,
                Severity.NOTE,
            )


def _certain(facts: Facts, cast: Node) -> bool:
    """Whether the type of what is cast hangs on no branch, whose sides may have several, and on no
    quotient of whole numbers, which is a real number in one dialect and not in another."""
    typed = facts.graph.upstream(cast.op.inputs[0], lambda node: node.op.kind == OpKind.CAST)
    return not any(node.op.kind in _OPEN for node in typed)


_OPEN = (OpKind.IF, OpKind.IF_EXPRESSION, OpKind.DIV, OpKind.FLOOR, OpKind.CEIL, OpKind.CALL,
         OpKind.OPAQUE, OpKind.EXTERN_MATH)  # fmt: skip


def _casts(region: Region) -> Iterator[Op]:
    """The casts of a region and of those inside it."""
    for op in region.ops:
        if op.kind == OpKind.CAST and op.results:
            yield op
        for inner in op.regions:
            yield from _casts(inner)
