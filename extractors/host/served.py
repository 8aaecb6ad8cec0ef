"""Kernels beside this one that serve another case of the problem: an operand that is not given, or
a size that tiles divide."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.events import LaunchRecord
from extractors.host.facts import Material, functions_of
from extractors.host.origins import lines_of
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from extractors.syntax.nodes import each
from kb.evidence import AxisKind, Decision, Lines

MISSING = "kernel-of-its-own-where-an-operand-is-missing"
WHOLE = "kernel-of-its-own-where-tiles-divide"


def served_apart(material: Material) -> Iterator[Decision]:
    """Conditions that every launch of this kernel is under and whose opposite every launch of
    another one is: whether an operand that one of them takes is given, or a tile divides."""
    found: dict[tuple[str, str], set[Lines]] = {}
    for number in sorted({material.roots[id(launch)] for launch in material.launches}):
        launches = [e for e in material.events.get(number, []) if isinstance(e, LaunchRecord)]
        ours = [e for e in launches if e.kernel.name == material.signature.name]
        for cond, holds in _always(ours):
            names = {e.kernel.name for e in launches if (cond, not holds) not in _guards(e)}
            others = [e for e in launches if e.kernel.name not in names]
            if told := _difference(material, cond, holds, ours, others):
                lines = found.setdefault(told, set())
                lines |= {at for launch in ours for at in _places(material, cond, launch)}
                lines |= {at for launch in ours for at in _looked_up(material, launch)}
    for (pattern, value), lines in found.items():
        yield Decision(
            axis="optional_inputs" if pattern == MISSING else "tail_handling",
            value=value,
            pattern=pattern,
            lines=tuple(sorted(lines)),
            kind=AxisKind.HOST if pattern == MISSING else AxisKind.DESIGN,
        )


def _places(material: Material, cond: Expr, launch: LaunchRecord) -> Iterator[Lines]:
    """The nearest test of a condition above a launch, or above a call on the way to it; and the
    launch with that call."""
    tests = [lines_of(test) for test in material.machine.asked.get(cond, ())]
    for site in (launch.lines, *reversed(launch.sites)):
        yield site
        above = [at for at in tests if at[0] <= site[1] and _one_function(material, at, site)]
        if above:
            yield max(above)
            return


def _looked_up(material: Material, launch: LaunchRecord) -> Iterator[Lines]:
    """Where a call on the way to a launch gets this kernel out of a table of the module under a
    name: the assignment, and the table."""
    origins = material.origins
    calls = [origins.call_at(site) for site in (launch.lines, *launch.sites)] if origins else []
    for call in calls:
        given = [*call.args, *(word.value for word in call.keywords)] if call is not None else []
        given += [call.func.value] if call and isinstance(call.func, ast.Subscript) else []
        for name in (one for one in given if isinstance(one, ast.Name)):
            for place, value in origins.bindings(name) if origins else ():
                if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name):
                    for table, held in origins.bindings(value.value) if origins else ():
                        if any(n.id == material.signature.name for n in each(held, ast.Name)):
                            yield from (lines_of(place), lines_of(table))


def _one_function(material: Material, one: Lines, other: Lines) -> bool:
    """Whether two places stand in the same innermost function."""
    owners = [
        max(
            (f.lineno for f in functions_of(material.tree)
             if f.lineno <= at[0] <= (f.end_lineno or f.lineno)),
            default=0,
        )
        for at in (one, other)
    ]  # fmt: skip
    return owners[0] == owners[1]


def _difference(
    material: Material,
    cond: Expr,
    holds: bool,
    ours: list[LaunchRecord],
    others: list[LaunchRecord],
) -> tuple[str, str] | None:
    """What a condition tells apart, by pattern and value."""
    while cond.op == "not" and isinstance(cond.args[0], Expr):
        cond, holds = cond.args[0], not holds
    if not others:
        return None
    if cond.op == "none":
        with_it, without = (others, ours) if holds else (ours, others)
        taken = all(_takes(material, one, cond.args[0]) for one in with_it)
        return (MISSING, "another kernel") if taken and not any(
            _takes(material, one, cond.args[0]) for one in without
        ) else None  # fmt: skip
    rest = cond.args[0] if cond.op in ("==", "!=") else None
    if isinstance(rest, Expr) and rest.op == "%" and cond.args[1] == 0:
        handed = all(_measures(material, one, rest.args[1]) for one in (*ours, *others))
        return (WHOLE, "a kernel for whole tiles beside one for a rest") if handed else None
    return None


def _takes(material: Material, launch: LaunchRecord, operand: Value) -> bool:
    """Whether a launch is given an operand, in whatever shape."""
    given = [leaf for _, value in launch.args for leaf in leaves(value)]
    return any(operand in (one, material.machine.unshaped(one)) for one in given)


def _measures(material: Material, launch: LaunchRecord, tile: Value) -> bool:
    """Whether a launch is given what an extent is divided by, for one of its tiles."""
    return any(tile in (value, *leaves(value)) for _, value in launch.args)


def _guards(launch: LaunchRecord) -> set[tuple[Expr, bool]]:
    return {(guard.cond, guard.holds) for guard in launch.path.guards}


def _always(launches: list[LaunchRecord]) -> set[tuple[Expr, bool]]:
    """Conditions that every one of the launches is under."""
    each = [_guards(launch) for launch in launches]
    return set.intersection(*each) if each else set()
