"""Which threads hold a tile, where a kernel gives the layouts of its tiles itself."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from kb.analysis.facts import Facts
from kb.analysis.graph import VIEWS, Graph, Node
from kb.analysis.values import Values
from kb.ops import OpKind
from kb.space import Constraint, implied

MAX_PARENTS = 8
"""Slices of slices of a layout that are followed."""


def distributed(graph: Graph, value: str | None) -> Node | None:
    """The layout over all axes that a layout is, or is a slice of; None when it does not say how
    many warps go along an axis."""
    for _ in range(MAX_PARENTS):
        made = graph.producer(graph.through(value, VIEWS))
        if made is None or made.op.kind != OpKind.LAYOUT:
            return None
        if made.op.operand("parent") is None:
            return made if made.op.operand("warps_per_cta") else None
        value = made.op.operand("parent")
    return None


def layout_of(facts: Facts, tile: str) -> Node | None:
    """The layout that a tile has; None when nothing, or several things, tell."""
    found: dict[Node | None, None] = {}
    rank = len(facts.types.shape(tile))
    for node in facts.graph.upstream(tile, lambda n: n.op.operand("layout") is not None):
        if node.op.kind != OpKind.LAYOUT and (given := node.op.operand("layout")) is not None:
            made = distributed(facts.graph, given)
            if made is None or len(counts(facts.values, made, "warps_per_cta")) == rank:
                found[made] = None
    return next(iter(found)) if len(found) == 1 else None


def counts(values: Values, layout: Node, role: str) -> tuple[int | None, ...]:
    """How many there are along each axis; None for a number that is not known."""
    items = values.items(layout.op.operand(role))
    return tuple(values.expr(item).constant for item in items)


def warps_of_layouts(facts: Facts) -> Iterator[Constraint]:
    """Layouts that share a tile out to warps: the kernel is launched with as many."""
    told: set[str] = set()
    for node in facts.graph.of(OpKind.LAYOUT):
        given = facts.values.items(node.op.operand("warps_per_cta"))
        sides = [facts.values.expr(item) for item in given]
        named = [str(one) for one in sides if one.constant is None]
        fixed = prod(one.constant for one in sides if one.constant is not None)
        if not sides or not all(name.isidentifier() for name in named):
            continue
        count = " * ".join([*([str(fixed)] if fixed != 1 or not named else []), *named])
        if count not in told:
            told.add(count)
            yield implied(
                f"num_warps == {count}",
                "a layout shares its tile out to so many warps",
                "launch the kernel with as many warps as its layouts say",
                node.lines,
            )
