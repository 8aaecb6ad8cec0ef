"""Strides: the parameters of a launch that say how far apart rows and elements lie."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, LOOPS, Node
from kb.analysis.record_fields import field_of
from kb.analysis.symbolic import Atom, AtomKind, Expr, nested, of
from kb.dtypes import is_float
from kb.ir import ParameterKind
from kb.ops import COMPARISONS, OpKind

_MOVING = (AtomKind.BLOCK, AtomKind.INDUCTION, AtomKind.COUNT, AtomKind.LANE, AtomKind.LOADED)
_WITHIN = (AtomKind.FLOOR_DIV, AtomKind.CEIL_DIV, AtomKind.MOD, AtomKind.CHOICE, AtomKind.MINIMUM)
_PROMISES = (OpKind.MULTIPLE_OF, OpKind.MAX_CONTIGUOUS)
_PLACING = COPIES | LOOPS | {OpKind.ADD, OpKind.IF, OpKind.IF_EXPRESSION, OpKind.SELECT}
_MEASURING = frozenset({OpKind.DIV, OpKind.FLOOR_DIV, OpKind.MOD, OpKind.RANGE,
                        OpKind.STATIC_RANGE, OpKind.MINIMUM, OpKind.MAXIMUM})  # fmt: skip
"""What is done with the extent of an axis, but not with a stride."""


def shared_strides(facts: Facts) -> set[str]:
    """Parameters that are strides of several arrays and nothing else, and are not multiplied with
    each other as extents are."""
    users: dict[str, set[str]] = {}
    given = given_strides(facts)
    for access in facts.accesses:
        if access.mode is Mode.POINTER and access.array is not None:
            for name in access.strides & given:
                users.setdefault(name, set()).add(access.array)
    found = {name for name, arrays in users.items() if len(arrays) > 1}
    return found - strides_and_sizes(facts)[1] if found else found


def free_strides(facts: Facts) -> set[str]:
    """Parameters that are strides of arrays of which every axis has one."""
    given = given_strides(facts)
    found: dict[str, set[str]] = {}
    dense: set[str | None] = set()
    for access in facts.accesses:
        if access.array is not None:
            named, _ = _strides(facts, access)
            found.setdefault(access.array, set()).update(named & given)
            dense |= {access.array} if _side_by_side(facts, access) else set()
    tiles = {a.array for a in facts.accesses if facts.types.shape(a.value)} - dense
    free = [strides for array, strides in found.items() if array in tiles]
    return {name for strides in free if len(strides) > 1 for name in strides}


def row_strides(facts: Facts) -> set[str]:
    """Parameters that are factors of positions in addresses and nothing else."""
    names, sizes = strides_and_sizes(facts)
    names -= sizes
    return names - compared(facts) - _measured(facts) if names else names


def strides_and_sizes(facts: Facts) -> tuple[set[str], set[str]]:
    """Parameters that positions alone are multiplied with in addresses; and sizes: those that are
    multiplied with each other, or bound a block of pointers, or count records of so many elements
    as another position steps over, too."""
    single: set[str] = set()
    sizes: set[str] = set()
    plain: set[str] = set()
    counted: set[str] = set()
    fixed = facts.constexprs if facts.of_threads else facts.tile_extents
    for access in facts.accesses:
        exprs = access.index if access.mode is Mode.POINTER else ()
        if access.made is not None:
            exprs = _operands(facts, access.made, "strides")
            bounds = _operands(facts, access.made, "shape")
            sizes |= {n for e in bounds for n in _named(e.atoms())}
        for factors in (f for e in exprs for one in nested(e) for f, _ in one.terms):
            named = _named(_of_rests(factors) if facts.of_threads else factors) - fixed
            single |= named if access.made is not None or len(factors) > 1 else set()
            sizes |= named if len(named) > 1 else set()
        for one in exprs if facts.of_threads else ():
            alone = {abs(number) for f, number in one.terms if not _named(f)}
            for factors, number in one.terms:
                of_records = abs(number) > 1 and abs(number) in alone
                (counted if of_records else plain).update(_named(factors) - fixed)
    return single, sizes | (counted - plain)


def _of_rests(factors: tuple[Atom, ...]) -> tuple[Atom, ...]:
    """Factors without the extent that a quotient among them was divided by: what a number is less
    than that product is the rest, and who multiplies a rest multiplies the extent, too."""
    whole = [a.args[1] for a in factors if a.kind is AtomKind.FLOOR_DIV and len(a.args) > 1]
    if not whole or len(_named(factors)) < 2:
        return factors
    return tuple(a for a in factors if not any(of(a) == by for by in whole))


def loaded_strides(facts: Facts) -> list[str]:
    """Numbers that are loaded, and are strides and no extents."""
    loaded = dict.fromkeys(v for access in facts.accesses for v in _strides(facts, access)[1])
    bounds = {a.value for expr in _compared_with(facts) for a in expr.atoms()} if loaded else set()
    return [name for name in loaded if name not in bounds]


def compared(facts: Facts) -> set[str]:
    """Parameters that positions are compared with: extents."""
    return _named(a for expr in _compared_with(facts) for a in expr.atoms())


def placed_with(facts: Facts, names: set[str]) -> list[Node]:
    """The products with strides, and the blocks of pointers that are made with them."""
    through = CASTS | COPIES
    products = [
        node
        for node in facts.threads.of(OpKind.MUL)
        if any(
            below in names
            or field_of(facts.threads, below) in names
            or _part(facts, below) in names
            for below in (facts.threads.through(v, through) for v in node.op.inputs)
        )
    ]
    blocks = [
        node
        for node in blocks_of_pointers(facts)
        if any(names & _named(e.atoms()) for e in _operands(facts, node, "strides"))
    ]
    return products + blocks


def joined_at(facts: Facts, access: Access) -> list[Node]:
    """The sums in which everything that moves the place of an access comes together."""
    fixed = (AtomKind.PARAMETER, AtomKind.EXTENT)
    whole = access.index[0] if access.index else Expr()
    moving = {a for a in whole.atoms() if not a.args and a.kind not in fixed}
    return [
        node
        for value in (access.base or "", *access.address)
        for node in facts.graph.upstream(value, lambda n: n.op.kind not in _PLACING)
        if node.op.kind == OpKind.ADD
        and moving <= set(facts.values.expr(node.result).atoms())
        and not any(moving <= set(facts.values.expr(v).atoms()) for v in node.op.inputs[:2])
    ]


def blocks_of_pointers(facts: Facts) -> list[Node]:
    """What makes the blocks of pointers and the descriptors that are accessed."""
    return list(dict.fromkeys(a.made for a in facts.accesses if a.made is not None))


def promised(facts: Facts) -> list[Node]:
    """Where positions of lanes, on their way to an address, are declared multiples or
    contiguous."""
    return [
        node
        for node in facts.graph.of(*_PROMISES)
        if facts.values.expr(node.op.inputs[0]).has(AtomKind.LANE)
        and any(facts.graph.rests_on(v, node) for a in facts.accesses for v in a.address)
    ]


def given_strides(facts: Facts) -> set[str]:
    """Parameters of the launch that may be strides: numbers that no position is compared with."""
    kinds = (ParameterKind.UNTOLD, ParameterKind.SCALAR)
    return {p.name for p in facts.kernel.entry.parameters if p.kind in kinds} - compared(facts)


def _measured(facts: Facts) -> set[str]:
    """Parameters that are divided by, counted up to, or turned into numbers with a fraction."""
    found: set[str] = set()
    for node in facts.graph.of(*_MEASURING, *CASTS):
        floats = node.op.kind in CASTS and is_float(facts.types.dtype(node.result))
        if node.op.kind in _MEASURING or floats:
            found |= {n for v in node.op.inputs for n in _named(facts.values.expr(v).atoms())}
    return found


def _compared_with(facts: Facts) -> list[Expr]:
    """Both sides of comparisons, but of those with a constant."""
    pairs = [[facts.values.expr(v) for v in n.op.inputs] for n in facts.graph.of(*COMPARISONS)]
    return [x for pair in pairs if all(y.constant is None for y in pair) for x in pair]


def _strides(facts: Facts, access: Access) -> tuple[set[str], list[str]]:
    """Parameters that are strides of an access, and loaded numbers that are."""
    steps = [e.atom for e in _operands(facts, access.made, "strides")]
    if access.mode is Mode.POINTER:
        products = [f for index in access.index for f, _ in index.terms if len(f) == 2]
        lanes = [f for f in products if any(a.kind is AtomKind.LANE for a in f)]
        steps = [a for f in lanes for a in f if a.kind is not AtomKind.LANE]
    atoms = [a for a in steps if a is not None]
    return _named(atoms) | access.strides, [a.value for a in atoms if a.kind is AtomKind.LOADED]


def _side_by_side(facts: Facts, access: Access) -> bool:
    """True when neighbours along an axis of a tile are neighbours in memory."""
    if access.mode is Mode.POINTER:
        alone = [f[0] for index in access.index for f, _ in index.terms if len(f) == 1]
        return any(a.kind is AtomKind.LANE for a in alone)
    return any(e.constant == 1 for e in _operands(facts, access.made, "strides"))


def _operands(facts: Facts, made: Node | None, role: str) -> tuple[Expr, ...]:
    """The shape or the strides of a block of pointers."""
    given = made.op.operand(role) if made is not None else None
    return tuple(facts.values.expr(item) for item in facts.values.items(given))


def _part(facts: Facts, value: str | None) -> str | None:
    """The part of a group of parameters that a value is, as `strides.1`."""
    atom = facts.values.expr(value).atom
    return atom.value if atom is not None and atom.kind is AtomKind.PARAMETER else None


def _named(atoms: Iterable[Atom]) -> set[str]:
    return {a.value for a in atoms if a.kind is AtomKind.PARAMETER}


def moves(atom: Atom) -> bool:
    """A position, or a part of one; what is made of extents alone is an extent."""
    inside = any(arg.has(*_MOVING, AtomKind.OPAQUE) for arg in atom.args)
    return atom.kind in _MOVING or (atom.kind in _WITHIN and inside)
