"""Conditions of the host on the problem that run one kernel and, where they do not hold, another,
or the same kernel over another grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import LaunchSite, constant
from extractors.cuda.render import shown
from kb.evidence import AxisKind, Decision, Lines


def by_the_host(
    launches: Sequence[LaunchSite],
    every: Sequence[LaunchSite],
    behind: Callable[[n.Expr], set[Lines]],
    led: Iterable[Lines] = (),
) -> tuple[Decision, ...]:
    """The decision that launches of one kernel stand under a condition whose opposite runs another
    of `every`; with the lines of the condition and of the launches on both of its sides, and those
    of branches that lead to it through functions."""
    lines = set(led)
    grids: dict[int, tuple[str, ...]] = {}
    for mine in launches:
        for other in every:
            apart = other.top == mine.top and other.guards != mine.guards
            flagged = apart and _flagged(mine, other)
            if apart and (flagged or _differs(mine, other, grids)):
                test = _parted(mine, other)
                if test is not None and (not flagged or _measures(mine, test)):
                    lines |= {place(test.at), place(mine.at), place(other.at), *behind(test)}
    if not lines:
        return ()
    found = Decision(
        axis="algorithm_selection", value="heuristic dispatch by shape/arch",
        pattern="kernel-chosen-by-the-host", lines=tuple(sorted(lines)), kind=AxisKind.HOST,
    )  # fmt: skip
    return (found,)


def _differs(one: LaunchSite, other: LaunchSite, grids: dict[int, tuple[str, ...]]) -> bool:
    """Whether two launches are of two kernels, of one kernel over grids that are made in different
    ways, or of two instances of which only one is given shared memory; `grids` keeps the texts of
    grids by the identity of the launch."""
    if one.kernel.text != other.kernel.text:
        return True
    if one.kernel.arguments != other.kernel.arguments and shown(one.kernel) != shown(other.kernel):
        return _shared(one) != _shared(other)
    for site in (one, other):
        if id(site) not in grids:
            grids[id(site)] = tuple(map(shown, _grid(site)))
    first, second = grids[id(one)], grids[id(other)]
    return bool(first and second) and first != second


def _flagged(one: LaunchSite, other: LaunchSite) -> bool:
    """Whether two launches are of one kernel with and without something: truth values that differ,
    or a number and none."""
    if one.kernel.text != other.kernel.text or _shared(one) != _shared(other):
        return False
    given = zip(one.kernel.arguments, other.kernel.arguments, strict=False)
    values = [(constant(a, one.names), constant(b, other.names)) for a, b in given]
    return any(
        isinstance(a, int) and isinstance(b, int) and a != b
        and ((isinstance(a, bool) and isinstance(b, bool)) or 0 in (a, b))
        for a, b in values
    )  # fmt: skip


def _measures(site: LaunchSite, test: n.Expr) -> bool:
    """Whether a condition rests on what is left of a division, or on which of two is larger."""
    return any(
        isinstance(one, n.Binary) and one.operator in ("%", "<", "<=", ">", ">=")
        for one in site.behind(test)
    )


def _shared(site: LaunchSite) -> bool:
    """Whether a launch is given bytes of shared memory."""
    given = site.shape[2] if len(site.shape) > 2 else None
    return given is not None and shown(given) != "0"


def _grid(site: LaunchSite) -> Iterator[n.Expr]:
    """Extents of the grid, one name back."""
    given = site.shape[0] if site.shape else None
    made = site.names.get(given.text, given) if isinstance(given, n.Name) else given
    if isinstance(made, n.Variable):
        yield from made.arguments or ()
    elif isinstance(made, n.Braces):
        yield from made.items
    elif made is not None:
        yield made


def _parted(one: LaunchSite, other: LaunchSite) -> n.Expr | None:
    """The condition that holds for one launch and does not for the other, after equal ones; None
    when they are not told apart so, or by a constant of the compiler. In two functions it is one
    condition of their caller."""
    for mine, its in zip(one.guards, other.guards, strict=False):
        if mine == its:
            continue
        text = its if mine == f"not ({its})" else mine if its == f"not ({mine})" else ""
        asked = next((test for test in one.tests if text and shown(test) == text), None)
        apart = asked is not None and one.function != other.function
        return None if apart and all(test is not asked for test in other.tests) else asked
    return None
