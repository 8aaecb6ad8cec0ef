"""Sums that a loop carries: how the next value is made of the one before."""

from __future__ import annotations

from kb.analysis.graph import CASTS, TURNS, Graph, Node
from kb.ops import CONTRACTIONS, OpKind

_ADDING = frozenset({OpKind.ADD, OpKind.SUB, OpKind.FMA})
_KEEPING = CASTS | TURNS | {OpKind.MUL, OpKind.COPY}
MAX_KEPT = 32
"""Values on the way back to an argument, over factors and sides of branches."""


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
        if current in graph.arguments and current != value:
            loop = graph.arguments[current][0]
            holder = graph.arguments.get(argument)
            if holder is None or not (loop is holder[0] or loop.inside(holder[0])):
                continue
            if loop is holder[0]:
                continue
        for feed in graph.feeds(current):
            if feed not in seen:
                seen.add(feed)
                pending.append(feed)
    return False


def accumulating(graph: Graph, argument: str, next_: str) -> Node | None:
    """The contraction that adds into a carried value: as its third operand, or through an
    addition."""
    toward = graph.node_set(graph.of(*CONTRACTIONS))
    for node in graph.upstream(next_, lambda n: n.op.kind in CONTRACTIONS, toward):
        if node.op.kind in CONTRACTIONS:
            acc = node.op.operand("acc")
            if acc is not None and (acc == argument or leads(graph, acc, argument)):
                return node
            if acc is None or not leads(graph, acc, argument):
                if _added(graph, node, argument):
                    return node
    return None


def _added(graph: Graph, contraction: Node, argument: str) -> bool:
    """True when the product, possibly scaled by an elementwise factor, turned, one side of a
    branch, or taken together with other products, is added to an argument or taken off it."""
    value = contraction.result
    for _ in range(6):
        users = graph.users(value)
        adds = [user for user in users if user.op.kind in _ADDING]
        if any(_only_scales(graph, add, argument) for add in adds):
            return True
        steps = [u for u in users if u.op.kind in _KEEPING or _side_of_branch(u)]
        steps += [u for u in adds if _of_products(graph, u)]
        if len(steps) != 1:
            return False
        handed_on = graph.onward(steps[0], value)
        if not handed_on:
            return False
        value = handed_on[0]
    return False


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


def _only_scales(graph: Graph, added: Node, argument: str) -> bool:
    return any(scaled(graph, value, argument) is not None for value in added.op.inputs)


def scaled(graph: Graph, value: str, argument: str) -> bool | None:
    """False for an argument itself, True for its product with a factor, on a side of a branch too;
    None for anything else."""
    pending = [(value, False)]
    found: bool | None = None
    for current, times in pending:
        core = graph.core(current)
        if core == argument:
            found = times or bool(found)
            continue
        made = graph.producer(core)
        if made is None or core is None or len(pending) > MAX_KEPT:
            continue
        if made.op.kind == OpKind.MUL:
            pending += [(v, True) for v in made.op.inputs[:2]]
        elif made.op.kind == OpKind.IF:
            pending += [(v, times) for v in graph.feeds(core)]
    return found
