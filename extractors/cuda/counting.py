"""Loops that count by themselves as the `for` that they are: a variable of the same block that only
the end of the body moves on, and that nothing asks for behind the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.loops import contains_leave, counted, mentioned, steps_of


def as_for(body: Sequence[n.Stmt]) -> tuple[n.Stmt, ...]:
    """The statements of a block with such loops as `for`."""
    found = list(body)
    for at, one in enumerate(found):
        if isinstance(one, n.While) or (isinstance(one, n.For) and not one.before):
            loop = _loop(one)
            told = _counted(loop, found[:at], found[at + 1 :]) if loop is not None else None
            found[at] = told or one
    return tuple(found)


def _loop(node: n.While | n.For) -> n.For | None:
    """A loop with what ends its rounds apart; None where a round can end elsewhere."""
    if isinstance(node, n.For):
        return node if node.condition is not None and node.after is not None else None
    if node.late or contains_leave(node.body, ("continue",)):
        return None
    body, asked = node.body.body, mentioned(node.condition)
    while len(body) == 1 and isinstance(body[0], n.Block):
        body = body[0].body
    steps: list[n.Assign] = []
    moved: set[str] = set()
    while not moved & asked:
        last = body[-1] if body else None
        ending = steps_of(last.value) if isinstance(last, n.Do) else ()
        told = [one for one in ending if isinstance(one, n.Assign)]
        if not told or len(told) < len(ending):
            return None
        steps = [*told, *steps]
        moved |= mentioned(tuple(one.target for one in told))
        body = body[:-1]
    for at, step in enumerate(steps):
        if mentioned(step.target) & asked & mentioned(tuple(steps[at + 1 :])):
            return None
    after: n.Expr = steps[0]
    for step in steps[1:]:
        after = n.Binary(step.at, ",", after, step)
    return n.For(node.at, (), node.condition, after, n.Block(node.body.at, body))


def _counted(loop: n.For, before: Sequence[n.Stmt], behind: Sequence[n.Stmt]) -> n.For | None:
    """The loop with its variable, where the block declares it before."""
    asked = mentioned(loop.condition)
    for at, one in enumerate(before):
        if not isinstance(one, n.Variable) or one.name not in asked or one.type.pointers:
            continue
        if one.storage or one.type.reference or one.type.extents or one.value is None:
            continue
        if one.name in mentioned(tuple(behind)) or _shared(one.name, before[at + 1 :]):
            continue
        value = n.Name(loop.at, one.name)
        told = replace(loop, before=(replace(one, at=loop.at, value=value),))
        if counted(told, lambda _: set(), lambda _: True) is not None:
            return told
    return None


def _shared(name: str, body: Sequence[n.Stmt]) -> bool:
    """Whether a variable may be reached by another name."""
    for one in n.inside(tuple(body)):
        if isinstance(one, n.Lambda) and name in mentioned(one.body):
            return True
        if isinstance(one, n.Unary) and one.operator == "&" and name in mentioned(one.operand):
            return True
        if isinstance(one, n.Variable) and one.type.reference and name in mentioned(one.value):
            return True
    return False
