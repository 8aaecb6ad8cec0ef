"""Sums of what several devices hold, each made by the one device that owns the place."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.locks import polled
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ir import TypeKind
from kb.ops import ATOMICS, OpKind

_WAIT = "    while (*(volatile int*)seen != 1) {}\n"
_ASM = 'asm("ld.volatile.global.f32 %0, [%1];" : "=f"(own) : "l"(slabs + i * part + at)); '
_POINTERS = (
    """template <int N> __global__ void reduce(float** peers, float* out, int* seen, int part) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
"""
    + _WAIT
    + """    float sum = 0.f;
    for (int i = 0; i < N; ++i) sum += peers[i][at];
    out[at] = sum;
}
"""
)
_SLABS = (
    _POINTERS.replace("float** peers", "const float* slabs")
    .replace("i < N; ++i) ", "i < N; ++i) { float own; " + _ASM)
    .replace("peers[i][at];", "own; }")
)


class PeerSums(Pattern):
    """A kernel that waits for what others write adds up, in a loop over them, what it reads through
    the pointer, or in the slab, of each, and stores the sum without an atomic."""

    name = "sums-over-peers-by-the-owner"
    axis = "cross_cta_reduction"
    source = "Thakur, Rabenseifner, Gropp, Optimization of Collective Communication (2005)"
    matches = (
        Case(_POINTERS, "exclusive ownership"),
        Case(_SLABS, "exclusive ownership"),
    )
    near_misses = (
        NearMiss(_POINTERS.replace(_WAIT, ""), why="nobody else is waited for"),
        NearMiss(
            _POINTERS.replace("out[at] = sum", "atomicAdd(out + at, sum)"),
            why="others add to the same place",
        ),
        NearMiss(
            _SLABS.replace("i < N", "i < part").replace("i * part + at", "at * part + i"),
            why="a row of its own",
        ),
        NearMiss(_SLABS.replace("volatile.global", "global"), why="nobody writes there meanwhile"),
        NearMiss(_POINTERS.replace("sum +=", "sum ="), why="the last one counts, nothing is added"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads or not polled(facts):
            return
        stores = [n for n in facts.threads.of(OpKind.STORE) if n.op.attribute("space") != "shared"]
        added = facts.threads.of(*ATOMICS)
        found: list[Where] = []
        for loop in facts.thread_loops:
            loads = _members(facts, loop)
            for carried in loop.carried if loads else ():
                own = [n for n in loads if _adds(facts, carried.argument, carried.next, n)]
                kept = [s for s in stores if _rests(facts, s, carried.result)]
                if own and kept and not any(_rests(facts, a, carried.result) for a in added):
                    found += [loop.node.head, *own, *kept]
        if found:
            yield self.decide(facts, "exclusive ownership", found)


def _rests(facts: Facts, store: Node, result: str) -> bool:
    made = facts.threads.producer(result)
    value = store.op.operand("value") or store.op.inputs[-1]
    return made is not None and facts.threads.rests_on(value, made)


def _members(facts: Facts, loop: Loop) -> list[Node]:
    """Loads of a loop through another pointer in each round, or from another slab, of as many as
    are known when the code is compiled."""
    turn = facts.thread_values.expr(loop.induction).atom if loop.induction else None
    if turn is None or loop.high is None:
        return []
    known = facts.thread_values.compile_time(facts.thread_values.expr(loop.high))
    found = []
    for load in facts.threads.of(OpKind.LOAD):
        pointer = load.op.operand("pointer") or load.op.inputs[0]
        if not load.inside(loop.node) or load.op.attribute("space") == "shared":
            continue
        tables = facts.threads.roots(pointer, OpKind.LOAD, OpKind.EXTRACT)
        through = any(
            t.inside(loop.node) and _is_pointer(t) and _by_round(facts, loop, t) for t in tables
        )
        slab = facts.thread_values.expr(pointer).coefficient(turn)
        apart = slab.has(AtomKind.PARAMETER, AtomKind.LOADED, AtomKind.EXTENT)
        if through or (known and apart and _shared_with_others(load)):
            found.append(load)
    return found


def _is_pointer(node: Node) -> bool:
    return any(r.type is not None and r.type.kind is TypeKind.POINTER for r in node.op.results)


def _by_round(facts: Facts, loop: Loop, table: Node) -> bool:
    at = table.op.operand("index" if table.op.kind == OpKind.EXTRACT else "pointer")
    return bool(at and loop.induction and facts.threads.rests_on_argument(at, loop.induction))


def _shared_with_others(load: Node) -> bool:
    """Whether the instruction says that others write to what it reads."""
    opcode = str(load.op.attribute("opcode") or "")
    return any(word in opcode.split(".") for word in ("volatile", "relaxed", "acquire"))


def _adds(facts: Facts, argument: str, after: str, load: Node) -> bool:
    """Whether what a round leaves is what it found plus what it loads."""
    graph = facts.threads
    return any(
        graph.rests_on_argument(step.result, argument)
        and any(
            graph.rests_on(v, load) and not graph.rests_on_argument(v, argument)
            for v in step.op.inputs
        )
        for step in graph.roots(after, OpKind.ADD, OpKind.FMA)
        if not _is_pointer(step)
    )
