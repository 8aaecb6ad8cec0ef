"""Which compile-time parameters are extents of tiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER, ROW_NORM
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind, Expr
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
    """A range of lanes, or a filled tile, has the extent that a compile-time parameter gives, or a
    number; so has the share of a block of threads whose id is multiplied by it. The decision stands
    where the parameter is declared, and where it is used."""

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
        Case(ADD_THREADS.replace("blockDim.x", "256"), "constant"),
    )
    near_misses = (
        NearMiss(_SINGLE, why="single numbers have no extent"),
        NearMiss(vary(ADD_POINTER, ("tl.arange(0, T)", "tl.program_id(1)")), why="no lanes at all"),
        NearMiss(_SINGLE_TILE, why="single numbers have no extent"),
        NearMiss(ADD_THREADS, why="the launch says how many threads there are"),
        NearMiss(
            ADD_THREADS.replace("blockIdx.x * blockDim.x", "blockIdx.x * n"),
            why="how many elements a block takes is a size of the problem",
        ),
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
        for node, factor in _shares(facts) if facts.of_threads else ():
            names = {atom.value for atom in factor.atoms()}
            fixed += [] if names else [node]
            for name in names:
                found.setdefault(name, []).append(node)
        if not facts.of_threads:
            fixed += [n for n in facts.graph.of(OpKind.ARANGE) if _written(facts, n)]
        if fixed and not (found and facts.of_threads):
            yield self.decide(facts, "constant", fixed)
        if found:
            given = [p.span.lines for p in facts.kernel.entry.parameters if p.name in found]
            where: list[Where] = [*given, *(node for nodes in found.values() for node in nodes)]
            where += fixed if facts.of_threads else []
            yield self.decide(facts, "compile-time parameter", where, ", ".join(sorted(found)))


def _shares(facts: Facts) -> Iterator[tuple[Node, Expr]]:
    """Where threads multiply the id of their block by numbers or compile-time parameters, with
    these."""
    values = facts.thread_values
    for node in facts.threads.of(OpKind.MUL):
        sides = [values.expr(value) for value in node.op.inputs[:2]]
        for block, factor in (sides, sides[::-1]) if len(sides) == 2 else ():
            atoms = factor.atoms()
            fixed = all(a.kind is AtomKind.PARAMETER and a.value in facts.constexprs for a in atoms)
            if fixed and (atoms or (factor.constant or 0) > 1) and _of_block(block, facts):
                yield node, factor


def _of_block(number: Expr, facts: Facts) -> bool:
    """Whether a number is the id of a block, perhaps times what is compiled in."""
    inner = [atom for factors, _ in number.terms for atom in factors]
    fixed = all(a.kind is AtomKind.BLOCK or a.value in facts.constexprs for a in inner)
    return len(number.terms) == 1 and fixed and any(a.kind is AtomKind.BLOCK for a in inner)


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
