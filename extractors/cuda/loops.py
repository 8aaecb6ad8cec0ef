"""Which `for` loops count: one variable, a bound and a step that the body does not change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from extractors.cuda import nodes as n

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!="}


@dataclass(frozen=True, slots=True)
class Counted:
    """`for (variable; variable < high; variable += step)`; `closed` when the bound is reached,
    `down` when it counts down; `after` are the other steps."""

    variable: n.Variable
    high: n.Expr
    step: n.Expr
    closed: bool
    down: bool
    after: tuple[n.Expr, ...]


def counted(
    node: n.For, assigned: Callable[[object], set[str]], lasting: Callable[[str], bool]
) -> Counted | None:
    """The loop as a range, None when it is none; `lasting` names keep their value throughout, what
    they lead to may change."""
    for variable in node.before:
        if not isinstance(variable, n.Variable) or variable.type.pointers:
            continue
        bound = _bound(node.condition, variable.name)
        steps = steps_of(node.after)
        mine = [s for s in steps if isinstance(s, n.Assign) and _is(s.target, variable.name)]
        if bound is None or len(mine) != 1 or _writes(node.body, variable.name):
            continue
        operator, high = bound
        step = mine[0]
        down = step.operator == "-"
        if step.operator not in ("+", "-") or (down and operator not in (">", ">=")):
            continue
        if not down and operator not in ("<", "<=", "!="):
            continue
        others = tuple(s for s in steps if s is not step)
        changing = _names(node.body) | _names(others)
        read = (name for part in (high, step.value) for name in mentioned(part))
        if any(name in changing and not lasting(name) for name in read):
            continue
        if assigned((high, step.value)):
            continue
        return Counted(
            variable, high, step.value, "=" in operator and operator != "!=", down, others
        )
    return None


def steps_of(node: n.Expr | None) -> tuple[n.Expr, ...]:
    """What commas separate, in order."""
    if isinstance(node, n.Binary) and node.operator == ",":
        return (*steps_of(node.left), *steps_of(node.right))
    return (node,) if node is not None else ()


def _bound(node: n.Expr | None, name: str) -> tuple[str, n.Expr] | None:
    """The comparison of a variable, perhaps with something added to it, with what it reaches."""
    if not isinstance(node, n.Binary) or node.operator not in _TURNED:
        return None
    for operator, this, other in (
        (node.operator, node.left, node.right),
        (_TURNED[node.operator], node.right, node.left),
    ):
        if name in mentioned(other):
            continue
        if _is(this, name):
            return operator, other
        added = _added(this, name)
        if added is not None:
            return operator, n.Binary(node.at, "-", other, added)
    return None


def _added(node: n.Expr, name: str) -> n.Expr | None:
    """What is added to a variable."""
    if isinstance(node, n.Binary) and node.operator == "+":
        for this, other in ((node.left, node.right), (node.right, node.left)):
            if _is(this, name) and name not in mentioned(other):
                return other
    return None


def _is(node: n.Expr, name: str) -> bool:
    return isinstance(node, n.Name) and node.text == name


def mentioned(node: object) -> set[str]:
    """Names that code reads or writes."""
    return {one.text for one in n.inside(node) if isinstance(one, n.Name)}


def _names(node: object) -> set[str]:
    """Names that code may write: targets, and everything handed to a call or to assembly."""
    found: set[str] = set()
    for one in n.inside(node):
        if isinstance(one, n.Assign):
            found |= _rooted(one.target)
        elif isinstance(one, n.Assembly):
            for _, target in one.outputs:
                found |= _rooted(target)
        elif isinstance(one, n.Call):
            for argument in one.arguments:
                if isinstance(argument, n.Unary) and argument.operator == "&":
                    found |= _rooted(argument.operand)
    return found


def _rooted(node: n.Expr) -> set[str]:
    while isinstance(node, n.Field | n.Index | n.Unary | n.Cast):
        node = node.operand
    return {node.text} if isinstance(node, n.Name) else set()


def _writes(node: object, name: str) -> bool:
    return name in _names(node)


def contains_leave(node: object, words: tuple[str, ...]) -> bool:
    """True when code leaves by one of the words; breaks inside inner loops and switches are
    theirs, and what a lambda returns is its own."""
    pending: list[object] = [node]
    while pending:
        one = pending.pop()
        if isinstance(one, tuple):
            pending.extend(one)
        elif isinstance(one, n.Leave):
            if one.word in words:
                return True
        elif isinstance(one, n.For | n.While | n.Switch):
            inner = tuple(w for w in words if w == "return")
            if inner and contains_leave(_body(one), inner):
                return True
        elif isinstance(one, n.If):
            pending += [one.then, one.other]
        elif isinstance(one, n.Block):
            pending.append(one.body)
    return False


def _body(node: n.For | n.While | n.Switch) -> object:
    return tuple(body for _, body in node.cases) if isinstance(node, n.Switch) else node.body
