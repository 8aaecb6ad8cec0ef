"""Where threads reach, and which numbers of a place tell one thread from another."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.ops import OWN_THREAD, OpKind

_SEEN = frozenset({OpKind.POINTER_CAST})


def address(facts: Facts, access: Node) -> Expr:
    """The address of an access, whatever it is seen as a pointer to."""
    pointer = access.op.operand("pointer") or access.op.inputs[0]
    return facts.thread_values.expr(facts.threads.through(pointer, _SEEN))


def of_thread(facts: Facts, atom: Atom) -> bool:
    """True for a thread id, for quotients and remainders of one, and for what a loop counts on from
    one."""
    graph = facts.threads
    if atom.kind in (AtomKind.FLOOR_DIV, AtomKind.MOD):
        return any(of_thread(facts, inner) for inner in atom.args[0].atoms())
    held = graph.arguments.get(atom.value)
    if held is not None:
        walked = graph.producer(next(iter(held[0].op.inputs), None))
        start = walked.op.operand("low") if walked is not None else None
        return start is not None and any(
            one.kind is not AtomKind.INDUCTION and of_thread(facts, one)
            for one in facts.thread_values.expr(start).atoms()
        )
    made = graph.producer(atom.value) if atom.value else None
    return made is not None and made.op.kind in OWN_THREAD
