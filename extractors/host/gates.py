"""What a test of the host comes to: what it joins, and what the functions answer that it calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.facts import Material, functions_of
from extractors.syntax.nodes import each, walk

MAX_DEPTH = 2
"""Functions that are called by a condition, and by one of those."""

MAX_PARTS = 256
"""Parts of a condition that are looked at."""


def joined(material: Material, test: ast.expr) -> list[ast.expr]:
    """What a test joins by `and`, `or` and `not`, in functions of the module that it calls, too:
    what they give back, and the tests after which they answer at once."""
    found: list[ast.expr] = []
    pending = [(test, MAX_DEPTH)]
    while pending and len(found) < MAX_PARTS:
        one, depth = pending.pop()
        inner = answers(material, one) if depth else []
        if isinstance(one, ast.BoolOp):
            pending += [(part, depth) for part in one.values]
        elif isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.Not):
            pending.append((one.operand, depth))
        elif inner:
            pending += [(part, depth - 1) for part in inner]
        else:
            found.append(one)
            pending += [(part, 0) for part in _cases(material, one)]
            pending += [(part, depth - 1) for part in _asked_before(material, one) if depth]
    return found


def _cases(material: Material, term: ast.expr) -> Iterator[ast.expr]:
    """Tests that chose what a term compares: of a choice, or around a constant that a name is set
    to."""
    for name in each(term, ast.Name):
        made = material.origins.statements(name, callers=False) if material.origins else []
        for place in (one for one in made if isinstance(one, ast.Assign)):
            if isinstance(place.value, ast.IfExp) and place is made[0]:
                yield place.value.test
            elif isinstance(place.value, ast.Constant) and place.lineno < term.lineno:
                yield from _around(material, place)


def _asked_before(material: Material, term: ast.expr) -> Iterator[ast.expr]:
    """What a function answered whose answer is all that a term asks for."""
    made = (
        material.origins.bindings(term) if isinstance(term, ast.Name) and material.origins else ()
    )
    for place, value in made:
        if isinstance(place, ast.Assign) and isinstance(value, ast.Call):
            yield from answers(material, value)


def _around(material: Material, place: ast.Assign) -> Iterator[ast.expr]:
    """The test of the branch of a function in which a statement stands."""
    owner = material.origins.owner(place) if material.origins else None
    for node in walk(owner) if owner is not None else ():
        if isinstance(node, ast.If) and place in (*node.body, *node.orelse):
            yield node.test


def answers(material: Material, value: ast.expr) -> list[ast.expr]:
    """What the function of the module answers that a value is a call of: what it gives back that is
    no constant, and the tests after which it gives one back."""
    name = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
    found: list[ast.expr] = []
    for node in functions_of(material.tree) if name else ():
        if node.name == name:
            given = [one.value for one in each(node, ast.Return) if one.value is not None]
            found += [one for one in given if not isinstance(one, ast.Constant)]
            found += [one.test for one in each(node, ast.If) if _ends_at_once(one)]
    return found


def _ends_at_once(node: ast.If) -> bool:
    """Whether all that a branch does is give back a constant."""
    only = node.body[0] if len(node.body) == 1 else None
    return isinstance(only, ast.Return) and (
        only.value is None or isinstance(only.value, ast.Constant)
    )
