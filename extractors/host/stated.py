"""Conditions that host code checks before it launches a kernel, as constraints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.host.as_written import as_written, parses
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

MAX_WAYS = 4
"""Launches of one place whose ways are looked at."""

MAX_CONDITIONS = 2
"""Conditions of a check beyond those of the launch; more make a constraint that nobody reads."""


def constraints_of(material: Material) -> tuple[Constraint, ...]:
    """Conditions that the host checks before it launches this kernel. What it checks on a further
    condition, which some ways to the same launch do not meet, is told with that condition."""
    found: dict[str, Constraint] = {}
    unread: list[CheckRecord] = []
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
            if not _add(found, _text(names, part, further) if known else UNKNOWN, event):
                unread.append(event)
    for launch in _some(material):
        names = _names(material, launch)
        for check, cond, guards in _either_way(_beside(material, launch)):
            if not isinstance(cond, Expr) or (check.lines, cond) in asked:
                continue
            if len(guards) <= MAX_CONDITIONS and all(_plainly_asked(g.cond) for g in guards):
                _add(found, _text(names, cond, guards), check)
            elif check.stack == launch.stack[: len(check.stack)]:
                unread.append(check)
        outside = (*asked_outside(material, launch), *asked_in_forward(material, launch))
        outer = [(one.check, one.demand, one.guards) for one in outside]
        for check, demand, further in _either_way(outer):
            if len(further) <= MAX_CONDITIONS and all(_plainly_asked(g.cond) for g in further):
                for part in together(demand):
                    known = any(True for _ in atoms(part))
                    _add(found, _text(names, part, further) if known else UNKNOWN, check)
    told = {one.lines for one in found.values()}
    for event in unread:
        if event.lines not in told:
            for text in as_written(material, event.lines):
                _add(found, text, event)
    return tuple(found.values())


def _some(material: Material) -> Iterator[LaunchRecord]:
    """A few launches for each place: others may come by on other ways."""
    seen: dict[tuple[Lines, tuple[str, ...]], int] = {}
    for launch in material.launches:
        key = launch.lines, launch.stack
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= MAX_WAYS:
            yield launch


_Asked = tuple[CheckRecord, Value, tuple[Guard, ...]]
"""A check, what it demands, and the conditions on which it is made."""


def _beside(material: Material, launch: LaunchRecord) -> list[_Asked]:
    return [(check, check.cond, guards) for check, guards in material.asked_beside(launch)]


def _either_way(checks: Sequence[_Asked]) -> Iterator[_Asked]:
    """Checks with the conditions on which they are made; one that is made on a condition and
    without it is made in any case."""
    single: dict[tuple[Lines, Value, Expr], set[bool]] = {}
    for check, demand, guards in checks:
        if len(guards) == 1:
            single.setdefault((check.lines, demand, guards[0].cond), set()).add(guards[0].holds)
    for check, demand, guards in checks:
        both = len(guards) == 1 and len(single[check.lines, demand, guards[0].cond]) > 1
        yield check, demand, () if both else guards


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


def _add(found: dict[str, Constraint], text: str, check: CheckRecord) -> bool:
    """Keep a constraint that is told in full, unless it is known; False where nobody can read
    it."""
    if UNKNOWN in text or "@" in text or not parses(text):
        return False
    if text not in found:
        found[text] = Constraint(
            expression=text, origin=Origin.STATED, lines=check.lines, checked_by_host=True
        )
    return True


def _plainly_asked(cond: Value) -> bool:
    """A condition that asks whether an argument is given, or is one value."""
    if not isinstance(cond, Expr) or cond.op not in ("none", "not", "==", "!=", "in", "not in"):
        return isinstance(cond, Expr) and cond.op == "sym"
    return all(
        not isinstance(arg, Expr)
        or arg.op in ("sym", "tensor", "dim", "rank")
        or _plainly_asked(arg)
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
