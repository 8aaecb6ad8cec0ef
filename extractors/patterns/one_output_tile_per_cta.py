"""One output tile, or one row, per block."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT, PRODUCT_PERSISTENT, PRODUCT_POINTER
from extractors.patterns.cases_pointer import FLASH_STAGED, PRODUCT_PERSISTENT_POINTER
from extractors.patterns.cases_rows import ROW_NORM
from extractors.patterns.cases_threads import PRODUCT_PERSISTENT_THREADS, PRODUCT_THREADS
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import persistent
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind


class OneOutputTilePerCta(Pattern):
    """Every store goes where the block ids alone say, perhaps chunk by chunk inside the own
    tile."""

    name = "one-output-tile-per-cta"
    axis = "work_decomposition"
    source = 'CUTLASS, "Efficient GEMM in CUDA", Threadblock-level GEMM'
    matches = (
        Case(PRODUCT, "one tile per CTA"),
        Case(ATTENTION, "one tile per CTA"),
        Case(ROW_NORM, "one row per CTA"),
        Case(PRODUCT_POINTER, "one tile per CTA"),
        Case(PRODUCT_THREADS, "one tile per CTA"),
        Case(FLASH_STAGED, "one tile per CTA"),
    )
    near_misses = (
        NearMiss(PRODUCT_PERSISTENT, why="a loop over work items decides where each tile goes"),
        NearMiss(
            PRODUCT_PERSISTENT_POINTER, why="a loop over work items decides where each tile goes"
        ),
        NearMiss(
            PRODUCT_PERSISTENT_THREADS, why="a loop over work items decides where each tile goes"
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if any(persistent(loop, facts.values) or facts.walks_chunk(loop) for loop in facts.loops):
            return
        if facts.graph.of(OpKind.WHILE):
            return
        placed = [a for a in facts.stores if _by_block(facts, a)]
        stores = [a for a in placed if not a.is_atomic]
        if not stores or len(placed) != len(facts.stores):
            return
        value = "one row per CTA" if all(_one_row(facts, a) for a in stores) else "one tile per CTA"
        yield self.decide(facts, value, [*_main(facts, stores), *_decoding(facts, stores)])


def _by_block(facts: Facts, access: Access) -> bool:
    """True when the place of an access depends on a block id."""
    if any(index.has(AtomKind.BLOCK) for index in access.index):
        return True
    places = [v for role, v in access.node.op.operands if role not in ("value", "mask")]
    return any(facts.graph.roots(value, OpKind.BLOCK_ID) for value in places)


def _one_row(facts: Facts, access: Access) -> bool:
    """True when a block id counts single rows: its axis has extent 1, or it is not scaled by a
    tile extent."""
    shape = facts.types.shape(access.value)
    if len([extent for extent in shape if extent != "1"]) > 1:
        return False
    extents = {str(facts.values.expr(n.op.operand("size"))) for n in facts.graph.of(OpKind.ARANGE)}
    for axis, index in enumerate(access.index):
        for factors, _ in index.terms:
            if not any(
                a.kind is AtomKind.BLOCK or any(x.has(AtomKind.BLOCK) for x in a.args)
                for a in factors
            ):
                continue
            if any(atom.text in extents for atom in factors):
                return False
            if access.mode is Mode.TILE and axis < len(shape) and shape[axis] != "1":
                return False
    return True


def _decoding(facts: Facts, stores: list[Access]) -> list[Node]:
    """The block ids that place the stores, with the steps that take them apart."""
    addresses = [
        v for a in stores for role, v in a.node.op.operands if role not in ("value", "mask")
    ]
    ids = [
        n
        for n in facts.graph.of(OpKind.BLOCK_ID)
        if any(facts.graph.rests_on(v, n) for v in addresses)
    ]
    parts = [
        n
        for n in facts.graph.of(OpKind.FLOOR_DIV, OpKind.MOD)
        if (atom := facts.values.expr(n.op.inputs[0]).atom) is not None
        and atom.kind is AtomKind.BLOCK
    ]
    return ids + parts


def _main(facts: Facts, stores: list[Access]) -> list[Access]:
    """The stores of the widest tiles: the output, not the statistics beside it."""
    rank = {a: len([e for e in facts.types.shape(a.value) if e != "1"]) for a in stores}
    best = max(rank.values())
    return [a for a in stores if rank[a] == best]
