"""Numbers of work per block or thread that the host chooses by a size: another instance of the
kernel below each bound, or a compile-time choice between numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import ALIAS, LaunchSite, constant
from extractors.cuda.render import shown
from kb.evidence import AxisKind, Decision, Lines

_BOUNDS = frozenset({"<", "<=", ">", ">="})
MAX_LAUNCHES = 64
"""Launches of one kernel that are compared."""

MAX_ARGUMENTS = 24
"""Template arguments of a type that are looked at."""

MAX_NAMES = 4
"""Names of a type or of a number, one for the other."""

LEAST = 8
"""Of the numbers in a type, smaller ones count stages or warps and are no extents of tiles."""

_Side = tuple[bool, int, Lines]
"""Whether a bound holds for a launch, the number that it gives, and where."""


def tiles_by_size(definition: n.Definition, launches: Sequence[LaunchSite]) -> tuple[Decision, ...]:
    """The decisions that a number among the template arguments, or among those of a type that is
    one of them, follows a size."""
    found: list[Decision] = []
    for at, one in enumerate(definition.template):
        if one.dtype in ("template", "bool"):
            continue
        lines = {line for inner in _inner(at, one, launches) for line in _follows(inner, launches)}
        if lines:
            subject = None if one.dtype == "typename" else one.name
            found.append(
                Decision(
                    axis="tile_selection", value="heuristic(shape)", subject=subject,
                    pattern="closed-form-tile-heuristic", lines=tuple(sorted(lines)),
                    kind=AxisKind.TUNING,
                )
            )  # fmt: skip
    return tuple(found)


_Place = tuple[int, int | None]
"""Which template argument, and which of its own arguments where it is a type."""


def _inner(
    at: int, one: n.TemplateParameter, launches: Sequence[LaunchSite]
) -> Iterator[_Place]:  # fmt: skip
    """Where numbers may stand: an argument that is one, or the arguments of a type."""
    if one.dtype != "typename":
        yield at, None
        return
    most = max((len(_arguments(site, at)) for site in launches[:MAX_LAUNCHES]), default=0)
    yield from ((at, inner) for inner in range(min(most, MAX_ARGUMENTS)))


def _follows(at: _Place, launches: Sequence[LaunchSite]) -> set[Lines]:
    return {*_bounded(at, launches), *_chosen(at, launches)}


def _arguments(site: LaunchSite, at: int) -> tuple[n.CType | n.Expr, ...]:
    """The arguments of a type that is a template argument of the kernel, through its other name."""
    given = site.kernel.arguments[at] if at < len(site.kernel.arguments) else None
    for _ in range(MAX_NAMES):
        if not isinstance(given, n.CType | n.Name) or given.arguments:
            break
        text = given.name if isinstance(given, n.CType) else given.text
        made = site.names.get(f"{ALIAS}{text}")
        given = made if isinstance(made, n.Name) else None
    return given.arguments if isinstance(given, n.CType | n.Name) else ()


def _given(site: LaunchSite, at: _Place) -> n.CType | n.Expr | None:
    place_, inner = at
    arguments = site.kernel.arguments if inner is None else _arguments(site, place_)
    number = place_ if inner is None else inner
    return arguments[number] if number < len(arguments) else None


def _bounded(at: _Place, launches: Sequence[LaunchSite]) -> Iterator[Lines]:
    """Lines of bounds with other numbers on their two sides, and of the launches there."""
    sides: dict[tuple[object, ...], tuple[n.Expr, list[_Side]]] = {}
    for site in launches[:MAX_LAUNCHES]:
        value = _number(site, at)
        if value is None:
            continue
        bounds = {shown(one): one for one in site.tests if _is_bound(one)}
        for place_, guard in enumerate(site.guards):
            text = next((t for t in bounds if guard in (t, f"not ({t})")), None)
            if text is not None:
                key = (site.top, site.guards[:place_], text)
                held = sides.setdefault(key, (bounds[text], []))
                held[1].extend((guard == text, value, one) for one in _told(site, at))
    for test, held_ in sides.values():
        below, above = ({v for side, v, _ in held_ if side is which} for which in (True, False))
        small = at[1] is not None and max(below | above, default=0) < LEAST
        if below and above and below != above and not small:
            yield place(test.at)
            yield from (lines for _, _, lines in held_)


def _told(site: LaunchSite, at: _Place) -> Iterator[Lines]:
    """The launch, and where the number has its name when it stands in a type."""
    yield place(site.kernel.at)
    given = _given(site, at) if at[1] is not None else None
    name = given.name if isinstance(given, n.CType) else ""
    name = given.text if isinstance(given, n.Name) else name
    for _ in range(MAX_NAMES):
        made = site.names.get(name)
        if made is None or made.at.path != site.at.path:
            break
        yield place(made.at)
        name = made.text if isinstance(made, n.Name) else ""


def _is_bound(test: n.Expr) -> bool:
    return isinstance(test, n.Binary) and test.operator in _BOUNDS


def _number(site: LaunchSite, at: _Place) -> int | None:
    """The number that a launch gives, None for a truth value or a name."""
    given = _given(site, at)
    value = constant(given, site.names) if given is not None else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _chosen(at: _Place, launches: Sequence[LaunchSite]) -> Iterator[Lines]:
    """Lines of a number that the compiler chooses by other template arguments."""
    for site in launches:
        given = _given(site, at)
        name = given.name if isinstance(given, n.CType) else ""
        name = given.text if isinstance(given, n.Name) else name
        made = site.names.get(name)
        if isinstance(made, n.Choice) and _of_numbers(made, site):
            yield place(made.at)


def _of_numbers(node: n.Expr, site: LaunchSite) -> bool:
    """Whether a choice is between numbers, by what is known when the code is compiled."""
    if isinstance(node, n.Choice):
        asked = not any(isinstance(x, n.Field | n.Call) for x in n.inside(node.condition))
        return asked and _of_numbers(node.then, site) and _of_numbers(node.other, site)
    number = constant(node, site.names) if isinstance(node, n.Constant | n.Name) else None
    return isinstance(number, int) and not isinstance(number, bool)
