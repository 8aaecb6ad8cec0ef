"""Rows that threads keep in arrays of registers from one loop to the next."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Graph, Node
from kb.analysis.held_sums import held_sums
from kb.ops import READS, REDUCTIONS, OpKind

_HANDS = COPIES | CASTS | {
    OpKind.FOR, OpKind.WHILE, OpKind.IF, OpKind.IF_EXPRESSION, OpKind.BITCAST,
}  # fmt: skip
_MEETING = REDUCTIONS | {OpKind.SHUFFLE, OpKind.BARRIER}

MAX_STEPS = 64
"""Values that an array is, one after the other, as it is written and handed on."""


def kept_in_registers(facts: Facts, loads: Iterable[Access]) -> list[Node]:
    """Where elements that rest on loads are put into an array of registers, with the loads, and
    where another loop takes them out after threads have met, or after the first one has reduced
    them by itself."""
    if not facts.of_threads:
        return []
    graph = facts.threads
    sources = {n for a in loads if (n := graph.producer(a.value)) is not None}
    written: dict[str, list[Node]] = {}
    loads_of = cache(lambda put: sources & from_loads(graph, put))
    found: dict[Node, None] = {}
    sums = {made.loop for _, made in held_sums(facts)}
    for taken in graph.of(OpKind.EXTRACT):
        array = taken.op.inputs[0]
        if array not in written:
            written[array] = [
                n for n in puts(graph, array) if loads_of(n) and not _goes_on(graph, n, [n])
            ]
        others = [n for n in written[array] if _met(graph, n, taken) or _alone(n, taken, sums)]
        anew = [n for n in written[array] if not _goes_on(graph, n, others)]
        if any(n.inside(loop) for n in anew for loop in _apart(others, taken)):
            continue  # Filled in every round.
        if others:
            loaded = [load for n in others for load in loads_of(n)]
            found.update(dict.fromkeys([*loaded, *others, taken]))
    return list(found)


def loaded_before(facts: Facts) -> list[Node]:
    """Where a loop puts what it loads into an array of registers, and where a later loop of its own
    takes it out: all that is loaded is under way before anything is done with it."""
    graph = facts.threads
    loads = [*map(graph.producer, (a.value for a in facts.loads))] if facts.of_threads else []
    sources = {n for n in loads if n is not None}
    loads_of = cache(lambda put: sources & from_loads(graph, put))
    found: dict[Node, None] = {}
    for taken in graph.of(OpKind.EXTRACT) if sources else ():
        if taken.loop is None:
            continue
        for put in puts(graph, taken.op.inputs[0]):
            apart = put.loop not in taken.loops and taken.loop not in put.loops
            if put.loop is not None and apart and put.index < taken.index:
                inside = [n for n in loads_of(put) if n.inside(put.loop)]
                found.update(dict.fromkeys([*inside, put, taken] if inside else ()))
    return list(found)


def held_over_barrier(facts: Facts) -> list[Node]:
    """Elements that a thread leaves in shared memory for the others, and of which it goes on with
    its own after they have met: where they are loaded, and where they are stored beside what was
    taken from shared memory."""
    graph = facts.threads
    met = [n.index for n in graph.of(OpKind.BARRIER)] if facts.of_threads else []
    left = [n for n in graph.of(OpKind.STORE) if _shared(n)] if met else []
    taken = graph.node_set(n for n in graph.of(OpKind.LOAD) if _shared(n))
    found: dict[Node, None] = {}
    for store in graph.of(OpKind.STORE) if left else ():
        value = store.op.operand("value")
        if _shared(store) or not graph.rests_on_any(value, taken):
            continue
        for load in graph.roots(value, OpKind.LOAD):
            if _shared(load) or load.loops != store.loops:
                continue
            if any(
                graph.rests_on(n.op.operand("value"), load)
                and any(n.index < at < store.index for at in met)
                for n in left
            ):
                found.update(dict.fromkeys((load, store)))
    return list(found)


def _shared(node: Node) -> bool:
    return node.op.attribute("space") == "shared"


def filled(graph: Graph, result: str) -> tuple[str, ...]:
    """What the rounds of a loop put into a row that it gives, of which each round has elements of
    its own; none where a round goes on with what the one before it left."""
    loop = graph.producer(result)
    if loop is None or loop.op.kind != OpKind.FOR:
        return ()
    place = [r.name for r in loop.op.results].index(result)
    argument = loop.op.regions[-1].arguments[1 + place].name
    put = [n.result for v in graph.handed(loop)[place:][:1] for n in graph.ends(v, COPIES)]
    pending = list(put)
    for value in pending:
        if value == argument or len(pending) > 4 * MAX_STEPS:
            return ()
        made = graph.producer(value)
        if made is not None and made.inside(loop) and made.op.kind not in READS:
            pending += [v for v in graph.feeds(value) if v not in pending]
    return tuple(put)


def _met(graph: Graph, put: Node, taken: Node) -> bool:
    """Whether threads exchange something between two loops, nothing inside of the first, and inside
    of the second what they make of its elements."""
    if put.loop is None or taken.loop is None or taken.inside(put.loop):
        return False
    meetings = graph.of(*_MEETING)
    if any(n.inside(loop) for loop in {*put.loops} - {*taken.loops} for n in meetings):
        return False
    later = {*taken.loops} - {*put.loops}
    within = [n for n in meetings if any(n.inside(loop) for loop in later)]
    if within and not any(graph.rests_on(v, put) for n in within for v in n.op.inputs):
        return False
    return any(put.index < n.index < taken.index or n in within for n in meetings)


def _goes_on(graph: Graph, put: Node, others: list[Node]) -> bool:
    """Whether an element is made of what was put there before."""
    return any(graph.rests_on(put.op.operand("value"), one) for one in others)


def _apart(puts: list[Node], taken: Node) -> set[Node]:
    """Loops around where elements are taken out, and around none of the places that fill them."""
    return {*taken.loops} - {loop for put in puts for loop in put.loops} if puts else set()


def _alone(put: Node, taken: Node, sums: set[Node | None]) -> bool:
    """Whether the loop that fills the array reduces what it loads, and a later one takes it out."""
    return put.loop in sums and taken.loop not in put.loops and put.index < taken.index


def puts(graph: Graph, array: str) -> list[Node]:
    """The writes of elements that an array went through."""
    pending, found = [array], []
    for value in pending:
        made = graph.producer(value)
        if made is not None and made.op.kind == OpKind.INSERT:
            found.append(made)
            next_ = [made.op.inputs[0]]
        elif made is None or made.op.kind in _HANDS:
            next_ = list(graph.feeds(value))
        else:
            next_ = []
        pending += [v for v in next_ if v not in pending][: MAX_STEPS - len(pending)]
    return found


def from_loads(graph: Graph, put: Node) -> set[Node]:
    """The loads that an element is computed from."""
    value = put.op.operand("value") or ""
    return graph.made_from([value], graph.of(*READS), lambda n: n.op.kind in READS)
