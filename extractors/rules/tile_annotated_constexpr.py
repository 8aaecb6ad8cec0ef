"""A helper says that a parameter is a compile-time number, and is handed a tile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.graph import CASTS, VIEWS, Graph, Node
from kb.evidence import Finding, Severity
from kb.ir import Kernel, Parameter, ParameterKind
from kb.ops import READS, OpKind

_HELPER = (
    POINTER
    + """
@triton.jit
def twice(x, at: tl.constexpr, n):
    return tl.load(x + at, mask=at < n, other=0.0) * 2.0

@triton.jit
def move(x, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    tl.store(out + at, twice(x, at, n), mask=at < n)
"""
)
_TILED = (
    TILE
    + """
def twice(x, i: Int, T: Int):
    return ct.load(x, index=(i,), shape=(T,)) * 2.0

@ct.kernel
def move(x, out, T: Int):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=twice(x, i, T))
"""
)
_MADE = READS | {OpKind.ARANGE, OpKind.BLOCK_ID}
_SUMS = VIEWS | CASTS | {OpKind.ADD, OpKind.SUB, OpKind.MUL}


class TileAnnotatedConstexpr(Rule):
    """A call hands lanes, a block index or a loaded value over for a parameter of a helper that is
    annotated as a compile-time number."""

    name = "tile-annotated-constexpr"
    matches = (Case(_HELPER, "`at`"), Case(_TILED, "`i`"))
    near_misses = (
        NearMiss(
            vary(_HELPER, ("at: tl.constexpr, n", "at, n")), why="nothing says compile-time number"
        ),
        NearMiss(
            vary(_HELPER, ("at: tl.constexpr, n", "at, n: tl.constexpr"),
                 ("twice(x, at, n)", "twice(x, at, 64)")),
            why="a number is handed over",
        ),
    )  # fmt: skip
    seen = (Seen("sageattention", "sageattention/attn_qk_int8_per_block.py", "_attn_fwd", 10),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        found = list(_handed(subject.facts.kernel))
        if found:
            names = ", ".join(dict.fromkeys(f"`{one.name}`" for _, one in found))
            several = len({one.name for _, one in found}) > 1
            yield self.finding(
                subject,
                f"{names}: annotated as {'compile-time numbers' if several else 'a compile-time'}"
                f"{'' if several else ' number'}, but the kernel hands over what it computes at "
                "run time: the annotation is wrong, and has no effect",
                "drop the annotation",
                [one.span.lines for _, one in found if one.span.line],
                Severity.NOTE,
            )


def _handed(kernel: Kernel) -> Iterator[tuple[Node, Parameter]]:
    """Calls of helpers with the parameters that they hand run-time values to."""
    marked = {
        helper.name: helper
        for helper in kernel.helpers
        if any(one.kind is ParameterKind.CONSTEXPR for one in helper.parameters)
    }
    if not marked:
        return
    for function in kernel.functions:
        graph = Graph(function)
        for call in graph.of(OpKind.CALL):
            helper = marked.get(str(call.op.attribute("callee")))
            for parameter in helper.parameters if helper is not None else ():
                value = call.op.operand(parameter.name)
                if parameter.kind is ParameterKind.CONSTEXPR and _at_run_time(graph, value):
                    yield call, parameter


def _at_run_time(graph: Graph, value: str | None) -> bool:
    """Whether a value is lanes, a block index or loaded, or a sum or product of those."""
    pending, seen = [value] if value is not None else [], {value}
    for current in pending:
        node = graph.producer(current)
        if node is None or len(seen) > 60:
            continue
        if node.op.kind in _MADE:
            return True
        if node.op.kind in _SUMS:
            fresh = [feed for feed in node.op.inputs if feed not in seen]
            seen.update(fresh)
            pending += fresh
    return False
