"""Positions that a loop computes from its variable every time."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import (
    POINTER,
    PRODUCT,
    PRODUCT_PERSISTENT,
    PRODUCT_POINTER,
    vary,
)
from extractors.patterns.cases_pointer import PRODUCT_DESCRIPTOR, PRODUCT_PERSISTENT_POINTER
from extractors.patterns.cases_rows import COPY, SOFTMAX_CHUNKS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.flat_index_split import divided_positions
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop, once
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.evidence import Decision
from kb.ops import OpKind

_STEPS = (
    POINTER
    + """
@triton.jit
def scan(x, out, n, W: tl.constexpr):
    first = tl.program_id(0) * n
    cols = tl.arange(0, W)
    for i in range(n):
        v = tl.load(x + (first + i) * W + cols)
        tl.store(out + (first + i) * W + cols, v * 2.0)
"""
)


class LoopIndex(Pattern):
    """A loop variable, scaled and shifted, addresses tiles in its own loop."""

    name = "index-affine-in-the-loop-variable"
    axis = "index_derivation"
    source = "Aho et al., Compilers, induction variables and strength reduction"
    matches = (
        Case(PRODUCT_PERSISTENT_POINTER, "affine in the loop variable"),
        Case(PRODUCT_DESCRIPTOR, "affine in the loop variable"),
        Case(PRODUCT, "affine in the loop variable"),
        Case(PRODUCT_PERSISTENT, "affine in the loop variable"),
        Case(SOFTMAX_CHUNKS, "affine in the loop variable"),
        Case(_STEPS, "affine in the loop variable"),
    )
    near_misses = (
        NearMiss(PRODUCT_POINTER, why="pointers are carried along"),
        NearMiss(COPY, why="nothing loops"),
        NearMiss(
            vary(
                _STEPS,
                ("range(n)", "range(tl.program_id(1), n, tl.num_programs(1))"),
            ),
            why="the variable counts items of work",
        ),
        NearMiss(PRODUCT_THREADS, why="the loop of a thread is not looked at"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads or any(n.loops for n in divided_positions(facts)):
            return
        found: list[Where] = []
        for loop in facts.loops:
            if loop.induction is None or once(loop, facts.values) or _of_blocks(facts, loop):
                continue
            step = facts.values.expr(loop.induction).atom
            wide = [a for a in facts.accesses if facts.types.shape(a.value)]
            used = [a for a in wide if a.loop is loop.node and _affine(a.index, step)]
            made = [n for a in used for n in _made(facts, loop, a, step)]
            found += made or used
        if found:
            yield self.decide(facts, "affine in the loop variable", found)


def _of_blocks(facts: Facts, loop: Loop) -> bool:
    """True for a loop over work items that begins where the block id says: its variable counts
    items, not steps of one."""
    if loop not in facts.item_loops:
        return False
    return loop.low is not None and facts.values.expr(loop.low).has(AtomKind.BLOCK)


def _affine(index: Iterable[Expr], step: Atom | None) -> bool:
    return any(step in factors for expr in index for factors, _ in expr.terms)


def _made(facts: Facts, loop: Loop, access: Access, step: Atom | None) -> list[Node]:
    """Sums and products in the loop that lead from its variable to an address."""
    return [
        n
        for n in facts.graph.of(OpKind.ADD, OpKind.MUL)
        if n.inside(loop.node)
        and _affine((facts.values.expr(n.result),), step)
        and any(facts.graph.rests_on(v, n) for v in access.address)
    ]
