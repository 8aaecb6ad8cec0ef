"""Loops that begin at the own thread and end where the problem does."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Node
from kb.ir import Literal
from kb.ops import ATOMICS, OWN_THREAD, READS, WRITES, OpKind

_ORDERED = (OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)
_BOTH = (OpKind.AND, OpKind.BIT_AND)


def rounds_to_extent(facts: Facts) -> list[Node]:
    """Loops from the own thread, in steps of more than one, up to what only the launch tells, of
    which an access of memory goes along."""
    loops = {n: 0 for n in facts.threads.of(OpKind.FOR) if _ends_by_thread(facts, n)}
    for node in facts.threads.of(OpKind.WHILE):
        place = _held_by_thread(facts, node)
        if place is not None:
            loops[node] = place
    touching = [
        n
        for n in facts.threads.of(*READS, *WRITES, *ATOMICS, OpKind.ASYNC_COPY)
        if n.op.attribute("space") != "shared"
    ]
    found = [n for n, place in loops.items() if any(_along(facts, t, n, place) for t in touching)]
    # Rounds of the whole grid end at the problem, whatever is accessed inside of them.
    grid = [n for n in loops if _over_grid(facts, n) and any(t.inside(n) for t in touching)]
    return found or grid


def _ends_by_thread(facts: Facts, loop: Node) -> bool:
    """True for a range from the own thread, in steps of more than one, to what only the launch
    tells."""
    graph = facts.threads
    made = graph.producer(loop.op.inputs[0])
    if made is None or made.op.kind != OpKind.RANGE:
        return False
    low, high, step = (made.op.operand(role) for role in ("low", "high", "step"))
    if not graph.roots(low, *OWN_THREAD) or _number(facts, step) == 1 or high is None:
        return False
    return not graph.roots(high, *OWN_THREAD) and _of_launch(facts, high)


def _over_grid(facts: Facts, loop: Node) -> bool:
    """True for steps of as many as the grid has threads, along their first axis."""
    graph = facts.threads
    made = graph.producer(loop.op.inputs[0]) if loop.op.kind == OpKind.FOR else None
    step = made.op.operand("step") if made is not None else None
    if step is None or not graph.roots(step, OpKind.NUM_BLOCKS):
        return False
    return any(_number(facts, n.op.inputs[0]) == 0 for n in graph.roots(step, OpKind.BLOCK_THREADS))


def _held_by_thread(facts: Facts, loop: Node) -> int | None:
    """Which carried value of a `while` loop goes on from the own thread, or is counted beside it,
    up to what only the launch tells; None when the loop asks something else."""
    graph, test = facts.threads, loop.op.regions[0]
    carried = [one.name for one in test.arguments]
    inits = [value for role, value in loop.op.operands if role == "init"]
    end = test.terminator
    condition = end.inputs[0] if end is not None and end.inputs else ""
    asked = graph.upstream(condition, lambda n: n.op.kind not in _BOTH)
    for comparison in (n for n in asked if n.op.kind in _ORDERED):
        for side, other in (comparison.op.inputs[:2], comparison.op.inputs[1::-1]):
            if graph.roots(other, *OWN_THREAD) or not _of_launch(facts, other):
                continue
            for place, (name, init) in enumerate(zip(carried, inits, strict=False)):
                beside = graph.roots(side, *OWN_THREAD) if side != name else []
                if _reaches(facts, side, name) and (beside or graph.roots(init, *OWN_THREAD)):
                    return place
    return None


def _of_launch(facts: Facts, bound: str) -> bool:
    """True for a bound that is made of what only the launch tells."""
    graph = facts.threads
    names = [bound] if graph.producer(bound) is None else []
    names += [v for n in graph.upstream(bound) for v in n.op.inputs if graph.producer(v) is None]
    known = {*facts.constexprs}
    of_grid = bool(graph.roots(bound, OpKind.BLOCK_ID, *READS))
    return of_grid or any(name not in known for name in names)


def _number(facts: Facts, value: str | None) -> Literal:
    made = facts.threads.producer(value)
    return made.op.attribute("value") if made is not None else None


def _along(facts: Facts, access: Node, loop: Node, place: int) -> bool:
    """True when an access moves with a loop, by its number or by what is carried beside it, and no
    loop of run-time rounds lies between."""
    if not access.inside(loop):
        return False
    inner = [n for n in access.loops if n.op.kind in LOOPS and n.inside(loop)]
    ranges = [facts.threads.producer(n.op.inputs[0]) if n.op.inputs else None for n in inner]
    if any(r is None or r.op.kind != OpKind.STATIC_RANGE for r in ranges):
        return False
    arguments = [one.name for one in loop.op.regions[-1].arguments]
    moved = arguments if loop.op.kind == OpKind.FOR else arguments[place : place + 1]
    address = access.op.operand("pointer") or next(iter(access.op.inputs), "")
    return any(facts.threads.rests_on_argument(address, one) for one in moved)


def _reaches(facts: Facts, value: str, index: str) -> bool:
    """True when a value is computed from another one."""
    if value == index:
        return True
    return any(index in node.op.inputs for node in facts.threads.upstream(value))
