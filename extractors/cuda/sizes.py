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
    """Lines of launches with other numbers on the two sides of a bound."""
    numbered = [(one, value) for one in launches if (value := _number(one, at)) is not None]
    for i, (one, value) in enumerate(numbered[:MAX_LAUNCHES]):
        for other, its in numbered[:i]:
            if one.function == other.function and value != its:
                test = _between(one, other)
                if test is not None:
                    yield from map(place, (test.at, one.kernel.at, other.kernel.at))


def _number(site: LaunchSite, at: int) -> int | None:
    """The number that a launch gives, None for a truth value or a name."""
    given = site.kernel.arguments[at] if at < len(site.kernel.arguments) else None
    value = constant(given, site.names) if given is not None else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _between(one: LaunchSite, other: LaunchSite) -> n.Expr | None:
    """The bound that holds for one launch and not for the other, after equal conditions."""
    for mine, its in zip(one.guards, other.guards, strict=False):
        if mine == its:
            continue
        text = its if mine == f"not ({its})" else mine if its == f"not ({mine})" else ""
        test = next((t for t in (*one.tests, *other.tests) if text and shown(t) == text), None)
        return test if isinstance(test, n.Binary) and test.operator in _BOUNDS else None
    return None


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
