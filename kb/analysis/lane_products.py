"""Products that no matrix unit computes: multiplied lane by lane, then summed over the lanes."""

from __future__ import annotations

from kb.analysis.exponentials import Statistic
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.loops import Loop, Role
from kb.ops import REDUCTIONS, OpKind

_HELD = VIEWS | CASTS


def score_sums(facts: Facts) -> list[Node]:
    """Scores of an attention: sums of products of two loaded tiles, in a loop, that elementwise
    steps turn into exponentials of what they lie below a maximum."""
    if facts.contractions or not facts.exponentials:
        return []
    kept = [e for e in facts.exponentials if e.origin is Statistic.REDUCED and not e.rescale]
    scores = [e.score for e in kept if e.score is not None]
    reached = {
        node
        for score in scores
        for node in facts.graph.upstream(score, lambda n: n.op.kind in REDUCTIONS)
        if node.op.kind == OpKind.REDUCE_SUM and node.loop is not None
    }
    return [n for n in facts.graph.of(OpKind.REDUCE_SUM) if n in reached and factors(facts, n)]


def factors(facts: Facts, total: Node) -> tuple[str, ...]:
    """The two sides of the product that a sum adds up, where both are made of loads."""
    made = facts.graph.producer(facts.graph.core(total.op.inputs[0]))
    if made is None or made.op.kind != OpKind.MUL:
        return ()
    sides = made.op.inputs[:2]
    return sides if all(facts.feeding(side) for side in sides) else ()


def products_summed(facts: Facts) -> list[tuple[Node, Node]]:
    """Products of a matrix and a vector, or of rows with their partners: what multiplies a tile by
    a vector that is spread over one of its axes, and what sums the other axis."""
    return [
        (made, total)
        for total in facts.graph.of(OpKind.REDUCE_SUM)
        for made in _made(facts, total)
        if made.op.kind == OpKind.MUL and _spread(facts, made, total)
    ]


def outer_products(facts: Facts) -> list[tuple[Node, Node]]:
    """Products of a column and a row that a loop adds up, and what adds them: a matrix product
    whose contracted axis is the loop."""
    return [
        (made, step)
        for _, made, step in _multiplied(facts)
        if _across(*(_own(facts, v) for v in made.op.inputs[:2]))
    ]


def weighted_rounds(facts: Facts) -> list[tuple[Node, Node]]:
    """Tiles that a loop loads round by round and adds up, each row times a number that is loaded
    for the row and the round; with what adds them."""
    return [
        (made, step)
        for loop, made, step in _multiplied(facts)
        if all(_moves(facts, loop, v) for v in made.op.inputs[:2])
        and _thinner(*(_own(facts, v) for v in made.op.inputs[:2]))
    ]


def _multiplied(facts: Facts) -> list[tuple[Loop, Node, Node]]:
    """Products that loops add up, and what adds them."""
    added = [
        (loop, step, value)
        for loop in facts.loops
        for carried in loop.of(Role.SUM)
        for step in facts.graph.ends(carried.next, _HELD)
        if step.op.kind == OpKind.ADD
        for value in step.op.inputs[:2]
    ]
    return [
        (loop, made, step)
        for loop, step, value in added
        for made in facts.graph.ends(value, _HELD)
        if made.op.kind == OpKind.MUL
    ]


def _moves(facts: Facts, loop: Loop, value: str) -> bool:
    """Whether a value is a tile that is loaded at another place in every round of a loop."""
    moving = facts.values.expr(loop.induction).atom
    loads = facts.held_loads(value)
    return (
        moving is not None
        and bool(loads)
        and all(any(moving in index.atoms() for index in load.index) for load in loads)
    )


def _thinner(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Whether one side is a tile, and the other fills some of its axes and is spread over the
    rest."""
    counts = [sum(e != "1" for e in shape) for shape in (left, right)]
    pairs = [*zip(left, right, strict=False)]
    one_way = any({pair.index(e) for pair in pairs if len({*pair}) > 1 for e in pair if e == "1"}
                  == {side} for side in (0, 1))  # fmt: skip
    return len(left) == len(right) and 1 <= min(counts) < max(counts) and one_way


def _across(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Whether each side is spread along an axis that the other one fills."""
    if len(left) != len(right):
        return False
    pairs = list(zip(left, right, strict=True))
    return any(a == "1" != b for a, b in pairs) and any(a != "1" == b for a, b in pairs)


def _made(facts: Facts, total: Node) -> list[Node]:
    """What makes the tile that is summed, or is added to it in every round of a loop; below
    factors that are the same for all that is summed."""
    core = facts.graph.core(total.op.inputs[0])
    added = [
        v
        for loop in facts.loops
        for c in loop.of(Role.SUM)
        if c.result == core
        for step in facts.graph.ends(c.next, _HELD)
        if step.op.kind == OpKind.ADD
        for v in step.op.inputs[:2]
    ]
    made = [n for v in (core, *added) for n in facts.graph.ends(v, _HELD)]
    axis = facts.values.literal(total.op.operand("axis"))
    scaled = [
        n
        for m in made
        if m.op.kind == OpKind.MUL
        for value, factor in (m.op.inputs[:2], m.op.inputs[1::-1])
        if _alike(facts, factor, axis)
        for n in facts.graph.ends(value, _HELD)
    ]
    return list(dict.fromkeys((*made, *scaled)))


def _alike(facts: Facts, factor: str, axis: object) -> bool:
    """Whether a factor does not vary along an axis."""
    shape = _own(facts, factor)
    if not isinstance(axis, int) or sum(e != "1" for e in shape) > 1:
        return False
    return not shape or (-len(shape) <= axis < len(shape) and shape[axis] == "1")


def _spread(facts: Facts, product: Node, total: Node) -> bool:
    """One side fills two axes or more, the other fewer, the axis that is summed among them."""
    axis = facts.values.literal(total.op.operand("axis"))
    shapes = [_own(facts, v) for v in product.op.inputs[:2]]
    if not isinstance(axis, int) or any(len(shape) < 2 for shape in shapes):
        return False
    folded = len(facts.types.shape(total.op.inputs[0])) > len(shapes[0])
    if _rows(facts, product, shapes):
        return True
    for full, thin in (shapes, shapes[::-1]):
        wide, narrow = (sum(e != "1" for e in shape) for shape in (full, thin))
        if not 1 <= narrow < wide:
            continue
        if folded:
            return thin[-1] != "1" and axis == len(facts.types.shape(total.op.inputs[0])) - 1
        return thin[axis] != "1" if -len(thin) <= axis < len(thin) else False
    return False


def _rows(facts: Facts, product: Node, shapes: list[tuple[str, ...]]) -> bool:
    """Two tiles of the same shape that different arrays hold: every row times its partner."""
    arrays = [{a.array for a in facts.held_loads(v)} for v in product.op.inputs[:2]]
    wide = all(sum(e != "1" for e in shape) > 1 for shape in shapes)
    return wide and all(arrays) and not arrays[0] & arrays[1]


def _own(facts: Facts, value: str) -> tuple[str, ...]:
    """The shape of a value before it is spread to that of another one."""
    below = facts.graph.through(value, CASTS | {OpKind.COPY, OpKind.BROADCAST_TO})
    return facts.types.shape(below)
