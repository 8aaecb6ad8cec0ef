"""What launches count on beyond what they compute: flags that stand for a relation of sizes, axes
of the grid that are short, arrays that are seen in another shape as they lie."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from extractors.host.conditions import parts
from extractors.host.contiguity import by_callers
from extractors.host.contracts import names_of, readable, replaced, stated
from extractors.host.derived import grid_lines
from extractors.host.device import OF_DEVICE
from extractors.host.divisors import divisors
from extractors.host.events import CheckRecord, CountRecord, LaunchRecord, NormaliseRecord
from extractors.host.expr import atoms, binary, distinct_atoms
from extractors.host.facts import Material
from extractors.host.render import Names, leaves
from extractors.host.values import Choice, Expr, Unknown, Value
from extractors.syntax.nodes import each
from kb.evidence import Lines
from kb.space import Constraint, implied

GRID_LIMIT = 65_535
"""Blocks along the second and the third axis of a grid. Source: CUDA C++ Programming Guide,
technical specifications per compute capability."""

MAX_TOLD = 3
"""Extents that one constraint speaks of."""

_RELATES = frozenset({"%", "&", "npow2", "ispow2", "//", "cdiv"})
MAX_VIEWS = 16
"""Views of views that are followed."""


def launch_contracts(material: Material) -> Iterator[Constraint]:
    """Constraints by the launches of one kernel, each once."""
    sites = material.sites()
    if sites:
        yield from _flags(material, sites)
        yield from _short_axes(material, sites)
        yield from _viewed(material, sites)
        yield from _counted(material, sites)
        yield from _divided(material, sites)
        yield from _grouped(material, sites)


def _flags(material: Material, sites: list[LaunchRecord]) -> Iterator[Constraint]:
    """Compile-time flags that every launch sets where sizes are related in one way: the kernel
    leaves its checks out where they hold."""
    compiled = {name for name, constant in material.signature.params if constant}
    first = sites[0]
    names = names_of(material, first)
    for name, value in first.args:
        if name not in compiled or not _relates(value):
            continue
        if any(dict(site.args).get(name) != value for site in sites[1:]):
            continue
        text = names.text(_called(value, first, name), 3)
        if readable(text):
            made = [
                lines
                for lines in (*material.made(first, name), *material.given(first, name))
                if lines[0] in _compares(material.tree)
            ]
            yield stated(
                f"not {name} or {text}",
                "the host sets the flag so, and the kernel counts on it",
                "compute it from the sizes of the launch where the kernel is launched from "
                "elsewhere",
                made[0] if made else first.lines,
            )


@lru_cache(maxsize=64)
def _compares(tree: ast.Module) -> frozenset[int]:
    """Lines where something is compared."""
    return frozenset(node.lineno for node in each(tree, ast.Compare))


def _relates(value: Value) -> bool:
    """Whether a value is a relation of sizes: one divides the other, or is a rounded one."""
    if not isinstance(value, Expr) or value.op not in ("==", "and", "ispow2"):
        return False
    found = list(parts(value))
    sized = any(atom.op in ("dim", "sym") for atom in atoms(value))
    return sized and any(one.op in _RELATES for one in found) and not _open(value)


def _open(value: Value) -> bool:
    """Whether a part of a value is not known, or differs between ways to the launch."""
    if isinstance(value, Expr):
        return any(map(_open, value.args))
    return isinstance(value, Choice | Unknown)


def _called(value: Value, launch: LaunchRecord, name: str) -> Value:
    """A value in which what other arguments are given is called by their names, and the test for
    one bit by its own."""
    if isinstance(value, Expr) and value.op == "==" and isinstance(value.args[0], Expr):
        bits = value.args[0]
        if bits.op == "&" and value.args[1] == 0 and bits.args[1] == binary("-", bits.args[0], 1):
            return Expr("ispow2", (bits.args[0],))
    for other, given in launch.args:
        if other != name and isinstance(given, Expr) and given.op in ("npow2", "min", "max"):
            value = replaced(value, given, Expr("sym", (other,)))
    return value


def _short_axes(material: Material, sites: list[LaunchRecord]) -> Iterator[Constraint]:
    """Axes of a grid after the first, of as many blocks as arrays have rows, or sequences heads:
    such an axis takes fewer blocks than the first. One constraint for all of them."""
    told: dict[str, None] = {}
    for launch in sites:
        grid = launch.grid if isinstance(launch.grid, tuple) else ()
        names = names_of(material, launch)
        passed = {value: name for name, value in launch.args if isinstance(value, Expr)}
        for part in grid[1:] if not _limited(material, launch) else ():
            text = passed.get(part) or names.text(part, 6) if _of_rows(part) else ""
            if text and readable(text):
                told[text] = None
    if told:
        yield implied(
            " and ".join(f"{text} <= {GRID_LIMIT}" for text in list(told)[:MAX_TOLD]),
            "the second and the third axis of a grid take no more blocks",
            "put the longest axis first, or go through it in a loop",
            written(material, sites[0]),
        )


def written(material: Material, launch: LaunchRecord) -> Lines:
    """Where the grid of a launch is made: right before it, or with it."""
    made = grid_lines(material)
    before = [lines for lines in made if lines[1] < launch.lines[0]]
    return max(before, default=next(iter(made), launch.lines))


def _limited(material: Material, launch: LaunchRecord) -> bool:
    """Whether a check or a branch on the way to a launch speaks of the limit."""
    asked = [e.cond for e in material.of_root(launch) if isinstance(e, CheckRecord)]
    return any(
        arg in (GRID_LIMIT, GRID_LIMIT + 1)
        for cond in (*asked, *(guard.cond for guard in launch.path.guards))
        for one in parts(cond)
        for arg in one.args
    )


def _of_rows(part: Value) -> bool:
    """Whether blocks are counted by extents as they are, or by products of such; tiles are far
    fewer than elements."""
    found = leaves(part)
    return bool(found) and all(
        isinstance(one, Expr)
        and one.op in ("dim", "*", "max", "-", "sym", "//")
        and any(atom.op in ("dim", "shape") for atom in atoms(one))
        and not any(inner.op in ("cdiv", "axis", "min") for inner in parts(one))
        and all(_shared_out(inner) for inner in parts(one) if inner.op == "//")
        for one in found
    )


def _shared_out(quotient: Expr) -> bool:
    """Whether a number of elements is divided by extents: what is left are rows, too."""
    pending = [quotient.args[1]]
    for by in pending:
        if not isinstance(by, Expr) or not (by.op in ("dim", "*") or by.args[:1] == ("prod",)):
            return False
        pending += by.args if by.op == "*" else ()
    return True


def _viewed(material: Material, sites: list[LaunchRecord]) -> Iterator[Constraint]:
    """Arrays of the caller that the host sees in another shape, which nothing made contiguous: the
    view is refused where their axes do not follow each other. One constraint for all of them."""
    told: dict[str, Lines] = {}
    for launch in sites:
        made = {
            event.tensor for event in material.before(launch) if isinstance(event, NormaliseRecord)
        }
        made.update(by_callers(material, launch))
        names = names_of(material, launch)
        for name, value in launch.args:
            for leaf in leaves(value):
                base, at = _view(material, leaf)
                if at is not None and base not in made and _from_caller(base, names):
                    told.setdefault(name, at)
    if told:
        yield stated(
            " and ".join(f"{name}.is_viewable" for name in told),
            "the host takes a view in another shape, which is refused where the axes do not lie "
            "one after the other",
            "make it contiguous first, or use reshape, which copies then",
            next(iter(told.values())),
        )


def _counted(material: Material, sites: list[LaunchRecord]) -> Iterator[Constraint]:
    """Arrays of the caller whose shape the host takes apart into as many extents as they have
    axes: another number of axes is refused there. One constraint for each place."""
    told: dict[Lines, dict[str, None]] = {}
    for launch in sites:
        names = names_of(material, launch)
        asked = _asked(material, launch)
        for event in material.before(launch):
            if isinstance(event, CountRecord) and event.tensor in asked:
                text = names.text(Expr("rank", (event.tensor,)))
                if readable(text):
                    told.setdefault(event.lines, {})[f"{text} == {event.rank}"] = None
    for lines, texts in told.items():
        yield stated(
            " and ".join(list(texts)[:MAX_TOLD]),
            "the host takes the shape apart into so many extents, which fails for another number",
            "view the array in that many axes first",
            lines,
        )


def _divided(material: Material, sites: list[LaunchRecord]) -> Iterator[Constraint]:
    """Extents that the host divides by: an empty array fails there."""
    told: dict[str, Lines] = {}
    for launch in sites:
        for _, text, places in divisors(material, launch):
            told.setdefault(text, max(places))
    for text, lines in told.items():
        yield stated(
            f"{text} > 0",
            "the host divides by it on the way to the launch",
            "return before when there is nothing to do",
            lines,
        )


def _grouped(material: Material, sites: list[LaunchRecord]) -> Iterator[Constraint]:
    """Sizes that the host divides by another one for an argument, and rounds down: heads by the
    groups that share them, columns by the length of a group, an extent by its two halves."""
    told: dict[str, Lines] = {}
    for launch in sites:
        names = names_of(material, launch)
        conds = [e.cond for e in material.of_root(launch) if isinstance(e, CheckRecord)]
        conds += [guard.cond for guard in launch.path.guards]
        asked = {one for cond in conds for one in parts(cond) if one.op == "%"}
        for name, value in launch.args:
            for leaf in leaves(value):
                if isinstance(leaf, Expr) and leaf.op == "//" and _whole(*leaf.args):
                    if Expr("%", leaf.args) in asked:
                        continue
                    size, part = (names.text(one) for one in leaf.args[:2])
                    text = f"{size} % {part} == 0"
                    if readable(text) and size != part:
                        told.setdefault(text, max((*material.made(launch, name), launch.lines)[:1]))
    for text, lines in told.items():
        yield implied(
            text,
            "the host divides the size for an argument and rounds down: the rest is left out",
            "check it before the launch",
            lines,
        )


def _whole(size: Value, part: Value) -> bool:
    """Whether a size is shared out to as many parts as another one says, or an extent to two."""
    halves = part == 2 and isinstance(size, Expr) and size.op == "dim"
    return _size(size) and (halves or _size(part))


def _size(value: Value) -> bool:
    """Whether a value is an extent of an array, or a number of the caller."""
    if not isinstance(value, Expr) or value.op not in ("dim", "sym"):
        return False
    return not str(value.args[0]).startswith(OF_DEVICE)


def _asked(material: Material, launch: LaunchRecord) -> list[Value]:
    """The arrays of the caller that a launch is given, perhaps in a view, or that its sizes ask
    for an extent."""
    found: dict[Value, None] = {}
    for _, value in launch.args:
        for leaf in leaves(value):
            found.update(dict.fromkeys(_bases(material, leaf)))
    sizes = (launch.grid, *(value for _, value in launch.args))
    for atom in (atom for value in sizes for atom in distinct_atoms(value)):
        if atom.op == "dim":
            found.update(dict.fromkeys(_bases(material, atom.args[0])))
    return [one for one in found if isinstance(one, Expr) and one.op == "sym"]


def _bases(material: Material, value: Value) -> Iterator[Value]:
    """An array and what it is a view of."""
    for _ in range(MAX_VIEWS):
        yield value
        fact = material.machine.tensors.get(value)
        if fact is None or fact.base is None:
            return
        value = fact.base


def _view(material: Material, value: Value) -> tuple[Value, Lines | None]:
    """What a view is of, and where it is taken."""
    for _ in range(MAX_VIEWS):
        fact = material.machine.tensors.get(value)
        if fact is None or fact.base is None:
            break
        if fact.viewed is not None:
            return fact.base, fact.viewed
        value = fact.base
    return value, None


def _from_caller(value: Value, names: Names) -> bool:
    """Whether an array came from the caller, and no operation made it."""
    return isinstance(value, Expr) and value.op == "sym" and value not in names.machine.tensors
