"""What every value rests on, in one walk: strongly connected components, each after those it reads.

The components come out in the order of R. Tarjan, Depth-first search and linear graph algorithms,
SIAM Journal on Computing 1(2), 1972.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

Feeds = Callable[[str], tuple[str, ...]]


def reached(values: Iterable[str], feeds: Feeds, own: Mapping[str, int]) -> dict[str, int]:
    """For every value and what it rests on a set of bits: its own, and those of all that it is
    computed from, over any number of steps; what rests on each other has the same bits."""
    found: dict[str, int] = {}
    for component in _components(values, feeds):
        mask = 0
        for value in component:
            mask |= own.get(value, 0)
            for feed in feeds(value):
                mask |= found.get(feed, 0)
        found.update(dict.fromkeys(component, mask))
    return found


def _components(values: Iterable[str], feeds: Feeds) -> Iterator[list[str]]:
    """Values that rest on each other, after everything else that they rest on."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    waiting: dict[str, None] = {}
    for root in values:
        if root in number:
            continue
        way = [(root, _begin(root, number, lowest, waiting, feeds))]
        while way:
            value, rest = way[-1]
            for feed in rest:
                if feed not in number:
                    way.append((feed, _begin(feed, number, lowest, waiting, feeds)))
                    break
                if feed in waiting and number[feed] < lowest[value]:
                    lowest[value] = number[feed]
            else:
                way.pop()
                if way and lowest[value] < lowest[way[-1][0]]:
                    lowest[way[-1][0]] = lowest[value]
                if lowest[value] == number[value]:
                    yield _taken(value, waiting)


def _begin(
    value: str,
    number: dict[str, int],
    lowest: dict[str, int],
    waiting: dict[str, None],
    feeds: Feeds,
) -> Iterator[str]:
    number[value] = lowest[value] = len(number)
    waiting[value] = None
    return iter(feeds(value))


def _taken(first: str, waiting: dict[str, None]) -> list[str]:
    """The values that wait since `first`, which wait no longer."""
    component: list[str] = []
    while True:
        value, _ = waiting.popitem()
        component.append(value)
        if value == first:
            return component
