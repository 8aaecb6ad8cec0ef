"""Branches by which an item that is marked in memory is left out."""

from __future__ import annotations

from dataclasses import dataclass

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.analysis.idioms import comparisons
from kb.analysis.loops import persistent
from kb.analysis.symbolic import AtomKind, Expr
from kb.ops import MIRRORED, OpKind

_JOINED = CASTS | {
    OpKind.NOT, OpKind.BIT_NOT, OpKind.AND, OpKind.OR, OpKind.BIT_AND, OpKind.BIT_OR, OpKind.IF,
    OpKind.IF_EXPRESSION,
}  # fmt: skip
_OWN = (AtomKind.BLOCK, AtomKind.LANE, AtomKind.INDUCTION, AtomKind.LOADED, AtomKind.OPAQUE)
_NEGATIVE: dict[str, int] = {OpKind.LT: 0, OpKind.GE: 0, OpKind.LE: -1, OpKind.GT: -1}
"""What a number is compared with, by which it is negative or is not."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A branch that leaves out items, what asks for the mark, and whether that asks for a negative
    number."""

    branch: Node
    asked: tuple[Node, ...]
    negative: bool

    @property
    def shown(self) -> list[Node]:
        """Where this is decided."""
        return [self.branch, *self.asked]


def marks(facts: Facts) -> list[Mark]:
    """Branches on a number that was loaded for the own item, which leave the kernel or the round,
    or hold all that is loaded but for the mark."""
    found = []
    for branch in facts.graph.of(OpKind.IF):
        if _of_one_item(facts, branch):
            asked, negative = _asked(facts, branch.op.inputs[0])
            if asked and (_leaves(branch) or _holds_work(facts, branch)):
                found.append(Mark(branch, asked, negative))
    return found


def _of_one_item(facts: Facts, branch: Node) -> bool:
    """Whether a branch stands in no loop, or in one over the items of a block."""
    walked = [facts.loop(n) for n in branch.loops]
    return all(loop is not None and persistent(loop, facts.values) for loop in walked)


def _asked(facts: Facts, condition: str) -> tuple[tuple[Node, ...], bool]:
    """The comparisons of a condition when all of them that differ between items ask for a mark,
    else the loads that it is made of, and whether negative numbers are asked for."""
    every = comparisons(facts, condition)
    tests = tuple(t for t in every if any(e.has(*_OWN) for e in _sides(facts, t)))
    if not tests:
        joined = facts.graph.upstream(condition, lambda n: n.op.kind not in _JOINED)
        held = [a for n in joined for a in _held(facts, n.result) if a.node is n]
        return tuple(a.node for a in held), False
    negative = [_compared(facts, test) for test in tests]
    if None in negative:
        return (), False
    return tests, any(negative)


def _sides(facts: Facts, test: Node) -> list[Expr]:
    return [facts.values.expr(v) for v in test.op.inputs[:2]]


def _compared(facts: Facts, test: Node) -> bool | None:
    """Whether a comparison with the mark of an item asks for a negative number; None where it asks
    for something else."""
    kind = test.op.kind
    for value, mark, asked in (
        (*test.op.inputs[:2], kind), (*test.op.inputs[1::-1], MIRRORED.get(kind, kind)),
    ):  # fmt: skip
        number = facts.values.expr(mark).constant
        if _held(facts, value) and number is not None and number == _NEGATIVE.get(asked):
            return True
        handed = facts.graph.core(mark) in facts.graph.function.parameter_names
        if _held(facts, value) and kind in (OpKind.EQ, OpKind.NE):
            told = (handed or number is not None) and not _counts(facts, value)
            return False if told else None
    return None


def _counts(facts: Facts, value: str) -> bool:
    """Whether a number says how often a loop goes round: how much there is of an item, no mark."""
    held = {a.node for a in _held(facts, value)}
    ends = [end for loop in facts.loops for end in (loop.low, loop.high) if end is not None]
    return any(facts.graph.rests_on(end, node) for end in ends for node in held)


def _held(facts: Facts, value: str) -> list[Access]:
    """The loads of one number for the own item, when a value is that number; a branch may choose
    between several."""
    core = facts.graph.core(value) or value
    if facts.types.shape(value) and not facts.of_threads:
        return []
    if facts.graph.kind_of(core) == OpKind.IF:
        every = [facts.held_loads(given) for given in facts.graph.feeds(core)]
        held = [a for some in every for a in some] if all(every) else []
    else:
        held = facts.held_loads(value)
    atoms = {AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.LOADED}
    atoms |= {AtomKind.LANE} if facts.of_threads else set()
    return held if all(any(i.has(*atoms) for i in a.index) for a in held) else []


def _leaves(branch: Node) -> bool:
    ends = (region.terminator for region in branch.op.regions)
    return any(end is not None and end.kind in (OpKind.RETURN, OpKind.CONTINUE) for end in ends)


def _holds_work(facts: Facts, branch: Node) -> bool:
    """Whether one side loads all but the mark, and the other one stores something, or no store
    stands elsewhere."""
    mark = {a.node for a in facts.feeding(branch.op.inputs[0])}
    work = [_side(branch, a) for a in facts.loads if a.node not in mark]
    stores = [_side(branch, a) for a in facts.stores]
    return len(set(work)) == 1 and None not in (*work, *stores) and bool(stores)


def _side(branch: Node, access: Access) -> int | None:
    """The side of a branch that an access stands on."""
    around = (access.node, *access.node.around())
    return next((n.branch for n in around if n.parent is branch), None)
