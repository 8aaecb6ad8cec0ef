"""A loop loads the same tile in each round, or computes it from what does not change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Finding, Severity
from kb.ops import READS, OpKind

_ROWS = (
    POINTER
    + """
@triton.jit
def scale(x, w, out, m, n, T: tl.constexpr):
    at = tl.arange(0, T)
    for row in range(tl.program_id(0), m, tl.num_programs(0)):
        here = row.to(tl.int64) * n + at
        g = tl.load(w + at, mask=at < n, other=0.0)
        v = tl.load(x + here, mask=at < n, other=0.0)
        tl.store(out + here, v * g, mask=at < n)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def scale(x, w, out, shift: float, T: Int):
    g = ct.load(w, index=(0,), shape=(T,))
    for i in range(ct.bid(0), ct.num_tiles(x, axis=0, shape=(1, T)), ct.num_blocks(0)):
        v = ct.load(x, index=(i, 0), shape=(1, T))
        ct.store(out, index=(i, 0), tile=v * (g + shift))
"""
)
_WORK = frozenset({OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.EXP, OpKind.EXP2,
                   OpKind.LOG, OpKind.LOG2, OpKind.RSQRT, OpKind.SQRT})  # fmt: skip


class ComputedEveryRound(Rule):
    """In a loop a tile is loaded from a place that does not depend on the round, out of an array
    that the kernel never writes; or in one over rows or tiles a tile is computed from loaded values
    that were all there before it."""

    name = "computed-every-round"
    matches = (Case(_ROWS, "`w`"), Case(_TILES, "computed"))
    near_misses = (
        NearMiss(
            vary(_ROWS, ("tl.load(w + at,", "tl.load(w + at + row,")),
            why="the place moves with the loop",
        ),
        NearMiss(
            vary(_ROWS, ("tl.store(out + here", "tl.store(w + at, g + v, mask=at < n)\n"
                         "        tl.store(out + here")),
            why="the kernel writes the array, so that the next round may see another value",
        ),
        NearMiss(
            vary(_ROWS, ("        g = tl.load(w + at,",
                         "        k = row if n > 8 else m - row\n        g = tl.load(w + k + at,")),
            why="the place moves with the loop, in one of two ways",
        ),
        NearMiss(
            vary(_TILES, ("v * (g + shift)", "v * g + shift")), why="the row is different each time"
        ),
    )  # fmt: skip
    seen = (
        Seen(
            "tilegym", "tilegym/ops/cutile/rms_norm.py", "_rms_norm_kernel_static_persistent", 175
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        if not facts.rolled_loops or facts.of_threads:
            return
        loads = list(_loads(facts, [loop.node for loop in facts.rolled_loops]))
        nodes = list(_computed(facts, [loop.node for loop in facts.item_loops]))
        if loads:
            arrays = ", ".join(dict.fromkeys(f"`{load.array}`" for load in loads))
            yield self.finding(
                subject,
                f"{arrays}: the same tile is loaded in each round of a loop, and the kernel never "
                "writes it",
                "load it before the loop",
                loads,
                Severity.NOTE,
            )
        if nodes:
            yield self.finding(
                subject,
                "a tile is computed in each round of the loop over rows or tiles from what does "
                "not change in it",
                "compute it before the loop",
                nodes,
                Severity.NOTE,
            )


def _loads(facts: Facts, loops: list[Node]) -> Iterator[Access]:
    """Loads of tiles inside a loop, of the same elements each time."""
    written = {access.array for access in facts.stores}
    for load in facts.loads:
        around = load.loop
        if around not in loops or load.node.parent is not around:
            continue
        if load.array is None or load.array in written:
            continue
        if _wide(facts, load.value) and not _rests(facts, load.node, around):
            yield load


def _computed(facts: Facts, loops: list[Node]) -> Iterator[Node]:
    """Arithmetic on tiles inside a loop whose operands were all there before it."""
    addresses = [value for access in facts.accesses for value in (*access.address, access.mask)]
    for node in facts.graph.of(*_WORK) if loops else ():
        around = node.loop
        if any(facts.graph.rests_on(value, node) for value in addresses):
            continue
        if around in loops and node.parent is around and _wide(facts, node.result):
            fed = any(facts.graph.roots(node.result, *READS))
            if fed and not _rests(facts, node, around):
                yield node


def _wide(facts: Facts, value: str) -> bool:
    """Whether a value has more than one element."""
    shape = facts.types.shape(value)
    return bool(shape) and any(extent != "1" for extent in shape)


def _rests(facts: Facts, node: Node, loop: Node) -> bool:
    """Whether a node depends on anything that a round of its loop brings."""
    brought = {argument.name for region in loop.op.regions for argument in region.arguments}
    pending = list(node.op.inputs)
    seen = set(pending)
    for value in pending:
        if value in brought or len(seen) > 400:
            return True
        made = facts.graph.producer(value)
        if made is None or not made.inside(loop):
            continue
        if made.op.regions:
            return True  # what a branch or a loop inside gives may follow the round
        fresh = [one for one in made.op.inputs if one not in seen]
        seen.update(fresh)
        pending += fresh
    return False
