"""Windows that move along with a loop: what was held of earlier rounds goes one place on, and what
this round loads comes in at the end."""

from __future__ import annotations

from kb.analysis.carried_sums import leads
from kb.analysis.facts import Facts
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


def _of_names(facts: Facts, loop: Loop) -> list[Node]:
    """Of a window whose places are variables: each gets what the next one held, which the round
    computed with."""
    places = {one.argument: one for one in loop.carried}
    follows = {one.argument: _next(facts, one, places) for one in loop.carried}
    for one in loop.carried:
        way = [one]
        while (after := follows[way[-1].argument]) is not None and len(way) < MAX_LONG:
            way.append(after)
        whole = len(way) > 1 and len({w.argument for w in way}) == len(way)
        loads = _loaded(facts.graph, way[-1].next, loop.node) if whole else []
        if loads and all(_computed_with(facts, w.argument, loop.node) for w in way):
            moved = [facts.graph.producer(w.next) for w in way[:-1]]
            return [*(node for node in moved if node is not None), *loads]
    return []


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


def _of_elements(facts: Facts) -> list[Node]:
    """Of a window that is an array of a thread: elements that get what a neighbour held, where the
    loop around puts what it loads into that array, too."""
    graph = facts.threads
    puts = graph.of(OpKind.INSERT)
    moved = [(put, taken) for put in puts if (taken := _taken(graph, put)) is not None]
    if not moved:
        return []
    values = Values(graph)
    found: list[Node] = []
    for put, taken in moved:
        own, other = (values.expr(n.op.operand("index") or "") for n in (put, taken))
        if sub(other, own).constant in (1, -1):
            loads = _filled(graph, put, puts)
            found += [n for n in (put, *loads) if loads and n not in found]
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
