"""Places that are computed in 32 bits and widened to 64 only afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.parameters import strides_of
from kb.analysis.symbolic import Atom, AtomKind
from kb.analysis.widths import Widths, below_short, beside_rows, multiplied
from kb.ops import OpKind


def widened_late(facts: Facts, widths: Widths) -> Iterator[Node]:
    """Casts to 64 bits of places that were computed in 32: a block index times the size of a tile,
    and lanes."""
    for node in facts.graph.of(OpKind.CAST):
        value = node.op.inputs[0]
        wide = facts.types.dtype(node.result) in ("i64", "u64")
        if not wide or widths.width(value) != 32 or below_short(facts, widths, value):
            continue  # what is held below a number of 32 bits fits
        if _of_sizes(facts, value):
            if not facts.of_threads and any(True for _ in _addressed(facts, node)):
                yield node
            continue
        if multiplied(facts, node) or beside_rows(facts, widths, node):
            continue  # a row or a column, which fits: what makes the offset of rows is wide already
        if any(_far(facts, value, *term) for term in facts.values.expr(value).terms):
            if any(access.mode is Mode.POINTER for access in _addressed(facts, node)):
                yield node


def _of_sizes(facts: Facts, value: str) -> bool:
    """Whether a number is a product of sizes that are handed over, none of them the extent of a
    tile: how many items there are, times the rows of one."""
    terms = facts.values.expr(value).terms
    factors, number = terms[0] if len(terms) == 1 else ((), 0)
    sizes = {one.value for one in factors if one.kind is AtomKind.PARAMETER}
    known = len(sizes) == len(factors) > 1 and not sizes & facts.tile_extents
    return number > 0 and known and bool(sizes - facts.constexprs)


def _far(facts: Facts, value: str, factors: tuple[Atom, ...], number: int) -> bool:
    """Whether a term of a place is a block index times the size of a tile, beside lanes, or what a
    block index gives times a stride."""
    if facts.values.expr(value).has(AtomKind.LANE):
        blocks = any(atom.kind is AtomKind.BLOCK for atom in factors)
        return blocks and (len(factors) > 1 or number != 1)
    strides = strides_of(facts)
    return any(_of_block(atom) for atom in factors) and any(a.value in strides for a in factors)


def _of_block(atom: Atom) -> bool:
    return atom.kind is AtomKind.BLOCK or any(arg.has(AtomKind.BLOCK) for arg in atom.args)


def _addressed(facts: Facts, node: Node) -> Iterator[Access]:
    """Accesses whose address rests on a value."""
    for access in facts.accesses:
        address = access.node.op.operand("pointer")
        if address is not None and facts.graph.rests_on(address, node):
            yield access
