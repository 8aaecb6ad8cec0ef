"""Helpers whose loops return: the loop is left, and the function returns behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.loops import contains_leave

LEFT = "left early"
GIVEN = "returned value"
"""Names of the two variables; no name of a source has a blank in it."""


def returning_behind(function: n.Definition) -> tuple[n.Stmt, ...] | None:
    """The body of a function in which no loop returns; None when a switch in a loop does."""
    if any(isinstance(one, n.Switch) and _returns(one) for one in n.inside(function.body.body)):
        return None
    return tuple(_statements(function.body.body, function.result))


def _statements(body: Sequence[n.Stmt], kind: n.CType) -> Iterator[n.Stmt]:
    """Statements outside loops."""
    for one in body:
        if isinstance(one, n.For | n.While) and _returns(one):
            at = one.at
            yield n.Variable(at, LEFT, n.CType("bool"), n.Constant(at, False, "i1"))
            value = None
            if kind.name != "void":
                yield n.Variable(at, GIVEN, kind)
                value = n.Name(at, GIVEN)
            yield _left(one)
            yield _when_left(at, n.Leave(at, "return", value))
        elif isinstance(one, n.Block):
            yield replace(one, body=tuple(_statements(one.body, kind)))
        elif isinstance(one, n.If) and _returns(one):
            sides = (tuple(_statements(side.body, kind)) for side in (one.then, one.other))
            then, other = (n.Block(one.at, side) for side in sides)
            yield replace(one, then=then, other=other)
        else:
            yield one


def _left(loop: n.For | n.While) -> n.Stmt:
    """A loop that breaks where it returned."""
    return replace(loop, body=n.Block(loop.body.at, tuple(_inside(loop.body.body))))


def _inside(body: Sequence[n.Stmt]) -> Iterator[n.Stmt]:
    """Statements of a loop: a return says so and breaks; a loop that was left is left further."""
    for one in body:
        if isinstance(one, n.Leave) and one.word == "return":
            if one.value is not None:
                yield n.Do(one.at, n.Assign(one.at, "", n.Name(one.at, GIVEN), one.value))
            true = n.Constant(one.at, True, "i1")
            yield n.Do(one.at, n.Assign(one.at, "", n.Name(one.at, LEFT), true))
            yield n.Leave(one.at, "break")
        elif isinstance(one, n.For | n.While) and _returns(one):
            yield _left(one)
            yield _when_left(one.at, n.Leave(one.at, "break"))
        elif isinstance(one, n.Block):
            yield replace(one, body=tuple(_inside(one.body)))
        elif isinstance(one, n.If) and _returns(one):
            sides = (n.Block(one.at, tuple(_inside(side.body))) for side in (one.then, one.other))
            then, other = sides
            yield replace(one, then=then, other=other)
        else:
            yield one


def _when_left(at: n.Place, leave: n.Leave) -> n.If:
    then, other = n.Block(at, (leave,)), n.Block(at, ())
    return n.If(at, (), n.Name(at, LEFT), then, other)


def _returns(node: n.Stmt) -> bool:
    return contains_leave(node, ("return",))


def named_before(function: n.Definition) -> tuple[Sequence[n.Stmt], n.Expr | None]:
    """What names types and constants, or asserts what must hold of them, and the value that is
    returned behind it; no value where a function does anything else."""
    *before, leave = function.body.body or (None,)
    named = [one for one in before if isinstance(one, n.Alias | n.Assert | n.Variable)]
    constant = all("constexpr" in x.storage for x in named if isinstance(x, n.Variable))
    if not constant or len(named) < len(before) or not isinstance(leave, n.Leave):
        return (), None
    return named, leave.value
