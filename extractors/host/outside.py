"""What is checked outside of the function that launches a kernel, which is read by itself: by
functions before they call it, told in its names, and by the forward pass before its backward."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from extractors.host.assume import Guard
from extractors.host.events import CallRecord, CheckRecord, LaunchRecord
from extractors.host.facts import Material
from extractors.host.render import mentions_memo
from extractors.host.values import Choice, Expr, Unknown, Value

MAX_PARTS = 400
"""Parts of a condition that are given other names."""


@dataclass(frozen=True, slots=True)
class Outer:
    """A check of a caller, what it demands and on which conditions, in the names of the callee."""

    check: CheckRecord
    demand: Expr
    guards: tuple[Guard, ...]


def asked_outside(material: Material, launch: LaunchRecord) -> Iterator[Outer]:
    """Checks that callers of the function that leads to a launch make before they call it, with
    those conditions of theirs that not all calls share."""
    root = material.roots.get(id(launch), -1)
    entered = material.entered.get(root)
    for number, rows in material.events.items():
        calls = {
            at: event
            for at, event in enumerate(rows)
            if isinstance(event, CallRecord) and event.function == entered
        }
        if not calls or number == root:
            continue
        held = [
            {(guard.cond, guard.holds) for guard in call.path.guards} for call in calls.values()
        ]
        names = [_Names(dict(call.given)) for call in calls.values()]
        for check in _once(rows[: max(calls)]):
            against = {(guard.cond, not guard.holds) for guard in check.path.guards}
            after = [at for at, one in enumerate(held) if not against & one]
            yield from _told(check, held, names[after[-1] if after else -1])


def asked_in_forward(material: Material, launch: LaunchRecord) -> Iterator[Outer]:
    """Checks of a forward pass and of functions before they apply it, in their own names, where
    the launch belongs to the backward pass of the same class: what they have refused never comes
    to the backward pass."""
    passes = _passes(material.tree)
    if not passes:
        return
    entered = material.entered.get(material.roots.get(id(launch), -1), 0)
    ends = _reaching(material, {entered})
    forwards = {id(first) for first, last in passes if id(last) in ends}
    begun = _reached(material, forwards)
    if entered in begun:
        return  # both passes call it: what the forward pass checks is told as a caller's
    alone = len(passes) == 1 and bool(forwards)
    for number, rows in material.events.items():
        whole = material.entered.get(number, 0) in begun
        applied = 0 if whole else _applied(rows, forwards, alone)
        asked = rows if whole else rows[:applied]
        if alone and not whole:
            asked = [*asked, *(event for event in rows[applied:] if _inside(event))]
        for check in _once(asked):
            if isinstance(check.cond, Expr):
                guards = tuple(guard for guard in check.path.guards if guard.shown)
                if not any(mentions_memo(one) for one in (check.cond, *(g.cond for g in guards))):
                    yield Outer(check, check.cond, guards)


def launched_in_forward(material: Material, launch: LaunchRecord) -> list[LaunchRecord]:
    """The launches of the forward pass of the only class that has one, where the launch belongs to
    its backward pass: what no way to them meets never comes to the backward pass."""
    passes = _passes(material.tree)
    entered = material.entered.get(material.roots.get(id(launch), -1), 0)
    if len(passes) != 1 or id(passes[0][1]) not in _reaching(material, {entered}):
        return []
    if entered in _reached(material, {id(passes[0][0])}):
        return []
    rows = (event for row in material.events.values() for event in row)
    found = [one for one in rows if isinstance(one, LaunchRecord) and _inside(one)]
    owners = [one for one in material.tree.body if isinstance(one, ast.ClassDef)]
    name = next(one.name for one in owners if passes[0][0] in one.body)
    taken = material.loader is not None and material.loader.imported(name)
    alone = all(one.stack[0] == "forward" for one in found)
    return found if alone or not taken else []


def _applied(rows: list[object], forwards: set[int], alone: bool) -> int:
    """How many events of a function come before it last applies a forward pass, whose checks it
    makes for both passes; `alone` when no other class has one."""
    return max(
        (
            at
            for at, event in enumerate(rows)
            if (isinstance(event, CallRecord) and event.function in forwards)
            or (alone and _inside(event))
        ),
        default=0,
    )


def _inside(event: object) -> bool:
    return "forward" in getattr(event, "stack", ())


def _once(rows: Iterable[object]) -> Iterator[CheckRecord]:
    """Checks among events, each once on the same conditions: calls in a loop repeat them."""
    seen = set()
    for check in rows:
        if isinstance(check, CheckRecord):
            key = check.lines, check.cond, tuple((g.cond, g.holds) for g in check.path.guards)
            if key not in seen:
                seen.add(key)
                yield check


@lru_cache(maxsize=64)
def _passes(tree: ast.Module) -> tuple[tuple[ast.FunctionDef, ast.FunctionDef], ...]:
    """The forward and backward passes of the classes of a module."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            methods = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
            if "forward" in methods and "backward" in methods:
                found.append((methods["forward"], methods["backward"]))
    return tuple(found)


def _calls(material: Material) -> Iterator[tuple[int, int]]:
    """Functions that are read by themselves, each with one that it calls."""
    for number, rows in material.events.items():
        for event in rows:
            if isinstance(event, CallRecord):
                yield material.entered.get(number, 0), event.function


def _reaching(material: Material, functions: set[int]) -> set[int]:
    """These functions, and those that call them, through others or not."""
    return _closed(functions, [(called, caller) for caller, called in _calls(material)])


def _reached(material: Material, functions: set[int]) -> set[int]:
    """These functions, and those that they call, through others or not."""
    return _closed(functions, list(_calls(material)))


def _closed(found: set[int], steps: list[tuple[int, int]]) -> set[int]:
    more = found
    while more:
        more = {after for before, after in steps if before in more} - found
        found = found | more
    return found


def _told(check: CheckRecord, held: list[set[tuple[Expr, bool]]], names: _Names) -> Iterator[Outer]:
    """A check in the names of the callee, unless every call rules out that it is made."""
    shared = set.intersection(*held)
    further = [g for g in check.path.guards if g.shown and (g.cond, g.holds) not in shared]
    if all(any((g.cond, not g.holds) in one for g in further) for one in held):
        return
    asked = [check.cond, *(guard.cond for guard in further)]
    if any(map(mentions_memo, asked)):
        return
    demand, *conditions = map(names.told, asked)
    guards = [
        Guard(cond, guard.holds)
        for cond, guard in zip(conditions, further, strict=True)
        if isinstance(cond, Expr)
    ]
    if isinstance(demand, Expr) and len(guards) == len(further):
        yield Outer(check, demand, tuple(guards))


class _Names:
    """Values of a caller in the names of the function that it calls."""

    def __init__(self, given: Mapping[str, Value]) -> None:
        self._named: dict[Value, Expr] = {}
        for name, value in given.items():
            if isinstance(value, Expr):
                self._named.setdefault(value, Expr("sym", (name,)))
        self._taken = {Expr("sym", (name,)) for name in given}
        self._left, self._mistaken = MAX_PARTS, False

    def told(self, cond: Value) -> Value:
        """The condition in the names of the callee; unknown where a name that is not handed over
        means something else there."""
        self._left, self._mistaken = MAX_PARTS, False
        told = self._renamed(cond)
        lost = self._mistaken or self._left < 0
        return Unknown("a condition without names of its own") if lost else told

    def _renamed(self, value: Value) -> Value:
        self._left -= 1
        if self._left < 0:
            return value
        if isinstance(value, tuple):
            return tuple(map(self._renamed, value))
        if isinstance(value, Choice):
            cond, then, other = map(self._renamed, (value.cond, value.then, value.other))
            if not isinstance(cond, Expr):
                return Unknown("a condition that is settled")
            return Choice(cond, then, other, value.size, value.depth)
        if not isinstance(value, Expr):
            return value
        if value in self._named:
            return self._named[value]
        self._mistaken |= value in self._taken
        args = tuple(map(self._renamed, value.args))
        return value if args == value.args else Expr(value.op, args, value.size, value.depth)
