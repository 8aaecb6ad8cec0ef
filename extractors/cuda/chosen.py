"""Conditions of the host on the problem that run one kernel and, where they do not hold, another,
or the same kernel over another grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import ALIAS, LaunchSite, constant
from extractors.cuda.render import shown
from kb.evidence import AxisKind, Decision, Lines
from kb.space import Scalar


def by_the_host(
    launches: Sequence[LaunchSite],
    every: Sequence[LaunchSite],
    behind: Callable[[n.Expr], set[Lines]],
    led: Iterable[Lines] = (),
) -> tuple[Decision, ...]:
    """The decision that launches of one kernel stand under a condition whose opposite runs another
    of `every`; with the lines of the condition and of the launches on both of its sides, and those
    of branches that lead to it through functions. Where one launch is of what a name was given,
    those are where it is given one kernel or the other."""
    lines = set(led)
    known = {id(site): _Side(site) for site in (*launches, *every)}
    for mine in map(known.__getitem__, map(id, launches)):
        for other in map(known.__getitem__, map(id, every)):
            if other.site.at == mine.site.at and other.name != mine.name:
                places = (mine.site.kernel.at, other.site.kernel.at, mine.site.at)
                lines |= set(map(place, places))
            if other.top != mine.top or other.site.guards == mine.site.guards:
                continue
            flagged = _flagged(mine, other)
            if flagged or _differs(mine, other):
                test = _parted(mine.site, other.site)
                if test is not None and (not flagged or _measures(mine.site, test)):
                    places = (test.at, mine.site.at, other.site.at)
                    lines |= {*map(place, places), *behind(test)}
    if not lines:
        return ()
    found = Decision(
        axis="algorithm_selection", value="heuristic dispatch by shape/arch",
        pattern="kernel-chosen-by-the-host", lines=tuple(sorted(lines)), kind=AxisKind.HOST,
    )  # fmt: skip
    return (found,)


@dataclass(eq=False)
class _Side:
    """A launch that is set beside others, and what it is compared by, worked out once."""

    site: LaunchSite

    def __post_init__(self) -> None:
        self.top = self.site.top
        self.name = self.site.kernel.text
        self.shared = _shared(self.site)

    @cached_property
    def text(self) -> str:
        """The kernel with its template arguments, as text."""
        return shown(self.site.kernel)

    @cached_property
    def values(self) -> tuple[Scalar, ...]:
        """The template arguments, and those of the types that they are names of, as far as they
        are surely numbers or truth values, None for others."""
        given = self.site.kernel.arguments
        types = [one.name if isinstance(one, n.CType) else shown(one) for one in given]
        named = [self.site.names.get(f"{ALIAS}{name}") for name in types]
        inside = [part for one in named if isinstance(one, n.Name) for part in one.arguments]
        return tuple(constant(one, self.site.names) for one in (*given, *inside))

    @cached_property
    def grid(self) -> tuple[str, ...]:
        """Extents of the grid as texts."""
        return tuple(map(shown, _grid(self.site)))


def _differs(one: _Side, other: _Side) -> bool:
    """Whether two launches are of two kernels, of one kernel over grids that are made in different
    ways, or of two instances of which only one is given shared memory."""
    if one.name != other.name:
        return True
    if one.text != other.text or one.values != other.values:
        return one.shared != other.shared
    return bool(one.grid and other.grid) and one.grid != other.grid


def _flagged(one: _Side, other: _Side) -> bool:
    """Whether two launches are of one kernel with and without something: truth values that differ,
    or a number and none."""
    if one.name != other.name or one.shared != other.shared or one.values == other.values:
        return False
    return any(
        isinstance(a, int) and isinstance(b, int) and a != b
        and ((isinstance(a, bool) and isinstance(b, bool)) or 0 in (a, b))
        for a, b in zip(one.values, other.values, strict=False)
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
    for mine, its in zip_longest(one.guards, other.guards):
        if mine == its:
            continue
        if mine is None or its is None:  # the one returns, the other is what comes then
            text = mine or its or ""
            rest, inner = (other, one) if mine is not None else (one, other)
            known = next((test for test in inner.tests if shown(test) == text), None)
            return known if text in rest.left and one.function == other.function else None
        text = its if mine == f"not ({its})" else mine if its == f"not ({mine})" else ""
        asked = next((test for test in one.tests if text and shown(test) == text), None)
        apart = asked is not None and one.function != other.function
        return None if apart and all(test is not asked for test in other.tests) else asked
    return None
