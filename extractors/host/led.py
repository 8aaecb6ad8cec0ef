"""Where another file settles what a launch is given: the lines of a function there that assign what
it returns, the configurations that a module or a table keeps, the rules that are attached."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from extractors.host.configurations import configurations
from extractors.host.derived import rule_lines
from extractors.host.events import LaunchRecord, SearchRecord
from extractors.host.facts import Material
from extractors.host.followed import followed
from extractors.host.modules import imported_from
from extractors.host.origins import lines_of
from extractors.host.registries import registered
from extractors.host.rule_tables import sole_text
from extractors.host.tree import loaded_names
from extractors.host.values import Func
from extractors.syntax.nodes import each
from kb.evidence import Decision
from kb.ir import Origin

MAX_LAUNCHES = 8
"""Launches of one kernel whose arguments are followed."""


def led_elsewhere(
    material: Material, rows: Sequence[Decision], options: Mapping[str, Sequence[str]]
) -> list[Decision]:
    """The decisions, those that rest on what an imported function returns with its lines; `options`
    are the keywords of a launch by the axis that they decide."""
    found: dict[str, set[tuple[ast.Assign, Origin]]] = {}
    tables = {search.lines: {*_configurations(material, search)} for search in material.searches}
    launches = material.launches[:MAX_LAUNCHES]
    attached = {name for one in launches for name, _ in one.kernel.heuristics}
    told = []
    for row in rows:
        subjects = [name for name in (row.subject or "").split(", ") if name]
        names = options.get(row.axis, subjects)
        led: set[Origin] = set(row.elsewhere)
        for name in names:
            if name not in found:
                found[name] = {pair for one in launches
                               for pair in _returned(material, one, name)}  # fmt: skip
            led |= {at for place, at in found[name] if lines_of(place) in row.lines}
        if row.value == "tuned" or row.axis == "autotuning":
            led |= {at for place, every in tables.items() if place in row.lines for at in every}
        led |= {at for name in names for at in _followed(material, name, row)}
        ruled = attached if row.axis == "autotuning" else names
        led |= {at for name in ruled for at in _ruled(material, name, row)}
        told.append(replace(row, elsewhere=tuple(sorted(led))) if led else row)
    return told


def _returned(
    material: Material, launch: LaunchRecord, name: str
) -> Iterator[tuple[ast.Assign, Origin]]:
    """Assignments behind an argument of a launch whose value an imported function returns, and
    where that function assigns it."""
    value = material.argument(launch, name)
    if value is None or material.origins is None:
        return
    used = {one.id for one in loaded_names(value)}
    for place in material.origins.statements(value):
        if not isinstance(place, ast.Assign):
            continue
        used |= {one.id for one in loaded_names(place.value)}
        if isinstance(place.value, ast.Call) and isinstance(place.value.func, ast.Name):
            for at in _imported(material, place.value.func.id, _positions(place.targets, used)):
                yield place, at


def _followed(material: Material, name: str, row: Decision) -> set[Origin]:
    """Where functions of other modules assign what a launch is handed through helpers of this one,
    by keyword or in a dictionary that is spread."""
    found: set[Origin] = set()
    for launch in material.sites()[:MAX_LAUNCHES]:
        call = material.origins.call_at(launch.lines) if material.origins else None
        lines = {*material.handed(launch, name), *material.made(launch, name)}
        if call is None or material.origins is None or lines.isdisjoint(row.lines):
            continue
        spread = material.origins.spread(call, material.row(launch))
        given = [value for key, value, _ in spread if key == name]
        given += [value] if (value := material.argument(launch, name)) is not None else []
        for one in given:
            for home, function, place in followed(material, one):
                found |= {(home.path, at) for at in _assigned(function, place)}
    return found


def _ruled(material: Material, name: str, row: Decision) -> Iterator[Origin]:
    """Where another module defines the rule that is attached for an argument, for what rests on
    the attached table."""
    for launch in material.launches[:MAX_LAUNCHES]:
        rule = dict(launch.kernel.heuristics).get(name)
        if not isinstance(rule, Func) or rule.frame.module == launch.kernel.module:
            continue
        attached = rule_lines(material, launch, name)
        home = material.loader.source(rule.frame.module) if material.loader else None
        if home is not None and any(lines in row.lines for lines in attached):
            yield home[0], lines_of(rule.node)


def _configurations(material: Material, search: SearchRecord) -> Iterator[Origin]:
    """Where another module makes the configurations that a search is given."""
    given = configurations(material.origins, search)
    if isinstance(given, ast.Name):
        for home in imported_from(material.loader, material.tree, material.module, given.id):
            for node in home.tree.body:
                if isinstance(node, ast.Assign) and any(
                    isinstance(to, ast.Name) and to.id == home.name for to in node.targets
                ):
                    yield home.path, lines_of(node)
    elif isinstance(given, ast.Call) and isinstance(given.func, ast.Name):
        yield from _imported(material, given.func.id, [None])
    key = sole_text(given)
    found = registered(material.loader.tables(), key) if key and material.loader else None
    if found is not None:
        yield found.path, found.lines


def _positions(targets: Sequence[ast.expr], used: set[str]) -> list[int | None]:
    """Which of the values side by side that a call gives are used; None for the one it gives."""
    first = targets[0]
    if not isinstance(first, ast.Tuple):
        return [None]
    return [i for i, one in enumerate(first.elts) if isinstance(one, ast.Name) and one.id in used]


def _imported(material: Material, name: str, positions: Sequence[int | None]) -> Iterator[Origin]:
    """Where a function of another module of the package assigns what it returns."""
    for home in imported_from(material.loader, material.tree, material.module, name):
        for function in home.tree.body:
            if isinstance(function, ast.FunctionDef) and function.name == home.name:
                yield from ((home.path, at) for p in positions for at in _assigned(function, p))


def _assigned(function: ast.FunctionDef, position: int | None) -> Iterator[tuple[int, int]]:
    """From the first to the last line that assigns what a function returns at a position."""
    ends = [node.value for node in each(function, ast.Return) if node.value is not None]
    parts = [end.elts[position] if position is not None and isinstance(end, ast.Tuple)
             and position < len(end.elts) else end for end in ends]  # fmt: skip
    names = {one.id for part in parts for one in loaded_names(part)}
    given: list[tuple[ast.stmt, ast.expr]] = [
        (node, target) for node in each(function, ast.Assign) for target in node.targets
    ]
    given += [(node, node.target) for node in each(function, ast.AugAssign)]
    given += [(node, node.target) for node in each(function, ast.AnnAssign) if node.value]
    held = [node for node, to in given if isinstance(to, ast.Name) and to.id in names]
    places = [lines_of(node) for node in held or parts]
    if places:
        yield min(first for first, _ in places), max(last for _, last in places)
