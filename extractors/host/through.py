"""Where the arguments of a launch are written when not in the launch: in a dictionary that is
spread into it, or in a call that hands the kernel to a function which launches it."""

from __future__ import annotations

import ast

from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.syntax.nodes import walk
from kb.evidence import Lines

_KERNEL = 2
"""Place of the kernel among the arguments of `launch`; source: cuTile documentation."""


def written(material: Material, launch: LaunchRecord, name: str) -> Lines:
    """Lines of what a parameter or a hint is given; those of the launch when nothing is nearer."""
    origins = material.origins
    call = origins.call_at(launch.lines) if origins is not None else None
    if origins is None or call is None:
        return launch.lines
    row = material.row(launch)
    if tables := entries(material, launch, name):
        return tables[0]
    if _names(call, material.signature.name):
        return launch.lines
    names = [param for param, _ in material.signature.params]
    given = origins.argument(call, name, names.index(name), row) if name in names else None
    if given is not None and not call.lineno <= given.lineno <= lines_of(call)[1]:
        return lines_of(given)
    handing = [
        one
        for function in dict.fromkeys(launch.stack)
        for one in origins.calls_of(function)
        if any(_is(arg, material.signature.name) for arg in _arguments(one))
    ]
    return lines_of(handing[0]) if len(handing) == 1 else launch.lines


def entries(material: Material, launch: LaunchRecord, name: str) -> tuple[Lines, ...]:
    """Lines of the entries for a parameter or a hint in dictionaries that a launch spreads."""
    origins = material.origins
    call = origins.call_at(launch.lines) if origins is not None else None
    if origins is None or call is None:
        return ()
    rows = origins.spread(call, material.row(launch))
    return tuple(dict.fromkeys((at, lines_of(v)[1]) for key, v, at in rows if key == name))


def chosen_objects(material: Material, name: str) -> set[Lines]:
    """Where the host picks one of several kernel objects that differ in a hint."""
    given = {str(dict(launch.kernel.hints).get(name)) for launch in material.launches}
    found: set[Lines] = set()
    for launch in material.launches if len(given) > 1 and material.origins else ():
        call = material.origins.call_at(launch.lines) if material.origins else None
        named = call.args[_KERNEL] if call is not None and len(call.args) > _KERNEL else None
        if isinstance(named, ast.Name) and material.origins is not None:
            found |= {*material.origins.assigned(named)}
    return found


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(key.value for key in call.keywords)]


def _is(value: ast.expr, name: str) -> bool:
    return isinstance(value, ast.Name) and value.id == name


def _names(call: ast.Call, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in walk(call))
