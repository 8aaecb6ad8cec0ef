"""Types of the tensors that a launch takes pointers of: the host asks for elements of one type, and
a tensor of another one stops there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from extractors.cuda import nodes as n
from extractors.cuda.launch_site import LaunchSite, Names, own_names
from extractors.cuda.render import shown
from kb.evidence import Lines
from kb.space import Constraint, Origin

MAX_STEPS = 6
"""Names and casts around a pointer that are followed."""

_TYPED = frozenset({"data_ptr", "const_data_ptr", "mutable_data_ptr", "data"})
"""Methods that stop where a tensor has another element type than they are asked for. Source:
PyTorch, ATen/core/TensorBase.h, data_ptr: expected scalar type."""

_ELEMENTS = {
    "float": "float32", "double": "float64", "int": "int32", "int32_t": "int32",
    "int64_t": "int64", "long": "int64", "uint8_t": "uint8", "int8_t": "int8", "bool": "bool",
    "at::Half": "float16", "c10::Half": "float16", "at::BFloat16": "bfloat16",
    "c10::BFloat16": "bfloat16",
}  # fmt: skip
"""C++ types of elements by their names in the words of constraints. Source: PyTorch,
c10/core/ScalarType.h."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a parameter is given: elements of a type, at a line."""

    type: str
    at: n.Place


def element_types(found: Sequence[LaunchSite], definition: n.Definition) -> Iterator[Constraint]:
    """One constraint for the parameters of each type, where every launch asks for the same."""
    rows = [dict(_asked(one, definition)) for one in found]
    if not rows:
        return
    groups: dict[str, list[str]] = {}
    for name, asked in rows[0].items():
        if all(name in row and row[name].type == asked.type for row in rows):
            groups.setdefault(asked.type, []).append(name)
    for type_, names in groups.items():
        known = _ELEMENTS.get(type_)
        parts = [*(f"{name}.dtype" for name in names), *([f"torch.{known}"] if known else [])]
        if len(parts) > 1:
            yield Constraint(
                expression=" == ".join(parts), origin=Origin.STATED, checked_by_host=True,
                because="the host asks the tensors for elements of that type",
                hint="convert a tensor of another type before the launch",
                lines=_lines([rows[0][name].at for name in names]),
            )  # fmt: skip


def _asked(site: LaunchSite, definition: n.Definition) -> Iterator[tuple[str, _Asked]]:
    """Parameters of the kernel that are pointers to a tensor's elements."""
    own = own_names(definition)
    for parameter, given in zip(definition.parameters, site.arguments, strict=False):
        found = _pointer(given, site.names)
        if found is not None and parameter.type.pointers and parameter.name in own:
            yield parameter.name, found


def _pointer(given: object, names: Names | Mapping[str, object]) -> _Asked | None:
    node = given
    for _ in range(MAX_STEPS):
        match node:
            case n.Cast(operand=operand):
                node = operand
            case n.Name(text=text) if text in names:
                node = names[text]
            case n.Choice(then=then, other=n.Constant(value=None)):
                node = then
            case n.Call(function=n.Field(name=name, arguments=(asked,))) if name in _TYPED:
                return _Asked(shown(asked), node.at)
            case _:
                break
    return None


def _lines(places: Sequence[n.Place]) -> Lines:
    """Where the first of them stands, up to the last one."""
    first = min(one.line for one in places)
    return (first, max(one.line for one in places))
