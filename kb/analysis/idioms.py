"""Shapes of dataflow that several patterns speak of: masks, stationary operands, saved statistics,
row axes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from kb.analysis import symbolic
from kb.analysis.accesses import Access
from kb.analysis.exponentials import Statistic
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, LOOPS, TURNS, VIEWS, Graph, Node
from kb.analysis.stages import of_elements
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.ops import COMPARISONS, CONTRACTIONS, EFFECT, OpKind

_LOGIC = VIEWS | CASTS | {
    OpKind.AND, OpKind.OR, OpKind.BIT_AND, OpKind.BIT_OR, OpKind.NOT, OpKind.BIT_NOT, OpKind.IF,
    OpKind.IF_EXPRESSION, OpKind.FULL, OpKind.ONES, OpKind.MUL, OpKind.SELECT,
}  # fmt: skip
LARGE = 1e3
"""A negative number below minus this stands for minus infinity in a mask."""


class Applied(StrEnum):
    """How a mask acts."""

    ADDED = "added"
    SELECTED = "selected"
    ZEROED = "zeroed"


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """A select under a mask; `fill` is the number in masked places, `combined` the addition that
    applies it."""

    node: Node
    applied: Applied
    fill: float
    combined: Node | None
    comparisons: tuple[Node, ...]


def comparisons(facts: Facts, condition: str | None) -> tuple[Node, ...]:
    """The comparisons that a boolean value is made of."""
    if condition is None:
        return ()
    return tuple(
        node
        for node in facts.graph.upstream(condition, lambda n: n.op.kind not in _LOGIC)
        if node.op.kind in COMPARISONS
    )


def sides(facts: Facts, comparison: Node) -> tuple[Expr, Expr]:
    """Integer meaning of the two sides of a comparison."""
    left, right = comparison.op.inputs[:2]
    return facts.values.expr(left), facts.values.expr(right)


def between_lanes(facts: Facts, comparison: Node) -> bool:
    """True when positions of two axes are compared, as a causal mask does."""
    left, right = sides(facts, comparison)
    return left.has(AtomKind.LANE) and right.has(AtomKind.LANE)


def _walked(facts: Facts, comparison: Node) -> bool:
    """True when positions of one axis are compared with where a loop is along another."""
    return any(
        own.has(AtomKind.LANE)
        and not own.has(AtomKind.INDUCTION)
        and other.has(AtomKind.INDUCTION)
        and not other.has(AtomKind.LANE)
        for own, other in zip(sides(facts, comparison), sides(facts, comparison)[::-1], strict=True)
    )


def against_extent(facts: Facts, comparison: Node) -> bool:
    """True when positions of one axis are held below something that has no lanes, as a tail mask
    does; not where positions or threads are picked out, nor of how far two axes are apart, nor
    where every lane is below."""
    if comparison.op.kind in (OpKind.EQ, OpKind.NE):
        return False
    held = sides(facts, comparison)
    counted = [side for side in held if side.has(AtomKind.LANE)]
    if facts.of_threads and any(side.constant for side in held):
        counted = [s for s in counted if s.has(AtomKind.BLOCK, AtomKind.INDUCTION)]
    signs = {n > 0 for s in counted for f, n in s.terms if any(a.kind is AtomKind.LANE for a in f)}
    return len(counted) == 1 and len(signs) < 2 and not _all_lanes(facts, comparison)


def _all_lanes(facts: Facts, comparison: Node) -> bool:
    """Lanes held below how many there are: nothing is left out."""
    left, right = comparison.op.inputs[:2]
    for lanes, bound in ((left, right), (right, left)):
        counted = facts.graph.producer(facts.graph.core(lanes))
        if counted is None or counted.op.kind != OpKind.ARANGE:
            continue
        size, literal = counted.op.operand("size") or "", facts.values.literal(bound)
        same = literal is not None and facts.values.literal(size) == literal
        if same or size in (bound, facts.graph.core(bound)):
            return True
    return False


def masks(facts: Facts) -> list[Mask]:
    """Masks on scores, probabilities and products: selects whose result reaches an exponential or
    comes from one, or that zero one side of the diagonal of a product."""
    found = []
    for node in facts.graph.of(OpKind.SELECT):
        mask = _mask(facts, node)
        if mask is not None:
            found.append(mask)
    return found


def _mask(facts: Facts, node: Node) -> Mask | None:
    compared = comparisons(facts, node.op.operand("condition"))
    if not any(_positional(facts, c) for c in compared):
        return None
    x, y = node.op.operand("x"), node.op.operand("y")
    numbers = [facts.values.literal(facts.graph.plain(side)) for side in (x, y)]
    pairs = zip(numbers, (x, y), strict=True)
    filled = [_filled(facts, side) if n is None else n for n, side in pairs]
    if all(isinstance(n, int | float) for n in filled):
        low = min(float(n) for n in filled if isinstance(n, int | float))
        combined = _added(facts, node)
        if low <= -LARGE and combined is not None and _scores(facts, node.result):
            return Mask(node, Applied.ADDED, low, combined, compared)
        return None
    for number, kept in ((filled[1], x), (filled[0], y)):
        if not isinstance(number, int | float):
            continue
        if number <= -LARGE and (_scores(facts, node.result) or _product(facts, kept)):
            return Mask(node, Applied.SELECTED, float(number), None, compared)
        causal = any(between_lanes(facts, c) or _walked(facts, c) for c in compared)
        if number == 0 and _picked(facts, node, compared):
            continue
        whole = causal and (_product(facts, kept) or _operand(facts, kept, node))
        padded = not facts.score_products and all(against_extent(facts, c) for c in compared)
        if number == 0 and (whole or (_probability(facts, kept) and not padded)):
            return Mask(node, Applied.ZEROED, 0.0, None, compared)
    return None


def _picked(facts: Facts, node: Node, compared: tuple[Node, ...]) -> bool:
    """True where one element is chosen, or the diagonal, which is then summed up."""
    summed = {user.op.kind for user in facts.graph.users(node.result)} == {OpKind.REDUCE_SUM}
    return all(c.op.kind == OpKind.EQ and (summed or not between_lanes(facts, c)) for c in compared)


def _filled(facts: Facts, value: str | None) -> object:
    """The number that a constant tile holds; a compile-time parameter is one that leaves out."""
    plain = facts.graph.plain(value)
    node = facts.graph.producer(plain)
    if node is None:
        return -LARGE if plain in facts.constexprs else None
    if node.op.kind in (OpKind.ZEROS, OpKind.ZEROS_LIKE):
        return 0.0
    return facts.values.literal(node.op.operand("value")) if node.op.kind == OpKind.FULL else None


def _positional(facts: Facts, comparison: Node) -> bool:
    """True when a side has a place of its own for every lane: by its number, or looked up."""
    return any(
        side.has(AtomKind.LANE)
        or any(a.value in facts.offset_loads and facts.types.shape(a.value) for a in side.atoms())
        for side in sides(facts, comparison)
    )


def _added(facts: Facts, node: Node) -> Node | None:
    """The addition, or the product with this as third operand, that takes a bias tile in."""
    pending = [node.result]
    for value in pending:
        for user in facts.graph.users(value):
            if user.op.kind in (OpKind.ADD, OpKind.FMA) or user.op.kind in CONTRACTIONS:
                return user
            if user.op.kind in VIEWS | CASTS | {OpKind.MUL} and len(pending) < 8:
                pending.append(user.result)
    return None


def _scores(facts: Facts, value: str) -> bool:
    node = facts.graph.producer(value)
    return node is not None and any(facts.graph.rests_on(e.score, node) for e in facts.exponentials)


def _probability(facts: Facts, value: str | None) -> bool:
    """True when a value is an exponential, perhaps scaled."""
    if value is None:
        return False
    through = VIEWS | CASTS | {OpKind.MUL, OpKind.DIV, OpKind.IF, OpKind.SELECT}
    return any(
        n.op.kind in (OpKind.EXP, OpKind.EXP2)
        for n in facts.graph.upstream(value, lambda n: n.op.kind not in through)
    )


def _product(facts: Facts, value: str | None) -> bool:
    """True for a matrix product, perhaps scaled or added up in a loop, where no exponential is
    taken of scores."""
    if value is None or facts.score_products:
        return False
    through = VIEWS | CASTS | LOOPS | {OpKind.MUL, OpKind.ADD, OpKind.IF}
    nodes = facts.graph.upstream(value, lambda n: n.op.kind not in through)
    return any(n.op.kind in CONTRACTIONS for n in nodes)


def _operand(facts: Facts, kept: str | None, chosen: Node) -> bool:
    """True for a loaded tile of which one side of the diagonal goes into a product."""
    if not facts.contractions or facts.score_products or not facts.held_loads(kept):
        return False
    ends = [
        end
        for product in facts.contractions
        for role in ("lhs", "rhs")
        for end in facts.graph.ends(product.op.operand(role), VIEWS | CASTS | TURNS)
    ]
    return chosen in ends


def is_infinite(number: float) -> bool:
    """True for minus infinity."""
    return math.isinf(number)


# -- attention


def recomputed(facts: Facts) -> list[Node]:
    """Exponentials of a score minus a statistic that was loaded: probabilities rebuilt in a
    backward pass."""
    return [
        e.node
        for e in facts.exponentials
        if e.origin is Statistic.LOADED
        and e.score is not None
        and (
            facts.graph.roots(e.score, *CONTRACTIONS)
            or (
                not facts.contractions
                and is_wide(facts, e.score)
                and not is_wide(facts, e.statistic)
                and not summed_up(facts, e.node)
            )
        )
    ]


def summed_up(facts: Facts, power: Node) -> bool:
    """Whether exponentials are summed as they are: numbers that a sum normalises later, no
    probabilities."""
    return any(
        r.op.kind == OpKind.REDUCE_SUM and same_tile(facts, r.op.inputs[0], power)
        for r in facts.reductions
    )


def same_tile(facts: Facts, value: str, node: Node) -> bool:
    """Whether a value is what an operation gave, seen, cast or masked."""
    kinds = VIEWS | CASTS | {OpKind.SELECT}
    return any(n is node for n in facts.graph.upstream(value, lambda n: n.op.kind not in kinds))


def is_wide(facts: Facts, value: str | None) -> bool:
    """True for a value with lanes."""
    return value is not None and any(extent != "1" for extent in facts.types.shape(value))


def statistic_axis(facts: Facts, product: Node) -> int | None:
    """0 when the statistic of a score tile belongs to its rows, 1 when to its columns; None when
    unknown."""
    for e in facts.exponentials:
        if e.rescale or not facts.graph.rests_on(e.score, product):
            continue
        shape = facts.types.shape(e.statistic)
        if len(shape) >= 2 and (shape[-1] == "1") != (shape[-2] == "1"):
            return 0 if shape[-1] == "1" else 1
        largest = facts.graph.roots(e.statistic, OpKind.REDUCE_MAX)
        # A choice around the difference hides the statistic.
        every = [] if largest else facts.graph.roots(e.node.result, OpKind.REDUCE_MAX)
        largest += [n for n in every if facts.graph.rests_on(n.op.inputs[0], product)]
        for node in largest:
            axis = facts.values.literal(node.op.operand("axis"))
            if isinstance(axis, int):
                return 0 if axis in (1, -1) else 1
    return None


def queries_first(facts: Facts, product: Node) -> bool | None:
    """True when the left operand of a score product holds the queries, the side that the statistic
    belongs to."""
    axis = statistic_axis(facts, product)
    return None if axis is None else axis == 0


def begun(facts: Facts, value: str) -> str:
    """What a carried value begins with, through the loops around and those before, and through
    branches whose sides begin with the same."""
    for _ in range(8):
        before = _before(facts, value)
        if before is None:
            break
        value = before
    return value


def _before(facts: Facts, value: str, depth: int = 4) -> str | None:
    """What a carried value was one loop or branch earlier; None when neither hands it on."""
    held, made = facts.graph.arguments.get(value), facts.graph.producer(value)
    if held is not None:
        loop, position = held[0], held[2] - (1 if held[0].op.kind == OpKind.FOR else 0)
    elif made is not None and made.op.kind in LOOPS:
        loop, position = made, [result.name for result in made.op.results].index(value)
    elif made is not None and made.op.kind == OpKind.IF and depth:
        ends = [*facts.graph.feeds(value)]
        ends += [b for e in ends if (b := _before(facts, e, depth - 1)) is not None]
        shared = [e for e in dict.fromkeys(ends) if ends.count(e) > 1]
        return shared[0] if shared else None
    else:
        return None
    starts = facts.graph.inits(loop)
    return starts[position] if 0 <= position < len(starts) else None


def partial_reductions(facts: Facts) -> list[Node]:
    """Reductions of an axis that the blocks share out, where nothing but what they give is stored,
    perhaps beside running totals: a second stage must combine what the blocks found."""
    scans = facts.graph.of(OpKind.CUMSUM, OpKind.CUMPROD, OpKind.SCAN)
    wide = any(
        is_wide(facts, store.value) and not any(facts.graph.rests_on(store.value, n) for n in scans)
        for store in facts.stores
    )
    if wide or facts.contractions or not facts.stores:
        return []
    found = [
        node
        for node in facts.reductions
        if not is_wide(facts, node.result)
        and any(facts.graph.rests_on(store.value, node) for store in facts.stores)
        and (
            any(_shared_out(a) for a in facts.feeding(node.op.inputs[0]))
            or _over_own_part(facts, node)
        )
    ]
    return [] if found and any(of_elements(facts, s, found) for s in facts.stores) else found


def _over_own_part(facts: Facts, reduction: Node) -> bool:
    """True for a reduction in a loop that goes over the part of an axis that the block id cuts out,
    where only what the whole loop gave is stored."""
    loop = facts.loop(reduction.loop)
    if loop is None or any(a.node.inside(loop.node) for a in facts.stores):
        return False
    ends = [facts.values.expr(v) for v in (loop.low, loop.high) if v is not None]
    cut = any(e.has(AtomKind.BLOCK) and e.has(AtomKind.MINIMUM) for e in ends)
    return cut and not any(e.has(AtomKind.LOADED) for e in ends)


def _shared_out(access: Access) -> bool:
    """True when a block id goes on by as many elements as the tile has lanes."""
    return any(
        block in index.terms
        for index in access.index
        for factors, number in index.terms
        for lane in factors
        if lane.kind is AtomKind.LANE
        for block in _steps(index, lane, factors, number)
    )


def _steps(
    index: Expr, lane: Atom, factors: tuple[Atom, ...], number: int
) -> Iterator[tuple[tuple[Atom, ...], int]]:
    """The terms in which a block id counts tiles of a lane's extent."""
    stride = tuple(atom for atom in factors if atom is not lane)
    for block in {atom for atom in index.top() if atom.kind is AtomKind.BLOCK}:
        for size, times in lane.args[0].terms:
            yield from symbolic.make([((*stride, *size, block), number * times)]).terms


def alike(graph: Graph, one: str, other: str, depth: int = 6) -> bool:
    """True when two values are computed in the same way from the same values."""
    if one == other:
        return True
    left, right = graph.producer(one), graph.producer(other)
    if left is None or right is None or depth < 0 or left.op.kind in EFFECT:
        return False
    a, b = left.op, right.op
    if a.regions or b.regions or len(a.results) != 1 or len(a.operands) != len(b.operands):
        return False
    return (a.kind, a.attributes) == (b.kind, b.attributes) and all(
        role == other_role and alike(graph, value, other_value, depth - 1)
        for (role, value), (other_role, other_value) in zip(a.operands, b.operands, strict=True)
    )
