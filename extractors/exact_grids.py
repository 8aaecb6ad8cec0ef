"""Axes of the grid that a kernel counts on: it asks nowhere whether a block has work."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from extractors.host.contracts import names_of, readable
from extractors.host.expr import atoms
from extractors.host.facts import HostFacts
from extractors.host.launch_contracts import written
from extractors.host.values import Expr, Value
from kb.analysis.accesses import Mode
from kb.analysis.facts import Facts
from kb.analysis.idioms import sides
from kb.analysis.symbolic import AtomKind
from kb.analysis.symbolic import Expr as Place
from kb.evidence import Lines
from kb.ops import COMPARISONS, OpKind
from kb.space import Constraint, implied

_COUNTED = frozenset({"dim", "*", "+", "-", "sym"})


def exact_grids(facts: Facts, host: HostFacts) -> Iterator[Constraint]:
    """Axes whose blocks stand for rows of what is stored, and that no mask, branch, bound or
    minimum holds below anything: each has as many blocks as the host counts rows. Stores of tiles,
    which end with the array, ask for nothing."""
    material = host.material
    if material is None and facts.of_threads:
        yield from _of_threads(facts, host)
    if material is None or facts.of_threads or not material.launches:
        return
    sites = material.sites()
    rows = [site.grid if isinstance(site.grid, tuple) else (site.grid,) for site in sites]
    told: list[str] = []
    for axis in sorted(_stored(facts) - _asked(facts)):
        values = {row[axis] if axis < len(row) else None for row in rows}
        value = values.pop() if len(values) == 1 else None
        if isinstance(value, Expr) and _of_rows(value):
            text = names_of(material, sites[0]).text(value)
            told += [f"grid[{axis}] == {text}"] if readable(text) else []
    if told:
        yield implied(
            " and ".join(told),
            "every block reads and stores at its own place, and the kernel does not ask whether "
            "its row is there",
            "launch as many blocks, or let the kernel compare its number with the rows",
            written(material, sites[0]),
        )


def _of_threads(facts: Facts, host: HostFacts) -> Iterator[Constraint]:
    """The same of a kernel of threads, whose launches give their grid as a number, a name, an
    extent, or a product of such."""
    asked = _asked(facts)
    told: dict[int, str] = {}
    for axis in sorted(_stored(facts) | asked):
        text = host.counted[axis] if axis < len(host.counted) else ""
        numbered = axis in asked and text.isdigit() and int(text) > 1 and _settled(facts, axis)
        if text and (axis not in asked or numbered):
            told[axis] = f"grid[{axis}] == {text}"
    if told:
        yield implied(
            " and ".join(told.values()),
            "every block stores what it computes, and the kernel does not ask whether its row is "
            "there",
            "launch as many blocks, or let the kernel compare its number with the rows",
            _named(facts, told, asked) or host.launches[0].lines,
        )


def _settled(facts: Facts, axis: int) -> bool:
    """Whether blocks of an axis are told apart by numbers alone, and never counted."""
    if facts.graph.of(OpKind.NUM_BLOCKS):
        return False
    for node in facts.graph.of(*COMPARISONS):
        ends = sides(facts, node)
        if any(axis in _axes(one) for one in ends):
            if not any(one.constant is not None for one in ends):
                return False
    return all(axis not in _axes(facts.values.expr(v)) for loop in facts.loops
               for v in (loop.low, loop.high) if v is not None)  # fmt: skip


def _named(facts: Facts, axes: Collection[int], asked: set[int]) -> Lines | None:
    """Where the kernel asks for the number of its block along one of some axes, or compares it."""
    for node in facts.graph.of(*COMPARISONS) if set(axes) <= asked else ():
        if any(_axes(one) & set(axes) for one in sides(facts, node)):
            return node.lines
    for node in facts.graph.of(OpKind.BLOCK_ID):
        if _axes(facts.values.expr(node.result)) & set(axes):
            return node.lines
    return None


def _of_rows(value: Value) -> bool:
    """Whether blocks are counted by extents, by products or sums of them."""
    if not isinstance(value, Expr):
        return isinstance(value, int)
    if value.op in ("dim", "sym"):
        return True
    return (
        value.op in _COUNTED and any(True for _ in atoms(value)) and all(map(_of_rows, value.args))
    )


def _axes(place: Place) -> set[int]:
    return {atom.axis for atom in place.atoms() if atom.kind is AtomKind.BLOCK}


def _stored(facts: Facts) -> set[int]:
    """Axes whose block index says where something is stored, or read without a check, the further
    the more blocks there are."""
    open_ = [
        access
        for access in facts.accesses
        if (access.is_store and access.mode is Mode.POINTER)
        or (access.check_bounds and facts.values.literal(access.check_bounds) is False)
    ]
    return {axis for access in open_ for index in access.index for axis in _growing(index)}


def _growing(place: Place) -> set[int]:
    """Axes whose block index a place grows with: not those of which a remainder alone is taken."""
    found: set[int] = set()
    for atom in place.top():
        if atom.kind is AtomKind.BLOCK:
            found.add(atom.axis)
        elif atom.kind in (AtomKind.FLOOR_DIV, AtomKind.CEIL_DIV):
            found |= _growing(atom.args[0])
        elif atom.kind in (AtomKind.CHOICE, AtomKind.OPAQUE):
            found |= {axis for one in atom.args for axis in _growing(one)}
    return found


def _asked(facts: Facts) -> set[int]:
    """Axes whose block index anything is compared with, that a loop begins or ends at, or that is
    held below a number; of threads also those that branches tell apart by a remainder."""
    found: set[int] = set()
    for node in facts.graph.of(*COMPARISONS):
        for side in sides(facts, node):
            found |= _axes(side)
    parities = (OpKind.MOD,) if facts.of_threads else ()
    for node in facts.graph.of(OpKind.MINIMUM, OpKind.MAXIMUM, *parities):
        for value in node.op.inputs[:2]:
            found |= _axes(facts.values.expr(value))
    for loop in facts.loops:
        for end in (loop.low, loop.high):
            if end is not None:
                found |= _axes(facts.values.expr(end))
    return found
