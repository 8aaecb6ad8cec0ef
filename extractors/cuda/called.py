"""Launches in functions and lambdas of the host, as the code of the file that calls them means
them: with what it hands on, under its conditions, after its checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from extractors.cuda import nodes as n
from extractors.cuda.checks import Check, Step
from extractors.cuda.launch_site import (
    ALIAS,
    LaunchSite,
    Level,
    Names,
    both,
    constant,
    copies,
    owner,
)
from extractors.cuda.render import shown

MAX_LEVELS = 4
"""Functions of the host, one calling the other, down to a launch."""

MAX_TOLD = 128
"""Launches in one function times its calls: what is beyond is told as it stands."""

MAX_SITES = 200
"""Launches of one file, as their callers mean them."""

_TRUTH = {"std::true_type": True, "std::false_type": False, "true_type": True, "false_type": False}


@dataclass(frozen=True, slots=True)
class Called:
    """A call of a function of the host by its last name; `site` stands for what is known there."""

    name: str
    call: n.Call
    site: LaunchSite


def meant(
    sites: Sequence[LaunchSite],
    calls: Sequence[Called],
    functions: Mapping[str, Sequence[n.Definition]],
) -> list[LaunchSite]:
    """Every launch as the callers of its function mean it; one that no function of the file leads
    to stays as it is, and so do those for which there is no room."""
    found = list(sites)
    by_name: dict[str, list[Called]] = {}
    for one in calls:
        by_name.setdefault(one.name, []).append(one)
    again = bool(by_name)
    for _ in range(MAX_LEVELS):
        if not again:
            break
        told: list[LaunchSite] = []
        again = False
        inside: Counter[str] = Counter()
        for site in found:
            here = [one for one in by_name.get(site.top, ()) if one.site.top != site.top]
            several = functions.get(site.top, ())
            fitting = [(one, made) for one in here if (made := _of(one, site, several))]
            inside[site.top] += 1
            room = len(fitting) * inside[site.top] <= MAX_TOLD
            room = room and len(told) + len(fitting) <= MAX_SITES
            more = [through(site, one, made) for one, made in fitting] if room else []
            told += more or [site]
            again = again or bool(more)
        found = told
    return found


def _of(called: Called, site: LaunchSite, functions: Sequence[n.Definition]) -> n.Definition | None:
    """The function that a call means: the one of its name that the launch stands in."""
    given = len(called.call.arguments)
    fitting = [f for f in functions if len(f.parameters) >= given]
    around = [f for f in fitting if f.at.line <= site.reached.line <= f.at.end_line]
    if not around and len(functions) == 1:
        # The launch stands in a macro that the function uses.
        around = [f for f in fitting if f.at.path == site.reached.path]
    return around[0] if len(around) == 1 else None


def through(site: LaunchSite, called: Called, function: n.Definition | n.Lambda) -> LaunchSite:
    """A launch in the words of a function or lambda, with what one call of it makes of them."""
    around = called.site
    bound = dict(_bound(called, function))
    known = dict(around.names)
    if isinstance(function, n.Lambda):
        inner = {x.name for x in n.inside(function.body) if isinstance(x, n.Variable)}
        names = site.names | {key: one for key, one in known.items() if key not in inner}
    else:
        names = known | site.names
    for one in function.parameters:
        names.pop(one.name, None)
    handed = [
        (one.name, given)
        for one, given in zip(function.parameters, called.call.arguments, strict=False)
    ]
    checks = list(around.checks)
    if isinstance(function, n.Lambda):
        handed = []
    elif checks:
        declared = frozenset(_own(function))
        checks = [_reworded(check, handed, known, declared) for check in checks]
    return replace(
        site, names=names | bound, guards=both(around.guards, site.guards),
        tests=both(around.tests, site.tests), cases=both(around.cases, site.cases),
        checks=both(tuple(checks), site.checks), root=around.top, entered=called.call.at,
        levels=(*site.levels, Level(dict(handed), known)) if handed else site.levels,
        left=both(around.left, site.left),
    )  # fmt: skip


def _bound(
    called: Called, function: n.Definition | n.Lambda
) -> Iterator[tuple[str, n.Expr | n.Variable]]:
    """What the parameters and template parameters of a function are at a call."""
    names = called.site.names
    for one, given in zip(function.parameters, called.call.arguments, strict=False):
        value = _number(given)
        if value is not None:
            for key in (one.name, f"decltype({one.name})::value", f"{one.name}.value"):
                yield key, n.Constant(given.at, value, "i32")
        elif shown(given) != one.name:
            yield one.name, names.get(given.text, given) if isinstance(given, n.Name) else given
        elif one.name in names:
            yield one.name, names[one.name]
    written = called.call.function
    arguments: tuple[n.CType | n.Expr, ...] = ()
    if isinstance(written, n.Name):
        arguments = written.arguments or (written.scope.arguments if written.scope else ())
    for place, parameter in enumerate(function.template):
        argument = arguments[place] if place < len(arguments) else parameter.default
        found = constant(argument, names) if argument is not None else None
        if isinstance(found, int) and parameter.name:
            yield parameter.name, n.Constant(called.call.at, found, "i32")
        elif isinstance(argument, n.CType | n.Name) and parameter.dtype != "typename":
            if not argument.arguments and shown(argument) != parameter.name:
                yield parameter.name, n.Name(called.call.at, shown(argument))
        elif isinstance(argument, n.CType) and argument.name != parameter.name:
            made = n.Name(called.call.at, argument.name, argument.arguments)
            yield f"{ALIAS}{parameter.name}", made


def _number(given: n.Expr) -> int | None:
    """The number that a type stands for whose value an argument is: `std::integral_constant` and
    other templates of one number."""
    made = given.type if isinstance(given, n.Braces) and not given.items else None
    if made is None:
        return None
    if made.name in _TRUTH:
        return _TRUTH[made.name]
    numbers = [one.value for one in made.arguments if isinstance(one, n.Constant)]
    return numbers[0] if len(numbers) == 1 and isinstance(numbers[0], int) else None


def _own(function: n.Definition) -> Iterator[str]:
    """Names that a function declares."""
    yield from (one.name for one in function.parameters)
    yield from (one.name for one in function.template)
    for one in n.inside(function.body):
        if isinstance(one, n.Variable):
            yield one.name
        elif isinstance(one, n.Unpack):
            yield from one.names


def _reworded(
    check: Check, handed: Sequence[tuple[str, n.Expr]], names: Names, own: frozenset[str]
) -> Check:  # fmt: skip
    """A check of the caller in the words of the function that it calls."""
    pairs = {text: name for name, given in reversed(handed)
             for text in (shown(given), *owner(given, names), *copies(given, names))}  # fmt: skip
    return replace(check, handed=(*check.handed, Step(tuple(pairs.items()), own)))
