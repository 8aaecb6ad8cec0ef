"""Arrays that the host makes contiguous, read off the text: in the function of the launch, in one
that calls it, or in a helper; and those of them whose axes it has put in another order before."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from extractors.host.backwards import back, same_array
from extractors.host.events import NormaliseRecord
from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.host.render import leaves
from extractors.syntax.nodes import each
from kb.evidence import AxisKind, Decision, Lines

TURNED_OVER = "permuted-and-copied-on-the-host"


def compacted(material: Material) -> Iterator[Decision]:
    """Arrays of a launch that `.contiguous()` gave, on some way to it."""
    lines: set[Lines] = set()
    names: set[str] = set()
    for launch in material.sites() if _compacts(material.tree) else ():
        call = material.origins.call_at(launch.lines) if material.origins else None
        for position, (name, constant) in enumerate(material.signature.params):
            if constant or call is None or material.origins is None:
                continue
            given = material.origins.argument(call, name, position, material.row(launch))
            for made in back(material, given, same_array) if given is not None else ():
                if isinstance(made, ast.Call) and _is_compacting(made):
                    lines.add(lines_of(made))
                    names.add(name)
    if lines:
        yield Decision(
            axis="layout_contract",
            value=".contiguous() on host",
            pattern="host-contiguity-alignment-normalisation",
            lines=tuple(sorted(lines)),
            kind=AxisKind.HOST,
            subject=", ".join(sorted(names)),
        )


def of_both(one: Decision, other: Decision) -> str | None:
    """The arrays of two decisions; none where one of them holds for every array."""
    if one.subject is None or other.subject is None:
        return None
    return ", ".join(sorted({*one.subject.split(", "), *other.subject.split(", ")}))


def turned_over(material: Material) -> Iterator[Decision]:
    """Arrays of a launch that are copies with their axes in another order."""
    machine = material.machine
    lines: dict[Lines, str] = {}
    for launch in material.launches:
        given = {machine.unshaped(leaf): name for name, v in launch.args for leaf in leaves(v)}
        for event in material.before(launch):
            if isinstance(event, NormaliseRecord) and event.tensor in given:
                fact = machine.tensors.get(event.tensor)
                turned = fact.turned if fact is not None else None
                for line in (event.lines, turned) if turned is not None else ():
                    lines.setdefault(line, given[event.tensor])
    if lines:
        yield Decision(
            axis="operand_layout",
            value="axes permuted and copied on the host",
            pattern=TURNED_OVER,
            lines=tuple(sorted(lines)),
            kind=AxisKind.DESIGN,
            subject=", ".join(sorted({*lines.values()})),
        )


def _is_compacting(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "contiguous"


@lru_cache(maxsize=8)
def _compacts(tree: ast.Module) -> bool:
    """Whether a module makes any array contiguous."""
    return any(map(_is_compacting, each(tree, ast.Call)))
