"""Conditions that host code checks before it launches a kernel, as constraints."""

from __future__ import annotations

from extractors.host.assume import Guard
from extractors.host.conditions import together
from extractors.host.events import CheckRecord, LaunchRecord
from extractors.host.expr import atoms, disjoin, negate
from extractors.host.facts import Material
from extractors.host.outside import asked_in_forward, asked_outside
from extractors.host.render import UNKNOWN, Names, mentions_memo
from extractors.host.values import Expr, Value
from kb.evidence import Lines
from kb.space import Constraint, Origin

MAX_CONDITIONS = 2
"""Conditions of a check beyond those of the launch; more make a constraint that nobody reads."""


def constraints_of(material: Material) -> tuple[Constraint, ...]:
    """Conditions that the host checks before it launches this kernel. What it checks on a further
    condition, which some ways to the same launch do not meet, is told with that condition."""
    found: dict[str, Constraint] = {}
    shared = _shared(material)
    asked: dict[tuple[Lines, Value], tuple[LaunchRecord, CheckRecord, tuple[Guard, ...]]] = {}
    for launch in material.launches:
        for event in material.before(launch):
            if not isinstance(event, CheckRecord) or mentions_memo(event.cond):
                continue
            key = event.lines, event.cond
            further = _further(event, shared[launch.lines, launch.stack])
            if key in asked:
                others = {(one.cond, one.holds) for one in asked[key][2]}
                further = tuple(one for one in further if (one.cond, one.holds) in others)
            asked[key] = (*asked.get(key, (launch, event))[:2], further)
    for launch, event, further in asked.values():
        names = _names(material, launch)
        for part in together(event.cond) if isinstance(event.cond, Expr) else ():
            known = any(True for _ in atoms(part))
            _add(found, _text(names, part, further) if known else UNKNOWN, event)
    for launch in material.sites():
        names = _names(material, launch)
        for check, guards in material.asked_beside(launch):
            if isinstance(check.cond, Expr) and (check.lines, check.cond) not in asked:
                if len(guards) <= MAX_CONDITIONS and all(_plainly_asked(g.cond) for g in guards):
                    _add(found, _text(names, check.cond, guards), check)
        for outer in (*asked_outside(material, launch), *asked_in_forward(material, launch)):
            further = outer.guards
            if len(further) <= MAX_CONDITIONS and all(_plainly_asked(g.cond) for g in further):
                for part in together(outer.demand):
                    known = any(True for _ in atoms(part))
                    _add(found, _text(names, part, further) if known else UNKNOWN, outer.check)
    return tuple(found.values())


Conditions = frozenset[tuple[Expr, bool]]


def _shared(material: Material) -> dict[tuple[Lines, tuple[str, ...]], Conditions]:
    """For each place of a launch the conditions that all ways to it share."""
    found: dict[tuple[Lines, tuple[str, ...]], Conditions] = {}
    for launch in material.launches:
        place = launch.lines, launch.stack
        held = frozenset((guard.cond, guard.holds) for guard in launch.path.guards)
        found[place] = found[place] & held if place in found else held
    return found


def _further(check: CheckRecord, shared: Conditions) -> tuple[Guard, ...]:
    """Conditions of a check that not all ways to a launch share, when there are few and each is
    one that a reader can follow; otherwise those that ask for the same as the check does, as the
    sides of a branch before the last do."""
    found = tuple(
        guard
        for guard in check.path.guards
        if guard.shown and (guard.cond, guard.holds) not in shared
    )
    followed = len(found) <= MAX_CONDITIONS and all(_plainly_asked(one.cond) for one in found)
    asked = set(atoms(check.cond))
    return found if followed else tuple(one for one in found if _alike(one.cond, asked))


def _alike(cond: Value, asked: set[Expr]) -> bool:
    """Whether a condition asks for values of what a check asks for, and for nothing else."""
    if isinstance(cond, Expr) and cond.op in ("and", "or"):
        return all(_alike(arg, asked) for arg in cond.args)
    return _plainly_asked(cond) and set(atoms(cond)) <= asked


def _text(names: Names, demand: Value, further: tuple[Guard, ...]) -> str:
    """A demand, or that the further conditions do not hold."""
    if _of_course(demand):
        return UNKNOWN
    for guard in reversed(further):
        demand = disjoin(negate(guard.cond) if guard.holds else guard.cond, demand)
    return names.text(demand)


def _names(material: Material, launch: LaunchRecord) -> Names:
    """Names for the values of a launch; a compile-time parameter stands for what it is given."""
    names = material.names(launch)
    compiled = {name for name, constexpr in material.signature.params if constexpr}
    given = ((v, name) for name, v in launch.args if name in compiled and _named(v))
    names.extents = dict(given) | names.extents
    return names


def _add(found: dict[str, Constraint], text: str, check: CheckRecord) -> None:
    """Keep a constraint that is told in full and is new."""
    if UNKNOWN not in text and "@" not in text and text not in found:
        found[text] = Constraint(
            expression=text, origin=Origin.STATED, lines=check.lines, checked_by_host=True
        )


def _plainly_asked(cond: Value) -> bool:
    """A condition that asks whether an argument is given, or is one value."""
    if not isinstance(cond, Expr) or cond.op not in ("none", "not", "==", "!=", "in", "not in"):
        return isinstance(cond, Expr) and cond.op == "sym"
    return all(
        not isinstance(arg, Expr) or arg.op in ("sym", "tensor") or _plainly_asked(arg)
        for arg in cond.args
    )


def _of_course(cond: Value) -> bool:
    """A demand that every array meets: an extent or stride is not negative."""
    if not isinstance(cond, Expr):
        return True
    sizes = ("dim", "stride", "rank")
    left, right = (*cond.args, None, None)[:2]
    return cond.op == ">=" and isinstance(left, Expr) and left.op in sizes and right == 0


def _named(value: Value) -> bool:
    """True for what the host has a name of its own for."""
    return isinstance(value, Expr) and value.op == "sym"
