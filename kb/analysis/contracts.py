"""What a kernel asks of the arrays that it is given: strides, lengths, first contents, sizes that
32 bits can count."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.accesses import BULK, Access, Mode
from kb.analysis.assumptions import unit_strides, whole_rounds
from kb.analysis.facts import Facts
from kb.analysis.graph import Lines, Node
from kb.analysis.idioms import against_extent, between_lanes, masks, sides
from kb.analysis.loops import Loop
from kb.analysis.parameters import strides_of, tile_extents
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.analysis.thread_offsets import narrow_products
from kb.analysis.widths import Widths, short_products
from kb.ir import ParameterKind
from kb.ops import COMPARISONS, OpKind
from kb.space import Constraint, implied

LARGEST_INT32 = 2_147_483_647


def contracts(facts: Facts) -> Iterator[Constraint]:
    """Everything that is asked of the arrays, each once."""
    yield from _side_by_side(facts)
    yield from _shared_strides(facts)
    yield from _first_contents(facts)
    yield from _one_per_tile(facts)
    yield from _counted_in_32_bits(facts)
    yield from _whole_rounds(facts)
    yield from _same_lengths(facts)
    yield from _strides_of_blocks(facts)


def _side_by_side(facts: Facts) -> Iterator[Constraint]:
    """Elements that lanes pick without a stride lie side by side: one constraint for all arrays."""
    found = unit_strides(facts)
    if found:
        yield implied(
            " and ".join(f"{array}.stride[-1] == 1" for array in found),
            "lanes are added to the address without a stride",
            "make the arrays contiguous, or pass the stride of the last axis and use it",
            min(found.values()),
        )


def _shared_strides(facts: Facts) -> Iterator[Constraint]:
    """One stride that places blocks or rows of several arrays: told of the first two."""
    strides = strides_of(facts)
    users: dict[tuple[str, int], dict[str, Lines]] = {}
    for access in facts.accesses:
        if access.mode in BULK or access.array is None:
            continue
        for name in sorted(access.strides & strides):
            for times in sorted(_times(access, name)):
                users.setdefault((name, times), {}).setdefault(access.array, access.node.lines)
    shared = {key: arrays for key, arrays in users.items() if len(arrays) > 1}
    names = dict.fromkeys(name for name, _ in shared)
    if shared:
        arrays = next(iter(shared.values()))
        axis = "[-2]" if len(names) == 1 and arrays.keys() <= unit_strides(facts).keys() else ""
        yield implied(
            " == ".join(f"{array}.stride{axis}" for array in arrays),
            f"{', '.join(f'`{name}`' for name in names)} is the stride of all of them",
            "pass a stride for each array, or check that they are equal",
            min(arrays.values()),
        )


def _times(access: Access, name: str) -> set[int]:
    """How often a stride is taken for each place of a block or lane: rows of two parts lie twice as
    far apart."""
    return {
        times
        for index in access.index
        for factors, times in index.terms
        if len(factors) > 1 and any(atom.value == name for atom in factors)
    }


def _first_contents(facts: Facts) -> Iterator[Constraint]:
    """What many blocks add to must be zero before: where they add, and not on the other side of the
    branch, which sets it."""
    sums: dict[str, Access] = {}
    for access in facts.stores:
        adds = access.node.op.kind in (OpKind.ATOMIC_ADD, OpKind.DESCRIPTOR_ATOMIC_ADD)
        if adds and access.array is not None:
            sums.setdefault(access.array, access)
    for array, access in sums.items():
        sets = [a for a in facts.stores if a.array == array and not a.is_atomic]
        apart = [_apart(facts, access.node, one.node) for one in sets]
        if not all(apart):
            continue
        unless = f"{apart[0]} or " if apart else ""
        yield implied(
            f"{unless}{array}.initial == 0",
            f"blocks add to {array} with atomics and none of them sets it first",
            "fill it with zeros before every launch, also before every timed one",
            access.node.lines,
        )


def _apart(facts: Facts, added: Node, stored: Node) -> str:
    """The condition under which a branch takes the side that stores, and not the side that adds, in
    the words of parameters; empty where the two are not on the sides of one branch."""
    for branch in facts.guards(added):
        inside = [one for one in (added, *added.around()) if one.parent is branch]
        beside = [one for one in (stored, *stored.around()) if one.parent is branch]
        if inside and beside and inside[0].branch != beside[0].branch:
            return _words(facts, branch.op.inputs[0], bool(beside[0].branch))
    return ""


def _words(facts: Facts, value: str, negated: bool) -> str:
    """A flag, or a comparison of a parameter with a number, or what is otherwise so."""
    core = facts.graph.core(value) or ""
    if core in facts.constexprs:
        return f"not {core}" if negated else core
    test = facts.graph.producer(core)
    sign = _SIGNS.get(test.op.kind) if test is not None else None
    if test is None or sign is None:
        return ""
    left, right = sides(facts, test)
    known = left.atom is not None and left.atom.kind is AtomKind.PARAMETER
    if not known or right.constant is None:
        return ""
    return f"{left} {sign[negated]} {right}"


_SIGNS: dict[str, tuple[str, str]] = {
    OpKind.EQ: ("==", "!="), OpKind.NE: ("!=", "=="), OpKind.LT: ("<", ">="),
    OpKind.LE: ("<=", ">"), OpKind.GT: (">", "<="), OpKind.GE: (">=", "<"),
}  # fmt: skip


def _one_per_tile(facts: Facts) -> Iterator[Constraint]:
    """A row of an array that has one element per tile is as long as there are tiles."""
    told: set[tuple[str, str]] = set()
    for access in facts.accesses:
        if access.mode in BULK or access.array is None:
            continue
        for factors, _ in (term for index in access.index for term in index.terms):
            for atom in factors if len(factors) > 1 else ():
                if _tiles(facts, atom, factors) and (access.array, atom.text) not in told:
                    told.add((access.array, atom.text))
                    yield implied(
                        f"{access.array}.shape[-1] == {atom.text}",
                        f"{access.array} has one element per tile, and rows of it follow each "
                        "other without a gap",
                        "make it for the tile extent that the kernel is launched with",
                        _where(facts, atom) or access.node.lines,
                    )


def _tiles(facts: Facts, atom: Atom, factors: tuple[Atom, ...]) -> bool:
    """A number of tiles, and not of their elements: a size divided by the extent of a tile, rounded
    up, and not multiplied with the extent again."""
    if atom.kind is not AtomKind.CEIL_DIV:
        return False
    size, tile = atom.args[0].atom, atom.args[1].atom
    return (
        size is not None
        and tile is not None
        and size.kind is AtomKind.PARAMETER
        and tile.value in tile_extents(facts)
        and tile not in factors
    )


def _where(facts: Facts, atom: Atom) -> Lines | None:
    """Where a quotient is first computed."""
    divided = facts.graph.of(OpKind.CEIL_DIV, OpKind.FLOOR_DIV)
    return next((n.lines for n in divided if facts.values.expr(n.result).atom == atom), None)


def _counted_in_32_bits(facts: Facts) -> Iterator[Constraint]:
    """Offsets that are computed in 32 bits reach so many elements: the first array stands for
    all."""
    widths = Widths(facts)
    found: dict[str, Lines] = {}
    for access in facts.accesses:
        if access.array is None or access.array in found or access.mode in BULK:
            continue
        shape = facts.types.shape(access.value)
        if not facts.of_threads and all(extent == "1" for extent in shape):
            continue
        products = list(short_products(facts, widths, access))
        products = products or narrow_products(facts, widths, access)
        if products or _flat(facts, widths, access):
            found[access.array] = (products[0] if products else access.node).lines
    if found:
        first, *others = found
        also = f" (so do {', '.join(others)})" if others else ""
        yield implied(
            f"{first}.numel <= {LARGEST_INT32}",
            f"offsets into {first} are computed in 32 bits{also}",
            "widen the block index to 64 bits before it is multiplied",
            found[first],
        )


def _flat(facts: Facts, widths: Widths, access: Access) -> bool:
    """Whether the only index of an array is computed in 32 bits and grows with the blocks times a
    size."""
    if access.mode is not Mode.ELEMENT or len(access.index) != 1:
        return False
    given = facts.values.items(access.node.op.operand("index") or "")
    grows = any(
        any(a.kind in _PLACES for a in factors)
        and any(a.kind in _SIZES and a.value not in tile_extents(facts) for a in factors)
        for factors, _ in access.index[0].terms
    )
    return grows and len(given) == 1 and widths.width(given[0]) == 32


_PLACES = (AtomKind.BLOCK, AtomKind.MOD, AtomKind.FLOOR_DIV)


def _whole_rounds(facts: Facts) -> Iterator[Constraint]:
    """A size that a loop of threads goes over in steps, without asking within them."""
    for access, size, step in whole_rounds(facts):
        yield implied(
            f"{size} % {step} == 0",
            f"threads take {step} elements in a round, and nothing asks whether they are there",
            "check the size on the host, or mask the rest",
            access.node.lines,
        )


def _same_lengths(facts: Facts) -> Iterator[Constraint]:
    """A causal mask that counts both axes from zero, of a kernel that knows two lengths."""
    if not facts.score_products:
        return
    operands = [facts.score_products[0].op.operand(role) for role in ("lhs", "rhs")]
    loads = [next((a for a in facts.held_loads(v) if a.array), None) for v in operands]
    arrays = [load.array for load in loads if load is not None]
    known = all(load is not None and load.mode is Mode.TILE for load in loads)
    if len(set(arrays)) != 2 or not (known or len(_lengths(facts)) > 1):
        return
    for mask in masks(facts):
        for test in mask.comparisons:
            if not between_lanes(facts, test):
                continue
            if not any(_shift(facts, side) for side in sides(facts, test)):
                yield implied(
                    f"{arrays[0]}.shape[-2] == {arrays[1]}.shape[-2]",
                    "the causal mask counts queries and keys from the start of both; with other "
                    "lengths the last query does not see the last key",
                    "add the difference of the lengths to the positions of the queries",
                    test.lines,
                )
                return


def _shift(facts: Facts, side: Expr) -> bool:
    """Whether a side of a comparison holds a number that is passed or loaded."""
    scalars = {p.name for p in facts.kernel.entry.parameters if p.kind is ParameterKind.SCALAR}
    return any(
        len(factors) == 1 and (factors[0].value in scalars or factors[0].kind in _GIVEN)
        for factors, _ in side.terms
    )


_GIVEN = (AtomKind.LOADED, AtomKind.OPAQUE, AtomKind.EXTENT, AtomKind.CHOICE)


def _strides_of_blocks(facts: Facts) -> Iterator[Constraint]:
    """Blocks that begin at their own item and go on by a number that is passed are as many as that
    number, or as there are items, or items are left out or taken twice."""
    for loop in facts.loops:
        for first, step in _walks(facts, loop):
            block, by = (
                facts.values.expr(_outermost(facts, first)).atom,
                facts.values.expr(step).atom,
            )
            if block is None or by is None or by.kind is not AtomKind.PARAMETER:
                continue
            if block.kind is not AtomKind.BLOCK:
                continue
            grid = f"grid[{block.axis}]"
            items = str(facts.values.expr(loop.high)) if loop.high is not None else ""
            known = items and not facts.values.expr(loop.high or "").has(*_GIVEN)
            yield implied(
                f"{grid} <= {by.value} and {grid} >= min({by.value}, {items})"
                if known
                else f"{grid} == {by.value}",
                f"every block begins at its own item and goes on by `{by.value}` items",
                "launch as many blocks, or go on by the number of blocks",
                loop.node.lines,
            )


def _walks(facts: Facts, loop: Loop) -> Iterator[tuple[str, str]]:
    """First value and step of what a loop counts."""
    if loop.low is not None and loop.step is not None:
        yield loop.low, loop.step
    for carried in loop.carried if loop.node.op.kind == OpKind.WHILE else ():
        added = facts.graph.producer(carried.next)
        if added is not None and added.op.kind == OpKind.ADD:
            by = [v for v in added.op.inputs if v != carried.argument]
            if len(by) == 1:
                yield carried.init, by[0]


def _outermost(facts: Facts, value: str) -> str:
    """What a value that outer loops carry begins as."""
    for _ in range(4):
        held = facts.graph.arguments.get(value)
        loop = facts.loop(held[0]) if held is not None else None
        carried = loop.carried if loop is not None else ()
        begun = [one.init for one in carried if one.argument == value]
        if not begun:
            break
        value = begun[0]
    return value


def _lengths(facts: Facts) -> set[str]:
    """Sizes that positions are held below, and that loops or grids are counted by."""
    found: set[str] = set()
    for node in facts.graph.of(*COMPARISONS):
        if against_extent(facts, node):
            for side in sides(facts, node):
                if not side.has(AtomKind.LANE):
                    found |= {a.text for a in side.top() if a.kind in _SIZES}
    for loop in facts.loops:
        if loop.high is not None:
            for atom in facts.values.expr(loop.high).atoms():
                found |= {a.text for a in (atom,) if a.kind in _SIZES}
    return found - tile_extents(facts)


_SIZES = (AtomKind.PARAMETER, AtomKind.EXTENT)
