"""Whether a tuned value can change the bits of a result: followed from the parameter to the sums.

A result keeps its bits when every output element goes through the same floating-point operations
in the same order. A tuned value breaks that where it reaches an extent that is summed or
contracted, the step of a loop that carries a sum, or arithmetic itself. Where it only says which
block computes which element, or how many elements a block maps, the order stays.

Two things are taken for granted, and the reasons say so: the kernel computes the same function for
every value, so that an iteration which a limit adds or drops only ever adds masked zeros; and the
grid covers the problem once. What a compiler does inside one sum of a tile follows from the tile's
layout, so that another extent of a summed tile leaves the class unknown, not stable.

Source: IEEE 754-2019, clause 10 (sums are not associative in a finite format); Triton and cuTile
leave the order of a tile's sum to the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop, Role
from kb.analysis.reach import SCANS, SUMS, Reach, unordered_adds
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import AxisNumerics, Numerics
from kb.ir import walk
from kb.ops import OpKind
from kb.space import Launch

ARITHMETIC = frozenset({OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA, OpKind.POW})
CARRIED_SUMS = (Role.ACCUMULATOR, Role.RUNNING_SUM, Role.SUM, Role.OTHER)


@dataclass(frozen=True, slots=True)
class Clue:
    """One place where a value matters to the bits."""

    numerics: Numerics
    reason: str
    nodes: tuple[Node, ...]


def parameter_numerics(facts: Facts, name: str, launches: Sequence[Launch] = ()) -> AxisNumerics:
    """The class of a parameter of the kernel, with the first reason of the strongest kind."""
    reach = Reach(facts, name, launches)
    clues = [clue for rule in _RULES for clue in rule(reach)]
    for numerics in (Numerics.CHANGES, Numerics.UNKNOWN):
        found = [clue for clue in clues if clue.numerics is numerics]
        if found:
            lines = facts.spans(*(node for clue in found for node in clue.nodes))
            return AxisNumerics(name=name, numerics=numerics, reason=found[0].reason, lines=lines)
    return AxisNumerics(name=name, numerics=Numerics.STABLE, reason=_harmless(reach))


def _harmless(reach: Reach) -> str:
    facts = reach.facts
    if not reach.used:
        return "no operation of the program uses it."
    made = (result.name for node in facts.graph.nodes for result in node.op.results)
    if not any(reach.in_text(extent) for name in made for extent in facts.types.shape(name)):
        return "it only decides which block computes which elements, or where a loop stops."
    if any(reach.in_text(e) for node in facts.contractions for e in facts.types.shape(node.result)):
        return (
            "it sizes axes of a matrix product that are not contracted: every element adds the same"
            " products in the same order, as long as the compiler keeps the matrix instruction."
        )
    return (
        "it sizes axes that are mapped and never summed: every element keeps its operations and"
        " their order."
    )


# -- rules


def _unread(reach: Reach) -> Iterator[Clue]:
    opaque = reach.facts.graph.of(OpKind.OPAQUE)
    if opaque:
        yield Clue(
            Numerics.UNKNOWN, "an operation was not understood, and it may sum.", tuple(opaque[:3])
        )


def _summed(reach: Reach) -> Iterator[Clue]:
    facts = reach.facts
    for node in facts.graph.of(*SUMS, *SCANS):
        tile = node.op.inputs[0] if node.op.inputs else None
        if not reach.floats(tile):
            continue
        shape = facts.types.shape(tile)
        summed = _reduced_extents(facts, node, shape)
        if any(map(reach.in_text, summed)):
            reason = "it is the extent of a sum inside a tile: other numbers are added together."
            yield Clue(Numerics.CHANGES, reason, (node,))
        elif any(map(reach.in_text, shape)):
            reason = (
                "the sum of a tile runs along another axis, but the compiler lays the tile out by"
                " its whole shape, and the order of the sum follows the layout."
            )
            yield Clue(Numerics.UNKNOWN, reason, (node,))
        elif (not shape or "?" in shape) and reach.rests(tile):
            reason = "the shape of a tile that is summed is not known."
            yield Clue(Numerics.UNKNOWN, reason, (node,))


def _reduced_extents(facts: Facts, node: Node, shape: tuple[str, ...]) -> tuple[str, ...]:
    operand = node.op.operand("axis")
    axes = [facts.values.literal(item) for item in facts.values.items(operand)]
    whole = [axis for axis in axes if isinstance(axis, int)]
    if not whole or any(not -len(shape) <= axis < len(shape) for axis in whole):
        return shape
    return tuple(shape[axis] for axis in whole)


def _contracted(reach: Reach) -> Iterator[Clue]:
    types = reach.facts.types
    for node in reach.facts.contractions:
        left, right = (types.shape(node.op.operand(role)) for role in ("lhs", "rhs"))
        inner = (*left[-1:], *right[-2:-1])
        if any(map(reach.in_text, inner)):
            reason = "it is the contracted extent of a matrix product: sums are cut elsewhere."
            yield Clue(Numerics.CHANGES, reason, (node,))
        elif (not inner or "?" in inner) and any(map(reach.rests, node.op.inputs)):
            reason = "the contracted extent of a matrix product is not known."
            yield Clue(Numerics.UNKNOWN, reason, (node,))


def _loops(reach: Reach) -> Iterator[Clue]:
    values = reach.facts.values
    for loop in reach.facts.loops:
        sums = [c for c in loop.of(*CARRIED_SUMS) if reach.floats(c.result)]
        if not sums:
            continue
        low, high, step = (values.expr(value) for value in (loop.low, loop.high, loop.step))
        if loop.low is None and loop.high is None:
            if any(map(reach.rests, loop.node.op.inputs)) or _ends_by(reach, loop):
                yield Clue(Numerics.UNKNOWN, "it decides how long a loop that sums goes on.",
                           (loop.node,))  # fmt: skip
        elif loop.step is not None and reach.in_expr(step):
            reason = "it is the step of a loop that sums: other numbers meet in an iteration."
            yield Clue(Numerics.CHANGES, reason, (loop.node,))
        elif _cuts(reach, (low, high)):
            reason = "iterations of a loop that carries a sum cover as many elements as it says."
            yield Clue(Numerics.CHANGES, reason, (loop.node,))
        elif reach.in_expr(low) or reach.in_expr(high):
            yield from _limited(reach, loop, (low, high))


def _ends_by(reach: Reach, loop: Loop) -> bool:
    first = loop.node.op.regions[0].terminator
    return first is not None and any(map(reach.rests, first.inputs[:1]))


def _cuts(reach: Reach, limits: Iterable[Expr]) -> bool:
    """Whether a limit counts pieces of the parameter's size."""
    kinds = (AtomKind.FLOOR_DIV, AtomKind.CEIL_DIV)
    return any(
        atom.kind in kinds and len(atom.args) == 2 and reach.in_expr(atom.args[1])
        for limit in limits
        for atom in limit.atoms()
    )


def _limited(reach: Reach, loop: Loop, limits: tuple[Expr, ...]) -> Iterator[Clue]:
    """Limits that follow the rows of a block leave the order alone; limits that share the loop out
    between blocks do not."""
    blocks = {a for limit in limits for a in limit.atoms() if a.kind is AtomKind.BLOCK}
    facts = reach.facts
    stores = [a for a in facts.stores if facts.graph.rests_on(a.value, loop.node)]
    for store in stores:
        told = {atom for place, sized in _places(reach, store) if sized for atom in place.atoms()}
        if blocks and not blocks & told:
            reason = "it shares a loop that sums out between blocks: each adds up another part."
            yield Clue(Numerics.CHANGES, reason, (loop.node, store.node))
            return
    if not blocks or not stores:
        reason = "it moves a limit of a loop that sums; what more iterations add is unknown."
        yield Clue(Numerics.UNKNOWN, reason, (loop.node,))


def _places(reach: Reach, access: Access) -> Iterator[tuple[Expr, bool]]:
    """Index parts of an access: what counts, and whether it counts pieces of the parameter's
    size."""
    shape = access.shape or reach.facts.types.shape(access.value)
    shape = ("1",) * (len(access.index) - len(shape)) + shape
    for place, index in enumerate(access.index):
        if access.mode is Mode.TILE:
            yield index, reach.in_text(shape[place])
            continue
        for factors, _ in index.terms:
            yield Expr(((factors, 1),)), any(map(reach.is_seed, factors))


def _branches(reach: Reach) -> Iterator[Clue]:
    for node in reach.facts.graph.of(OpKind.IF, OpKind.IF_EXPRESSION):
        if not any(map(reach.rests, node.op.inputs[:1])):
            continue
        sides = [any(map(reach.rounds, walk(region))) for region in node.op.regions]
        stores_only = not any(reach.floats(result.name) for result in node.op.results)
        if any(sides) and not (stores_only and not all(sides)):
            reason = "it decides which of two branches computes, and these round differently."
            yield Clue(Numerics.UNKNOWN, reason, (node,))


def _arithmetic(reach: Reach) -> Iterator[Clue]:
    facts = reach.facts
    for node in facts.graph.of(*ARITHMETIC):
        if not reach.floats(node.result) or facts.types.dtype(node.result) == "?":
            continue
        for value in node.op.inputs:
            known = facts.values.exprs.get(facts.graph.core(value) or "")
            if known is not None and any(_bare(reach, factors) for factors, _ in known.terms):
                yield Clue(Numerics.CHANGES, "its value itself enters the arithmetic.", (node,))


def _bare(reach: Reach, factors: tuple[Atom, ...]) -> bool:
    """The parameter by itself or times other sizes: no position of an element."""
    return any(map(reach.is_seed, factors)) and all(
        atom.kind in (AtomKind.PARAMETER, AtomKind.EXTENT) for atom in factors
    )


def _per_tile(reach: Reach) -> Iterator[Clue]:
    """An array with one element per tile says something else when tiles have another size."""
    rows = [(a, place, sized) for a in reach.facts.accesses for place, sized in _places(reach, a)]
    counters = {
        atom
        for _, place, sized in rows
        if sized
        for atom in place.top()
        if atom.kind in (AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.COUNT)
    }
    for access, place, sized in rows:
        if not sized and counters & set(place.top()) and reach.floats(access.value):
            reason = "an array holds one element per tile; another size means other data."
            yield Clue(Numerics.CHANGES, reason, (access.node,))


def _atomics(reach: Reach) -> Iterator[Clue]:
    found = unordered_adds(reach.facts)
    if found and (reach.used or reach.sets_grid):
        reason = "blocks add up by atomics, and it changes the parts or when they come."
        yield Clue(Numerics.CHANGES, reason, tuple(found))


_RULES: tuple[Callable[[Reach], Iterator[Clue]], ...] = (
    _summed, _contracted, _loops, _atomics, _per_tile, _arithmetic, _branches, _unread,
)  # fmt: skip
