"""What host code of a file gives for the type parameters of its kernels."""

from __future__ import annotations

from collections.abc import Iterator

from extractors.cuda import nodes as n
from extractors.cuda.library import Library


def traits(definition: n.Definition, library: Library) -> dict[str, n.Record]:
    """The struct behind each type parameter of a kernel, where all that the file instantiates the
    kernel with is one struct template. Its members tell more than the name of the parameter."""
    found: dict[str, set[str]] = {}
    wanted = [(i, p.name) for i, p in enumerate(definition.template) if p.dtype == "typename"]
    if not wanted:
        return {}
    for arguments, names in _instances(definition.name, library.unit):
        for place, name in wanted:
            given = arguments[place] if place < len(arguments) else None
            written = names.get(_named(given))
            last = (_named(given) if written is None else written.name).rpartition("::")[2]
            found.setdefault(name, set()).add(last)
    records = {name: library.records(next(iter(given))) for name, given in found.items()
               if len(given) == 1 and next(iter(given))}  # fmt: skip
    return {name: several[0] for name, several in records.items()
            if len(several) == 1 and not several[0].specialised}  # fmt: skip


def _named(given: n.CType | n.Expr | None) -> str:
    if isinstance(given, n.CType):
        return given.name if not given.pointers else ""
    return given.text if isinstance(given, n.Name) else ""


def _instances(
    kernel: str, unit: n.Unit
) -> Iterator[tuple[tuple[n.CType | n.Expr, ...], dict[str, n.CType]]]:
    """Template arguments of a kernel wherever the host names it, with the aliases around."""
    functions = [one for many in unit.functions.values() for one in many]
    functions += [m for many in unit.records.values() for r in many for m in r.methods]
    for function in functions:
        if "__global__" in function.words:
            continue
        nodes = list(n.inside(function.body))
        names = [x for x in nodes if isinstance(x, n.Name) and x.arguments]
        given = [x.arguments for x in names if x.text.rpartition("::")[2] == kernel]
        if given:
            aliases = {x.name: x.type for x in nodes if isinstance(x, n.Alias)}
            yield from ((arguments, aliases) for arguments in given)
