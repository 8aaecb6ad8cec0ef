"""What host code of a file gives for the type parameters of its kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from extractors.cuda import nodes as n
from extractors.cuda.library import Library

MAX_HANDED = 4
"""Functions of the host, one calling the other, that hand a template argument on."""


def traits(definition: n.Definition, library: Library) -> dict[str, n.Record]:
    """The struct behind each type parameter of a kernel, where all that the file instantiates the
    kernel with is one struct template. Its members tell more than the name of the parameter. Only
    those of its own parameters for which nothing is given keep a default."""
    found: dict[str, n.Record] = {}
    for place, parameter in enumerate(definition.template):
        if parameter.dtype != "typename":
            continue
        given = [*structs(definition.name, place, library)]
        names = {one.name for one in given}
        several = library.records(next(iter(names))) if len(names) == 1 else []
        if len(several) == 1 and not several[0].specialised and names != {""}:
            most = max(len(one.arguments) for one in given)
            kept = (
                replace(one, default=None) if i < most else one
                for i, one in enumerate(several[0].template)
            )
            found[parameter.name] = replace(several[0], template=tuple(kept))
    return found


def plain_member(
    default: n.CType | n.Expr | None, member: str, library: Library
) -> n.CType | None:  # fmt: skip
    """A member type of the struct that a type parameter stands for where nothing is given for it:
    one that depends on no parameter and no other member of that struct."""
    several = library.records(default.name) if isinstance(default, n.CType) else []
    if len(several) != 1 or several[0].specialised:
        return None
    found = [one.type for one in several[0].aliases if one.name == member]
    open_ = {one.name for one in several[0].template} | {one.name for one in several[0].aliases}
    plain = len(found) == 1 and not found[0].arguments and found[0].name not in open_
    return found[0] if plain else None


@dataclass(frozen=True, slots=True)
class Given:
    """A struct, or what stands for one, that host code gives for a template parameter: its last
    name, its arguments, and where it is named."""

    name: str
    arguments: tuple[n.CType | n.Expr, ...]
    at: n.Place


def structs(name: str, place: int, library: Library, depth: int = 0) -> Iterator[Given]:
    """What host code of the file gives for one template parameter of a function; through the
    template parameters of functions that only hand it on."""
    for arguments, names, around, at in library.instances(name):
        written = arguments[place] if place < len(arguments) else None
        given = _named(written)
        own = [one.name for one in around.template]
        if given in own and given not in names and depth < MAX_HANDED:
            handed = [*structs(around.name, own.index(given), library, depth + 1)]
            yield from handed or [Given(given, (), at)]
            continue
        meant = names.get(given, written)
        inner = meant.arguments if isinstance(meant, n.CType | n.Name) else ()
        yield Given(_named(meant).rpartition("::")[2], inner, at)


def codes(definition: n.Definition, library: Library) -> dict[str, n.Definition]:
    """The function behind each template parameter that a kernel calls or hands on to a helper,
    where the host of the file says so; of several, the one that is given last in the file."""
    inside = [*n.inside(definition.body)]
    used = {_named(g) for one in inside if isinstance(one, n.Name) for g in one.arguments}
    used |= {
        one.function.text
        for one in inside
        if isinstance(one, n.Call) and isinstance(one.function, n.Name)
    }
    found: dict[str, n.Definition] = {}
    for place, parameter in enumerate(definition.template):
        if parameter.dtype != "typename" and parameter.name in used:
            for name in _given(definition.name, place, library.unit):
                several = [f for f in library.functions(name) if not f.owner]
                if len(several) == 1:
                    found[parameter.name] = several[0]
    return found


def _given(name: str, place: int, unit: n.Unit, depth: int = 0) -> Iterator[str]:
    """What host code gives for one template parameter of a function, in the order of the file;
    through the template parameters of functions that only hand it on."""
    functions = sorted(
        (f for many in unit.functions.values() for f in many if "__global__" not in f.words),
        key=lambda f: f.at.line,
    )
    for function in functions if depth < MAX_HANDED else ():
        own = [one.name for one in function.template]
        for node in n.inside(function.body):
            if not isinstance(node, n.Name) or len(node.arguments) <= place:
                continue
            if node.text.rpartition("::")[2] != name:
                continue
            written = _named(node.arguments[place])
            if written in own:
                yield from _given(function.name, own.index(written), unit, depth + 1)
            elif written:
                yield written


def _named(given: n.CType | n.Expr | None) -> str:
    if isinstance(given, n.CType):
        return given.name if not given.pointers else ""
    return given.text if isinstance(given, n.Name) else ""
