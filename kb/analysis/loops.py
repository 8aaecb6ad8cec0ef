"""Loops of a program: bounds, and what each carried value is for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kb.analysis import symbolic as s
from kb.analysis.beside_block import beside_block
from kb.analysis.butterflies import mirrored
from kb.analysis.carried_sums import accumulating, leading, leads, left_over, scaled
from kb.analysis.graph import CASTS, VIEWS, Graph, Node
from kb.analysis.symbolic import AtomKind, Expr
from kb.analysis.values import Values
from kb.ops import OpKind

_ABOVE: dict[str, int] = {OpKind.GT: 1, OpKind.GE: 1, OpKind.LT: -1, OpKind.LE: -1}
"""1 where a comparison holds when its left side is the larger, -1 where its right side is."""
_ELEMENTWISE = VIEWS | CASTS | {OpKind.MUL, OpKind.DIV, OpKind.SELECT, OpKind.IF, OpKind.FMA}
_PLACING = frozenset({OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.CONST, OpKind.POINTER_CAST})
_DIVIDED = (AtomKind.CEIL_DIV, AtomKind.FLOOR_DIV)
_HANDED_ON = VIEWS | CASTS | {OpKind.SELECT, OpKind.IF}


class Role(StrEnum):
    """What a carried value is for."""

    ACCUMULATOR = "accumulator"
    RUNNING_MAXIMUM = "running maximum"
    RUNNING_MINIMUM = "running minimum"
    RUNNING_SUM = "running sum"
    SUM = "sum"
    COUNTER = "counter"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Carried:
    """A carried value: before the loop, at the start and at the end of an iteration, and after the
    loop."""

    init: str
    argument: str
    next: str
    result: str
    role: Role


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """A loop; `low`, `high`, `step` are values, None for a while loop or an unknown iterable."""

    node: Node
    induction: str | None
    low: str | None
    high: str | None
    step: str | None
    carried: tuple[Carried, ...]
    range: Node | None

    def of(self, *roles: Role) -> list[Carried]:
        """Carried values of the given roles."""
        return [carried for carried in self.carried if carried.role in roles]


def loops_of(graph: Graph, values: Values) -> tuple[Loop, ...]:
    """Every loop in program order."""
    return tuple(_loop(graph, values, node) for node in graph.of(OpKind.FOR, OpKind.WHILE))


def _loop(graph: Graph, values: Values, node: Node) -> Loop:
    body = node.op.regions[-1]
    counted = node.op.kind == OpKind.FOR
    induction = body.arguments[0].name if counted and body.arguments else None
    arguments = body.arguments[1:] if counted else body.arguments
    inits, ends = graph.inits(node), graph.handed(node)
    carried = tuple(
        Carried(init, a.name, next_, result.name, _role(graph, values, a.name, next_))
        for init, a, next_, result in zip(inits, arguments, ends, node.op.results, strict=False)
        if not (counted and left_over(graph, init, a.name))
    )
    low, high, step, made = bounds(graph, node) if counted else (None, None, None, None)
    return Loop(node, induction, low, high, step, carried, made)


def bounds(graph: Graph, node: Node) -> tuple[str | None, str | None, str | None, Node | None]:
    """`range(n)` has its only bound in the place of the low one."""
    made = graph.producer(graph.through(node.op.inputs[0], VIEWS))
    while made is not None and made.op.kind == OpKind.STATIC_ITERATE:
        made = graph.producer(made.op.inputs[0])
    if made is None or made.op.kind not in (OpKind.RANGE, OpKind.STATIC_RANGE):
        return None, None, None, None
    low, high, step = (made.op.operand(role) for role in ("low", "high", "step"))
    if high is None:
        low, high = None, low
    return low, high, step, made


def _role(graph: Graph, values: Values, argument: str, next_: str) -> Role:
    if argument in values.increments:
        given = [a for a in values.increments[argument].atoms() if a.value not in values.sizes]
        if not any(a.kind in (AtomKind.LOADED, AtomKind.OPAQUE) for a in given):
            return Role.COUNTER
    if _extends(graph, argument, next_):
        return Role.RUNNING_MAXIMUM
    if _contracts_into(graph, argument, next_):
        return Role.ACCUMULATOR
    kind = _sums(graph, argument, next_)
    if kind is Role.SUM and _moves_on(graph, values, argument, next_):
        return Role.OTHER
    return kind or _of_inner(graph, values, argument, next_) or Role.OTHER


def _of_inner(graph: Graph, values: Values, argument: str, next_: str) -> Role | None:
    """The role of what an inner loop goes on with, where it begins with the argument: itself, or
    of a sum its product with a factor."""
    inner = graph.producer(graph.core(next_))
    if inner is None or inner.op.kind != OpKind.FOR:
        return None
    place = [r.name for r in inner.op.results].index(graph.core(next_) or "")
    own, end = inner.op.regions[-1].arguments[1:][place].name, graph.handed(inner)[place:][:1]
    start = graph.inits(inner)[place]
    role = _role(graph, values, own, end[0]) if end else Role.OTHER
    if role is Role.RUNNING_MAXIMUM and graph.core(start) == argument:
        return role
    if role in (Role.SUM, Role.RUNNING_SUM):
        factor = scaled(graph, start, argument)
        if factor is not None:
            return Role.RUNNING_SUM if factor else role
    return None


def _moves_on(graph: Graph, values: Values, argument: str, next_: str) -> bool:
    """True for a place that moves on by a step, as where a branch moves a pointer."""
    way = graph.upstream(next_, lambda n: n.op.kind not in _HANDED_ON)
    added = [n.op.inputs[:2] for n in way if n.op.kind == OpKind.ADD]
    own = [[scaled(graph, v, argument) is not None for v in sides] for sides in added]
    steps = [
        v
        for sides, kept in zip(added, own, strict=True)
        for v, mine in zip(sides, kept, strict=True)
        if any(kept) and not mine
    ]
    unknown = (AtomKind.LOADED, AtomKind.OPAQUE)
    return bool(steps) and not any(values.expr(v).has(*unknown) for v in steps)


def grower(graph: Graph, value: str) -> Node | None:
    """The operation that makes a carried value; of what an inner loop goes on with, the one in
    that loop."""
    made = graph.producer(value)
    while made is not None and made.op.kind == OpKind.FOR:
        place = [r.name for r in made.op.results].index(value)
        end = graph.handed(made)[place:][:1]
        if not end or (inner := graph.producer(end[0])) is None:
            break
        made, value = inner, end[0]
    return made


def updates(graph: Graph, argument: str, next_: str) -> list[Node]:
    """Operations on the way from a carried argument to its next value, last first."""
    found: dict[Node, None] = {}
    led = leading(graph, argument, next_)
    pending, seen = [next_], {next_}
    for current in pending:
        if current not in led:
            continue
        if (node := graph.producer(current)) is not None:
            found[node] = None
        for feed in graph.feeds(current):
            if feed not in seen:
                seen.add(feed)
                pending.append(feed)
    return list(found)


def _contracts_into(graph: Graph, argument: str, next_: str) -> bool:
    if accumulating(graph, argument, next_) is not None:
        return True
    held = graph.arguments.get(argument)
    inner = graph.producer(next_)
    if held is None or inner is None or inner.op.kind not in (OpKind.FOR, OpKind.WHILE):
        return False
    position = next(i for i, r in enumerate(inner.op.results) if r.name == next_)
    offset = 1 if inner.op.kind == OpKind.FOR else 0
    names = inner.op.regions[-1].arguments[offset:]
    ends = graph.handed(inner)
    if position >= len(names) or position >= len(ends):
        return False
    starts = graph.inits(inner)[position] == argument
    return starts and accumulating(graph, names[position].name, ends[position]) is not None


def takes_least(graph: Graph, argument: str, next_: str) -> bool:
    """next = minimum(argument, something)."""
    return _extends(graph, argument, next_, OpKind.MINIMUM)


def _extends(graph: Graph, argument: str, next_: str, extreme: OpKind = OpKind.MAXIMUM) -> bool:
    """next = maximum(argument, something), of several values or lanes too, possibly guarded by a
    select; or the one of the two that a comparison of them finds larger."""
    way = _HANDED_ON | {extreme, OpKind(f"reduce_{extreme[:3]}")}
    for node in graph.upstream(
        next_, lambda n: n.op.kind not in way and n.result not in graph.alone
    ):
        if node.op.kind == extreme and argument in map(graph.core, node.op.inputs[:2]):
            return True
        if any(_chosen(graph, node, argument, extreme, ends) for ends in _choices(graph, node)):
            return True
    return False


def _choices(graph: Graph, node: Node) -> list[list[str | None]]:
    """What a select, or a branch, gives where its condition holds and where it does not; a pair for
    every result."""
    if node.op.kind == OpKind.SELECT:
        return [[graph.core(node.op.operand(role)) for role in ("x", "y")]]
    if node.op.kind != OpKind.IF or len(node.op.regions) != 2:
        return []
    pairs = zip(graph.handed(node, 0), graph.handed(node, 1), strict=False)
    return [[graph.core(one) for one in pair] for pair in pairs]


def _chosen(
    graph: Graph, node: Node, argument: str, extreme: OpKind, ends: list[str | None]
) -> bool:
    """A choice of the larger, or the smaller, of an argument and another value."""
    given = node.op.operand("condition")
    test = graph.producer(graph.core(given))
    if argument not in ends or test is None or test.op.kind not in _ABOVE:
        return False
    sides = [graph.core(v) for v in test.op.inputs[:2]]
    larger_first = _ABOVE[test.op.kind] > 0
    order = sides if larger_first is (extreme == OpKind.MAXIMUM) else sides[::-1]
    return all(_same(graph, one, other) for one, other in zip(ends, order, strict=True))


def _same(graph: Graph, one: str | None, other: str | None, depth: int = 4) -> bool:
    """True for one value, and for two loads of one place with no store between them."""
    if one == other:
        return True
    made, its = graph.producer(one), graph.producer(other)
    if made is None or its is None or made.op.kind != its.op.kind or not depth:
        return False
    if made.op.kind == OpKind.LOAD:
        first, last = sorted((made.index, its.index))
        stored = any(first < store.index < last for store in graph.of(OpKind.STORE))
        place, other_place = (n.op.operand("pointer") for n in (made, its))
        return not stored and _same(graph, place, other_place, depth - 1)
    if made.op.kind not in _PLACING or made.op.attributes != its.op.attributes:
        return False
    pairs = list(zip(made.op.inputs, its.op.inputs, strict=False))
    alike = len(made.op.inputs) == len(its.op.inputs)
    return alike and all(_same(graph, a, b, depth - 1) for a, b in pairs)


def _sums(graph: Graph, argument: str, next_: str) -> Role | None:
    """next = argument * factor + something is a rescaled sum; without a factor a plain one. A
    choice of a sum or a difference is a step of a butterfly."""
    stops = _HANDED_ON | {OpKind.ADD}
    for node in graph.upstream(
        next_, lambda n: n.op.kind not in stops and n.result not in graph.alone
    ):
        if node.op.kind == OpKind.SELECT and mirrored(graph, node):
            return None
        if node.op.kind == OpKind.FMA:
            if graph.core(node.op.inputs[2]) == argument:
                return Role.SUM
            return Role.RUNNING_SUM if leads(graph, node.result, argument) else None
        if node.op.kind != OpKind.ADD:
            continue
        for value in node.op.inputs[:2]:
            factor = scaled(graph, value, argument)
            if factor is not None:
                return Role.RUNNING_SUM if factor else Role.SUM
    return None


def persistent(loop: Loop, values: Values) -> bool:
    """True when a loop, or a counter of it, strides over items by blocks from the own block on."""
    if loop.node.op.kind == OpKind.WHILE:
        return any(
            values.expr(c.init).has(AtomKind.BLOCK)
            and values.increments[c.argument].has(AtomKind.BLOCKS)
            for c in loop.of(Role.COUNTER)
        )
    if loop.low is None or loop.step is None:
        return bool(item_of_round(loop, values))
    low, step = values.expr(loop.low), values.expr(loop.step)
    if not low.has(AtomKind.BLOCK):
        count = induction(loop, values).atom if step.has(AtomKind.BLOCKS) else None
        beside = beside_block(count, values.exprs.values())
        return beside or (low == s.ZERO and bool(item_of_round(loop, values)))
    if step.has(AtomKind.BLOCKS) or (_is(low, AtomKind.BLOCK) and _workers(loop, step)):
        return True
    return _in_turns(low, step) and _stores(loop, values.graph)


def item_of_round(loop: Loop, values: Values) -> str | None:
    """The item of a round where a loop counts rounds: the own block plus the rounds so far times
    the number of blocks, which the items are divided by to give the rounds."""
    index = loop.node.index
    if index not in values.items_of_rounds:
        values.items_of_rounds[index] = _item_of_round(loop, values)
    return values.items_of_rounds[index]


def _item_of_round(loop: Loop, values: Values) -> str | None:
    if loop.high is None:
        return None
    divided = (a for a in values.expr(loop.high).top() if a.kind in _DIVIDED)
    workers = {a.args[1] for a in divided if a.args[1].has(AtomKind.PARAMETER, AtomKind.BLOCKS)}
    if not workers:
        return None
    ids = {a for e in values.exprs.values() if (a := e.atom) and a.kind is AtomKind.BLOCK}
    ahead = [part for w in workers if (part := s.mul(induction(loop, values), w)) is not None]
    items = {s.add(s.of(i), part) for i in ids for part in ahead}
    return next((v for v, e in values.exprs.items() if e in items), None)


def _in_turns(low: Expr, step: Expr) -> bool:
    """True when blocks begin as far apart as a number that is given multiplies to the stride."""
    given = [a for a in step.top() if a.kind is AtomKind.PARAMETER]
    apart = [
        low.coefficient(a)
        for a in low.top()
        if a.kind is AtomKind.BLOCK or any(x.has(AtomKind.BLOCK) for x in a.args)
    ]
    return any(step.coefficient(p) == distance for p in given for distance in apart)


def _stores(loop: Loop, graph: Graph) -> bool:
    """True when every round writes results: items of work, not terms of a sum."""
    return any(node.inside(loop.node) for node in graph.of(OpKind.STORE))


def once(loop: Loop, values: Values) -> bool:
    """True for a branch written as a loop: of no round or one, by a choice."""
    if loop.high is None or (loop.low and values.expr(loop.low).constant != 0):
        return False
    rounds = values.expr(loop.high).atom
    if rounds is None or rounds.kind is not AtomKind.CHOICE:
        return False
    return {a.constant for a in rounds.args} == {0, 1}


def limits(loop: Loop, values: Values) -> tuple[str | None, str | None]:
    """The ends of what a loop counts through, the lower one first: a range with a negative step
    begins at the upper one."""
    return (loop.high, loop.low) if falling(loop, values) else (loop.low, loop.high)


def falling(loop: Loop, values: Values) -> bool:
    """True when a range counts down."""
    steps = values.expr(loop.step).terms if loop.step is not None else ()
    return bool(steps) and all(factor < 0 for _, factor in steps)


def _is(expr: Expr, kind: AtomKind) -> bool:
    return expr.atom is not None and expr.atom.kind is kind


def _workers(loop: Loop, step: Expr) -> bool:
    """True when a stride is a number that is given, as the number of blocks is, and no sum runs on
    from one item to the next."""
    return _is(step, AtomKind.PARAMETER) and not loop.of(
        Role.ACCUMULATOR, Role.SUM, Role.RUNNING_SUM, Role.RUNNING_MAXIMUM
    )


def induction(loop: Loop, values: Values) -> Expr:
    """The loop variable."""
    return values.expr(loop.induction) if loop.induction else s.ZERO
