"""Loops over work items: a block takes several rows or tiles, one after the other."""

from __future__ import annotations

from kb.analysis.blocked import blocked
from kb.analysis.graph import CASTS, Graph, Node
from kb.analysis.loops import Loop, Role, persistent
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.analysis.values import Values
from kb.ops import ATOMICS, READS, WRITES, OpKind

_MOVES = READS | WRITES | ATOMICS


def item_loops(graph: Graph, values: Values, loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
    """Loops that stride over items by the number of blocks, or walk a chunk of them that the block
    id places."""
    return tuple(
        loop
        for loop in loops
        if persistent(loop, values)
        or blocked(loop, values)
        or walked(loop, values)
        or (counted(graph, values, loop) and not _sums_one_result(graph, loop))
    )


def _sums_one_result(graph: Graph, loop: Loop) -> bool:
    """True inside a loop over the columns of a row, when nothing is stored before the sum is
    complete: the terms of a result, not items of work."""
    stored = any(n.inside(loop.node) for n in graph.of(*WRITES, *ATOMICS))
    return bool(loop.node.loops) and not stored and bool(loop.of(Role.SUM, Role.ACCUMULATOR))


def counted(graph: Graph, values: Values, loop: Loop) -> list[Node]:
    """The steps that make `block * chunk + loop variable` where the chunk is the trip count, and
    that are more than the places of single numbers: those are the numbers of the block's row."""
    count = values.expr(loop.high).atom if loop.high is not None else None
    step = values.expr(loop.induction).atom if loop.induction is not None else None
    if count is None or step is None or count.kind is not AtomKind.PARAMETER:
        return []
    return [
        node
        for node in graph.within(loop.node)
        if node.result
        and _offset(values.exprs.get(node.result), step, count)
        and not _place(graph, node)
    ]


def _place(graph: Graph, node: Node) -> bool:
    """Whether all that becomes of a number is the place of one element."""
    ways = list[Node]()
    for value in (node.result, *(n.result for n in graph.users(node.result) if n.op.kind in CASTS)):
        ways += [n for n in graph.users(value) if n.op.kind not in CASTS]
    return bool(ways) and all(_address(graph, n) for n in ways)


def _address(graph: Graph, total: Node) -> bool:
    """Whether something is moved to or from the place that a sum gives."""
    if not total.result:
        return False
    users = graph.users(total.result)
    return total.op.kind == OpKind.ADD and any(
        n.op.kind in _MOVES and n.op.operand("pointer") == total.result for n in users
    )


def _offset(expr: Expr | None, step: Atom, count: Atom) -> bool:
    if expr is None or len(expr.terms) != 2 or expr.coefficient(step).constant != 1:
        return False
    others = [factors for factors, _ in expr.terms if step not in factors]
    return bool(others) and count in others[0] and _placed(others[0])


def walked(loop: Loop, values: Values) -> list[str]:
    """First values of the counters of a `while` loop that begin at a multiple of the block id."""
    if loop.node.op.kind != OpKind.WHILE:
        return []
    begun = [carried.init for carried in loop.of(Role.COUNTER)]
    return [
        value
        for value in begun
        if any(
            _placed(factors) and (len(factors) > 1 or times != 1)
            for factors, times in values.expr(value).terms
        )
    ]


def _placed(factors: tuple[Atom, ...]) -> bool:
    return any(atom.kind is AtomKind.BLOCK for atom in factors)
