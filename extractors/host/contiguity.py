"""Arrays that the host makes contiguous, or makes, before it hands them to a kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise

from extractors.host.events import CallRecord, LaunchRecord, NormaliseRecord
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from kb.evidence import Lines
from kb.space import Constraint, Origin

MAX_VIEWS = 16
"""Views of views that are followed."""


def made_contiguous(material: Material) -> Iterator[Constraint]:
    """The elements of the last axis of arrays lie side by side: one constraint for all of them.

    The arrays are told by value and not by name: an array counts when each of the tensors that a
    launch may hand over for the parameter was made contiguous on the way there, perhaps in another
    shape.
    """
    told: dict[str, Lines] = {}
    callers: dict[int, dict[Value, Lines]] = {}
    for launch in material.launches:
        root = material.roots.get(id(launch), -1)
        if root not in callers:
            callers[root] = by_callers(material, launch)
        made = callers[root] | _made(material, launch)
        for name, value in launch.args:
            tensors = leaves(value)
            found = [_at(material, one, made) for one in tensors] if _tensors(tensors) else []
            if found and found[0] is not None and None not in found:
                told.setdefault(name, found[0])
    if told:
        lines = sorted(told.values())
        yield Constraint(
            expression=" and ".join(f"{name}.stride[-1] == 1" for name in told),
            origin=Origin.STATED,
            because="the host makes the arrays contiguous before the launch",
            hint="call `.contiguous()` on them, or pass their strides and use them",
            lines=(lines[0][0], lines[-1][1]) if _near(lines) else lines[0],
            checked_by_host=True,
        )


def side_by_side(material: Material) -> tuple[str, ...]:
    """What is so of arrays at every launch, `name.stride[-1] == 1`: the host makes them contiguous,
    or makes them: of extents, like such an array, or as one in another shape."""
    found: list[set[str]] = []
    for launch in material.launches:
        made = _made(material, launch)
        found.append(
            {
                name
                for name, value in launch.args
                if _tensors(leaves(value))
                and all(_dense(material, one, made) for one in leaves(value))
            }
        )
    names = set.intersection(*found) if found else set()
    return tuple(f"{name}.stride[-1] == 1" for name in sorted(names))


def _made(material: Material, launch: LaunchRecord) -> dict[Value, Lines]:
    """Tensors that are made contiguous before a launch, and where."""
    return {
        event.tensor: event.lines
        for event in reversed(material.before(launch))
        if isinstance(event, NormaliseRecord)
    }


def by_callers(material: Material, launch: LaunchRecord) -> dict[Value, Lines]:
    """What every caller of the function that leads to a launch makes contiguous before it hands it
    over, and where; nothing of a function that other modules take, too."""
    entered = material.entered.get(material.roots.get(id(launch), -1))
    found: list[dict[Value, Lines]] = []
    for rows in material.events.values():
        made: dict[Value, Lines] = {}
        for event in rows:
            if isinstance(event, NormaliseRecord) and not event.path.guards:
                made[event.tensor] = event.lines
            elif isinstance(event, CallRecord) and event.function == entered:
                found.append({Expr("sym", (n,)): made[v] for n, v in event.given if v in made})
    shared = set(found[0]).intersection(*found) if found else set()
    taken = material.loader is not None and material.loader.imported(launch.stack[0])
    return {} if taken else {value: found[0][value] for value in shared}


def _at(material: Material, tensor: Value, made: Mapping[Value, Lines]) -> Lines | None:
    """Where a tensor, or what it is in another shape, was made contiguous."""
    for _ in range(MAX_VIEWS):
        if tensor in made:
            return made[tensor]
        fact = material.machine.tensors.get(tensor)
        if fact is None or not fact.reshaped:
            break
        tensor = fact.base
    return None


def _dense(material: Material, tensor: Value, made: Collection[Value]) -> bool:
    for _ in range(MAX_VIEWS):
        if tensor in made:
            return True
        fact = material.machine.tensors.get(tensor)
        if fact is None or (fact.base is not None and not fact.reshaped):
            return False
        below = fact.like if fact.base is None else fact.base
        if below is None:
            return fact.dims is not None and isinstance(tensor, Expr) and tensor.op == "tensor"
        tensor = below
    return False


def _near(lines: list[Lines]) -> bool:
    """Statements one below the other."""
    return all(b[0] - a[1] <= 2 for a, b in pairwise(lines))


def _tensors(found: list[Value]) -> bool:
    return bool(found) and all(isinstance(one, Expr) for one in found)
