"""An addend is read and multiplied by a scale even where that is zero."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.symbolic import AtomKind
from kb.evidence import Finding, Severity
from kb.ops import CONTRACTIONS, OpKind

_POINTER = (
    POINTER
    + """
@triton.jit
def product(a, b, c, out, alpha, beta, N, T: tl.constexpr):
    m = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    at = tl.arange(0, T)
    x = tl.load(a + m[:, None] * T + at[None, :])
    y = tl.load(b + at[:, None] * T + at[None, :])
    place = m[:, None] * T + at[None, :]
    z = tl.load(c + place, mask=m[:, None] < N, other=0.0)
    acc = tl.dot(x, y)
    tl.store(out + place, acc * alpha + z * beta, mask=m[:, None] < N)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def product(a, b, c, out, alpha: float, beta: float, T: Int):
    i = ct.bid(0)
    x = ct.load(a, index=(i, 0), shape=(T, T))
    y = ct.load(b, index=(0, 0), shape=(T, T))
    acc = ct.mma(x, y, ct.full((T, T), 0.0, dtype=ct.float32)) * alpha
    z = ct.load(c, index=(i, 0), shape=(T, T))
    ct.store(out, index=(i, 0), tile=acc + ct.astype(z, ct.float32) * beta)
"""
)


class ScaledByZero(Rule):
    """A matrix product, or the sums of a matrix and a vector, is added to an array times a number
    that the caller gives. Where that is zero, its usual value, BLAS and PyTorch leave the array
    unread; here it is read, and a NaN or an infinity in it stays in the result."""

    name = "scaled-by-zero"
    matches = (
        Case(_POINTER, "`c`"),
        Case(_TILES, "`c`"),
        Case(vary(_POINTER, ("tl.dot(x, y)", "tl.sum(x * y, axis=1)[:, None]")), "`beta`"),
    )
    near_misses = (
        NearMiss(
            vary(_POINTER, ("    z = tl.load", "    z = tl.zeros((T, T), dtype=tl.float32)\n"
                            "    if beta != 0.0:\n        z = tl.load")),
            why="it is read only where it counts",
        ),
        NearMiss(vary(_POINTER, ("z * beta", "z")), why="it is added as it is"),
        NearMiss(
            vary(_POINTER, ("acc * alpha + z * beta", "acc * (1 - beta) + z * beta")),
            why="a running mean, of which both sides count",
        ),
        NearMiss(vary(_POINTER, ("tl.dot(x, y)", "x")), why="no product: element by element"),
    )  # fmt: skip
    seen = (Seen("flag-gems", "flag_gems/ops/addmv.py", "addmv_kernel", 55),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        for node, scale, load in _scaled(facts):
            yield self.finding(
                subject,
                f"`{load.array}` is read and multiplied by `{scale}` even where that is 0: a NaN "
                "or an infinity in it, which may be memory that nobody wrote, stays in the result",
                f"leave `{load.array}` unread where `{scale}` is 0",
                [load, node],
                Severity.WARNING,
            )
            return


def _scaled(facts: Facts) -> Iterator[tuple[Node, str, Access]]:
    """Sums of what a contraction gives and of a load times a parameter: the sum, the parameter, the
    load."""
    graph = facts.graph
    for node in graph.of(OpKind.ADD):
        for addend, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
            made = graph.producer(graph.through(addend, _LOOKS))
            if made is None or made.op.kind != OpKind.MUL or facts.guards(made):
                continue
            for scale, array in (made.op.inputs[:2], made.op.inputs[1::-1]):
                name = _given(facts, scale)
                load = graph.producer(graph.through(array, _LOOKS))
                access = facts.access(load) if load is not None else None
                if name is None or access is None or access.is_store or facts.guards(access.node):
                    continue
                if _contracted(facts, other, name):
                    yield node, name, access


def _given(facts: Facts, value: str) -> str | None:
    """The number of the caller that a value is."""
    atom = facts.values.expr(facts.graph.through(value, _LOOKS) or value).atom
    given = atom is not None and atom.kind is AtomKind.PARAMETER
    return atom.value if given and atom is not None else None


def _contracted(facts: Facts, value: str, scale: str) -> bool:
    """Whether a value is a contraction, perhaps times another number than the scale."""
    graph = facts.graph
    found = graph.producer(graph.through(value, _LOOKS))
    while found is not None and found.op.kind == OpKind.MUL:
        left, right = found.op.inputs[:2]
        numbers = [one for one in (left, right) if _number(facts, one)]
        if len(numbers) != 1 or facts.values.expr(numbers[0]).has(AtomKind.LOADED):
            return False
        if any(atom.value == scale for atom in facts.values.expr(numbers[0]).atoms()):
            return False
        found = graph.producer(graph.through(right if numbers[0] == left else left, _LOOKS))
    if found is None:
        return False
    if found.op.kind in _SUMS:
        return True
    return found.op.kind in (OpKind.FOR, OpKind.WHILE) and any(
        node.op.kind in _SUMS for node in graph.within(found)
    )


def _number(facts: Facts, value: str) -> bool:
    expr = facts.values.expr(facts.graph.through(value, _LOOKS) or value)
    return expr.has(AtomKind.PARAMETER) and not expr.has(AtomKind.LANE, AtomKind.LOADED)


_LOOKS = VIEWS | CASTS
_SUMS = CONTRACTIONS | {OpKind.REDUCE_SUM}
