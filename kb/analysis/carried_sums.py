"""Sums that a loop carries: how the next value is made of the one before."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from kb.analysis.graph import CASTS, TURNS, Graph, Node
from kb.ops import CONTRACTIONS, OpKind

_ADDING = frozenset({OpKind.ADD, OpKind.SUB, OpKind.FMA})
_KEEPING = CASTS | TURNS | {OpKind.MUL, OpKind.COPY}
MAX_KEPT = 32
"""Values on the way back to an argument, over factors and sides of branches."""


def left_over(graph: Graph, init: str, argument: str) -> bool:
    """True for what nothing sets before the loop and no step reads: a variable that a branch sets,
    and that would keep what the round before set where no branch does."""
    return graph.kind_of(init) == OpKind.UNDEF and all(
        user.op.kind == OpKind.YIELD for user in graph.users(argument)
    )


def leads(graph: Graph, value: str, argument: str, limit: int = 400) -> bool:
    """True when a value is computed from a carried argument within one iteration."""
    if not graph.rests_on_argument(value, argument):
        return False
    pending, seen = [value], {value}
    for current in pending:
        if current == argument:
            return True
        if len(seen) > limit:
            return False
        if current != value and not _passes(graph, current, argument):
            continue
        for feed in graph.feeds(current):
            if feed not in seen and graph.rests_on_argument(feed, argument):
                seen.add(feed)
                pending.append(feed)
    return False


def _passes(graph: Graph, value: str, argument: str) -> bool:
    """False for what a loop carries that is not inside the loop of an argument: another round."""
    held, holder = graph.arguments.get(value), graph.arguments.get(argument)
    return held is None or (holder is not None and held[0].inside(holder[0]))


def leading(graph: Graph, argument: str, next_: str) -> set[str]:
    """Of everything that a value is computed from, what `leads` to an argument: for all at once."""
    users: dict[str, list[str]] = {}
    pending, seen = [next_], {next_}
    for current in pending:
        for feed in graph.feeds(current):
            if graph.rests_on_argument(feed, argument):
                users.setdefault(feed, []).append(current)
                if feed not in seen:
                    seen.add(feed)
                    pending.append(feed)
    found, way = {argument}, [argument]
    for current in way:
        for user in users.get(current, ()):
            if user not in found:
                found.add(user)
                if _passes(graph, user, argument):
                    way.append(user)
    return found


def accumulating(graph: Graph, argument: str, next_: str) -> Node | None:
    """The contraction that adds into a carried value: as its third operand, or through an
    addition."""
    products = [node for node in graph.of(*CONTRACTIONS) if graph.rests_on(next_, node)]
    adding = {n for n in products if _into(graph, n, argument)}
    if not adding:
        return None
    toward = graph.node_set(adding)
    way = graph.upstream(next_, lambda n: n.op.kind in CONTRACTIONS, toward)
    return next((node for node in way if node in adding), None)


def _into(graph: Graph, contraction: Node, argument: str) -> bool:
    """True when a product is added to an argument, by the contraction itself or after it."""
    acc = contraction.op.operand("acc")
    if acc is not None and _begins(graph, acc, argument):
        return True
    return argument in _additions(graph)[contraction]


def _begins(graph: Graph, acc: str, argument: str) -> bool:
    """True when a chain of products, and of loops of them, begins at an argument, or at what is
    computed from it in one round."""
    value: str | None = acc
    for _ in range(MAX_KEPT):
        value = graph.core(value)
        if value is None or value == argument or not graph.rests_on_argument(value, argument):
            break
        made = graph.producer(value)
        if made is None:
            if not _passes(graph, value, argument):
                return False
            value = graph.feeds(value)[0]
        elif made.op.kind in CONTRACTIONS:
            value = made.op.operand("acc")
        elif made.op.kind == OpKind.FOR:
            value = graph.feeds(value)[0]
        else:
            return leads(graph, value, argument)
    return value == argument


@lru_cache(maxsize=2)
def _additions(graph: Graph) -> dict[Node, set[str | None]]:
    """What every product is added to, or taken off: after it was scaled by an elementwise factor,
    turned, handed over by one side of a branch, or taken together with other products."""
    return {node: _added(graph, node) for node in graph.of(*CONTRACTIONS)}


def _added(graph: Graph, contraction: Node) -> set[str | None]:
    value, found = contraction.result, set[str | None]()
    for _ in range(6):
        users = graph.users(value)
        adds = [user for user in users if user.op.kind in _ADDING]
        found.update(core for add in adds for v in add.op.inputs for core, _ in _factors(graph, v))
        steps = [u for u in users if u.op.kind in _KEEPING or _side_of_branch(u)]
        steps += [u for u in adds if _of_products(graph, u)]
        handed_on = graph.onward(steps[0], value) if len(steps) == 1 else ()
        if not handed_on:
            break
        value = handed_on[0]
    return found


def _of_products(graph: Graph, node: Node) -> bool:
    """True for a sum or a difference of two products of tiles, perhaps scaled."""
    inputs = (graph.through(v, CASTS | TURNS) for v in node.op.inputs[:2])
    made = [graph.producer(v) for v in inputs]
    scaled = [
        [graph.kind_of(graph.core(v)) for v in n.op.inputs[:2]]
        for n in made
        if n is not None and n.op.kind == OpKind.MUL
    ]
    whole = [n for n in made if n is not None and n.op.kind in CONTRACTIONS]
    factors = [kinds for kinds in scaled if any(k in CONTRACTIONS for k in kinds)]
    return len(whole) + len(factors) == len(made)


def _side_of_branch(node: Node) -> bool:
    """True where a side of a branch hands its values on."""
    parent = node.parent
    return node.op.kind == OpKind.YIELD and parent is not None and parent.op.kind == OpKind.IF


def scaled(graph: Graph, value: str, argument: str) -> bool | None:
    """False for an argument itself, True for its product with a factor, on a side of a branch too;
    None for anything else."""
    found = [times for core, times in _factors(graph, value) if core == argument]
    return any(found) if found else None


def _factors(graph: Graph, value: str) -> Iterator[tuple[str | None, bool]]:
    """What a value is, or is a product with, on sides of branches too; True for products."""
    pending: list[tuple[str | None, bool]] = [(value, False)]
    for current, times in pending:
        core = graph.core(current)
        yield core, times
        made = graph.producer(core)
        if made is None or core is None or len(pending) > MAX_KEPT:
            continue
        if made.op.kind == OpKind.MUL:
            pending += [(v, True) for v in made.op.inputs[:2]]
        elif made.op.kind == OpKind.IF:
            pending += [(v, times) for v in graph.feeds(core)]
