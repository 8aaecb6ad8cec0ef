"""General rules over the host facts of a kernel: axes that go nowhere, settings that were never
timed."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.host.events import LaunchRecord, SearchRecord
from extractors.host.expr import ATOMS, atoms, negate
from extractors.host.facts import Material, axis_atoms, read_names
from extractors.host.render import Names, leaves
from extractors.host.tuning import (
    LAUNCH_AXES,
    axis_names,
    carriers_known,
    effective_axes,
    key_values,
    timed_with,
)
from extractors.host.values import Choice, Expr, Unknown, Value
from kb.evidence import Finding, Lines, Severity
from kb.space import Point


def findings_of(material: Material) -> tuple[Finding, ...]:
    """All findings about one kernel, in the order of the rules."""
    rows: list[Finding] = []
    for search in material.searches:
        names = material.search_names(search)
        rows += _dead_axes(material, search)
        rows += _timed_not_launched(material, search, names)
        rows += _single_values(search, effective_axes(material, search))
        rows += _incomplete_key(material, search, names)
        rows += _dead_parameters(material, search)
    unique: dict[tuple[str, str], Finding] = {}
    for row in rows:
        unique.setdefault((row.rule, row.message), row)
    return tuple(unique.values())


def _dead_axes(material: Material, search: SearchRecord) -> Iterator[Finding]:
    """An axis that the space varies, or at least names, and that never reaches the timed kernel."""
    effective = effective_axes(material, search)
    for name in axis_names(search):
        if name in effective or not carriers_known(search):
            continue
        tried = _values(search, name)
        if len(tried) < 2:
            continue
        shown = ", ".join(str(value) for value in tried[:6])
        carried = axis_atoms(search.args, search.id) | {
            name for name, _ in material.signature.params
        }
        why = (
            "the kernel never reads the parameter it is bound to"
            if name in carried
            else "neither the arguments, nor the grid, nor the hints of the timed kernel carry it"
        )
        yield Finding(
            rule="dead-tuning-axis",
            severity=Severity.WARNING,
            message=f"the search lists `{name}` ({shown}), but {why}: "
            "configurations that differ only there are timed as one",
            lines=_lines(search),
            fix=f"carry `{name}` to the timed kernel (its arguments, or the hints function), "
            "or drop it",
        )


def _lines(search: SearchRecord) -> tuple[Lines, ...]:
    return (search.generator[1], search.lines) if search.generator else (search.lines,)


def _values(search: SearchRecord, name: str) -> list[Value]:
    values = [
        value
        for case in search.cases
        for point in case.points
        for key, value in point
        if key == name
    ]
    return list(dict.fromkeys(values))


def _timed_not_launched(
    material: Material, search: SearchRecord, names: Names
) -> Iterator[Finding]:
    """The kernel that takes the winner carries other hints than the kernel that was timed."""
    if search.kind != "exhaustive_search" or isinstance(search.kernel, Choice):
        return
    timed = timed_with(material, search, names)
    for launch in material.tied(search):
        if not _certain(launch, search.id):
            continue
        launched = material.names(launch).point(launch.kernel.hints)
        if dict(timed) != dict(launched):
            yield Finding(
                rule="timed-not-launched",
                severity=Severity.WARNING,
                message=f"the search times the kernel with {_shown(timed)}, "
                f"the launch at line {launch.lines[0]} "
                f"runs it with {_shown(launched)}: the launched setting was never timed",
                lines=(launch.lines, search.lines),
                fix="time the kernel with the hints it is launched with",
            )


def _certain(launch: LaunchRecord, search: int) -> bool:
    """Whether a launch takes the winner of this search and nothing else, with hints that are
    known."""
    values = [value for _, value in (*launch.args, *launch.kernel.hints)]
    if any(isinstance(leaf, Unknown) for _, value in launch.kernel.hints for leaf in leaves(value)):
        return False
    others = {atom.args[0] for value in values for atom in atoms(value) if atom.op == "axis"} - {
        search
    }
    return not others and not any(_mixed(value, search) for value in (*values, launch.grid))


def _mixed(value: Value, search: int) -> bool:
    """Whether a searched value and another one are alternatives somewhere inside."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, Choice) and axis_atoms(item, search):
            return True
        if isinstance(item, Expr):
            pending.extend(item.args)
        elif isinstance(item, tuple):
            pending.extend(item)
    return False


def _shown(point: Point) -> str:
    return ", ".join(f"{name}={value}" for name, value in point) or "no hints"


def _single_values(search: SearchRecord, effective: set[str]) -> Iterator[Finding]:
    """An axis with one value in every configuration of a space of several."""
    count = sum(len(case.points) for case in search.cases)
    if count < 2 or any(case.reason for case in search.cases):
        return
    for name in axis_names(search):
        values = _values(search, name)
        if len(values) == 1 and name in effective:
            yield Finding(
                rule="single-value-axis",
                severity=Severity.NOTE,
                message=f"`{name}` is {values[0]} in all {count} configurations: "
                "nothing is searched",
                lines=_lines(search),
                fix=f"give `{name}` more values, or pass it as a constant",
            )


def _incomplete_key(material: Material, search: SearchRecord, names: Names) -> Iterator[Finding]:
    """The winner is remembered under a key that leaves out a size the search depends on."""
    key = key_values(search)
    if key is None or search.kind != "exhaustive_search":
        return
    known = {names.text(part) for part in key}
    if any(isinstance(part, Unknown) for part in key):
        return
    whole = {part.args[0] for part in key if isinstance(part, Expr) and part.op == "shape"}
    params = [name for name, _ in material.signature.params]
    row = search.args if isinstance(search.args, tuple) else ()
    missing: dict[str, str] = {}
    for name, value in (
        *zip(params, row, strict=False),
        *(("grid", part) for part in _parts(search.grid)),
    ):
        for atom in _needed(value, key, scalars=name == "grid"):
            if names.text(atom) not in known and atom.args[0] not in whole:
                missing.setdefault(names.text(atom), name)
    for text, name in missing.items():
        where = "the grid" if name == "grid" else f"the argument `{name}`"
        yield Finding(
            rule="cache-key-incomplete",
            severity=Severity.WARNING,
            message=f"{where} of the search depends on {text}, which the cache key leaves out: "
            "a winner found for one value is used for others",
            lines=(search.lines,),
            fix=f"add {text} to the cache key",
        )


def _parts(grid: Value) -> Iterable[Value]:
    return grid if isinstance(grid, tuple) else (grid,)


def _needed(value: Value, key: tuple[Value, ...], *, scalars: bool) -> list[Expr]:
    """Extents in an integer argument, and host scalars where they shape the grid."""
    tensors = any(isinstance(leaf, Expr) and leaf.op in ("sym", "tensor") for leaf in leaves(value))
    if not scalars and (tensors or _fractional(value)):
        return []
    found = _uncovered(value, key)
    kinds = ("dim", "sym") if scalars else ("dim",)
    device = ("capability", "target.", "condition@", "exception@")
    return [atom for atom in found if atom.op in kinds and not str(atom.args[0]).startswith(device)]


def _fractional(value: Value) -> bool:
    """A real number (a scale, an epsilon): it changes results, not speed."""
    if isinstance(value, Choice):
        return _fractional(value.then) or _fractional(value.other)
    if isinstance(value, Expr):
        return value.op in ("/", "**") or any(_fractional(arg) for arg in value.args)
    return isinstance(value, float)


def _uncovered(value: Value, key: tuple[Value, ...]) -> list[Expr]:
    """Atoms of a value outside of the sub-expressions that the key holds."""
    found: list[Expr] = []
    pending = [value]
    while pending:
        item = pending.pop()
        if item in key or (isinstance(item, Expr) and negate(item) in key):
            continue
        if isinstance(item, tuple):
            pending.extend(reversed(item))
        elif isinstance(item, Choice):
            pending.extend((item.other, item.then, item.cond))
        elif isinstance(item, Expr) and item.op in ATOMS:
            found.append(item)
        elif isinstance(item, Expr):
            pending.extend(reversed(item.args))
    return found


def _dead_parameters(material: Material, search: SearchRecord) -> Iterator[Finding]:
    """A configuration function with a parameter that its body never reads."""
    if search.generator is None:
        return
    name, lines, params = search.generator
    for node in ast.walk(material.tree):
        if isinstance(node, ast.FunctionDef) and node.name == name and node.lineno == lines[0]:
            read = read_names(node)
            for param in params:
                if param not in read and param not in ("self", "cls") and not param.startswith("_"):
                    yield Finding(
                        rule="dead-parameter",
                        severity=Severity.WARNING,
                        message=f"`{name}` never reads its parameter `{param}`: "
                        "every value of it gives the same space",
                        lines=(lines,),
                        fix=f"let the space depend on `{param}`, or drop the parameter",
                    )


__all__ = ["LAUNCH_AXES", "findings_of"]
