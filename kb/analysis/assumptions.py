"""What accesses take for granted about sizes and strides: whole tiles where nothing is masked, unit
strides where no stride is passed."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Lines
from kb.analysis.loops import Loop
from kb.analysis.parameters import tile_extents
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.analysis.widths import WIDEST_VECTOR
from kb.ir import ParameterKind, TileType
from kb.ops import COMPARISONS, OpKind


def powers_of_two(facts: Facts) -> frozenset[str]:
    """Compile-time parameters that are extents of tiles as they stand, and so powers of two."""
    found: set[str] = set()
    for node in facts.graph.nodes:
        described = node.op.kind in (OpKind.BLOCK_POINTER, OpKind.DESCRIPTOR)
        roles = ("block_shape",) if described else ("shape", "size", "block_shape")
        given = [value for role, value in node.op.operands if role in roles]
        for item in (item for value in given for item in facts.values.items(value)):
            if facts.graph.roots(item, OpKind.BUILTIN):
                continue  # rounded in the kernel
            for factors, _ in facts.values.expr(item).terms:
                found |= {a.value for a in factors if a.kind is AtomKind.PARAMETER}
    return frozenset(found) & facts.constexprs


def steps(facts: Facts) -> frozenset[str]:
    """Parameters that positions advance by before they are compared with a size, or that offsets
    of a block pointer advance by: tile sizes that somebody chose, and no extents of the problem."""
    exprs = [facts.values.expr(v) for n in facts.graph.of(*COMPARISONS) for v in n.op.inputs[:2]]
    for node in facts.graph.of(OpKind.BLOCK_POINTER):
        exprs += [facts.values.expr(v) for v in facts.values.items(node.op.operand("offsets"))]
    products = [factors for expr in exprs for factors, _ in expr.terms if len(factors) > 1]
    return frozenset(
        atom.value
        for factors in products
        for atom in factors
        if atom.kind is AtomKind.PARAMETER
        and any(other.kind is not AtomKind.PARAMETER for other in factors)
    )


def _bare(facts: Facts) -> Iterator[Access]:
    """Accesses of tiles by pointer without a mask."""
    for access in facts.accesses:
        if access.mode is Mode.POINTER and access.mask is None and len(access.index) == 1:
            if not facts.guards(access.node):
                yield access


def _lane_tiles(facts: Facts, offset: Expr) -> list[str]:
    """Compile-time extents of the lanes of an offset that stand by themselves."""
    extents = [
        str(atom.args[0])
        for factors, _ in offset.terms
        for atom in factors
        if atom.kind is AtomKind.LANE
    ]
    return [extent for extent in extents if extent in tile_extents(facts)]


def _tiled(offset: Expr, atom: Atom, tile: str) -> bool:
    """True for `atom * tile + lane(tile)`: whole tiles one after the other."""
    single = [factors for factors, number in offset.terms if number == 1]
    steps = any(len(f) == 2 and atom in f and any(a.value == tile for a in f) for f in single)
    return steps and any(
        len(f) == 1 and f[0].kind is AtomKind.LANE and str(f[0].args[0]) == tile for f in single
    )


def covered_grid(facts: Facts) -> Iterator[tuple[Access, int, str]]:
    """Unmasked accesses whose lanes follow a block id of one grid axis: access, axis, extent."""
    for access in _bare(facts):
        offset = access.index[0]
        for tile in _lane_tiles(facts, offset):
            for atom in dict.fromkeys(a for a in offset.top() if a.kind is AtomKind.BLOCK):
                if _tiled(offset, atom, tile):
                    yield access, atom.axis, tile


def whole_steps(facts: Facts) -> Iterator[tuple[Access, str, str]]:
    """Unmasked accesses in a loop over a size in steps of a tile: access, size, extent."""
    kinds = {p.name: p.kind for p in facts.kernel.entry.parameters}
    for access in _bare(facts):
        for loop in facts.loops:
            if not access.node.inside(loop.node):
                continue
            size, step = _counted(facts, loop)
            known = size in kinds and kinds[size] is not ParameterKind.ARRAY
            if (
                known
                and step in _lane_tiles(facts, access.index[0])
                and _moves(facts, access, loop)
            ):
                yield access, size, step


def whole_rounds(facts: Facts) -> Iterator[tuple[Access, str, str]]:
    """Accesses that the threads of a block make side by side, unasked, in a loop that all of them
    begin at zero, over a size in steps of several elements: access, size, step."""
    scalars = {p.name for p in facts.kernel.entry.parameters if p.kind is ParameterKind.SCALAR}
    own = facts.thread_values
    alike = {
        loop.node.op.span
        for loop in (facts.thread_loops if facts.of_threads else ())
        if loop.low is not None and own.expr(loop.low).constant == 0
    }
    for access in _bare(facts) if alike else ():
        for loop in facts.loops:
            begun = loop.node.op.span in alike and loop.step is not None
            if not begun or not access.node.inside(loop.node):
                continue
            size, step = facts.values.expr(loop.high).atom, facts.values.expr(loop.step)
            named = step.atom is not None and step.atom.value in facts.constexprs
            if size is None or size.value not in scalars or not (named or (step.constant or 0) > 1):
                continue
            if _along_lanes(facts, access, loop):
                yield access, size.value, str(step)


def _along_lanes(facts: Facts, access: Access, loop: Loop) -> bool:
    """Whether a place goes along with a loop, element by element, and lanes lie between."""
    counter, step = facts.values.expr(loop.induction).atom, facts.values.expr(loop.step)
    between = goes = False
    for factors, number in access.index[0].terms:
        sized = any(
            a.kind is AtomKind.PARAMETER and a.value not in facts.constexprs for a in factors
        )
        lanes = any(a.kind in (AtomKind.LANE, AtomKind.MOD) for a in factors)
        between = between or (lanes and not sized and number < (step.constant or number + 1))
        kept = [a for a in factors if a.kind is not AtomKind.COUNT]
        by_count = len(kept) < len(factors) and ((tuple(kept), number),) == step.terms
        goes = goes or (factors == (counter,) and number == 1) or by_count
    return between and goes


def _counted(facts: Facts, loop: Loop) -> tuple[str, str]:
    """The size that a loop covers and the extent of its steps, empty when it is another loop."""
    if loop.high is None or (loop.low is not None and facts.values.expr(loop.low).constant != 0):
        return "", ""
    high = facts.values.expr(loop.high)
    step = facts.values.expr(loop.step).atom if loop.step is not None else None
    atom = high.atom
    if atom is None:
        return "", ""
    if atom.kind is AtomKind.PARAMETER and step is not None:
        return atom.value, step.value
    if atom.kind in (AtomKind.CEIL_DIV, AtomKind.FLOOR_DIV):
        size, tile = atom.args[0].atom, atom.args[1].atom
        if size is not None and tile is not None:
            return size.value, tile.value
    return "", ""


def _moves(facts: Facts, access: Access, loop: Loop) -> bool:
    if loop.induction is None:
        return False
    counter = facts.values.expr(loop.induction).atom
    kinds = {a.kind for a in access.index[0].atoms()}
    return counter in set(access.index[0].atoms()) or AtomKind.COUNT in kinds


def unit_strides(facts: Facts) -> dict[str, Lines]:
    """Arrays that some access walks with a lane that no stride multiplies, with its lines."""
    found: dict[str, Lines] = {}
    for access in facts.accesses:
        if access.mode is not Mode.POINTER or access.array is None or len(access.index) != 1:
            continue
        if any(_beside(facts, access, f, n) for f, n in access.index[0].terms):
            found.setdefault(access.array, access.node.lines)
    return found


def _beside(facts: Facts, access: Access, factors: tuple[Atom, ...], number: int) -> bool:
    """Whether lanes are added to an address without a stride; those of threads perhaps times the
    elements that each takes."""
    lanes = [one for one in factors if one.kind is AtomKind.LANE or _within_group(facts, one)]
    others = [one for one in factors if one not in lanes]
    if len(lanes) != 1 or not facts.of_threads:
        return len(factors) == 1 and number == 1 and factors[0].kind is AtomKind.LANE
    if not others:
        return 1 <= number <= WIDEST_VECTOR
    several = number == 1 and len(others) == 1 and others[0].value in facts.constexprs
    return several and _several(facts, access)


def _within_group(facts: Facts, atom: Atom) -> bool:
    """Whether a number is that of a thread within a group of as many as the source says."""
    if atom.kind is not AtomKind.MOD or not facts.of_threads or atom.args[1].constant is None:
        return False
    lane = atom.args[0].atom
    return lane is not None and lane.kind is AtomKind.LANE


def _several(facts: Facts, access: Access) -> bool:
    """Whether a thread moves a vector at once."""
    op = access.node.op
    made = facts.graph.producer(op.operand("value")) if access.is_store else access.node
    type_ = made.op.results[0].type if made is not None and made.op.results else None
    return isinstance(type_, TileType) and bool(type_.shape)
