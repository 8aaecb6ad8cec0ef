"""Exponentials taken apart: exp(score * scale - statistic), where the statistic is a running
maximum or a loaded row."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kb.analysis.carried_sums import accumulating
from kb.analysis.graph import CASTS, VIEWS, Graph, Node
from kb.analysis.values import Values
from kb.ir import Literal
from kb.ops import COMPARISONS, CONTRACTIONS, READS, OpKind

_LOOKS = VIEWS | CASTS
_DIFFERENCES = (OpKind.SUB, OpKind.FMA)


class Statistic(StrEnum):
    """Where the number that an exponential subtracts comes from."""

    REDUCED = "reduced"
    LOADED = "loaded"
    OTHER = "other"
    NONE = "none"


@dataclass(frozen=True, slots=True, eq=False)
class Exponential:
    """exp or exp2 of `score * scale - statistic`; one for each side of a branch that makes it.

    `product` is the multiplication by `scale` when it stands right below the subtraction.
    `rescale` is true for the factor between two states of a running maximum.
    """

    node: Node
    base2: bool
    score: str | None
    scale: str | None
    product: Node | None
    difference: Node | None
    statistic: str | None
    origin: Statistic
    rescale: bool


def exponentials_of(graph: Graph, values: Values) -> tuple[Exponential, ...]:
    """Every exponential in program order."""
    return tuple(
        _read(graph, values, node, argument)
        for node in graph.of(OpKind.EXP, OpKind.EXP2)
        for argument in _arguments(graph, node)
    )


def _arguments(graph: Graph, node: Node) -> list[str | None]:
    """What is raised; the two sides of a branch when each subtracts by itself."""
    argument = graph.through(node.op.inputs[0], _LOOKS)
    if argument is not None and graph.kind_of(argument) == OpKind.IF:
        ends = [graph.through(value, _LOOKS) for value in graph.feeds(argument)]
        if len(ends) > 1 and all(graph.kind_of(end) in _DIFFERENCES for end in ends):
            return ends
    return [argument]


def _read(graph: Graph, values: Values, node: Node, argument: str | None) -> Exponential:
    argument = _unclamped(graph, values, argument)
    outer, argument = _factor(graph, values, argument)
    difference, score, statistic = _difference(graph, argument)
    statistic = _unfilled(graph, values, statistic)
    product, scale = outer, None
    inner = graph.producer(score)
    if inner is not None and inner.op.kind == OpKind.MUL and product is None:
        product = inner
    if product is not None:
        score_side, scale = _sides(graph, values, product)
        if product is inner:
            score = score_side
    origin = _origin(graph, statistic)
    if _overtaken(graph, score, statistic):
        origin = Statistic.REDUCED
    rescale = origin is Statistic.REDUCED and _is_state(graph, score)
    if rescale and difference is not None and _element(graph, difference.op.inputs[0]):
        rescale = False
    return Exponential(
        node,
        node.op.kind == OpKind.EXP2,
        score,
        scale,
        product,
        difference,
        statistic,
        origin,
        rescale,
    )


def _unclamped(graph: Graph, values: Values, value: str | None) -> str | None:
    """A value below a maximum with minus infinity, which changes no number, or below a choice of
    minus infinity in its place."""
    node = graph.producer(value)
    if node is None or node.op.kind not in (OpKind.MAXIMUM, OpKind.SELECT):
        return value
    left, right = node.op.inputs[-2:]
    for this, other in ((left, right), (right, left)):
        below = graph.through(this, _LOOKS)
        if values.literal(other) == float("-inf") and (
            node.op.kind == OpKind.MAXIMUM or graph.kind_of(below) in _DIFFERENCES
        ):
            return below
    return value


def _unfilled(graph: Graph, values: Values, statistic: str | None) -> str | None:
    """A statistic below a choice of infinity in its place, and below its broadcast."""
    node = graph.producer(statistic)
    while node is not None and node.op.kind in (OpKind.SELECT, OpKind.BROADCAST_TO):
        sides = node.op.inputs[-2:] if node.op.kind == OpKind.SELECT else node.op.inputs[:1]
        kept = [v for v in sides if values.literal(v) not in (float("inf"), float("-inf"))]
        if len(kept) != 1:
            break
        statistic = kept[0]
        node = graph.producer(statistic)
    return statistic


def _factor(graph: Graph, values: Values, value: str | None) -> tuple[Node | None, str | None]:
    """The scalar multiplication right below the exponential, and what it multiplies."""
    node = graph.producer(value)
    if node is None or node.op.kind != OpKind.MUL:
        return None, value
    for this, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
        below = graph.producer(graph.through(this, _LOOKS))
        if (
            below is not None
            and below.op.kind == OpKind.SUB
            and (_plain(graph, values, other) or _before(graph, other, node))
        ):
            return node, below.result
    return None, value


def _plain(graph: Graph, values: Values, value: str) -> bool:
    """True for a number or a scalar parameter, perhaps a product of those."""
    return not graph.roots(value, *READS, *CONTRACTIONS, OpKind.ARANGE)


def _before(graph: Graph, value: str, node: Node) -> bool:
    """True in a loop for a number that was loaded before all loops."""
    if not node.loops or graph.roots(value, *CONTRACTIONS):
        return False
    return not any(read.loops for read in graph.roots(value, *READS))


def _difference(graph: Graph, value: str | None) -> tuple[Node | None, str | None, str | None]:
    node = graph.producer(value)
    if node is None:
        return None, value, None
    if node.op.kind == OpKind.SUB:
        return node, graph.through(node.op.inputs[0], _LOOKS), node.op.inputs[1]
    if node.op.kind == OpKind.FMA:
        return node, value, node.op.inputs[2]
    if node.op.kind == OpKind.ADD:
        for this, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
            if _negated(graph, other) and not _negated(graph, this):
                return node, graph.through(this, _LOOKS), other
    return None, value, None


def _negated(graph: Graph, value: str) -> bool:
    """True for a value with its sign turned, perhaps times a number."""
    made = graph.producer(graph.through(value, _LOOKS))
    if made is None or made.op.kind != OpKind.MUL:
        return made is not None and made.op.kind == OpKind.NEG
    return any(graph.kind_of(graph.through(v, _LOOKS)) == OpKind.NEG for v in made.op.inputs[:2])


def _sides(graph: Graph, values: Values, product: Node) -> tuple[str | None, str | None]:
    """Of a product, the side that is computed from memory or a matrix product, and the other."""
    left, right = product.op.inputs[:2]
    products = [bool(graph.roots(side, *CONTRACTIONS)) for side in (left, right)]
    plain = _plain(graph, values, left) and not _plain(graph, values, right)
    if plain or products == [False, True]:
        left, right = right, left
    return graph.through(left, _LOOKS), right


def _is_state(graph: Graph, value: str | None, depth: int = 4) -> bool:
    """True for a carried value, the outcome of a loop other than a sum of products, a maximum, or
    a choice of those: no score."""
    value = graph.through(value, _LOOKS)
    made = graph.kind_of(value)
    states = (OpKind.MAXIMUM, OpKind.REDUCE_MAX, OpKind.FOR, OpKind.WHILE)
    node = graph.producer(value)
    if node is not None and made == OpKind.SELECT and depth:
        return all(_is_state(graph, side, depth - 1) for side in node.op.inputs[1:])
    if node is not None and made == OpKind.FOR and _of_products(graph, node, value):
        return False
    return made in states or (value is not None and value in graph.arguments)


def _of_products(graph: Graph, loop: Node, value: str | None) -> bool:
    """Whether a loop adds products up to a value, or goes over the elements of a product."""
    arguments, ends = loop.op.regions[-1].arguments[1:], graph.handed(loop)
    rows = zip(loop.op.results, arguments, ends, graph.inits(loop), strict=False)
    return any(
        result.name == value
        and (
            accumulating(graph, argument.name, end) is not None
            or (graph.kind_of(graph.core(begun)) in CONTRACTIONS and not maxima(graph, end))
        )
        for result, argument, end, begun in rows
    )


def _overtaken(graph: Graph, score: str | None, statistic: str | None) -> bool:
    """True for a carried state less a number that a choice of the greater one puts in its place:
    the new maximum."""
    state, top = graph.core(score), graph.core(statistic)
    if state not in graph.arguments or top is None:
        return False
    return any(
        user.op.kind == OpKind.SELECT
        and {graph.core(v) for v in user.op.inputs[1:3]} == {state, top}
        and _chooses_greater(graph, user)
        for user in graph.users(top)
    )


_NO_MAXIMA = READS | COMPARISONS | {OpKind.EXP, OpKind.EXP2}
"""Above these, a maximum is of places or of what was raised, not of the scores."""


def _element(graph: Graph, value: str) -> bool:
    """True for an element of an array in registers that starts undefined, and that no maximum went
    into."""
    held = graph.producer(graph.through(value, CASTS))
    if held is None or held.op.kind not in (OpKind.EXTRACT, OpKind.COPY):
        return False
    above = graph.upstream(held.op.inputs[0], lambda n: n.op.kind in _NO_MAXIMA)
    made = {n.op.kind for n in above}
    return OpKind.UNDEF in made and not made & {OpKind.MAXIMUM, OpKind.REDUCE_MAX}


def _origin(graph: Graph, statistic: str | None) -> Statistic:
    if statistic is None:
        return Statistic.NONE
    reduced = [*graph.roots(statistic, OpKind.REDUCE_MAX), *maxima(graph, statistic)]
    if reduced:
        # A maximum that only says where something is loaded reduces nothing.
        if graph.made_from([statistic], reduced, lambda n: n.op.kind in READS):
            return Statistic.REDUCED
    if _handed_in(graph, statistic) and not graph.roots(statistic, *CONTRACTIONS):
        return Statistic.LOADED
    return Statistic.OTHER


def _handed_in(graph: Graph, statistic: str) -> bool:
    """True for a number out of an array: not one that the block left in shared memory."""
    reads = graph.upstream(statistic, lambda n: n.op.kind in READS)
    return any(n.op.kind in READS and n.op.attribute("space") != "shared" for n in reads)


def maxima(graph: Graph, value: str | None) -> list[Node]:
    """Greater ones of two values that a value is computed from; also where a test chooses them."""
    chosen = [n for n in graph.roots(value, OpKind.SELECT) if _chooses_greater(graph, n)]
    return [*graph.roots(value, OpKind.MAXIMUM), *chosen]


def _chooses_greater(graph: Graph, node: Node) -> bool:
    """`a if a > b else b`, for two values."""
    test = graph.producer(graph.core(node.op.operand("condition")))
    if test is None or test.op.kind not in (OpKind.GT, OpKind.GE, OpKind.LT, OpKind.LE):
        return False
    sides = [graph.core(v) for v in test.op.inputs[:2]]
    if test.op.kind in (OpKind.LT, OpKind.LE):
        sides.reverse()
    return [graph.core(v) for v in node.op.inputs[1:3]] == sides and sides[0] != sides[1]


def is_log2e(literal: Literal) -> bool:
    """True for log2(e), the factor that turns a natural exponent into one of base two."""
    return isinstance(literal, float) and abs(abs(literal) - 1.4426950408889634) < 1e-3
