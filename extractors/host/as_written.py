"""Checks in the words of the host: where what a check asks for is made in too many ways to be told
by what the kernel is given, its own condition still says it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache

from extractors.host.facts import Material
from extractors.syntax.nodes import each
from kb.errors import InputError
from kb.evidence import Lines
from kb.planner.expressions import parse

MAX_AROUND = 2
"""Branches around a check; more make a condition that nobody reads."""

MAX_TEXT = 160
"""Characters of a condition that a person still reads."""

_OPPOSITE: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Eq: ast.NotEq(), ast.NotEq: ast.Eq(), ast.Lt: ast.GtE(), ast.GtE: ast.Lt(),
    ast.Gt: ast.LtE(), ast.LtE: ast.Gt(), ast.In: ast.NotIn(), ast.NotIn: ast.In(),
}  # fmt: skip


def as_written(material: Material, lines: Lines) -> Iterator[str]:
    """What holds once the check at a line is passed, one condition after the other, or that a
    branch around it is not taken: those that compare names and numbers, call nothing, and name
    nothing like a parameter of the kernel that is given something else."""
    for demand in _demands(material.tree).get(lines[0], ()):
        text = " or ".join(ast.unparse(part) for part in demand)
        if len(text) <= MAX_TEXT and all(map(_plain, demand)) and parses(text):
            if not any(_clashes(material, name) for part in demand for name in _names(part)):
                yield text


def _names(test: ast.expr) -> set[str]:
    return {one.id for one in ast.walk(test) if isinstance(one, ast.Name)}


def _clashes(material: Material, name: str) -> bool:
    """Whether the kernel has a parameter of a name, and is given something else for it."""
    names = [parameter for parameter, _ in material.signature.params]
    if name not in names or material.origins is None:
        return name in names
    for launch in material.sites():
        call = material.origins.call_at(launch.lines)
        row = material.row(launch)
        given = (
            material.origins.argument(call, name, names.index(name), row)
            if call is not None
            else None
        )
        if not isinstance(given, ast.Name) or given.id != name:
            return True
    return False


@lru_cache(maxsize=64)
def _demands(tree: ast.Module) -> dict[int, tuple[tuple[ast.expr, ...], ...]]:
    """What assertions, and branches that raise, demand, by line: conditions of which one holds."""
    found: dict[int, tuple[tuple[ast.expr, ...], ...]] = {}
    for function in each(tree, ast.FunctionDef):
        for node, around in _checks(function.body, ()):
            test = node.test
            holds = isinstance(node, ast.Assert)
            found[node.lineno] = tuple((*around, one) for one in _together(test, holds))
    return found


def _checks(
    body: Sequence[ast.stmt], around: tuple[ast.expr, ...]
) -> Iterator[tuple[ast.Assert | ast.If, tuple[ast.expr, ...]]]:
    """Checks among statements, with what makes each of them not run."""
    for node in body:
        if isinstance(node, ast.Assert):
            yield node, around
        elif isinstance(node, ast.If):
            if isinstance(node.body[-1], ast.Raise):
                yield node, around
            for side, taken in ((node.body, False), (node.orelse, True)):
                others = tuple(_together(node.test, taken))
                if len(others) == 1 and len(around) < MAX_AROUND:
                    yield from _checks(side, (*around, *others))


def _together(test: ast.expr, holds: bool) -> Iterator[ast.expr]:
    """Conditions that hold together where a test does, or does not."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _together(operand, not holds)
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And if holds else ast.Or):
            for value in values:
                yield from _together(value, holds)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if not holds:
            opposite = _OPPOSITE.get(type(op))
            if opposite is not None:
                yield ast.Compare(left=left, ops=[opposite], comparators=[_number(right)])
        case ast.Compare(left=left, ops=ops, comparators=[*others]) if holds:
            yield ast.Compare(left=left, ops=ops, comparators=[_number(one) for one in others])


def _number(node: ast.expr) -> ast.expr:
    """The number that a shifted one is."""
    match node:
        case ast.BinOp(left=ast.Constant(value=int(bits)), op=ast.LShift(),
                       right=ast.Constant(value=int(by))) if by < 64:  # fmt: skip
            return ast.Constant(bits << by)
    return node


def _plain(test: ast.expr) -> bool:
    """Whether a condition compares names with each other or with numbers."""
    return isinstance(test, ast.Compare) and all(
        isinstance(one, ast.Compare | ast.Name | ast.Constant | ast.BinOp | ast.UnaryOp
                   | ast.operator | ast.unaryop | ast.cmpop | ast.expr_context | ast.Attribute
                   | ast.Subscript)
        for one in ast.walk(test)
    )  # fmt: skip


def parses(text: str) -> bool:
    """Whether a text is in the grammar of constraints."""
    try:
        parse(text)
    except InputError:
        return False
    return True
