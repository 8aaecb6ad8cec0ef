"""Two tiles are joined by `and` or `or`, which are for single values."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import POINTER, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Finding, Severity
from kb.ops import OpKind

_MOVE = (
    POINTER
    + """
@triton.jit
def move(x, out, m, n, T: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)
    at = tl.arange(0, T)
    inside = rows[:, None] < m and at[None, :] < n
    place = rows[:, None].to(tl.int64) * n + at[None, :]
    tl.store(out + place, tl.load(x + place, mask=inside, other=0.0), mask=inside)
"""
)


class AndBetweenTiles(Rule):
    """`and` or `or` stands between two tiles of several elements. They are for single values; the
    compiler still takes them element by element and warns that this is to end."""

    name = "and-between-tiles"
    dialects = ("triton",)
    matches = (
        Case(_MOVE, "the word and"),
        Case(vary(_MOVE, ("< m and at[None, :] < n", "< m or at[None, :] < n")), "the word or"),
    )
    near_misses = (
        NearMiss(
            vary(_MOVE, ("rows[:, None] < m and at[None, :] < n",
                         "(rows[:, None] < m) & (at[None, :] < n)")),
            why="the operator of elements",
        ),
        NearMiss(
            vary(_MOVE, ("    inside = rows[:, None] < m and at[None, :] < n",
                         "    if tl.program_id(0) >= m and n > 0:\n        return\n"
                         "    inside = at[None, :] < n")),
            why="both are single values",
        ),
        NearMiss(
            vary(_MOVE, ("rows[:, None] < m and at[None, :] < n", "m > 0 and n > 0")),
            why="both are single values",
        ),
        NearMiss(
            "__global__ void keep(float* out, const float* x, int n) {\n"
            "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
            "  if (i < n && x[i] > 0.0f) { out[i] = x[i]; }\n}\n",
            why="the values of one thread",
        ),
    )  # fmt: skip
    seen = (Seen("flag-gems", "flag_gems/ops/sum.py", "sum_dim_kernel", 233),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        if facts.kernel.dialect not in self.dialects:
            return
        for kind, word, better in ((OpKind.AND, "and", "&"), (OpKind.OR, "or", "|")):
            found = [node for node in facts.graph.of(kind) if _of_tiles(facts, node)]
            if found:
                yield self.finding(
                    subject,
                    f"the word {word} stands between two tiles: it is for single values, and the "
                    f"compiler takes it element by element for the time being only",
                    f"write `{better}` between the two, each comparison in brackets",
                    found,
                    Severity.NOTE,
                )


def _of_tiles(facts: Facts, node: Node) -> bool:
    """Whether both sides are known to hold several elements."""
    return all(
        any(extent != "1" for extent in facts.types.shape(side)) for side in node.op.inputs[:2]
    )
