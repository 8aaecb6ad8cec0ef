"""What threads make together: values combined through shuffles, and products summed from shared
tiles."""

from __future__ import annotations

from kb.analysis.graph import CASTS, Graph, Node
from kb.analysis.shared import SharedMemory
from kb.analysis.symbolic import AtomKind
from kb.analysis.values import Values
from kb.ir import Op, TypeKind
from kb.ops import OpKind

_KINDS: dict[str, OpKind] = {
    OpKind.ADD: OpKind.REDUCE_SUM,
    OpKind.MAXIMUM: OpKind.REDUCE_MAX,
    OpKind.MINIMUM: OpKind.REDUCE_MIN,
    OpKind.MUL: OpKind.REDUCE_PROD,
}
_LOOKS = CASTS | {OpKind.EXTRACT, OpKind.COPY, OpKind.BITCAST}

_POINTED = frozenset({OpKind.POINTER_CAST, OpKind.COPY, OpKind.SHARED_ADDRESS})

_COUNTING = frozenset({OpKind.RANGE, OpKind.STATIC_RANGE})
_MEMORY = frozenset({OpKind.LOAD, OpKind.ASYNC_COPY, OpKind.BULK_COPY})
_ELEMENTS = frozenset({OpKind.EXTRACT, OpKind.INSERT})
_PLACING = CASTS | {OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.BIT_XOR, OpKind.FLOOR_DIV,
                    OpKind.MOD, OpKind.DIV}  # fmt: skip
"""Operations on whole numbers that the place of an element is computed by."""

MAX_PLACES = 6
"""Steps from the variable of a loop to the place of an element."""


def reduction_kind(kind: str) -> OpKind | None:
    """The reduction that repeats an operation of two operands."""
    return _KINDS.get(kind)


def combined_shuffle(graph: Graph, op: Op) -> tuple[OpKind, str] | None:
    """(reduction, value) when an operation combines a value with the same value of another lane."""
    kind = reduction_kind(op.kind)
    if kind is None or len(op.inputs) < 2:
        return None
    for own, other in (op.inputs[:2], op.inputs[1::-1]):
        node = graph.producer(graph.through(other, _LOOKS))
        if node is not None and node.op.kind == OpKind.SHUFFLE:
            if _same(graph, _exchanged(node), own):
                return kind, own
    return None


def _same(graph: Graph, left: str | None, right: str) -> bool:
    """Whether two values are one, or the same element of one array."""
    if left == right:
        return True
    made = [graph.producer(value) for value in (left, right)]
    first, second = (node.op if node is not None else None for node in made)
    if first is None or second is None or not first.kind == second.kind == OpKind.EXTRACT:
        return False
    pairs = zip(first.inputs, second.inputs, strict=False)
    same = len(first.inputs) == len(second.inputs)
    return same and all(a == b or _one_number(graph, a, b) for a, b in pairs)


def _one_number(graph: Graph, left: str, right: str) -> bool:
    """Whether two values are the same constant."""
    made = [graph.producer(value) for value in (left, right)]
    numbers = [n.op.attribute("value") for n in made if n and n.op.kind == OpKind.CONST]
    return len(numbers) == 2 and numbers[0] is not None and numbers[0] == numbers[1]


def _element(graph: Graph, next_: str, argument: str) -> tuple[Node, str] | None:
    """What makes the next value of a carried one, or of the one element of it that is written, with
    the carried one; where a loop over all elements writes them, those of that loop."""
    node = graph.producer(next_)
    if node is not None and over_elements(graph, node.op):
        place = next(i for i, r in enumerate(node.op.results) if r.name == next_)
        handed, inits = graph.handed(node), graph.inits(node)
        names = node.op.regions[-1].arguments[1:]
        if place >= min(len(handed), len(inits), len(names)) or inits[place] != argument:
            return None
        next_, argument = handed[place], names[place].name
        node = graph.producer(next_)
    if node is not None and node.op.kind == OpKind.INSERT and node.op.inputs[0] == argument:
        node = graph.producer(node.op.operand("value"))
    return (node, argument) if node is not None else None


def _held(graph: Graph, value: str) -> str:
    """The array that a value is an element of, else the value."""
    node = graph.producer(value)
    return node.op.inputs[0] if node is not None and node.op.kind == OpKind.EXTRACT else value


def _exchanged(node: Node) -> str | None:
    return node.op.operand("x") or next(iter(node.op.inputs), None)


def reducing_loop(graph: Graph, op: Op) -> list[tuple[OpKind, str, str]]:
    """(reduction, first value, result) of every value that a loop combines with other lanes until
    all have it. Beside one that is combined alone, values that are weighted with it, or moved by
    it, and added to those of other lanes count as summed."""
    body = op.regions[-1]
    offset = 1 if op.kind == OpKind.FOR else 0
    end = body.terminator
    if end is None or end.kind not in (OpKind.YIELD, OpKind.CONTINUE):
        return []
    inits = [value for role, value in op.operands if role == "init"]
    rows = list(zip(body.arguments[offset:], inits, end.inputs, op.results, strict=False))
    found, mixed = [], []
    for argument, init, next_, result in rows:
        made = _element(graph, next_, argument.name)
        combined = combined_shuffle(graph, made[0].op) if made is not None else None
        if made is not None and combined is not None and _held(graph, combined[1]) == made[1]:
            found.append((combined[0], init, result.name))
        elif _mixed(graph, op, argument.name, next_):
            mixed.append((OpKind.REDUCE_SUM, init, result.name))
    return [*found, *mixed] if found else []


def _mixed(graph: Graph, loop: Op, argument: str, next_: str) -> bool:
    """Whether the next value of a carried one is made of it and of that of another lane."""
    others = [n for n in graph.of(OpKind.SHUFFLE) if _exchanged(n) == argument]
    if not others:
        return False
    within = [n for n in graph.upstream(next_, lambda n: n.op is loop) if n.op is not loop]
    others = [n for n in within if n in others]
    added = [n for n in within if n.op.kind in (OpKind.ADD, OpKind.FMA)]
    return any(graph.rests_on(n.result, other) for n in added for other in others)


def dot_product(graph: Graph, shared: SharedMemory, op: Op) -> tuple[Op, Op, str, str] | None:
    """(left load, right load, first value, result) of a loop that adds products of two tiles in
    shared memory to one carried value."""
    body = op.regions[-1]
    end = body.terminator
    inits = [value for role, value in op.operands if role == "init"]
    if op.kind != OpKind.FOR or end is None or len(inits) != 1 or not op.results:
        return None
    argument = body.arguments[1].name
    added = graph.producer(end.inputs[0]) if end.inputs else None
    factors = _factors(graph, added, argument) if added is not None else None
    if factors is None:
        return None
    loads = [graph.producer(graph.through(value, _LOOKS)) for value in factors]
    sides = [node.op for node in loads if node is not None and shared.holds(node.op)]
    if len(sides) != 2 or shared.place(sides[0]) == shared.place(sides[1]):
        return None
    if not all(shared.stored(side) for side in sides):
        return None
    return sides[0], sides[1], inits[0], op.results[0].name


def over_elements(graph: Graph, op: Op) -> bool:
    """Whether a loop walks elements of register tiles and does nothing else with its variable; one
    that is not unrolled and loads walks memory, too."""
    if op.kind != OpKind.FOR or not op.regions[-1].arguments or not op.regions[-1].ops:
        return False
    walked = graph.producer(op.inputs[0])
    if walked is None or walked.op.kind not in _COUNTING:
        return False
    if op.regions[-1].ops[-1].kind != OpKind.YIELD:
        return False
    if walked.op.kind == OpKind.RANGE and any(
        inner.kind in _MEMORY for inner in op.regions[-1].ops
    ):
        return False
    return _places_only(graph, op.regions[-1].arguments[0].name)


def _places_only(graph: Graph, variable: str, depth: int = 0) -> bool:
    """Whether a number, and all that is computed from it, only says which element is meant: one
    that is no address of memory."""
    users = graph.users(variable)
    return (
        bool(users)
        and depth < MAX_PLACES
        and all(
            node.op.operand("index") == variable and not _addresses(node)
            if node.op.kind in _ELEMENTS
            else node.op.kind in _PLACING and _places_only(graph, node.result, depth + 1)
            for node in users
        )
    )


def _addresses(node: Node) -> bool:
    return any(r.type is not None and r.type.kind == TypeKind.POINTER for r in node.op.results)


def runs_along(values: Values, load: Op, loop: Op) -> bool:
    """Whether the variable of a loop walks neighbouring elements of what a load reads."""
    variable = values.expr(loop.regions[-1].arguments[0].name)
    pointer = values.graph.through(load.operand("pointer") or load.inputs[0], _POINTED)
    address = values.expr(pointer or load.inputs[0])
    steps = [a for a in variable.top() if a.kind in (AtomKind.INDUCTION, AtomKind.COUNT)]
    if len(steps) != 1:
        return False
    step = steps[0]
    if any(
        atom.kind is AtomKind.MOD and step in atom.args[0].atoms()
        and address.coefficient(atom).constant == 1
        for atom in address.top()
    ):  # fmt: skip
        return True
    moved = address.coefficient(step).constant
    return bool(moved) and moved == variable.coefficient(step).constant


def in_order(values: Values, loads: tuple[Op, Op], loop: Op) -> tuple[Op, Op]:
    """The factors of a product, of which either may stand first, so that neither has to be turned
    where one order of both needs no turn."""
    left, right = (runs_along(values, load, loop) for load in loads)
    return (loads[1], loads[0]) if right and not left else loads


def _factors(graph: Graph, added: Node, argument: str) -> tuple[str, str] | None:
    """The factors of a product that is added to a carried value."""
    if added.op.kind == OpKind.FMA:
        return added.op.inputs[:2] if added.op.inputs[2:3] == (argument,) else None  # type: ignore[return-value]
    if added.op.kind != OpKind.ADD or argument not in added.op.inputs:
        return None
    other = next((value for value in added.op.inputs[:2] if value != argument), None)
    product = graph.producer(other)
    if product is None or product.op.kind != OpKind.MUL:
        return None
    return product.op.inputs[0], product.op.inputs[1]
