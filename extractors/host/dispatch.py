"""Decisions of host code between kernels and between buffers: which kernel runs, and what it
overwrites."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations

from extractors.host.events import CheckRecord, LaunchRecord
from extractors.host.expr import atoms
from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from kb.evidence import AxisKind, Decision, Lines

MAX_PARTS = 256
"""Parts of a condition that are looked at."""


def on_device(cond: Expr) -> bool:
    """True for a condition on what the target is or can do."""
    names = [str(atom.args[0]) for atom in atoms(cond) if atom.op == "sym"]
    return any(
        name == "capability" or name.startswith(("capability[", "target.")) for name in names
    )


def chosen_kernel(material: Material) -> Iterator[Decision]:
    """Conditions that run this kernel where their opposite runs another one instead."""
    found: dict[Expr, set[Lines]] = {}
    for number in sorted({material.roots[id(launch)] for launch in material.launches}):
        launches = [e for e in material.events.get(number, []) if isinstance(e, LaunchRecord)]
        ours = [e for e in launches if e.kernel.name == material.signature.name]
        others = [e for e in launches if e.kernel.name != material.signature.name]
        for cond, holds in _always(ours):
            asked = material.machine.asked.get(cond)
            if asked and any((cond, not holds) in _guards(e) for e in others):
                first = min(e.lines[0] for e in ours)
                above = [test for test in asked if test.lineno <= first]
                nearest = max(above or asked, key=lambda test: test.lineno)
                found[cond] = _behind(material, nearest)
    for device in (False, True):
        lines = sorted({n for cond, own in found.items() if on_device(cond) is device for n in own})
        if lines:
            yield Decision(
                axis="arch_dispatch" if device else "algorithm_selection",
                value="if capability" if device else "heuristic dispatch by shape/arch",
                pattern="kernel-chosen-by-the-target" if device else "kernel-chosen-by-the-host",
                lines=tuple(lines),
                kind=AxisKind.HOST,
            )


def _behind(material: Material, test: ast.expr) -> set[Lines]:
    """The lines of a condition, and of what the names in it were set to."""
    made = material.origins.of(test, callers=False) if material.origins else ()
    return {lines_of(test), *made}


def _guards(launch: LaunchRecord) -> set[tuple[Expr, bool]]:
    return {(guard.cond, guard.holds) for guard in launch.path.guards}


def _always(launches: list[LaunchRecord]) -> set[tuple[Expr, bool]]:
    """Conditions that every one of the launches is under."""
    each = [_guards(launch) for launch in launches]
    return set.intersection(*each) if each else set()


def shared_buffers(material: Material) -> Iterator[Decision]:
    """Pairs of tensor parameters that a launch may give one tensor; the program knows which of
    them it writes."""
    constexprs = {name for name, flag in material.signature.params if flag}
    for launch in material.launches:
        tensors = [(n, v) for n, v in launch.args if n not in constexprs]
        for (one, left), (other, right) in combinations(tensors, 2):
            if _tensors(material, left) & _tensors(material, right):
                lines = {*material.bound(launch, one), *material.bound(launch, other)}
                if not lines:
                    continue
                yield Decision(
                    axis="aliasing",
                    value="in place (same array loaded and stored)",
                    pattern="one-tensor-for-input-and-output",
                    lines=tuple(sorted(lines)),
                    kind=AxisKind.DESIGN,
                    subject=f"{one}, {other}",
                )


def _tensors(material: Material, value: Value) -> set[Value]:
    known = material.machine.tensors
    return {
        leaf
        for leaf in leaves(value)
        if isinstance(leaf, Expr) and (leaf in known or leaf.op in ("sym", "tensor"))
    }


def demanded_layout(material: Material) -> Iterator[Decision]:
    """Checks that refuse tensors which are not contiguous, or whose elements do not follow each
    other."""
    found: set[Lines] = set()
    for launch in material.launches:
        bound = {leaf for _, value in launch.args for leaf in leaves(value)}
        for event in material.before(launch):
            if isinstance(event, CheckRecord) and _contiguous(event.cond, bound):
                found.add(event.lines)
    if found:
        yield Decision(
            axis="layout_contract",
            value="contiguous tensors demanded",
            pattern="host-contiguity-alignment-normalisation",
            lines=tuple(sorted(found)),
            kind=AxisKind.HOST,
        )


def _contiguous(cond: Value, bound: set[Value]) -> bool:
    pending = [cond]
    for value in pending:
        if not isinstance(value, Expr):
            continue
        if value.op == "attr" and value.args[1:] == ("is_contiguous",) and value.args[0] in bound:
            return True
        unit = value.op == "==" and 1 in value.args
        if unit and any(isinstance(v, Expr) and v.op == "stride" for v in value.args):
            return True
        if len(pending) < MAX_PARTS:
            pending.extend(value.args)
    return False
