"""Launches of kernels that a lambda or a function is given, as its callers mean them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from extractors.cuda import nodes as n
from extractors.cuda.held import Holding, Known, Way, kernels_behind
from extractors.cuda.launch_site import LaunchSite, Names, both
from extractors.cuda.render import shown

MAX_HANDED = 3
"""Functions that hand a kernel on, one to the other, until one launches it."""


@dataclass(frozen=True, slots=True)
class Open:
    """A launch of a kernel that a lambda or a function is given, among its arguments or those of
    its `template`; `foreign` when it stands in a header."""

    parameters: tuple[n.Variable, ...]
    site: LaunchSite
    foreign: bool = False
    template: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Handed:
    """A call that hands a kernel on, with what is known where it stands; `site` stands for it."""

    name: str
    call: n.Call
    site: LaunchSite
    held: Holding


def launched(launch: Open, handed: Handed, known: Known) -> Iterator[LaunchSite]:
    """The launch of what a call hands on, in the words of the caller; of one in a header only what
    the caller gives is told, at the call."""
    call, around, site = handed.call, handed.site, launch.site
    given = dict(zip((p.name for p in launch.parameters), call.arguments, strict=False))
    given |= {
        name: one for name, one in zip(launch.template, templates(call), strict=False) if name
    }
    kernel = given.get(site.kernel.text)
    if kernel is None:
        return
    shape, names, at = site.shape, dict(around.names), call.at
    if launch.foreign:
        shape = tuple(_given(one, site.names, given) for one in shape)
    else:
        at = site.at
        names |= site.names
        bound = {name: _meant(one, around.names) for name, one in given.items()}
        names |= {name: one for name, one in bound.items() if shown(one) != name}
    here = replace(around, shape=shape, names=names, at=at)
    here = replace(here, arguments=tuple(_arguments(launch, call, given)))
    here = replace(
        here, guards=both(around.guards, site.guards), tests=both(around.tests, site.tests),
        cases=both(around.cases, site.cases), checks=both(around.checks, site.checks),
    )  # fmt: skip
    for name, way in kernels_behind(kernel, handed.held, known):
        yield under(replace(here, kernel=name), way)


def passed_on(inner: Handed, outer: Handed, code: n.Lambda) -> Handed:
    """What a lambda hands on of what a call of it gives, as that call hands it on."""
    given = dict(zip((one.name for one in code.parameters), outer.call.arguments, strict=False))
    arguments = tuple(given.get(shown(one), one) for one in inner.call.arguments)
    around, site = outer.site, inner.site
    site = replace(
        site, names=site.names | around.names, guards=both(around.guards, site.guards),
        tests=both(around.tests, site.tests), cases=both(around.cases, site.cases),
        checks=both(around.checks, site.checks),
    )  # fmt: skip
    return replace(inner, call=replace(inner.call, arguments=arguments), site=site, held=outer.held)


def templates(call: n.Call) -> list[n.Expr]:
    """The template arguments of a call, types by their names."""
    written = call.function.arguments if isinstance(call.function, n.Name) else ()
    return [n.Name(call.at, one.name, one.arguments) if isinstance(one, n.CType) else one
            for one in written]  # fmt: skip


def under(site: LaunchSite, way: Way) -> LaunchSite:
    """A launch under the conditions that chose its kernel, besides its own."""
    for step in way:
        site = replace(
            site, guards=both(site.guards, step.guards), tests=both(site.tests, step.tests),
            cases=both(site.cases, step.cases),
        )  # fmt: skip
    return site


def _arguments(launch: Open, call: n.Call, given: Mapping[str, n.Expr]) -> Iterator[n.Expr]:
    """Arguments of the kernel; a pack of the function is the rest of what it is called with."""
    for one in launch.site.arguments:
        if isinstance(one, n.Unread) and one.what.startswith("parameter_pack"):
            yield from call.arguments[max(len(launch.parameters) - 1, 0) :]
        else:
            yield given.get(shown(one), one)


def _meant(given: n.Expr, names: Names) -> n.Expr | n.Variable:
    """What an argument is, one name back."""
    return names.get(given.text, given) if isinstance(given, n.Name) else given


def _given(
    node: n.Expr | n.Variable | None, names: Names, given: Mapping[str, n.Expr]
) -> n.Expr | None:
    """The argument of a call that an extent of a launch in a header is; None for others."""
    for _ in range(MAX_HANDED):
        if not isinstance(node, n.Name):
            return None
        if node.text in given:
            return given[node.text]
        node = names.get(node.text)
    return None


def pointed(given: Sequence[n.Expr], names: Names) -> tuple[n.Expr, ...]:
    """What the addresses in an array of arguments point to."""
    made = names.get(given[0].text) if given and isinstance(given[0], n.Name) else None
    items = made.items if isinstance(made, n.Braces) else ()
    found: list[n.Expr] = []
    for item in items:
        while isinstance(item, n.Cast | n.Unary):
            item = item.operand
        found.append(item)
    return tuple(found)


def by_name(call: n.Call) -> n.Call:
    """A call of the call operator of a variable as a call of the variable."""
    match call.function:
        case n.Field(operand=n.Name(text=text), name="operator()", arguments=arguments):
            return replace(call, function=n.Name(call.function.at, text, arguments))
    return call


def last_name(name: str) -> str:
    return name.rpartition("::")[2]


def of_device(function: n.Definition) -> bool:
    """Whether only code of the device may call a function."""
    return "__device__" in function.words and "__host__" not in function.words


def openly(function: n.Definition | n.Lambda) -> frozenset[str]:
    """Parameters that a function or lambda takes of any type."""
    types = {one.name for one in function.template} | {"auto"}
    return frozenset(p.name for p in function.parameters if p.type.name in types)
