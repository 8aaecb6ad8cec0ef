"""Specialisations of a function for numbers or types that a template leaves open: one function that
asks which one it is, as the compiler does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extractors.cuda import nodes as n

_MOST = 6
"""Specialisations that are read beside each other."""


def either(candidates: Sequence[n.Definition], written: int) -> n.Definition | None:
    """A function with a branch for every specialisation, chosen by what the call gives: `written`
    arguments. None where they are not all told apart by those, or name their parameters apart."""
    first = candidates[0] if candidates else None
    if first is None or not 2 <= len(candidates) <= _MOST:
        return None
    if not all(one.given and len(one.given) == written and one.body.body for one in candidates):
        return None
    names = {tuple(p.name for p in one.parameters) for one in candidates}
    if len(names) > 1 or len({one.result for one in candidates}) > 1:
        return None
    if len({one.given for one in candidates}) < len(candidates):
        return None
    own = [n.TemplateParameter(f"given{i}.", _sort(g)) for i, g in enumerate(first.given)]
    body = candidates[-1].body
    for one in candidates[-2::-1]:
        body = n.Block(one.at, (n.If(one.at, (), _asked(one, own), one.body, body, static=True),))
    parameters = tuple(
        p if all(one.parameters[i].type == p.type for one in candidates)
        else replace(p, type=n.CType("auto"))
        for i, p in enumerate(first.parameters)
    )  # fmt: skip
    return replace(first, template=tuple(own), parameters=parameters, body=body,
                   specialised=False, given=())  # fmt: skip


def _sort(given: n.CType | n.Expr) -> str:
    return "typename" if isinstance(given, n.CType) else "int"


def _asked(function: n.Definition, own: Sequence[n.TemplateParameter]) -> n.Expr:
    """Whether what a call gives is what a specialisation is written for."""
    at = function.at
    tests = list[n.Expr]()
    for parameter, given in zip(own, function.given, strict=True):
        if isinstance(given, n.CType):
            pair = (n.CType(parameter.name), given)
            tests.append(n.Name(at, "std::is_same_v", pair))
        else:
            tests.append(n.Binary(at, "==", n.Name(at, parameter.name), given))
    asked = tests[0]
    for test in tests[1:]:
        asked = n.Binary(at, "&&", asked, test)
    return asked
