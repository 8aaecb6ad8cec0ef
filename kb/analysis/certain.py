"""Comparisons that come out alike whatever the sizes are: the least and the greatest value of
positions, from lanes, block indices, loop counters and remainders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from kb.analysis import symbolic as s
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.ir import Span
from kb.ops import OpKind

Given = Callable[[Atom], Expr | None]
"""What an atom is known to be, as an expression; None where nothing is known."""

MAX_AT_ONE_PLACE = 8
"""Operations that one expression stands for; more are the body of a library function, whose lines
are those of its call."""

MAX_STEPS = 16
"""Positions that are replaced in one comparison."""

_POSITIONS = (AtomKind.LANE, AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.MOD)
_COUNTS = (AtomKind.EXTENT, AtomKind.BLOCKS, *_POSITIONS)
_ORDERS = (OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)


def settled(facts: Facts, known: Given, blocks: Given) -> Iterator[tuple[Node, bool]]:
    """Comparisons of positions with a bound that always hold (True) or never do (False).

    `known` says what parameters are, `blocks` how many blocks an axis of the grid has. A helper
    that stands in the program several times is told of only where all of its copies agree.
    """
    found: dict[tuple[Span | None, str], list[tuple[Node, bool | None]]] = {}
    for node in facts.graph.of(*_ORDERS):
        left, right = (facts.values.expr(value) for value in node.op.inputs[:2])
        if left.has(*_POSITIONS) or right.has(*_POSITIONS):
            place = node.op.span, node.op.kind
            found.setdefault(place, []).append((node, _outcome(facts, node, known, blocks)))
    spans = (node.op.span for node in facts.graph.nodes) if found else ()
    crowd = Counter(span for span in spans if span is not None)
    for (span, _), copies in found.items():
        first = copies[0][1]
        if first is None or (span is not None and crowd[span] > MAX_AT_ONE_PLACE):
            continue
        if all(outcome is first for _, outcome in copies) and not _rounded(facts, copies[0][0]):
            yield copies[0][0], first


def _rounded(facts: Facts, node: Node) -> bool:
    """Whether a side rests on what a function of the language gives: an extent that is rounded up
    reads as the extent itself."""
    return any(facts.graph.roots(value, OpKind.BUILTIN) for value in node.op.inputs[:2])


def _outcome(facts: Facts, node: Node, known: Given, blocks: Given) -> bool | None:
    """True or False where a comparison of integers always comes out so."""
    left, right = (facts.values.expr(value) for value in node.op.inputs[:2])
    if left.has(AtomKind.LOADED, AtomKind.OPAQUE) or right.has(AtomKind.LOADED, AtomKind.OPAQUE):
        return None
    kind = node.op.kind
    up = kind in (OpKind.LT, OpKind.LE)
    gap = s.sub(right, left) if up else s.sub(left, right)
    strict = kind in (OpKind.LT, OpKind.GT)
    if _at_least(facts, gap, 1 if strict else 0, known, blocks):
        return True
    if _at_least(facts, s.scale(gap, -1), 0 if strict else 1, known, blocks):
        return False
    return None


def _at_least(facts: Facts, expr: Expr, least: int, known: Given, blocks: Given) -> bool:
    """Whether an expression is never below a number."""
    for _ in range(MAX_STEPS):
        expr = _replaced(expr, known)
        moved = _lowest(facts, expr, blocks)
        if moved is None:
            break
        expr = moved
    constant = sum(count for factors, count in expr.terms if not factors)
    others = [(factors, count) for factors, count in expr.terms if factors]
    return constant >= least and all(
        count > 0 and all(atom.kind in _COUNTS for atom in factors) for factors, count in others
    )


def _lowest(facts: Facts, expr: Expr, blocks: Given) -> Expr | None:
    """The expression with one position at the end that makes it least; None when there is none."""
    for atom in expr.top():
        if atom.kind not in _POSITIONS:
            continue
        by = expr.coefficient(atom).constant
        end = _end(facts, atom, blocks, low=by > 0) if by else None
        if by and end is not None:
            rest = s.sub(expr, s.scale(s.of(atom), by))
            return s.add(rest, s.scale(end, by))
    return None


def _end(facts: Facts, atom: Atom, blocks: Given, *, low: bool) -> Expr | None:
    """The least or the greatest value of a position."""
    if atom.kind is AtomKind.LANE:
        return s.ZERO if low else s.sub(atom.args[0], s.ONE)
    if atom.kind is AtomKind.BLOCK:
        count = blocks(atom)
        return s.ZERO if low else s.sub(count, s.ONE) if count is not None else None
    if atom.kind is AtomKind.MOD:
        return s.ZERO if low else s.sub(atom.args[1], s.ONE)
    return _counter(facts, atom, low=low)


def _counter(facts: Facts, atom: Atom, *, low: bool) -> Expr | None:
    """The first or the last value of a counter that goes up."""
    loop = next((one for one in facts.loops if one.induction == atom.value), None)
    if loop is None or loop.high is None:
        return None
    first = facts.values.expr(loop.low) if loop.low is not None else s.ZERO
    step = facts.values.expr(loop.step).constant if loop.step is not None else 1
    if step is None or step < 1:
        return None
    return first if low else s.sub(facts.values.expr(loop.high), s.ONE)


def _replaced(expr: Expr, known: Given) -> Expr:
    """An expression with what is known of its atoms in their place."""
    for atom in expr.top():
        by = expr.coefficient(atom)
        value = known(atom)
        if value is not None and by.constant is not None:
            rest = s.sub(expr, s.scale(s.of(atom), by.constant))
            expr = s.add(rest, s.scale(value, by.constant))
    return expr
