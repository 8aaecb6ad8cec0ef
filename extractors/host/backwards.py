"""What a value of host code was made of, step by step back through the text of a module."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import lru_cache, partial

from extractors.host.callers import VIEWS
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material, functions_of
from extractors.host.origins import lines_of
from extractors.syntax.nodes import children, each
from kb.evidence import Lines

MAX_STEPS = 60
"""Expressions that the origin of one value is followed through."""

FORMS = VIEWS | {
    "contiguous", "to", "float", "half", "bfloat16", "transpose", "permute", "expand", "t", "mT",
    "clone",
}  # fmt: skip
"""Methods of torch that give the elements of an array in another shape, type or order."""

_Back = Callable[[ast.Call], Iterator[ast.expr]]


def arguments(call: ast.Call) -> Iterator[ast.expr]:
    """What a number comes from that a function of a library gives: all that it is given."""
    yield from (one for one in children(call) if isinstance(one, ast.expr))


def same_array(call: ast.Call) -> Iterator[ast.expr]:
    """The array that a method gives in another form."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in FORMS:
        yield call.func.value


def back(material: Material, value: ast.expr, through: _Back) -> Iterator[ast.expr]:
    """A value and everything that it may have been made of: what names are bound to and callers
    pass, what functions of the module give back, attributes that the module sets. `through` says
    what a call of any other function is made of."""
    pending, seen = [value], set[ast.expr]()
    while pending and len(seen) < MAX_STEPS:
        one = pending.pop()
        if one not in seen:
            seen.add(one)
            yield one
            pending += _behind(material, one, through)


def _behind(material: Material, value: ast.expr, through: _Back) -> Iterator[ast.expr]:
    """What a value is, one step back."""
    if isinstance(value, ast.Name) and material.origins is not None:
        for statement, made in material.origins.bindings(value):
            row = [at for one, at in _targets(statement) if getattr(one, "id", "") == value.id]
            yield from _parts(material, made, row[0] if row else None, through)
    elif isinstance(value, ast.Attribute):
        for made, place in _attributes(material.tree).get(value.attr, ()):
            yield from _parts(material, made, place, through)
    else:
        yield from _parts(material, value, None, through)


def worked_out(material: Material, launch: LaunchRecord, name: str) -> set[Lines]:
    """Where the number was computed or written out that a launch hands over for a parameter."""
    return set(material.told("worked out", partial(_worked_out, material), launch, name))


def _worked_out(material: Material, launch: LaunchRecord, name: str) -> tuple[Lines, ...]:
    call = material.origins.call_at(launch.lines) if material.origins else None
    names = [param for param, _ in material.signature.params]
    if call is None or material.origins is None or name not in names:
        return ()
    value = material.origins.argument(call, name, names.index(name), material.row(launch))
    if value is None or isinstance(value, ast.Constant):
        return ()
    made = list(back(material, value, arguments))
    return tuple(sorted({lines_of(one) for one in made[1:] if _computes(material, one)}))


def _computes(material: Material, value: ast.expr) -> bool:
    """True for arithmetic, a number that is written out, and a function that gives a number."""
    if isinstance(value, ast.Call):
        known = isinstance(value.func, ast.Name) and _given_back(material.tree, value.func.id)
        return isinstance(value.func, ast.Name) and not known
    number = isinstance(value, ast.Constant) and type(value.value) is int
    return number or isinstance(value, ast.BinOp)


@lru_cache(maxsize=8)
def _attributes(tree: ast.Module) -> dict[str, list[tuple[ast.expr, int | None]]]:
    """What a module assigns to attributes of each name, with the place in a row."""
    found: dict[str, list[tuple[ast.expr, int | None]]] = {}
    for node in each(tree, ast.Assign):
        for target, place in _targets(node):
            if isinstance(target, ast.Attribute):
                found.setdefault(target.attr, []).append((node.value, place))
    return found


def _targets(statement: ast.AST) -> list[tuple[ast.expr, int | None]]:
    """What a statement binds, with its place in a row."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if isinstance(target, ast.Tuple | ast.List):
        return [(one, place) for place, one in enumerate(target.elts)]
    return [(target, None)] if target is not None else []


def _parts(
    material: Material, value: ast.expr, place: int | None, through: _Back
) -> Iterator[ast.expr]:
    """A value, or its part at a place; what a function of the module gives back there; what a call
    of another function is made of."""
    if isinstance(value, ast.Tuple | ast.List):
        yield from value.elts[place : place + 1] if place is not None else ()
    elif isinstance(value, ast.ListComp | ast.GeneratorExp):
        yield value.elt
    elif isinstance(value, ast.IfExp):
        yield from (value.body, value.orelse)
    elif isinstance(value, ast.Call):
        name = value.func.id if isinstance(value.func, ast.Name) else ""
        given_back = list(_given_back(material.tree, name)) if name else []
        if place is None or not given_back:
            yield value
        for made in given_back:
            row = made.elts if isinstance(made, ast.Tuple) else [made]
            yield from row if place is None else row[place : place + 1]
        if not given_back:
            yield from through(value)
    else:
        yield value


@lru_cache(maxsize=1024)
def _given_back(tree: ast.Module, name: str) -> tuple[ast.expr, ...]:
    """What the functions of a module with a name give back."""
    return tuple(
        node.value
        for function in functions_of(tree)
        if function.name == name
        for node in each(function, ast.Return)
        if node.value is not None
    )
