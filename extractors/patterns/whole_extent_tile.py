"""One tile that spans a whole extent of an array."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, PRODUCT
from extractors.patterns.cases_rows import ADD_POINTER, LAYER_NORM_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS, FIRST_THREAD, LAYER_NORM_THREADS
from kb.analysis.accesses import Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import against_extent, comparisons, sides
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind


class WholeExtentTile(Pattern):
    """Lanes that no block id and no loop moves are masked by an extent; or a tile of a
    compile-time extent is only ever read at index zero of an axis."""

    name = "whole-extent-in-one-tile"
    axis = "tile_padding"
    source = "Triton documentation, Fused Softmax tutorial: the block is the next power of two"
    matches = (
        Case(LAYER_NORM_POINTER, "masked lanes of one padded tile"),
        Case(ATTENTION, "whole extent in one tile"),
        Case(LAYER_NORM_THREADS, "masked lanes of one padded tile"),
    )
    near_misses = (
        NearMiss(ADD_POINTER, why="the block id moves the lanes"),
        NearMiss(PRODUCT, why="every axis is tiled"),
        NearMiss(FIRST_THREAD, why="one thread is picked out"),
        NearMiss(ADD_THREADS, why="the block id moves the lanes"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        masked = [
            c
            for a in facts.accesses
            for c in comparisons(facts, a.mask)
            if against_extent(facts, c) and _still(facts, c)
        ]
        if masked:
            lanes = [n for c in masked for n in _lanes(facts, c)]
            found = dict.fromkeys([*masked, *lanes])
            yield self.decide(facts, "masked lanes of one padded tile", found)
        elif names := self._whole(facts):
            first = [a for a in facts.loads if set(names) & set(a.shape)][:1]
            where: list[Where] = [*first, *facts.declared(*names)]
            yield self.decide(facts, "whole extent in one tile", where, ", ".join(names))

    def _whole(self, facts: Facts) -> list[str]:
        """Compile-time extents of tiles whose index is zero in every access."""
        at_zero: dict[str, bool] = {}
        for access in facts.accesses:
            if access.mode is not Mode.TILE or len(access.shape) != len(access.index):
                continue
            for extent, index in zip(access.shape, access.index, strict=True):
                if extent in facts.constexprs:
                    at_zero[extent] = at_zero.get(extent, True) and index.constant == 0
        return [name for name, zero in sorted(at_zero.items()) if zero] if facts.loads else []


def _still(facts: Facts, comparison: Node) -> bool:
    moving = (AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.COUNT, AtomKind.LOADED, AtomKind.OPAQUE)
    return not any(side.has(*moving) for side in sides(facts, comparison))


def _lanes(facts: Facts, comparison: Node) -> list[Node]:
    """Where the lanes of a comparison are counted."""
    counted = [n for v in comparison.op.inputs[:2] for n in facts.graph.roots(v, OpKind.ARANGE)]
    return [n for n in counted if n.op.span.line > 0]
