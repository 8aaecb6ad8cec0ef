"""Windows that move along with a loop: what was held of earlier rounds goes one place on, and what
this round loads comes in at the end."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.carried_sums import leads
from kb.analysis.facts import HELD, Facts
from kb.analysis.graph import CASTS, LOOPS, VIEWS, Graph, Node
from kb.analysis.loops import Carried, Loop
from kb.analysis.symbolic import sub
from kb.analysis.values import Values
from kb.ops import READS, OpKind

_COMPUTES = (OpKind.MUL, OpKind.ADD, OpKind.SUB, OpKind.FMA, OpKind.MAXIMUM, OpKind.MINIMUM)
MAX_LONG = 16
"""Places of a window that are followed to its end."""

MAX_ENDS = 40
"""Values of branches and inner loops that one value is followed to."""


def slid(facts: Facts) -> list[Node]:
    """Where the values of a window go one place on, and the loads of its last place."""
    found = [node for loop in facts.loops for node in _of_names(facts, loop)]
    return list(dict.fromkeys([*found, *_of_elements(facts)]))


def window_products(facts: Facts) -> list[Node]:
    """Products of what a window of variables holds with what was loaded of another array."""
    if facts.of_threads or facts.contractions:
        return []
    found: list[Node] = []
    for loop in facts.loops:
        way, loads = _way(facts, loop)
        arrays = {a.array for n in loads if (a := facts.access(n)) is not None}
        for node in facts.graph.of(OpKind.MUL, OpKind.FMA) if way else ():
            for own, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
                weights = _handed(facts, other) if node.inside(loop.node) else []
                apart = weights and arrays.isdisjoint(a.array for a in weights)
                if apart and any(leads(facts.graph, own, w.argument) for w in way):
                    found.append(node)
    return list(dict.fromkeys(found))


def _handed(facts: Facts, value: str) -> list[Access]:
    """The loads that a value is, as branches and loops hand it on; empty for what is computed."""
    below = [*facts.graph.upstream(value, lambda n: n.op.kind not in HELD | LOOPS)]
    if any(n.op.kind in _COMPUTES for n in below):
        return []
    return [a for n in below if n.op.kind in READS and (a := facts.access(n)) is not None]


def _of_names(facts: Facts, loop: Loop) -> list[Node]:
    """Of a window whose places are variables: where they are handed on, and what is loaded into the
    last of them."""
    way, loads = _way(facts, loop)
    moved = [facts.graph.producer(w.next) for w in way[:-1]]
    return [*(node for node in moved if node is not None), *loads]


def _way(facts: Facts, loop: Loop) -> tuple[list[Carried], list[Node]]:
    """Of a window whose places are variables, these: each gets what the next one held, which the
    round computed with; and what is loaded into the last one. Empty for loops without one."""
    places = {one.argument: one for one in loop.carried}
    follows = {one.argument: _next(facts, one, places) for one in loop.carried}
    for one in loop.carried:
        way = [one]
        while (after := follows[way[-1].argument]) is not None and len(way) < MAX_LONG:
            way.append(after)
        whole = len(way) > 1 and len({w.argument for w in way}) == len(way)
        loads = _loaded(facts.graph, way[-1].next, loop.node) if whole else []
        if loads and all(_computed_with(facts, w.argument, loop.node) for w in way):
            return way, loads
    return [], []


def _next(facts: Facts, one: Carried, places: dict[str, Carried]) -> Carried | None:
    """The variable whose value another one has in the next round, in every branch that gives it
    one or in some."""
    given = [
        places[v] for v in _below(facts.graph, one.next, frozenset({OpKind.IF})) if v in places
    ]
    return next((held for held in given if held is not one), None)


def _computed_with(facts: Facts, argument: str, loop: Node) -> bool:
    steps = [n for n in facts.graph.of(*_COMPUTES) if n.inside(loop)]
    return any(leads(facts.graph, n.result, argument) for n in steps)


def _loaded(graph: Graph, value: str | None, loop: Node) -> list[Node]:
    """The loads of this round that a value is, cast or not, in some branch or inner loop."""
    made = [graph.producer(v) for v in _below(graph, value, LOOPS | {OpKind.IF})]
    return [n for n in made if n is not None and n.op.kind in READS and n.inside(loop)]


def _below(graph: Graph, value: str | None, entered: frozenset[OpKind]) -> list[str]:
    """What a value is in the end, cast or not: of branches, and of loops that are entered, all that
    they hand on."""
    found: list[str] = []
    pending = [value]
    for one in pending:
        below = graph.through(one, CASTS | VIEWS)
        if below is None or below in found:
            continue
        if graph.kind_of(below) in entered and len(pending) < MAX_ENDS:
            pending += [v for v in graph.feeds(below) if v not in pending]
        else:
            found.append(below)
    return found


def held_in(facts: Facts, array: str, around: Node) -> bool:
    """Whether an array of a thread is a window of a loop: what is put into it there goes one place
    on."""
    return any(
        put.inside(around) and facts.threads.rests_on(array, put) for put, _ in _moves(facts)
    )


def _of_elements(facts: Facts) -> list[Node]:
    """Of windows that are arrays of a thread: where their elements move, and what is loaded into
    them."""
    moves = _moves(facts)
    found = [n for put, loads in moves for n in (put, *loads)]
    return list(dict.fromkeys(found))


def _moves(facts: Facts) -> list[tuple[Node, list[Node]]]:
    """Elements of arrays that get what a neighbour held, where the loop around puts what it loads
    into that array, too."""
    graph = facts.threads
    puts = graph.of(OpKind.INSERT)
    moved = [(put, taken) for put in puts if (taken := _taken(graph, put)) is not None]
    if not moved:
        return []
    values = Values(graph)
    found: list[tuple[Node, list[Node]]] = []
    for put, taken in moved:
        own, other = (values.expr(n.op.operand("index") or "") for n in (put, taken))
        if sub(other, own).constant in (1, -1) and (loads := _filled(graph, put, puts)):
            found.append((put, loads))
    return found


def _taken(graph: Graph, put: Node) -> Node | None:
    """The element of the same array, as it was until then, that one element of it gets."""
    taken = graph.producer(graph.core(put.op.operand("value")))
    if taken is None or taken.op.kind != OpKind.EXTRACT or not put.loops:
        return None
    return taken if taken.op.inputs[0] == put.op.inputs[0] else None


def _filled(graph: Graph, moved: Node, puts: list[Node]) -> list[Node]:
    """Where the outermost loop around puts what it loads into the array whose elements move."""
    outer = moved.loops[0]
    others = [n for n in puts if n is not moved and n.inside(outer)]
    held = [n for n in others if graph.rests_on(moved.op.inputs[0], n)]
    return [n for n in held if _loaded(graph, n.op.operand("value"), outer)]
