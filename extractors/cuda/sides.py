"""Sides of a branch that set one variable, and cases of a switch as sides of branches."""

from __future__ import annotations

from dataclasses import replace

from extractors.cuda import nodes as n


def as_choice(node: n.If) -> n.Assign | None:
    """A branch each side of which sets the same variable and does no more, as what is set to a
    choice; None for any other one."""
    found = []
    for side in (node.then, node.other):
        body = side.body
        while len(body) == 1 and isinstance(body[0], n.Block):
            body = body[0].body
        one = body[0].value if len(body) == 1 and isinstance(body[0], n.Do) else None
        if not isinstance(one, n.Assign) or one.operator or not isinstance(one.target, n.Name):
            return None
        found.append(one)
    then, other = found
    listed = any(isinstance(one.value, n.Braces) for one in found)
    if listed or then.target != replace(other.target, at=then.target.at):
        return None
    choice = n.Choice(node.at, node.condition, then.value, other.value)
    return replace(then, at=node.at, value=choice)


def any_of(value: n.Expr, labels: list[n.Expr]) -> n.Expr:
    """True when a value is one of the labels."""
    tests: list[n.Expr] = [n.Binary(one.at, "==", value, one) for one in labels]
    found = tests[0]
    for other in tests[1:]:
        found = n.Binary(other.at, "||", found, other)
    return found


def without_break(body: tuple[n.Stmt, ...]) -> tuple[n.Stmt, ...] | None:
    """The statements of a case before the break at their end; None when they run on."""
    if len(body) == 1 and isinstance(body[0], n.Block):
        inner = without_break(body[0].body)
        return None if inner is None else (n.Block(body[0].at, inner),)
    if body and isinstance(body[-1], n.Leave):
        return body[:-1] if body[-1].word == "break" else body
    if len(body) > 1 and isinstance(body[-1], n.Block):
        inner = without_break(body[-1].body)
        return None if inner is None else (*body[:-1], n.Block(body[-1].at, inner))
    return None
