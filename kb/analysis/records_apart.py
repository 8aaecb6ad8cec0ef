"""Structs that a kernel is handed by value: each field that it reads is a parameter of its own,
`params.size`, beside the struct, as if the host handed it over by itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from kb.ir import Kernel, Op, Parameter, ParameterKind, Region, TileType, TypeKind, walk
from kb.ops import OpKind

_UNKNOWN = "?"


def records_apart(kernel: Kernel) -> Kernel:
    """The same program with the fields that are numbers or pointers as parameters."""
    entry = kernel.entry
    given = {one.name: one for one in entry.parameters if one.kind is ParameterKind.SCALAR}
    fields: dict[str, tuple[Parameter, TileType]] = {}
    names: dict[str, str] = {}
    for op in walk(entry.body):
        for struct in given.keys() & set(op.inputs):
            name, kind = f"{struct}.{op.attribute('name')}", _plain(op)
            known = fields.get(name)
            if kind is not None and (known is None or known[1] == kind):
                names[op.results[0].name] = name
                said = str(op.attribute("qualified") or "")
                fields[name] = (_field(name, kind, said, given[struct]), kind)
    if not names:
        return kernel
    parameters = (*entry.parameters, *(field for field, _ in fields.values()))
    body = _renamed(entry.body, names)
    return replace(kernel, entry=replace(entry, parameters=parameters, body=body))


def field_lines(kernel: Kernel, names: Collection[str]) -> list[tuple[int, int]]:
    """Where the kernel itself, not a helper, reads fields of structs, by their names."""
    return [
        op.span.lines
        for op in walk(kernel.entry.body)
        if op.kind == OpKind.ATTRIBUTE and not op.span.call
        if f"{op.inputs[0]}.{op.attribute('name')}" in names
    ]


def _plain(op: Op) -> TileType | None:
    """The type of a field that is a number or a pointer; None for anything else."""
    kind = op.results[0].type if op.kind == OpKind.ATTRIBUTE else None
    if kind is None or kind.kind is TypeKind.POINTER:
        return kind
    number = kind.kind is TypeKind.SCALAR and kind.dtype != _UNKNOWN and not kind.shape
    return kind if number else None


def _field(name: str, kind: TileType, said: str, struct: Parameter) -> Parameter:
    array = kind.kind is TypeKind.POINTER
    sort = ParameterKind.ARRAY if array else ParameterKind.SCALAR
    of = "x".join((kind.dtype, *kind.shape)) if kind.dtype != _UNKNOWN else ""
    return Parameter(name, sort, f"{of} {said}".strip(), span=struct.span)


def _renamed(region: Region, names: dict[str, str]) -> Region:
    """A region without the reading of fields, their values by their new names."""
    ops = []
    for op in region.ops:
        if op.kind == OpKind.ATTRIBUTE and op.results[0].name in names:
            continue
        regions = tuple([_renamed(inner, names) for inner in op.regions])
        if any(new is not old for new, old in zip(regions, op.regions, strict=True)):
            op = replace(op, regions=regions)
        if any(value in names for value in op.inputs):
            op = replace(
                op, operands=tuple([(role, names.get(value, value)) for role, value in op.operands])
            )  # fmt: skip
        ops.append(op)
    same = len(ops) == len(region.ops) and all(
        new is old for new, old in zip(ops, region.ops, strict=True)
    )
    return region if same else replace(region, ops=tuple(ops))
