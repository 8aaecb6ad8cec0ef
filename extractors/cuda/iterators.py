"""Template parameters that stand for an iterator: what a kernel is handed under such a type is an
array, for it is indexed or what it leads to is asked for."""

from __future__ import annotations

from collections.abc import Iterator

from extractors.cuda import nodes as n
from extractors.cuda.library import Library

MAX_LEVELS = 4
"""Helpers inside each other that a parameter is followed into."""


def iterators(definition: n.Definition, library: Library) -> Iterator[str]:
    """The type parameters of a kernel that are a parameter's whole type and stand for iterators."""
    open_ = {one.name for one in definition.template if one.dtype == "typename"}
    for parameter in definition.parameters:
        kind = parameter.type
        plain = kind.name in open_ and not (kind.pointers or kind.extents or kind.arguments)
        if plain and _leads(definition, parameter.name, library, 0):
            yield kind.name


def _leads(function: n.Definition, name: str, library: Library, level: int) -> bool:
    """Whether a function goes to what a parameter leads to, by the parameter itself or by what it
    counts on from there."""
    inside = [*n.inside(function.body)]
    names = {name}
    for one in inside:
        if isinstance(one, n.Variable) and one.value is not None and _based(one.value, names):
            names.add(one.name)
    for one in inside:
        match one:
            case n.Index(operand=operand, index=index) if not isinstance(index, n.Constant):
                found = _based(operand, names)
            case n.Unary(operator="*", operand=operand):
                found = _based(operand, names)
            case n.Call(function=n.Name(text=text), arguments=arguments) if level < MAX_LEVELS:
                given = [at for at, x in enumerate(arguments) if _based(x, names)]
                found = bool(given) and any(
                    _leads(called, called.parameters[at].name, library, level + 1)
                    for called in library.functions(text) for at in given
                    if at < len(called.parameters) and _open(called, at)
                )  # fmt: skip
            case _:
                continue
        if found:
            return True
    return False


def _based(node: n.Expr, names: set[str]) -> bool:
    """An iterator, or one so many elements further on."""
    match node:
        case n.Name(text=text):
            return text in names
        case n.Binary(operator="+" | "-", left=left):
            return _based(left, names)
    return False


def _open(function: n.Definition, at: int) -> bool:
    kind = function.parameters[at].type
    return not kind.pointers and any(kind.name == one.name for one in function.template)
