"""Branches that store a constant where there is nothing to make a result from."""

from __future__ import annotations

from kb.analysis import symbolic as s
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, VIEWS, Node
from kb.analysis.idioms import comparisons
from kb.analysis.symbolic import ZERO, AtomKind, Expr
from kb.ops import OpKind

MAX_STEPS = 4
"""Sums of sums that the number of a fill is taken out of."""


def emptied(facts: Facts) -> list[Node]:
    """Branches on a loaded number of a loop's rounds that is zero, or on the two ends of a loop,
    which store a constant in place of what there is nothing to make from, with those stores."""
    return [*_counted(facts), *_ended(facts)]


def _counted(facts: Facts) -> list[Node]:
    """Those on a loaded number of rounds."""
    found: list[Node] = []
    bounds = [facts.values.expr(v) for x in facts.loops for v in (x.low, x.high) if v is not None]
    counted = {a for e in bounds for a in e.atoms() if a.kind is AtomKind.LOADED}
    for branch in facts.graph.of(OpKind.IF) if counted else ():
        test = facts.graph.producer(facts.graph.through(branch.op.inputs[0], COPIES | CASTS))
        if test is None or test.op.kind != OpKind.EQ:
            continue
        left, right = (facts.values.expr(v) for v in test.op.inputs[:2])
        count = left if right == ZERO else right if left == ZERO else None
        if count is None or not counted & set(count.atoms()) or count.has(AtomKind.LANE):
            continue
        inside = [
            one for one in facts.stores if one.node.inside(branch) and _first(one.node, branch)
        ]
        arrays = {one.array for one in facts.stores if one not in inside}
        if inside and all(filled(facts, one.value) is not None for one in inside):
            if all(one.array in arrays for one in inside):
                found += [branch, test, *(one.node for one in inside)]
    return found


def _first(node: Node, branch: Node) -> bool:
    """Whether an operation stands on the side where the condition of a branch holds."""
    while node.parent is not None and node.parent is not branch:
        node = node.parent
    return node.branch == 0


def _ended(facts: Facts) -> list[Node]:
    """Those that do so instead of a loop where its first round lies past its last one."""
    loops = [x for x in facts.loops if x.high is not None] if facts.of_threads else []
    bounds = [(x.node, facts.values.expr(x.high)) for x in loops]
    bounds = [(loop, end) for loop, end in bounds if end.constant is None]
    found: list[Node] = []
    for branch in facts.graph.of(OpKind.IF) if bounds else ():
        inside = [
            one for one in facts.stores if one.node.inside(branch) and _first(one.node, branch)
        ]
        if not inside or not all(_constant(facts, one.value) for one in inside):
            continue
        last = branch.op.regions[0].terminator
        leaves = last is not None and last.kind == OpKind.RETURN
        spared = {
            end
            for loop, end in bounds
            if (loop.inside(branch) and not _first(loop, branch))
            or (leaves and loop.index > branch.index and not loop.inside(branch))
        }
        tests = [n for n in comparisons(facts, branch.op.inputs[0]) if n.op.kind in _ORDERED]
        met = [n for n in tests if _between(facts, n, spared)]
        found += [branch, *met, *(one.node for one in inside)] if met else []
    return found


def _between(facts: Facts, test: Node, bounds: set[Expr]) -> bool:
    """Whether the end of a loop is compared with a number that is found for a block, the same for
    all threads, and is no place alone."""
    held = [facts.values.expr(v) for v in test.op.inputs[:2]]
    if any(e.has(AtomKind.LANE) for e in held) or held[0] == held[1]:
        return False
    return any(
        first.has(*_FOUND) and not bounds.isdisjoint(s.add(end, s.number(by)) for by in (-1, 0, 1))
        for end, first in (held, held[::-1])
    )


def _constant(facts: Facts, value: str | None) -> bool:
    """Whether a number, or one of two, is stored, whichever elements of a tile of it."""
    node = facts.graph.producer(facts.graph.through(value, VIEWS | CASTS | _PARTS))
    made = node.result if node is not None else value or ""
    if node is None or node.op.kind not in (OpKind.SELECT, OpKind.IF_EXPRESSION):
        return filled(facts, made) is not None
    sides = (facts.graph.core(v) or v for v in node.op.inputs[1:3])
    return all(filled(facts, v) is not None for v in sides)


def filled(facts: Facts, value: str, steps: int = MAX_STEPS) -> object:
    """The number that a value is, or that every element of a tile is; None for no number."""
    number = facts.number(value)
    if number is not None:
        return number
    node = facts.graph.producer(facts.graph.plain(value))
    if node is None:
        return None
    if node.op.kind == OpKind.ZEROS:
        return 0
    if steps and node.op.kind in (OpKind.ADD, OpKind.SUB):  # zeros + 1, zeros - inf
        first, second = (filled(facts, v, steps - 1) for v in node.op.inputs[:2])
        if isinstance(first, int | float) and isinstance(second, int | float):
            return first + second if node.op.kind == OpKind.ADD else first - second
    return None


_ORDERED = frozenset({OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE, OpKind.EQ})
_FOUND = (
    AtomKind.LOADED, AtomKind.CHOICE, AtomKind.MINIMUM, AtomKind.MAXIMUM, AtomKind.CEIL_DIV,
)  # fmt: skip
_PARTS = frozenset({OpKind.EXTRACT})
