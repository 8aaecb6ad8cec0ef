"""Arrays that torch gives another type on their way to a kernel or from it, beside the casts of the
kernel itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from extractors.detect import Detection
from extractors.host.backwards import back, same_array
from extractors.host.dispatch import made_of
from extractors.host.events import LaunchRecord
from extractors.host.facts import HostFacts, Material, functions_of
from extractors.host.origins import lines_of
from extractors.patterns.io_cast import IoCast
from extractors.syntax.nodes import each
from kb.evidence import Decision, Lines

BY_HOST = "cast by the host"

_NAMED = frozenset({"float", "half", "bfloat16", "double", "int", "long", "short"})
"""Methods of torch that are named after the type they give."""
_GIVEN = frozenset({"to", "type"})
"""Methods of torch that are told the type."""
_ELSEWHERE = "device"
"""What `to` may be told instead."""


def with_host_casts(
    decisions: Sequence[Decision], detection: Detection, host: HostFacts
) -> Iterator[Decision]:
    """How values are cast between memory and arithmetic, with the casts of whole arrays that the
    host makes: of those that the kernel reads before it runs, of those it writes afterwards. Where
    the host makes an array that is written, and names its type, that belongs to it."""
    material = host.material
    told = any(d.axis == IoCast.axis and d.file is None for d in decisions)
    lines: set[Lines] = set()
    made: set[Lines] = set()
    if told and material is not None and not detection.facts.of_threads:
        read = {a.array for a in detection.facts.loads}
        written = {a.array for a in detection.facts.stores}
        for launch in material.sites():
            lines |= {line for name in read for line in _before(material, launch, name)}
            lines |= {line for name in written for line in _after(material, launch, name)}
            made |= {line for name in written for line in _typed(material, launch, name)}
    for decision in decisions:
        if (lines or made) and decision.axis == IoCast.axis and decision.file is None:
            both = tuple(sorted({*decision.lines, *lines, *made}))
            value = f"{decision.value}, {BY_HOST}" if lines else decision.value
            decision = replace(decision, value=value, lines=both)
        yield decision


def _before(material: Material, launch: LaunchRecord, name: str | None) -> Iterator[Lines]:
    given = _argument(material, launch, name)
    for made in back(material, given, same_array) if given is not None else ():
        if isinstance(made, ast.Call) and _casts(made):
            yield lines_of(made)


def _after(material: Material, launch: LaunchRecord, name: str | None) -> Iterator[Lines]:
    """Casts, below the launch in its function, of what was handed over by name."""
    given = _argument(material, launch, name)
    around = [
        node
        for node in functions_of(material.tree)
        if node.lineno <= launch.lines[0] <= (node.end_lineno or node.lineno)
    ]
    if not isinstance(given, ast.Name) or not around:
        return
    body = max(around, key=lambda node: node.lineno)
    yield from _cast_of(body, given.id, launch.lines[1])
    for node in functions_of(material.tree):
        for made in each(node, ast.Assign) if node is not body else ():
            if isinstance(made.value, ast.Call) and _calls(made.value, body.name):
                for name in _bound(body, made, given.id):
                    yield from _cast_of(node, name, made.end_lineno or made.lineno)


def _cast_of(function: ast.FunctionDef, name: str, after: int) -> Iterator[Lines]:
    """Casts below a line of what is called by a name, or by others that are set to it."""
    names = {name}
    for node in each(function, ast.Assign):
        if isinstance(node.value, ast.Name) and node.value.id in names:
            names |= {one.id for one in node.targets if isinstance(one, ast.Name)}
    for call in each(function, ast.Call):
        if call.lineno > after and _casts(call) and isinstance(call.func, ast.Attribute):
            if isinstance(call.func.value, ast.Name) and call.func.value.id in names:
                yield lines_of(call)


def _calls(call: ast.Call, name: str) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == name


def _bound(function: ast.FunctionDef, made: ast.Assign, name: str) -> Iterator[str]:
    """What a caller names the results of a function that are, wherever it returns, what it calls by
    a name of its own."""
    ends = [one.value for one in each(function, ast.Return) if one.value is not None]
    target = made.targets[0]
    if isinstance(target, ast.Name):
        if ends and all(isinstance(end, ast.Name) and end.id == name for end in ends):
            yield target.id
    elif isinstance(target, ast.Tuple):
        rows = [end.elts for end in ends if isinstance(end, ast.Tuple)]
        rows = rows if len(rows) == len(ends) else []
        for place, one in enumerate(target.elts):
            given = [row[place] for row in rows if len(row) == len(target.elts)]
            held = bool(given) and all(isinstance(g, ast.Name) and g.id == name for g in given)
            if held and isinstance(one, ast.Name):
                yield one.id


def _typed(material: Material, launch: LaunchRecord, name: str | None) -> Iterator[Lines]:
    """Where the launching function makes an array in a type that it names."""
    made = made_of(material, launch, name) if _argument(material, launch, name) and name else []
    for one in made:
        words = one.keywords if isinstance(one, ast.Call) else []
        if any(word.arg == "dtype" and _of_torch(word.value) for word in words):
            yield lines_of(one)


def _of_torch(value: ast.expr) -> bool:
    """A type of the module of torch."""
    owner = value.value if isinstance(value, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id == "torch"


def _argument(material: Material, launch: LaunchRecord, name: str | None) -> ast.expr | None:
    call = material.origins.call_at(launch.lines) if material.origins else None
    names = [param for param, _ in material.signature.params]
    if call is None or material.origins is None or name not in names:
        return None
    return material.origins.argument(call, name, names.index(name), material.row(launch))


def _casts(call: ast.Call) -> bool:
    """A method that gives an array in a type that is named."""
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in _NAMED:
        return not call.args
    words = [word.value for word in call.keywords if word.arg == "dtype"]
    told = [one for one in call.args if isinstance(one, ast.Attribute) and one.attr != _ELSEWHERE]
    return call.func.attr in _GIVEN and bool(words or told)
