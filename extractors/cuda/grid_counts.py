"""What the axes of a grid count, where the host gives a size as it stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_size import followed
from extractors.cuda.checks import in_words
from extractors.cuda.launch_site import LaunchSite, Names
from extractors.cuda.render import shown

MAX_BEHIND = 4
"""Names behind names that an extent is followed through."""


def grid_of(site: LaunchSite) -> Iterator[n.Expr | n.Variable]:
    """The extents of the grid of a launch as the host makes them, x first."""
    grid, _ = followed(site.shape[0] if site.shape else None, site.names)
    match grid:
        case n.Variable(name=name, arguments=arguments):
            yield from arguments or ()
            yield from (x for a in "xyz" if (x := site.names.get(f"{name}.{a}")) is not None)
        case n.Braces(items=items):
            yield from items
        case n.Call(arguments=arguments) if shown(grid.function) == "dim3":
            yield from arguments
        case n.Expr():
            yield grid


def counted(found: Sequence[LaunchSite], definition: n.Definition) -> tuple[str, ...]:
    """For each axis the number or size that every launch gives, in the words of the kernel; empty
    where it is computed or differs."""
    rows = [_sizes(one, definition) for one in found]
    longest = max(map(len, rows), default=0)
    columns = ({row[axis] if axis < len(row) else "1" for row in rows} for axis in range(longest))
    return tuple(next(iter(one)) if len(one) == 1 else "" for one in columns)


def as_many(found: Sequence[LaunchSite], definition: n.Definition) -> frozenset[tuple[int, str]]:
    """Axes of the grid, each with a parameter that every launch gives the number of its blocks."""
    names = [one.name for one in definition.parameters]
    rows: list[set[tuple[int, str]]] = []
    for site in found:
        given = [_size(one, site.names, 0) for one in site.arguments]
        blocks = [_size(one, site.names, 0) for one in grid_of(site)]
        rows.append({
            (axis, name)
            for axis, count in enumerate(blocks)
            for name, text in zip(names, given, strict=False)
            if count and count == text
        })  # fmt: skip
    return frozenset(set.intersection(*rows)) if rows else frozenset()


def _sizes(site: LaunchSite, definition: n.Definition) -> list[str]:
    words = site.words(definition)
    sizes: list[str] = []
    for given in grid_of(site):
        text = _size(given, site.names, 0)
        sizes.append(text if text.isdigit() else (text and in_words(text, words)) or "")
    return sizes


def _size(node: object, names: Names, depth: int) -> str:
    """The text of a number, a name, a field, an extent of a tensor, or a product of such."""
    match node:
        case n.Cast(operand=operand):
            return _size(operand, names, depth)
        case n.Constant(value=int() as value):
            return str(value)
        case n.Name(text=text):
            made = names.get(text)
            if depth < MAX_BEHIND and isinstance(made, n.Expr):
                return _size(made, names, depth + 1)
            return text if made is None else ""
        case n.Binary(operator="*", left=left, right=right):
            sides = [_size(left, names, depth), _size(right, names, depth)]
            return " * ".join(sides) if all(sides) else ""
        case n.Field():
            return shown(node)
        case n.Call(function=n.Field(name=name)) if name in ("size", "numel"):
            return shown(node)
    return ""
