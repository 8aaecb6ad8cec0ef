"""Whether a kernel writes every element of an array that the host makes: each of its extents is
gone through by the grid, by a loop, or by lanes that the extent holds below it."""

from __future__ import annotations

from collections.abc import Iterator

from extractors.host.events import LaunchRecord
from extractors.host.expr import make
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.symbolic import Atom, AtomKind
from kb.analysis.symbolic import Expr as Place
from kb.ops import OpKind

_UNKNOWN = (AtomKind.LOADED, AtomKind.OPAQUE, AtomKind.CHOICE)
_SIZES = (AtomKind.PARAMETER, AtomKind.EXTENT, AtomKind.CEIL_DIV)


def written_whole(
    material: Material, launch: LaunchRecord, facts: Facts, name: str, made: Value
) -> bool:
    """Whether the stores to a parameter go through all extents of the array that a launch gives
    it; nothing reads the array, adds to it, or leaves a part of it to a branch."""
    dims = _dims(material, made)
    stores = [access for access in facts.accesses if access.array == name]
    if dims is None or not dims or not stores:
        return False
    if _square(dims) and any(map(_along_both, stores)):
        return False
    told: set[Value] = set()
    for store in stores:
        sizes = _gone_through(facts, store)
        if sizes is None:
            return False
        told.update(_values(material, launch, sizes))
        told.update(_tiles(facts, launch, store))
    told.update(_factors(launch.grid))
    whole = {_counted(made), *(_counted(one) for one in _likes(material, made))}
    return bool(told & whole) or all(_through(dim, told) for dim in dims)


def _square(dims: tuple[Value, ...]) -> bool:
    """Whether two axes have the same extent: what goes through one need not go through both."""
    sizes = [dim for dim in dims if dim != 1]
    return len(set(sizes)) < len(sizes)


def _along_both(store: Access) -> bool:
    """Whether a block, or the round of a loop, moves a store along more than one axis: along a
    diagonal, it may be."""
    moved = [
        atom
        for place in store.index
        for factors, _ in place.terms
        for atom in factors
        if atom.kind in (AtomKind.BLOCK, AtomKind.INDUCTION)
    ]
    return len(set(moved)) < len(moved)


def _through(dim: Value, told: set[Value]) -> bool:
    """Whether an extent is gone through: it is one, or it or each of its factors was told."""
    if dim == 1 or dim in told:
        return True
    factors = dim.args if isinstance(dim, Expr) and dim.op == "*" else ()
    return bool(factors) and all(_through(one, told) for one in factors)


def _tiles(facts: Facts, launch: LaunchRecord, store: Access) -> Iterator[Value]:
    """What a launch gives for the extents of the tile that is stored."""
    given = dict(launch.args)
    for extent in facts.types.shape(store.value):
        if extent in facts.constexprs:
            yield from leaves(given.get(extent))


def _counted(array: Value) -> Value:
    """The number of elements of an array, as host code asks for it."""
    return make("call", make("attr", array, "numel"))


def _likes(material: Material, made: Value) -> Iterator[Value]:
    fact = material.machine.tensors.get(made)
    if fact is not None and fact.like is not None:
        yield fact.like


def _dims(material: Material, made: Value) -> tuple[Value, ...] | None:
    """The extents of an array; those of the one in whose shape it was made."""
    fact = material.machine.tensors.get(made)
    if fact is None or fact.base is not None:
        return None
    if fact.dims is not None:
        return fact.dims
    like = material.machine.tensors.get(fact.like)
    if like is None or like.rank is None:
        return like.dims if like is not None else None
    return tuple(make("dim", fact.like, axis) for axis in range(like.rank))


def _gone_through(facts: Facts, store: Access) -> list[Place] | None:
    """The sizes that hold the places of a store below them or that loops around it end at; None
    where it may leave a place out for any other reason."""
    if not store.is_store or store.is_atomic or facts.guards(store.node):
        return None
    if any(index.has(*_UNKNOWN) for index in store.index):
        return None
    found: list[Place] = []
    for test in comparisons(facts, store.mask):
        left, right = sides(facts, test)
        below = right if test.op.kind == OpKind.LT else left
        if test.op.kind not in (OpKind.LT, OpKind.GT) or not _size(below):
            return None
        found.append(below)
    for around in store.node.loops:
        loop = facts.loop(around)
        high = facts.values.expr(loop.high) if loop is not None and loop.high else None
        if high is None or not _size(high) or not _from_start(facts, around):
            return None
        found.append(high)
    return found


def _from_start(facts: Facts, around: Node) -> bool:
    """Whether a loop begins at zero, or at the block that it goes on from by all blocks."""
    loop = facts.loop(around)
    low = loop.low if loop is not None else None
    return low is None or facts.values.literal(low) == 0 or loop in facts.item_loops


def _size(place: Place) -> bool:
    """Whether an expression is a size that is handed over, a product of such or its tiles: nothing
    is taken from it or added to it."""
    (factors, number), *more = place.terms or (((), 0),)
    return (
        not more
        and number == 1
        and bool(factors)
        and all(atom.kind in _SIZES for atom in place.atoms())
    )


def _values(material: Material, launch: LaunchRecord, sizes: list[Place]) -> Iterator[Value]:
    """What a launch gives for the sizes, and the extents of arrays that they are."""
    given = dict(launch.args)
    for size in sizes:
        for atom in size.atoms():
            yield from _given(material, given, atom)
        factors = [f for f, number in size.terms if number == 1 and len(f) > 1]
        if len(size.terms) == 1 and factors:
            yield from (value for atom in factors[0] for value in _given(material, given, atom))


def _given(material: Material, given: dict[str, Value], atom: Atom) -> Iterator[Value]:
    if atom.kind is AtomKind.PARAMETER:
        for leaf in leaves(given.get(atom.value)):
            yield from _factors(leaf)
    elif atom.kind is AtomKind.EXTENT and "[" in atom.text:
        axis = int(atom.text.rsplit("[", 1)[1].rstrip("]"))
        for leaf in leaves(given.get(atom.value)):
            dims = _dims(material, leaf)
            yield dims[axis] if dims is not None and axis < len(dims) else make("dim", leaf, axis)


def _factors(value: Value) -> Iterator[Value]:
    """A number, what it is a product of, and what tiles of it are counted."""
    pending = list(value) if isinstance(value, tuple) else [value]
    for one in pending:
        yield one
        if isinstance(one, Expr) and one.op == "*":
            pending += one.args
        elif isinstance(one, Expr) and one.op == "cdiv":
            pending.append(one.args[0])
