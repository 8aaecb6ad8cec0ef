"""Numbers of work per block or thread that the host chooses by a size: another instance of the
kernel below each bound, or a compile-time choice between numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import LaunchSite, constant
from extractors.cuda.render import shown
from kb.evidence import AxisKind, Decision, Lines

_BOUNDS = frozenset({"<", "<=", ">", ">="})
MAX_LAUNCHES = 64
"""Launches of one kernel that are compared."""

_Side = tuple[bool, int, Lines]
"""Whether a bound holds for a launch, the number that it gives, and where."""


def tiles_by_size(definition: n.Definition, launches: Sequence[LaunchSite]) -> tuple[Decision, ...]:
    """The decisions that a number among the template arguments follows a size."""
    found: list[Decision] = []
    for at, one in enumerate(definition.template):
        if one.dtype in ("typename", "template", "bool"):
            continue
        lines = {*_bounded(at, launches), *_chosen(at, launches)}
        if lines:
            found.append(
                Decision(
                    axis="tile_selection", value="heuristic(shape)", subject=one.name,
                    pattern="closed-form-tile-heuristic", lines=tuple(sorted(lines)),
                    kind=AxisKind.TUNING,
                )
            )  # fmt: skip
    return tuple(found)


def _bounded(at: int, launches: Sequence[LaunchSite]) -> Iterator[Lines]:
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
                held[1].append((guard == text, value, place(site.kernel.at)))
    for test, held_ in sides.values():
        below, above = ({v for side, v, _ in held_ if side is which} for which in (True, False))
        if below and above and below != above:
            yield place(test.at)
            yield from (lines for _, _, lines in held_)


def _is_bound(test: n.Expr) -> bool:
    return isinstance(test, n.Binary) and test.operator in _BOUNDS


def _number(site: LaunchSite, at: int) -> int | None:
    """The number that a launch gives, None for a truth value or a name."""
    given = site.kernel.arguments[at] if at < len(site.kernel.arguments) else None
    value = constant(given, site.names) if given is not None else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _chosen(at: int, launches: Sequence[LaunchSite]) -> Iterator[Lines]:
    """Lines of a number that the compiler chooses by other template arguments."""
    for site in launches:
        given = site.kernel.arguments[at] if at < len(site.kernel.arguments) else None
        name = given.name if isinstance(given, n.CType) else ""
        name = given.text if isinstance(given, n.Name) else name
        made = site.names.get(name)
        if isinstance(made, n.Choice) and _of_numbers(made):
            yield place(made.at)


def _of_numbers(node: n.Expr) -> bool:
    """Whether a choice is between numbers, by what is known when the code is compiled."""
    if isinstance(node, n.Choice):
        asked = not any(isinstance(x, n.Field | n.Call) for x in n.inside(node.condition))
        return asked and _of_numbers(node.then) and _of_numbers(node.other)
    number = node.value if isinstance(node, n.Constant) else None
    return isinstance(number, int) and not isinstance(number, bool)
