"""Structs that a kernel is handed by value: each field that it reads is a parameter of its own,
`params.size`, beside the struct, as if the host handed it over by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from kb.ir import Kernel, Op, Parameter, ParameterKind, Region, TileType, TypeKind, walk
from kb.ops import OpKind

_UNKNOWN = "?"


def records_apart(kernel: Kernel) -> Kernel:
    """The same program with the fields that are numbers or pointers as parameters; those of structs
    in structs, too."""
    entry = kernel.entry
    given = {one.name: one for one in entry.parameters}
    fields: dict[str, tuple[Parameter, TileType]] = {}
    names: dict[str, str] = {}
    inner: list[Op] = []
    for op, struct, name in _read(kernel):
        kind = _plain(op)
        if kind is None:
            inner.append(op)
        elif fields.get(name, (None, kind))[1] == kind:
            names[op.results[0].name] = name
            fields[name] = (_field(name, kind, op, given[struct]), kind)
    if not names:
        return kernel
    gone = {*names, *_unused(kernel, names, inner)}
    parameters = (*entry.parameters, *(field for field, _ in fields.values()))
    body = _renamed(entry.body, names, gone)
    return replace(kernel, entry=replace(entry, parameters=parameters, body=body))


def fields_read(kernel: Kernel, names: Collection[str]) -> list[Op]:
    """The steps that read fields of structs, by their names."""
    return [op for op, _, name in _read(kernel) if name in names]


def _read(kernel: Kernel) -> Iterator[tuple[Op, str, str]]:
    """Every step that reads a field of a struct, or of a struct in it: with the parameter, and the
    name from there."""
    entry = kernel.entry
    paths = {p.name: (p.name, p.name) for p in entry.parameters if p.kind is ParameterKind.SCALAR}
    for op in walk(entry.body):
        if op.kind == OpKind.ATTRIBUTE and op.inputs[0] in paths:
            struct, path = paths[op.inputs[0]]
            paths[op.results[0].name] = struct, f"{path}.{op.attribute('name')}"
            yield op, *paths[op.results[0].name]


def _unused(kernel: Kernel, names: Collection[str], inner: Sequence[Op]) -> set[str]:
    """Structs in structs of which nothing is read but fields that are parameters now."""
    made = {op.results[0].name for op in inner}
    used: set[str] = set()
    for op in reversed([*walk(kernel.entry.body)]):
        kept = [r.name for r in op.results if r.name not in names]
        if op.kind != OpKind.ATTRIBUTE or (kept and (kept[0] not in made or kept[0] in used)):
            used.update(op.inputs)
    return made - used


def _plain(op: Op) -> TileType | None:
    """The type of a field that is a number or a pointer; None for anything else."""
    kind = op.results[0].type
    if kind is None or kind.kind is TypeKind.POINTER:
        return kind
    number = kind.kind is TypeKind.SCALAR and kind.dtype != _UNKNOWN and not kind.shape
    return kind if number else None


def _field(name: str, kind: TileType, op: Op, struct: Parameter) -> Parameter:
    array = kind.kind is TypeKind.POINTER
    sort = ParameterKind.ARRAY if array else ParameterKind.SCALAR
    of = "x".join((kind.dtype, *kind.shape)) if kind.dtype != _UNKNOWN else ""
    written = f"{of} {op.attribute('qualified') or ''}".strip()
    span = replace(struct.span, declared=op.span.declared)
    return Parameter(name, sort, written, span=span, struct=struct.name)


def _renamed(region: Region, names: dict[str, str], gone: Collection[str]) -> Region:
    """A region without the reading of fields, their values by their new names."""
    ops = []
    for op in region.ops:
        if op.kind == OpKind.ATTRIBUTE and op.results[0].name in gone:
            continue
        regions = tuple([_renamed(inner, names, gone) for inner in op.regions])
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
