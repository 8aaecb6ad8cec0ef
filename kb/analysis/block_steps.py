"""How far a block id reaches: over single rows, or over the extent of a tile."""

from __future__ import annotations

from collections.abc import Collection

from kb.analysis.facts import Facts
from kb.analysis.symbolic import Atom, AtomKind, Expr
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
    when rows are the quotient of a flat number that counts the lanes of all blocks."""
    for factors, number in index.terms:
        if any(of_block(atom) for atom in factors) and (
            str(number) in extents or any(atom.text in extents for atom in factors)
        ):
            return True
    taken_apart = (a.args[0] for a in index.top() if a.kind in (AtomKind.FLOOR_DIV, AtomKind.MOD))
    return any(_flat(number) or steps_by_tile(number, extents) for number in taken_apart)


def of_block(atom: Atom) -> bool:
    """Whether an atom is a block id, or computed from one."""
    return atom.kind is AtomKind.BLOCK or any(inner.has(AtomKind.BLOCK) for inner in atom.args)


def _flat(number: Expr) -> bool:
    kinds = {atom.kind for atom in number.top()}
    return AtomKind.BLOCK in kinds and AtomKind.LANE in kinds
