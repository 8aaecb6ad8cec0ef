"""A row is divided by a sum that no round of its loop may have added to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Carried, Loop
from kb.analysis.symbolic import AtomKind
from kb.evidence import Finding
from kb.ops import OpKind

_POINTER = (
    POINTER
    + """
@triton.jit
def mean(x, lengths, out, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row)
    acc = tl.zeros((T,), dtype=tl.float32)
    tot = 0.0
    for j in range(0, length):
        v = tl.load(x + (row * n + j) * T + tl.arange(0, T))
        w = tl.exp(tl.sum(v, axis=0))
        acc += v * w
        tot += w
    tl.store(out + row * T + tl.arange(0, T), acc / tot)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def mean(x, lengths, out, T: Int):
    row = ct.bid(0)
    length = ct.load(lengths, index=(row,), shape=()).item()
    acc = ct.zeros((1, T), dtype=ct.float32)
    tot = ct.zeros((1, 1), dtype=ct.float32)
    for j in range(length):
        v = ct.load(x, index=(row, j), shape=(1, T))
        w = ct.exp(ct.sum(v, axis=1, keepdims=True))
        acc = acc + v * w
        tot = tot + w
    ct.store(out, index=(row, 0), tile=acc / tot)
"""
)


class EmptySum(Rule):
    """A sum begins at zero and is added to by a loop that runs as long as a number in memory says,
    such as the length of a sequence. Where that is zero what is divided by it is zero, too."""

    name = "empty-sum"
    matches = (
        Case(_POINTER, "`lengths`"),
        Case(_TILES, "`lengths`"),
        Case(
            vary(_POINTER, ("    length = tl.load(lengths + row)",
                            "    if T > 64:\n        length = tl.load(lengths + row)\n"
                            "    else:\n        length = n")),
            "`lengths`",
        ),
        Case(vary(_POINTER, ("range(0, length)", "range(0, tl.cdiv(length, 2))")), "0 / 0"),
        Case(
            vary(_POINTER, ("    tl.store(", "    if length % 2:\n        acc += 1.0\n"
                            "        tot += 1.0\n    tl.store("),
                 ("range(0, length)", "range(0, length // 2)")),
            "0 / 0",
        ),
    )  # fmt: skip
    near_misses = (
        NearMiss(
            vary(_POINTER, ("acc / tot", "acc / tl.where(tot == 0.0, 1.0, tot)")),
            why="another divisor is selected",
        ),
        NearMiss(
            vary(_POINTER, ("acc / tot", "acc / (tot + 1e-6)")), why="a number is added"
        ),
        NearMiss(
            vary(_POINTER, ("    acc = tl", "    if length == 0:\n        return\n    acc = tl")),
            why="the block ends before",
        ),
        NearMiss(
            vary(_POINTER, ("    tl.store(", "    if length > 0:\n        tl.store(")),
            why="a branch asks for the length",
        ),
        NearMiss(vary(_POINTER, ("range(0, length)", "range(0, n)")), why="a size of the launch"),
        NearMiss(vary(_POINTER, ("tot = 0.0", "tot = 1.0")), why="the sum begins with a term"),
    )  # fmt: skip
    seen = (Seen("flag-gems", "flag_gems/fused/flash_mla.py", "flash_mla_attn_kernel", 87),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        for node, loop, length in _empty(facts):
            yield self.finding(
                subject,
                f"the loop runs as long as `{length.array}` says, and what it adds up is divided "
                "by: where that is 0 the sum is 0 and the result 0 / 0, a NaN",
                "end the block, store zeros, or select another divisor where nothing was added",
                [length, loop.node.head, node],
            )
            return


def _empty(facts: Facts) -> Iterator[tuple[Node, Loop, Access]]:
    """Divisions of one sum by another of the same loop, and the load that says how long it runs."""
    for node in facts.graph.of(OpKind.DIV):
        top, bottom = ({*_sums(facts, value)} for value in node.op.inputs[:2])
        for loop in facts.loops:
            results = {one.result for one in loop.carried if _zero(facts, one)}
            length = _length(facts, loop) if results & top and results & bottom else None
            if length is not None and not _asked(facts, node, loop, length):
                yield node, loop, length


def _sums(facts: Facts, value: str) -> Iterator[str]:
    """A value, and what it is where a branch before it is not taken."""
    found = facts.graph.through(value, _LOOKS)
    node = facts.graph.producer(found)
    if found is not None:
        yield found
    if node is not None and node.op.kind == OpKind.IF:
        for feed in facts.graph.feeds(found or ""):
            below = facts.graph.through(feed, _LOOKS)
            if below is not None:
                yield below


def _zero(facts: Facts, carried: Carried) -> bool:
    """Whether a value begins at zero."""
    begun = facts.graph.producer(facts.graph.core(carried.init))
    zeros = begun is not None and begun.op.kind == OpKind.ZEROS
    return zeros or facts.number(carried.init) == 0


def _length(facts: Facts, loop: Loop) -> Access | None:
    """The load that a loop runs as long as: as it stands or in tiles, perhaps on a condition."""
    if loop.high is None or (loop.low and facts.values.expr(loop.low).constant != 0):
        return None
    atom = facts.values.expr(loop.high).atom
    ends = atom.args if atom is not None and atom.kind is AtomKind.CHOICE else ()
    for end in (atom, *(one.atom for one in ends)):
        if end is not None and end.kind in (AtomKind.CEIL_DIV, AtomKind.FLOOR_DIV):
            end = end.args[0].atom
        if end is not None and end.kind is AtomKind.LOADED:
            found = [a for a in facts.loads if facts.graph.rests_on(loop.high, a.node)]
            return found[-1] if found else None
    return None


def _asked(facts: Facts, node: Node, loop: Loop, length: Access) -> bool:
    """Whether a branch around the loop or the division, or one that leaves, asks for the length."""
    around = [place for one in (node, loop.node) for place in one.around()]
    left = [one.parent for one in facts.graph.of(*_LEAVES) if one.parent is not None]
    return any(
        place.op.kind in (OpKind.IF, OpKind.IF_EXPRESSION)
        and any(facts.graph.rests_on(value, length.node) for value in place.op.inputs)
        for place in (*around, *left)
    )


_LOOKS = VIEWS | CASTS
_LEAVES = (OpKind.RETURN, OpKind.BREAK, OpKind.CONTINUE)
