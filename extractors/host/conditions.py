"""What the conditions on the way to a launch speak of."""

from __future__ import annotations

from collections.abc import Iterator

from extractors.host.events import CheckRecord, LaunchRecord
from extractors.host.expr import compare, negate
from extractors.host.facts import Material
from extractors.host.values import Choice, Expr, Value

MAX_PARTS = 4000
"""Expressions inside one value that are looked at."""


def looked_at(material: Material, launch: LaunchRecord) -> set[Expr]:
    """Everything that a check or a condition on the way to a launch speaks of."""
    values: list[Value] = [guard.cond for guard in launch.path.guards]
    values += [e.cond for e in material.beside(launch) if isinstance(e, CheckRecord)]
    for _, value in (*launch.args, *launch.kernel.hints):
        values += _conditions(value)
    found: set[Expr] = set()
    for value in values:
        found |= set(parts(value))
    return found


def _conditions(value: Value) -> Iterator[Value]:
    if isinstance(value, Choice):
        yield value.cond
        yield from _conditions(value.then)
        yield from _conditions(value.other)


def together(cond: Value, holds: bool = True, budget: int = 64) -> Iterator[Value]:
    """The conditions that hold together where a condition holds, or where it does not."""
    if isinstance(cond, Expr) and budget > 0:
        if cond.op == "not":
            yield from together(cond.args[0], not holds, budget - 1)
            return
        if cond.op == ("and" if holds else "or"):
            for part in cond.args:
                yield from together(part, holds, budget - 1)
            return
        if cond.op == "%" and not holds:
            yield compare("==", cond, 0)
            return
    yield cond if holds else negate(cond)


def parts(value: Value) -> Iterator[Expr]:
    """Every expression inside a value, bounded."""
    pending, count = [value], 0
    while pending and count < MAX_PARTS:
        item = pending.pop()
        count += 1
        if isinstance(item, Expr):
            yield item
            pending.extend(item.args)
        elif isinstance(item, Choice):
            pending.extend((item.cond, item.then, item.other))
        elif isinstance(item, tuple):
            pending.extend(item)


def touched(size: Value, asked: set[Expr]) -> bool:
    """Whether a check takes a remainder of the size, or compares it."""
    return any(part in asked for part in parts(size) if part.op != "tensor")
