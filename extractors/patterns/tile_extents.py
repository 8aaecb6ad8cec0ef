"""Which compile-time parameters are extents of tiles."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.values import Values
from kb.evidence import Decision
from kb.ops import OpKind

_SINGLE = (
    POINTER
    + """
@triton.jit
def once(x):
    tl.store(x, tl.load(x) + 1)
"""
)
_MAKES = (OpKind.ARANGE, OpKind.FULL, OpKind.ZEROS)


_SINGLE_TILE = (
    TILE
    + """
@ct.kernel
def once(x):
    ct.scatter(x, 0, ct.gather(x, 0) + 1)
"""
)


class TileExtents(Pattern):
    """A range of lanes, or a filled tile, has the extent that a compile-time parameter gives; the
    decision stands where the parameter is declared, and where it is used."""

    name = "tile-extent-as-compile-time-parameter"
    axis = "tile_selection"
    source = "Triton documentation, tl.constexpr; cuTile documentation, Constant: tile shapes"
    matches = (
        Case(ADD_POINTER, "compile-time parameter"),
        Case(ROW_NORM, "compile-time parameter"),
        Case(PRODUCT, "compile-time parameter"),
        Case(vary(ADD_POINTER, ("tl.arange(0, T)", "tl.arange(0, 512)")), "constant"),
        Case(PRODUCT_THREADS, "compile-time parameter"),
        Case(PRODUCT_THREADS.replace("template <int T>", "#define T 16"), "constant"),
    )
    near_misses = (
        NearMiss(_SINGLE, why="single numbers have no extent"),
        NearMiss(vary(ADD_POINTER, ("tl.arange(0, T)", "tl.program_id(1)")), why="no lanes at all"),
        NearMiss(_SINGLE_TILE, why="single numbers have no extent"),
        NearMiss(ADD_THREADS, why="the launch says how many threads there are"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Node]] = {}
        for node in facts.graph.of(*_MAKES):
            for extent in facts.types.shape(node.result):
                if extent in facts.constexprs:
                    found.setdefault(extent, []).append(node)
        arrays = [] if facts.program is facts.source else facts.threads.of(OpKind.ALLOCATE)
        values = facts.thread_values if arrays else facts.values
        for node in arrays:
            for extent in values.items(node.op.operand("shape")):
                names = {atom.value for atom in values.expr(extent).atoms()} & facts.constexprs
                for name in names:
                    found.setdefault(name, []).append(node)
        fixed = [] if found else [n for n in arrays if facts.contractions and _number(values, n)]
        if not facts.of_threads:
            fixed += [n for n in facts.graph.of(OpKind.ARANGE) if _written(facts, n)]
        if fixed:
            yield self.decide(facts, "constant", fixed)
        if found:
            given = [p.span.lines for p in facts.kernel.entry.parameters if p.name in found]
            where: list[Where] = [*given, *(node for nodes in found.values() for node in nodes)]
            yield self.decide(facts, "compile-time parameter", where, ", ".join(sorted(found)))


def _number(values: Values, node: Node) -> bool:
    """Whether an array in shared memory has extents that are plain numbers."""
    extents = values.items(node.op.operand("shape"))
    shared = node.op.attribute("space") == "shared"
    return shared and bool(extents) and all(values.expr(e).constant for e in extents)


def _written(facts: Facts, lanes: Node) -> bool:
    """Whether a range has as many lanes as a number says, and an access runs over them."""
    extents = [e for e in facts.types.shape(lanes.result) if e != "1"]
    return (
        len(extents) == 1
        and extents[0].isdigit()
        and any(
            facts.graph.rests_on(a.base, lanes)
            or any(facts.graph.rests_on(v, lanes) for v in a.address)
            for a in facts.accesses
        )
    )
