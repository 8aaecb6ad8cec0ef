"""How many warps a block gets, and whether there is one block: what the host writes as extents."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod

from extractors.cuda import nodes as n
from extractors.cuda.render import shown
from kb.evidence import AxisKind, Decision, Lines

WARP = 32
"""Threads of a warp. Source: CUDA C++ Programming Guide, SIMT architecture."""

MAX_STEPS = 4
"""Names behind names that an extent is followed through."""

MAX_VALUES = 8
"""Block sizes that one decision names."""

MAX_TEXT = 60
"""Characters of an extent that is written out instead of its name."""

Names = Mapping[str, n.Expr | n.Variable]


def warps_of_blocks(
    launches: Sequence[tuple[n.Expr | n.Variable | None, Names, n.Place]],
) -> tuple[Decision, ...]:
    """What the launches of a kernel give as extents of the block, as one decision with the lines
    where they are made and launched."""
    values: list[str] = []
    lines: set[Lines] = set()
    shares: set[Lines] = set()
    for block, names, launch in launches:
        made, places = followed(block, names)
        extents = _parts(made, names)
        if not extents:
            continue
        shares.update(_shares(extents, names))
        numbers = [_number(extent, names, places) for extent in extents]
        known = [number for number in numbers if number is not None]
        whole = len(known) == len(extents)
        pairs = zip(extents, numbers, strict=True)
        text = " * ".join(_worked_out(extent, names) for extent, number in pairs if number != 1)
        values.append(str(-(-prod(known) // WARP)) if whole else f"{text} threads")
        lines |= {*places, *written(block, launch), place(launch)}
    if not values:
        return ()
    kept = list(dict.fromkeys(values))
    found = Decision(
        axis="num_warps", value=" or ".join(kept[:MAX_VALUES]), pattern="worker-warp-count-hint",
        lines=tuple(sorted(lines)), kind=AxisKind.TUNING,
    )  # fmt: skip
    if not shares:
        return (found,)
    tile = Decision(
        axis="tile_selection", value="heuristic(shape)", pattern="closed-form-tile-heuristic",
        lines=tuple(sorted(shares)), kind=AxisKind.TUNING,
    )  # fmt: skip
    return (found, tile)


def whole_blocks(warps: Sequence[Decision]) -> tuple[Decision, ...]:
    """The decision how large a block is, where nothing else says what a block takes: a number, or
    what the host computes; `warps` is what was told of its threads."""
    found: list[Decision] = []
    for one in warps:
        fixed = all(part.strip().isdigit() for part in one.value.split(" or "))
        if one.axis == "num_warps" and (fixed or _COMPUTES.search(one.value)):
            found.append(
                Decision(
                    axis="tile_selection", pattern="closed-form-tile-heuristic", lines=one.lines,
                    value="constant" if fixed else "heuristic(shape)", kind=AxisKind.TUNING,
                )
            )  # fmt: skip
    return tuple(found)


def _worked_out(extent: n.Expr, names: Names) -> str:
    """How an extent of a block is computed; its name where that is no short sum, product, quotient,
    bound or choice."""
    made = followed(extent, names)[0]
    text = shown(made) if isinstance(made, n.Expr) else ""
    return text if _COMPUTES.search(text) and len(text) <= MAX_TEXT else shown(extent)


_COMPUTES = re.compile(r"\b(?:min|max)\b|[/%?]")
"""What an extent of a block is made with that is no name handed on."""


def _shares(extents: Sequence[n.Expr], names: Names) -> list[Lines]:
    """Where the extents of a block are worked out that has several, at least one of them by a
    division: how the threads of a block are shared out over what it works on."""
    lines: list[Lines] = []
    wide = [extent for extent in extents if _number(extent, names, []) != 1]
    made = [followed(extent, names)[0] for extent in wide]
    if len(wide) > 1 and any(isinstance(one, n.Expr) and _divides(one) for one in made):
        for extent in wide:
            _number(extent, names, lines)
    return lines


def _divides(made: n.Expr) -> bool:
    return any(isinstance(one, n.Binary) and one.operator == "/" for one in n.inside(made))


def one_block(
    launches: Sequence[tuple[n.Expr | n.Variable | None, Names, n.Place]],
) -> tuple[Decision, ...]:
    """A grid of one block, when every launch asks for that."""
    lines: set[Lines] = set()
    for grid, names, launch in launches:
        made, places = followed(grid, names)
        extents = _parts(made, names)
        if not extents or any(_number(extent, names, places) != 1 for extent in extents):
            return ()
        lines |= {*places, *written(grid, launch), place(launch)}
    if not lines:
        return ()
    found = Decision(
        axis="grid_mapping", value="one block", pattern="block-id-per-grid-axis",
        lines=tuple(sorted(lines)), kind=AxisKind.DESIGN,
    )  # fmt: skip
    return (found,)


def written(extent: n.Expr | n.Variable | None, launch: n.Place) -> list[Lines]:
    """Where an extent is written that is no part of the launch itself, as a field that is set."""
    return [place(extent.at)] if extent is not None and extent.at.path == launch.path else []


def place(at: n.Place) -> Lines:
    """First and last line of a place."""
    return (at.line, max(at.line, at.end_line))


def with_constants(names: Names, constants: Mapping[str, n.Variable], path: str) -> Names:
    """Names of a launch, then the constants that its file defines outside of functions."""
    kept = {name: one for name, one in constants.items() if one.at.path == path}
    return {**kept, **names}


def threads(block: n.Expr | n.Variable | None, names: Names) -> tuple[int | None, ...]:
    """The extents of a block, as far as they are numbers."""
    return tuple(_number(extent, names, []) for extent in _parts(followed(block, names)[0], names))


def _number(node: n.Expr, names: Names, lines: list[Lines], depth: int = 0) -> int | None:
    """The whole number that an expression of names and constants is; `lines` gains where the names
    were given."""
    given, places = followed(node, names)
    lines += places
    match given:
        case n.Constant(value=int() as value):
            return value
        case n.Binary(operator="*" | "+" | "-" | "/" as operator, left=left, right=right):
            if depth > MAX_STEPS:
                return None
            sides = [_number(side, names, lines, depth + 1) for side in (left, right)]
            if sides[0] is None or sides[1] is None:
                return None
            return _COMPUTED[operator](sides[0], sides[1])
    return None


_COMPUTED: dict[str, Callable[[int, int], int | None]] = {
    "*": lambda a, b: a * b, "+": lambda a, b: a + b, "-": lambda a, b: a - b,
    "/": lambda a, b: a // b if b else None,
}  # fmt: skip


def _parts(made: n.Expr | n.Variable | None, names: Names) -> tuple[n.Expr, ...]:
    """Extents of a dim3, or the one number; of a variable that is set later, those of its axes that
    were given one, else the name alone."""
    if isinstance(made, n.Variable) and not made.arguments:
        given = [names.get(f"{made.name}.{axis}") for axis in "xyz"]
        later = [one for one in given if isinstance(one, n.Expr)]
        return tuple(later) if isinstance(given[0], n.Expr) else (n.Name(made.at, made.name),)
    if isinstance(made, n.Variable):
        return made.arguments or ()
    if isinstance(made, n.Braces):
        return made.items
    if isinstance(made, n.Call) and shown(made.function) == "dim3":
        return made.arguments
    return (made,) if made is not None else ()


def followed(
    node: n.Expr | n.Variable | None, names: Names
) -> tuple[n.Expr | n.Variable | None, list[Lines]]:
    """What a name was last given, step by step, with the lines of the steps."""
    lines: list[Lines] = []
    for _ in range(MAX_STEPS):
        while isinstance(node, n.Cast):
            node = node.operand
        if not isinstance(node, n.Name):
            break
        given = names.get(node.text) or names.get(node.text.rpartition("::")[2])
        if given is None or given == node:
            break
        lines.append(place(given.at))
        node = given
        if isinstance(given, n.Variable) and given.arguments is None and given.value is not None:
            node = given.value
    if isinstance(node, n.Variable) and not lines:
        lines.append(place(node.at))
    return node, lines
