"""The targets on which conditions of host code hold."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.host.events import PROFILES, TargetProfile
from extractors.host.expr import COMPARE
from extractors.host.values import Expr, Value


def targets_of(conds: Iterable[tuple[Expr, bool]]) -> tuple[TargetProfile, ...]:
    """Every known target that no condition rules out; a condition that is not about the target, or
    not understood, rules out none."""
    rows = list(conds)
    return tuple(
        target
        for target in PROFILES.values()
        if all(_truth(cond, target) in (None, holds) for cond, holds in rows)
    )


def _truth(value: Value, target: TargetProfile) -> bool | None:
    found = _value(value, target)
    return None if found is None else bool(found)


def _value(value: Value, target: TargetProfile) -> Value:
    """A value on a target; None when it is not known there."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, tuple):
        items = tuple(_value(item, target) for item in value)
        return None if None in items else items
    if not isinstance(value, Expr):
        return None
    if value.op == "sym":
        return _fact(str(value.args[0]), target)
    args = [_value(arg, target) for arg in value.args]
    if value.op in ("and", "or"):
        return _logic(value.op == "or", args)
    if any(arg is None for arg in args):
        return None
    return _applied(value.op, args)


def _fact(name: str, target: TargetProfile) -> Value:
    facts: dict[str, Value] = {
        "capability": target.capability,
        "capability[0]": target.capability[0],
        "capability[1]": target.capability[1],
        "target.sms": target.sms,
        "target.shared_bytes_per_block": target.shared_bytes,
    }
    return facts.get(name)


def _logic(settles: bool, args: list[Value]) -> Value:
    if any(arg is not None and bool(arg) is settles for arg in args):
        return settles
    return None if None in args else not settles


def _applied(op: str, args: list[Value]) -> Value:
    try:
        if op == "not":
            return not args[0]
        if op == "index" and isinstance(args[0], tuple) and isinstance(args[1], int):
            return args[0][args[1]]
        if op in ("in", "not in") and isinstance(args[1], tuple):
            return (args[0] in args[1]) is (op == "in")
        if op in COMPARE:
            return COMPARE[op](*args)
    except (TypeError, IndexError):
        return None
    return None
