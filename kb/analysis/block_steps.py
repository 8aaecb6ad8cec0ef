"""How far a block id reaches: over single rows, or over the extent of a tile."""

from __future__ import annotations

from collections.abc import Collection

from kb.analysis.facts import Facts
from kb.analysis.symbolic import Atom, AtomKind, Expr, nested
from kb.ops import OpKind


def tile_extents(facts: Facts) -> frozenset[str]:
    """The lengths of all ranges of lanes, as texts; a range of one lane is none. Threads that
    multiply tiles share the lanes out among them: there every compile-time parameter counts."""
    sizes = (facts.values.expr(n.op.operand("size")) for n in facts.graph.of(OpKind.ARANGE))
    found = frozenset(str(size) for size in sizes) - {"1"}
    shared = facts.of_threads and facts.contractions
    return found | facts.constexprs if shared else found


def steps_by_tile(index: Expr, extents: Collection[str]) -> bool:
    """True when a block id, or what is computed from it, is multiplied by the extent of a tile, or
    when rows are the quotient of a flat number that counts the lanes of all blocks, or groups of
    them, or lie in groups of lanes, or when another block id steps over parts of a row."""
    for factors, number in index.terms:
        if any(of_block(atom) for atom in factors) and (
            str(number) in extents or any(atom.text in extents for atom in factors)
        ):
            return True
    top = (a for one in nested(index) for a in one.top())
    taken_apart = (a.args[0] for a in top if a.kind in (AtomKind.FLOOR_DIV, AtomKind.MOD))
    if any(_flat(number) or steps_by_tile(number, extents) for number in taken_apart):
        return True
    return _by_groups(index) or _by_parts(index)


def of_block(atom: Atom) -> bool:
    """Whether an atom is a block id, or computed from one."""
    return atom.kind is AtomKind.BLOCK or any(inner.has(AtomKind.BLOCK) for inner in atom.args)


def _flat(number: Expr) -> bool:
    top = list(number.top())
    return any(a.kind is AtomKind.BLOCK for a in top) and any(
        a.kind is AtomKind.LANE or _group(a) for a in top
    )


def _group(atom: Atom) -> bool:
    """The number of a group of lanes of the block."""
    return atom.kind is AtomKind.FLOOR_DIV and atom.args[0].has(AtomKind.LANE)


def _by_groups(index: Expr) -> bool:
    """True when groups of lanes lie as far apart as the launch says, and blocks several times as
    far, as often as is known before."""
    top = list(index.top())
    apart = [index.coefficient(a) for a in top if _group(a) and not a.args[0].has(AtomKind.BLOCK)]
    given = [row for row in apart if len(row.terms) == 1 and row.has(AtomKind.PARAMETER)]
    steps = [index.coefficient(a) for a in top if a.kind is AtomKind.BLOCK]
    return any(_several(step, row) for step in steps for row in given)


def _by_parts(index: Expr) -> bool:
    """True when one block id steps over a part of what another one steps over."""
    steps = [index.coefficient(a) for a in index.top() if a.kind is AtomKind.BLOCK]
    for part in steps:
        whole = part
        while whole.atom is not None and whole.atom.kind is AtomKind.FLOOR_DIV:
            whole = whole.atom.args[0]
        if whole != part and whole in steps:
            return True
    return False


def _several(step: Expr, row: Expr) -> bool:
    """Whether a step is a row several times, by no number that the launch gives."""
    ((wanted, by),) = row.terms
    if len(step.terms) != 1:
        return False
    ((factors, number),) = step.terms
    rest = list(factors)
    for atom in wanted:
        if atom not in rest:
            return False
        rest.remove(atom)
    whole = number % by == 0 and (number // by > 1 or bool(rest))
    return whole and not any(a.kind is AtomKind.PARAMETER for a in rest)
