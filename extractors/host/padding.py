"""Arrays that the host makes larger with filling before a launch, so that tiles need not end
inside them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.host.pipeline import calls_behind, given_name
from kb.evidence import AxisKind, Decision, Lines


def host_padded(material: Material) -> Iterator[Decision]:
    """Arrays of a launch that `torch.nn.functional.pad` gave."""
    found: dict[str, set[Lines]] = {}
    for launch in material.sites():
        for position, (name, constant) in enumerate(material.signature.params):
            given = None if constant else given_name(material, launch, name, position)
            for call in calls_behind(material, given) if given is not None else ():
                if isinstance(call.func, ast.Attribute) and call.func.attr == "pad":
                    found.setdefault(name, set()).update((lines_of(call), launch.lines))
    for name, lines in found.items():
        yield Decision(
            axis="tile_padding",
            value="padded on the host",
            pattern="array-padded-by-the-host",
            lines=tuple(sorted(lines)),
            kind=AxisKind.DESIGN,
            subject=name,
        )
