"""Loops in which the threads of a block go through all of what its results are made of."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import COPIES, Node
from kb.analysis.idioms import masks
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind, Expr, mul, of, sub
from kb.dtypes import is_float
from kb.ops import OpKind

_ENDS = {
    OpKind.FLOOR_DIV, OpKind.CEIL_DIV, OpKind.MINIMUM, OpKind.MAXIMUM, OpKind.SELECT, OpKind.MUL,
}  # fmt: skip
_ON_THE_WAY = COPIES | _ENDS | {OpKind.ADD, OpKind.SUB, OpKind.IF_EXPRESSION}
_COUNTS = frozenset({OpKind.FLOOR_DIV, OpKind.CEIL_DIV, OpKind.DIV})


def own_walks(facts: Facts, stores: Iterable[Access]) -> list[Node]:
    """Of threads: outermost loops that load, give something that is stored or store it themselves,
    and end where the place of the block does not say; each with the division that counts its
    rounds."""
    found: list[Node] = []
    chosen = list(stores)
    for loop in facts.rolled_loops if facts.of_threads else ():
        if loop.node.loops or loop.high is None or facts.values.expr(loop.high).has(AtomKind.BLOCK):
            continue
        read = any(a.node.inside(loop.node) for a in facts.loads)
        inside = any(a.node.inside(loop.node) for a in chosen)
        if read and (inside or any(facts.graph.rests_on(a.value, loop.node) for a in chosen)):
            made = facts.graph.producer(facts.graph.core(loop.high))
            found += [loop.node, *([made] if made is not None and made.kind in _COUNTS else [])]
    return found


def part_walks(facts: Facts, stores: Iterable[Access]) -> list[Node]:
    """Of tiles: loops that store, and end where the part of the block does: a step that the launch
    says behind its beginning, or at the extent; with where that end is worked out."""
    found: list[Node] = []
    chosen = list(stores)
    for loop in facts.rolled_loops if not facts.of_threads else ():
        if loop.high is None or not any(a.node.inside(loop.node) for a in chosen):
            continue
        above = [*facts.graph.upstream(loop.high)]
        ends = [n for n in above if n.op.kind == OpKind.MINIMUM and _next_part(facts, n)]
        made = facts.graph.producer(facts.graph.core(loop.high))
        found += [*ends, *([made] if made is not None else []), loop.node] if ends else []
    return found


def _next_part(facts: Facts, least: Node) -> bool:
    """Whether one of two ends is where the part of the next block begins."""
    for end in (facts.values.expr(v) for v in least.op.inputs[:2]):
        for block in (a for a in end.top() if a.kind is AtomKind.BLOCK):
            step = end.coefficient(block)
            before = mul(of(block), step) if step is not None else None
            given = step is not None and step.has(AtomKind.PARAMETER)
            if given and before is not None and sub(end, before) == step:
                return True
    return False


def walked_tiles(facts: Facts, loop: Loop) -> list[Node]:
    """Of threads: loops around one over keys whose rounds stand in a mask and no bound clips."""
    sides = [v for m in masks(facts) for c in m.comparisons for v in c.op.inputs[:2]]
    named = {a for v in sides for a in facts.values.expr(v).atoms()}
    return [
        one.node
        for one in facts.rolled_loops
        if facts.of_threads and one.induction and loop.node.inside(one.node)
        if facts.values.expr(one.induction).atom in named
    ]


def rounds_counted(facts: Facts, loop: Loop) -> list[Node]:
    """Where the end of a loop is worked out before it: the least of two ends, a division by the
    tile, a product, a choice. Not of threads, whose loops say it in their head."""
    if loop.high is None or facts.of_threads:
        return []
    above = facts.graph.upstream(loop.high, lambda n: n.op.kind not in _ON_THE_WAY)
    made = [n for n in above if n.op.kind in _ENDS and n.loop is loop.node.loop]
    return [n for n in made if not facts.values.expr(n.result).has(AtomKind.LANE)]


def mapped_items(facts: Facts) -> list[Node]:
    """Loads at the block id alone of several numbers that say what a block works on: a map that the
    host has made."""
    own = [a for a in facts.loads if a.index and all(map(_block_alone, a.index))]
    whole = [a for a in own if not is_float(facts.types.dtype(a.value))]
    found = [a.node for a in whole if any(_places(facts, a, other) for other in facts.accesses)]
    return found if len({n.lines for n in found}) > 1 else []


def _block_alone(index: Expr) -> bool:
    """True for the id of the block along one axis of the grid."""
    return index.atom is not None and index.atom.kind is AtomKind.BLOCK


def _places(facts: Facts, load: Access, other: Access) -> bool:
    """Whether a loaded number says where another access goes."""
    roles = [v for role, v in other.node.op.operands if role not in ("value", "mask")]
    return other is not load and any(facts.graph.rests_on(v, load.node) for v in roles)


def begun(facts: Facts, bound: str | None) -> str | None:
    """What a bound that another loop has counted on was before that loop."""
    made = facts.graph.producer(facts.graph.core(bound)) if bound is not None else None
    loop = facts.loop(made) if made is not None and made.op.kind == OpKind.FOR else None
    left = facts.graph.core(bound)
    found = [c.init for c in loop.carried if c.result == left] if loop is not None else []
    return found[0] if found else bound
