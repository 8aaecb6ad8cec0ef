"""Arrays that have one part for all blocks, or a part for each: their number is nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind, Expr, sub
from kb.ops import OpKind
from kb.space import Constraint, implied

_CHOSEN = (OpKind.SELECT, OpKind.IF, OpKind.IF_EXPRESSION)
_SIZES = (AtomKind.PARAMETER, AtomKind.EXTENT)


def one_or_all(facts: Facts) -> Iterator[Constraint]:
    """A place that goes on with the parts of the grid unless a size is one: then there is one part
    for all, and otherwise there are as many as the grid has."""
    for node in facts.graph.of(*_CHOSEN):
        size = _one(facts, node)
        sides = facts.graph.feeds(node.result)[-2:]
        if size is None or len(sides) != 2:
            continue
        shared, own = (facts.values.expr(value) for value in sides)
        parts = _parts(sub(own, shared))
        if len(parts) == 1 and not _parts(shared) & parts:
            count = _count(next(iter(parts)))
            yield implied(
                f"{size} == 1 or {size} >= {count}",
                f"where {size} is 1 all blocks share one part, otherwise each takes its own",
                "check it before the launch: with another number parts past the end are read",
                node.lines,
            )


def _one(facts: Facts, node: Node) -> str | None:
    """The size that a choice compares with one."""
    test = facts.graph.producer(node.op.inputs[0])
    if test is None or test.op.kind != OpKind.EQ:
        return None
    left, right = (facts.values.expr(value) for value in test.op.inputs[:2])
    known = left.atom is not None and left.atom.kind in _SIZES and right.constant == 1
    return str(left) if known else None


def _parts(place: Expr) -> set[Atom]:
    """Numbers of parts of the grid in a place: a block index, or how many items lie before it."""
    return {atom for factors, _ in place.terms for atom in factors if _count(atom)}


def _count(atom: Atom) -> str:
    """How many values a number of a part has; empty for anything else."""
    if atom.kind is AtomKind.BLOCK:
        return f"grid[{atom.axis}]"
    if atom.kind is AtomKind.FLOOR_DIV:
        block, by = atom.args[0].atom, atom.args[1].atom
        if block is not None and block.kind is AtomKind.BLOCK and by is not None:
            return f"grid[{block.axis}] // {by.text}" if by.kind in _SIZES else ""
    return ""
