"""What a search tries and what a launch may pass: values of axes and parameters as finite sets."""

from __future__ import annotations

from extractors.host.events import LaunchRecord, SearchRecord
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from kb.evidence import Lines
from kb.ir import Literal

MAX_LEAVES = 64
"""Alternatives of one argument that are looked at; `leaves` stops there too."""


def space_lines(search: SearchRecord) -> tuple[Lines, ...]:
    """Where a space is made and where it is searched."""
    return (search.generator[1], search.lines) if search.generator else (search.lines,)


def tried(search: SearchRecord, name: str) -> list[Value]:
    """The values that a search tries on an axis, each once, in order."""
    return list(search.values().get(name, ()))


def complete(search: SearchRecord) -> bool:
    """Whether every configuration of a search is known, and some are."""
    return bool(search.cases) and not any(case.reason for case in search.cases)


def search_of(material: Material, number: object) -> SearchRecord | None:
    """The search with a number."""
    return next((one for one in material.searches if one.id == number), None)


def passed(material: Material, launch: LaunchRecord, name: str) -> tuple[Literal, ...] | None:
    """Every literal that a launch may pass for a parameter; None when that is not known.

    A parameter that is not passed has none.
    """
    value = next((value for key, value in launch.args if key == name), None)
    if all(key != name for key, _ in launch.args):
        return ()
    found: list[Literal] = []
    options = leaves(value)
    if len(options) >= MAX_LEAVES:
        return None
    for leaf in options:
        if leaf is None or isinstance(leaf, (bool, int, float, str)):
            found.append(leaf)
        elif isinstance(leaf, Expr) and leaf.op == "axis":
            tried_ = _axis(material, leaf)
            if tried_ is None:
                return None
            found += tried_
        else:
            return None
    return tuple(dict.fromkeys(found))


def _axis(material: Material, axis: Expr) -> list[Literal] | None:
    search = search_of(material, axis.args[0])
    if search is None or not complete(search):
        return None
    values = tried(search, str(axis.args[1]))
    found: list[Literal] = [v for v in values if isinstance(v, (bool, int, float, str))]
    return found or None
