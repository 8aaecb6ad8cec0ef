"""Blocks of as many threads as a kernel has written into its loops."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.facts import Facts
from kb.analysis.loops import Loop
from kb.analysis.symbolic import Atom, AtomKind
from kb.ops import OpKind
from kb.space import Constraint, implied

LEAST = 32
"""Threads of a warp: fewer are a part of one."""


def fixed_block(facts: Facts) -> Iterator[Constraint]:
    """The threads along x that loops go on by which begin at the number of the thread, where the
    kernel never asks how many there are: all such loops say the same."""
    if not facts.of_threads or _asked(facts):
        return
    found = [(text, loop) for loop in facts.thread_loops if (text := _threads(facts, loop))]
    if found and len({text for text, _ in found}) == 1:
        text, loop = found[0]
        yield implied(
            f"block_x == {text}",
            "loops begin at the number of the thread and go on by so many, whatever the block has",
            "launch so many threads, or go on by the threads of the block",
            loop.node.head,
        )


def _asked(facts: Facts) -> bool:
    """Whether the kernel asks for the threads of the block along x, or along what is not known."""
    for node in facts.threads.of(OpKind.BLOCK_THREADS):
        axis = facts.threads.producer(node.op.operand("axis"))
        if axis is None or axis.op.attribute("value") in (0, None):
            return True
    return False


def _threads(facts: Facts, loop: Loop) -> str:
    """What a loop goes on by, divided by what a thread takes; empty for other loops."""
    values = facts.thread_values
    if loop.low is None or loop.step is None:
        return ""
    low, step = values.expr(loop.low), values.expr(loop.step)
    if len(low.terms) != 1 or len(step.terms) != 1:
        return ""
    (begun, each), (by, number) = low.terms[0], step.terms[0]
    lanes = [atom for atom in begun if _of_x(facts, atom)]
    rest = [atom.text for atom in by]
    for atom in begun:
        if atom not in lanes and atom.text in rest:
            rest.remove(atom.text)
        elif atom not in lanes:
            return ""
    if len(lanes) != 1 or number % each:
        return ""
    if not rest:
        return str(number // each) if number // each >= LEAST else ""
    whole = number == each and len(rest) == 1 and rest[0] in facts.constexprs
    return rest[0] if whole else ""


def _of_x(facts: Facts, atom: Atom) -> bool:
    """Whether an atom is the number of the thread along x."""
    made = facts.threads.producer(atom.value)
    if made is not None and made.op.kind == OpKind.THREAD_ID:
        axis = facts.threads.producer(made.op.operand("axis"))
        return axis is not None and axis.op.attribute("value") == 0
    return atom.kind is AtomKind.LANE and "threads(0)" in atom.text
