"""Launches that a loop of the host repeats: for one part of an array after the other, or for one
array after the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from extractors.host.callers import leading
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.host.sides import tries
from extractors.syntax.nodes import each, walk
from kb.evidence import AxisKind, Decision, Lines

REPEATED = "launched-for-one-part-after-the-other"
PART = "one launch for each part of an array"
ARRAY = "one launch for each array"
MIN_ARRAYS = 2
"""Arrays in a row that the host writes out."""

_TOLD = frozenset({
    "shape", "stride", "numel", "dtype", "device", "size", "dim", "ndim", "is_contiguous",
})  # fmt: skip
"""What an array tells of itself; no elements of it."""


def by_parts(material: Material) -> Iterator[Decision]:
    """Loops of the host around a launch, or around a call that leads to it, which hand over another
    part of an array, or another array, in every round."""
    found: dict[str, set[Lines]] = {}
    for launch in material.sites():
        for loop, call in _repeated(material, launch):
            value = _handed(loop, call)
            if value:
                lines = {(loop.lineno, loop.target.end_lineno or loop.lineno), lines_of(call)}
                found.setdefault(value, set()).update(lines)
    for value, places in found.items():
        yield Decision(
            axis="kernel_boundaries", value=value, pattern=REPEATED, lines=tuple(sorted(places)),
            kind=AxisKind.DESIGN,
        )  # fmt: skip


def _repeated(material: Material, launch: LaunchRecord) -> Iterator[tuple[ast.For, ast.Call]]:
    """Loops with a call in them that is the launch, or leads to it."""
    chain = leading(material, launch)
    own = material.origins.call_at(launch.lines) if material.origins is not None else None
    for place, function in enumerate(chain):
        after = chain[place + 1].name if place + 1 < len(chain) else None
        loops = [] if tries(function) else [*each(function, ast.For)]
        for loop in loops:
            for call in each(loop, ast.Call):
                name = call.func.id if isinstance(call.func, ast.Name) else None
                if call is own or (after is not None and name == after):
                    yield loop, call


def _handed(loop: ast.For, call: ast.Call) -> str:
    """What a call is handed that is another one in every round of a loop."""
    given = [*call.args, *(word.value for word in call.keywords)]
    arrays = _in_turn(loop)
    if any(isinstance(one, ast.Name) and one.id in arrays for one in given):
        return ARRAY
    parts, counters = set[str](), _names(loop.target)
    for made in (one for one in walk(loop) if isinstance(one, ast.Assign)):
        targets = {name for to in made.targets for name in _names(to)}
        if _cut(made.value, counters) or _elements(made.value) & parts:
            parts |= targets
        elif _names(made.value) & counters:
            counters |= targets
    handed = any(_cut(one, counters) or _elements(one) & parts for one in given)
    return PART if handed else ""


def _in_turn(loop: ast.For) -> set[str]:
    """Names that stand for one array after the other, of a row of them that is written out."""
    over, target = loop.iter, loop.target
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.args:
        if over.func.id == "enumerate" and isinstance(target, ast.Tuple):
            over, target = over.args[0], target.elts[-1]
    rows = [(over, target)]
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "zip":
        parts = target.elts if isinstance(target, ast.Tuple) else []
        rows = [*zip(over.args, parts, strict=False)]
    named = {
        to.id
        for row, to in rows
        if isinstance(row, ast.Tuple | ast.List) and len(row.elts) >= MIN_ARRAYS
        if isinstance(to, ast.Name) and all(isinstance(one, ast.Name) for one in row.elts)
    }
    asked = [one.value for one in each(loop, ast.Attribute) if one.attr in _TOLD]
    return named & {one.id for one in asked if isinstance(one, ast.Name)}


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in each(node, ast.Name)}


def _cut(value: ast.expr, counters: Set[str]) -> bool:
    """Whether a value is made of a range of an array that these numbers begin or end."""
    return any(
        isinstance(one, ast.Slice) and _names(one) & counters
        for cut in each(value, ast.Subscript)
        for one in (cut.slice.elts if isinstance(cut.slice, ast.Tuple) else [cut.slice])
    )


def _elements(value: ast.expr) -> set[str]:
    """Names whose elements a value may be made of."""
    pending: list[ast.AST] = [value]
    found = set[str]()
    for node in pending:
        if isinstance(node, ast.Attribute) and node.attr in _TOLD:
            continue
        found |= {node.id} if isinstance(node, ast.Name) else set()
        pending += ast.iter_child_nodes(node)
    return found
