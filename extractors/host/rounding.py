"""Extents that the host rounds up for a tile: to a power of two, or to a multiple."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from extractors.host.backwards import arguments, back
from extractors.host.conditions import parts
from extractors.host.derived import rule_lines
from extractors.host.events import LaunchRecord, RoundRecord
from extractors.host.expr import atoms
from extractors.host.facts import Material, is_extent
from extractors.host.origins import lines_of
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from kb.evidence import Decision, Lines

_OF_SHAPES = frozenset({
    "dim", "shape", "tensor", "call", "index", "*", "//", "/", "cdiv", "+", "-", "neg", "int",
    "max", "min",
})  # fmt: skip
"""Operations on shapes that give a number of elements."""


def padded(
    material: Material, launch: LaunchRecord, name: str, values: tuple[Value, Value]
) -> Iterator[Decision]:
    """A compile-time argument that is an extent rounded up; `values` are what is handed over and
    what that was made of."""
    given, value = values
    found = [one for leaf in leaves(value) for one in rounded(leaf)]
    made = _nearest(material, launch, found)
    made |= set() if value == given else rounded_anywhere(material, found)
    if not found and not _known(value):
        made = _written(material, launch, name)
    if found or made:
        line = dict(launch.arg_lines).get(name, launch.lines)
        powers = not found or any(_powers(one) for one in found)
        lines = {*(made or {line}), *material.made(launch, name)}
        yield Decision(
            axis="tile_padding",
            value="next_pow2 + OOB handling" if powers else "rounded up to a multiple",
            pattern="power-of-two-tile-padding-of-an-extent",
            lines=tuple(sorted(lines | {*rule_lines(material, launch, name)})),
            subject=name,
        )


def _nearest(material: Material, launch: LaunchRecord, found: list[Expr]) -> set[Lines]:
    """Where the values were rounded on the way to a launch: by the functions around it, else by
    the last function that was called."""
    rounds: dict[Value, Lines] = {}
    near: set[Expr] = set()
    for event in material.before(launch) if found else ():
        if isinstance(event, RoundRecord):
            outer = event.stack == launch.stack[: len(event.stack)]
            if outer or event.result not in near:
                rounds[event.result] = event.lines
            near |= {event.result} if outer else set()
    inner = {part for one in found for part in (one, *parts(one))}
    return {rounds[one] for one in inner if one in rounds}


def rounded_anywhere(material: Material, values: list[Expr]) -> set[Lines]:
    """Lines where an extent was rounded, in any function of the module."""
    return {
        event.lines
        for events in material.events.values()
        for event in events
        if isinstance(event, RoundRecord) and event.result in values
    }


def rounded(value: Value) -> Iterator[Expr]:
    """An extent rounded up to a power of two or to a multiple; or the smaller or larger of that and
    a bound, which both may have cases."""
    if not isinstance(value, Expr):
        return
    if value.op == "int":
        yield from rounded(value.args[0])
    elif _powers(value) or _multiple(value):
        yield value
    elif value.op in ("min", "max") and any(_bound(arg) for arg in value.args):
        yield from (one for arg in value.args for leaf in leaves(arg) for one in rounded(leaf))


def _powers(value: Expr) -> bool:
    return value.op == "npow2" and _measured(value.args[0])


def _multiple(value: Expr) -> bool:
    """`cdiv(extent, size) * size`."""
    return value.op == "*" and any(
        isinstance(counted, Expr)
        and counted.op == "cdiv"
        and isinstance(size, int)
        and counted.args[1] == size
        and _measured(counted.args[0])
        for counted, size in (value.args, value.args[::-1])
    )


def _bound(value: Value) -> bool:
    """A number, or one that hangs on no extent: bytes by the size of an element."""
    return all(isinstance(leaf, int) or not _extents(leaf) for leaf in leaves(value))


def _extents(value: Value) -> bool:
    if not isinstance(value, Expr):
        return True
    return value.op in ("dim", "sym", "npow2") or any(
        atom.op in ("dim", "shape") or (atom.op == "sym" and atom == value)
        for atom in (*atoms(value), *parts(value))
    )


def _measured(value: Value) -> bool:
    """A number of a shape, or one that the caller hands in."""
    if is_extent(value) or (isinstance(value, Expr) and value.op == "sym"):
        return True
    inside = [part for part in parts(value) if part.op not in ("sym", "attr")]
    return bool(inside) and all(part.op in _OF_SHAPES for part in inside)


def _known(value: Value) -> bool:
    """True for a value that the reading of the host code worked out."""
    return not any(_open(leaf) for leaf in leaves(value))


def _open(value: Value) -> bool:
    if isinstance(value, Expr) and value.op == "int":
        return _open(value.args[0])
    return isinstance(value, Expr) and value.op in ("sym", "attr")


def _written(material: Material, launch: LaunchRecord, name: str) -> set[Lines]:
    """Where what a launch hands over was rounded up to a power of two, followed through names,
    callers, what functions of the module give back, and attributes that the module sets."""
    if not material.rounds():
        return set()
    return set(material.told("rounded", partial(_traced, material), launch, name))


def _traced(material: Material, launch: LaunchRecord, name: str) -> tuple[Lines, ...]:
    call = material.origins.call_at(launch.lines) if material.origins else None
    names = [param for param, _ in material.signature.params]
    if call is None or material.origins is None:
        return ()
    value = material.origins.argument(call, name, names.index(name), material.row(launch))
    made = back(material, value, arguments) if value is not None else ()
    calls = {lines_of(one) for one in made if isinstance(one, ast.Call)}
    return tuple(sorted(calls & material.rounds()))
