"""Reciprocals that the host computes for a kernel, which then multiplies."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.callers import called, handed
from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.syntax.nodes import each
from kb.evidence import AxisKind, Decision, Lines

RECIPROCAL = "reciprocal-computed-once-multiplied-in-the-loop"
"""The pattern that kernels show which compute their reciprocals themselves."""

_ROOTS = frozenset({"sqrt", "rsqrt", "pow"})
"""Functions that make the scale of scores, which is no strength reduction of a division."""


def reciprocals(material: Material) -> Iterator[Decision]:
    """Numbers handed to a kernel that are one over another number, for each parameter."""
    found: dict[str, set[Lines]] = {}
    for launch in material.sites() if material.origins else ():
        for name, _ in material.signature.params:
            given = handed(material, launch, name)
            for made in _ways(material, given) if given is not None else ():
                if _inverse(material, made):
                    found.setdefault(name, {launch.lines}).add(lines_of(made))
    for name, lines in found.items():
        yield Decision(
            axis="division_strength",
            value="one reciprocal by the host",
            pattern=RECIPROCAL,
            lines=tuple(sorted(lines)),
            kind=AxisKind.DESIGN,
            subject=name,
        )


def _ways(material: Material, given: ast.expr) -> list[ast.expr]:
    """What an argument is, seen through names and conversions to a number."""
    if isinstance(given, ast.Call) and getattr(given.func, "id", "") in ("float", "int"):
        given = given.args[0] if given.args else given
    if isinstance(given, ast.Name) and material.origins is not None:
        made, passed = material.origins.sources(given)
        return [side for one in made or passed for side in _sides(one)]
    return _sides(given)


def _sides(value: ast.expr) -> list[ast.expr]:
    """Both sides of a choice; else the value itself."""
    return [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]


def _inverse(material: Material, value: ast.expr) -> bool:
    """One over what is no root, seen through names."""
    if not (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div)):
        return False
    names = list(each(value.right, ast.Name))
    under = [value.right, *(made for name in names for made in _ways(material, name))]
    one = isinstance(value.left, ast.Constant) and value.left.value == 1
    return one and not any(_root(part) for part in under)


def _root(value: ast.expr) -> bool:
    powers = (node.op for node in each(value, ast.BinOp))
    return bool(called(value) & _ROOTS) or any(isinstance(op, ast.Pow) for op in powers)
