"""Arrays that the host makes contiguous before it hands them to a kernel."""

from __future__ import annotations

from collections.abc import Iterator

from extractors.host.events import NormaliseRecord
from extractors.host.expr import make
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from kb.space import Constraint, Origin


def made_contiguous(material: Material) -> Iterator[Constraint]:
    """One constraint per array: the elements of its last axis lie side by side.

    The arrays are told by value and not by name: an array counts when each of the tensors that a
    launch may hand over for the parameter was made contiguous on the way there.
    """
    told: set[str] = set()
    for launch in material.launches:
        made = {
            event.tensor: event.lines
            for event in reversed(material.before(launch))
            if isinstance(event, NormaliseRecord)
        }
        names = material.names(launch)
        for name, value in launch.args:
            tensors = leaves(value)
            if not _tensors(tensors) or not all(one in made for one in tensors):
                continue
            if name not in told:
                told.add(name)
                stride = names.text(make("stride", tensors[0], -1))
                yield Constraint(
                    expression=f"{stride} == 1",
                    origin=Origin.STATED,
                    because="the host makes the array contiguous before the launch",
                    hint="call `.contiguous()` on it, or pass its strides and use them",
                    lines=made[tensors[0]],
                    checked_by_host=True,
                )


def _tensors(found: list[Value]) -> bool:
    return bool(found) and all(isinstance(one, Expr) for one in found)
