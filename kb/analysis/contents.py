"""What a kernel takes for granted of the numbers in its arrays: in which base logarithms are, which
numbers rise, which are told apart, which nobody needs afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.accesses import BULK, Access
from kb.analysis.facts import Facts
from kb.analysis.flags import unless
from kb.analysis.graph import CASTS, COPIES, TURNS, VIEWS, Lines, Node
from kb.analysis.symbolic import ONE, Atom, AtomKind, Expr, sub
from kb.ops import ATOMICS, CONTRACTIONS, REDUCTIONS, OpKind
from kb.space import Constraint, implied

_ADDED = VIEWS | CASTS | COPIES | TURNS | {
    OpKind.ADD, OpKind.SUB, OpKind.NEG, OpKind.SELECT, OpKind.MINIMUM, OpKind.MAXIMUM,
    OpKind.IF, OpKind.IF_EXPRESSION, OpKind.CUMSUM,
}  # fmt: skip
"""What leaves a logarithm one of the same base."""

_WEIGHS = CONTRACTIONS | REDUCTIONS | {OpKind.MUL, OpKind.FMA, OpKind.DIV}


def contents(facts: Facts) -> Iterator[Constraint]:
    """Everything that is asked of contents, each once."""
    yield from _base_two(facts)
    yield from _rising(facts)
    yield from _told_apart(facts)
    yield from _given_up(facts)


def _base_two(facts: Facts) -> Iterator[Constraint]:
    """Loaded numbers that two is raised to, perhaps added to others, as a factor or a weight: they
    are logarithms in base two, for nothing multiplies them by log2(e) on the way."""
    loads = [one for one in facts.loads if one.array is not None]
    if not loads:
        return
    told: set[str | None] = set()
    for power in facts.graph.of(OpKind.EXP2):
        raised = power.op.inputs[0]
        if not _weighs(facts, power):
            continue
        for node in facts.graph.upstream(raised, lambda n: n.op.kind not in _ADDED):
            access = facts.access(node)
            if access is None or access.is_store or access.array in told:
                continue
            if facts.types.dtype(access.value).lstrip("u")[:1] == "i":
                continue  # whole numbers are exponents
            told.add(access.array)
            without = "".join(f"{one} or " for one in unless(facts, power))
            yield implied(
                f"{without}{access.array}.log_base == 2",
                f"two is raised to what is loaded from {access.array}",
                "multiply by log2(e) before, where the logarithms are natural ones",
                power.lines,
            )


def _weighs(facts: Facts, power: Node) -> bool:
    """Whether a power of two is multiplied with something, or summed up."""
    looks = VIEWS | CASTS | COPIES | {OpKind.SELECT, OpKind.IF, OpKind.IF_EXPRESSION}
    pending = [power.result]
    for value in pending:
        for user in facts.graph.users(value):
            if user.op.kind in _WEIGHS:
                return True
            if user.op.kind in looks and len(pending) < 64:
                pending += [one.name for one in user.op.results if one.name not in pending]
    return False


def _rising(facts: Facts) -> Iterator[Constraint]:
    """Two neighbours of an array of places, one of which is taken from the other or bounds a loop
    that begins at it: the array does not fall."""
    first: dict[tuple[str | None, Expr], Access] = {}
    for access in facts.loads:
        if len(access.index) == 1 and (access.mode not in BULK or _single(facts, access)):
            first.setdefault((access.array, access.index[0]), access)
    told: dict[str, Lines] = {}
    for (array, index), last in first.items():
        begun = first.get((array, sub(index, ONE)))
        if begun is None or array is None or array in told:
            continue
        if index.atoms() and not index.has(AtomKind.LANE) and _bounds(facts, last, begun):
            told[array] = last.node.lines
    if told:
        yield implied(
            " and ".join(f"{array}.values[i] <= {array}.values[i + 1]" for array in told),
            "neighbours are where a part begins and where it ends",
            "build it as a running sum",
            next(iter(told.values())),
        )


def _single(facts: Facts, access: Access) -> bool:
    """Whether a tile is one element."""
    return all(extent == "1" for extent in facts.types.shape(access.value))


def _bounds(facts: Facts, last: Access, begun: Access) -> bool:
    """Whether the difference of two loaded numbers is taken, or a loop goes from one to the
    other."""
    for node in facts.graph.of(OpKind.SUB):
        left, right = node.op.inputs[:2]
        if _is(facts, left, last) and _is(facts, right, begun):
            return True
    return any(
        _is(facts, loop.high, last) and _is(facts, loop.low, begun)
        for loop in facts.loops
        if loop.high is not None and loop.low is not None
    )


def _is(facts: Facts, value: str | None, access: Access) -> bool:
    """Whether a value is a loaded number, or what one side of a branch hands on is."""
    return access.node in facts.graph.ends(value, VIEWS | CASTS)


def _told_apart(facts: Facts) -> Iterator[Constraint]:
    """Rows that are written at places that an array names, by blocks that each take another element
    of it: two of the same would be written twice at once."""
    sources = {load.value: load for load in facts.loads}
    told: set[tuple[str, str]] = set()
    for access in facts.stores:
        if access.node.op.kind in ATOMICS or access.is_atomic or access.array is None:
            continue
        for index in access.index:
            for atom in _places(index):
                source = sources.get(atom.value)
                if source is None or source.array is None or not _own(source):
                    continue
                if _block_beside(index, atom, source):
                    continue
                if (source.array, access.array) in told:
                    continue
                told.add((source.array, access.array))
                yield implied(
                    f"{source.array}.repeats == 0",
                    f"what is loaded from {source.array} says where {access.array} is written; "
                    "the same place twice would be written by several at once, in any order",
                    "make sure that no place comes twice, or add to it with atomics",
                    access.node.lines,
                )


def _places(index: Expr) -> Iterator[Atom]:
    """The loaded number that names a row of an index, or the element, perhaps as page and place in
    the page; where lanes, rounds or blocks go on from it row by row, it is where a part begins."""
    found: dict[str, Atom] = {}
    for factors, number in index.terms:
        for atom in factors:
            inner = atom.args[0].atom if atom.kind in _DIVIDED else atom
            if inner is not None and inner.kind is AtomKind.LOADED:
                rest = [one for one in factors if one is not atom]
                if _goes_on(index, rest, number):
                    return
                found[inner.text] = inner
    if len(found) == 1:
        yield from found.values()


def _goes_on(index: Expr, rest: list[Atom], number: int) -> bool:
    """Whether something else is multiplied by the same as a loaded number, or is not known."""
    others = 0
    for factors, times in index.terms:
        more = [one for one in factors if one not in rest]
        others += times % number == 0 and len(more) + len(rest) == len(factors)
    return others > 1 or index.has(AtomKind.OPAQUE, AtomKind.CHOICE)


_DIVIDED = (AtomKind.FLOOR_DIV, AtomKind.MOD)


def _own(source: Access) -> bool:
    """Whether each block, or each lane, takes an element of its own."""
    return any(index.has(AtomKind.BLOCK, AtomKind.LANE) for index in source.index)


def _block_beside(index: Expr, atom: Atom, source: Access) -> bool:
    """Whether the block that takes an element moves the place beside the loaded number."""
    takes = {a.text for one in source.index for a in one.atoms() if a.kind is AtomKind.BLOCK}
    return any(
        any(one.text in takes for part in factors for one in (part, *_inside(part)))
        for factors, _ in index.terms
        if atom not in factors and not any(atom in _inside(part) for part in factors)
    )


def _inside(atom: Atom) -> tuple[Atom, ...]:
    return tuple(one for arg in atom.args for one in arg.atoms())


def _given_up(facts: Facts) -> Iterator[Constraint]:
    """Arrays that are read and then written at the same places: what was in them is gone. Sums go
    on from what was there."""
    read = {(a.array, a.mode, a.index): a for a in reversed(facts.loads)}
    found: dict[str, Access] = {}
    for access in facts.stores:
        before = read.get((access.array, access.mode, access.index))
        if before is None or access.is_atomic or access.array is None:
            continue
        if before.node.index < access.node.index and not _adds_to(facts, access, before):
            found.setdefault(access.array, access)
    if found:
        yield implied(
            " and ".join(f"{name}.uses_after == 0" for name in found),
            "the kernel writes its results over what it has read there",
            "pass a copy where the old numbers are still needed",
            next(iter(found.values())).node.lines,
        )


def _adds_to(facts: Facts, access: Access, before: Access) -> bool:
    """Whether what is stored is what was there, and something more."""
    made = facts.graph.producer(facts.graph.core(access.value))
    return (
        made is not None
        and made.op.kind in (OpKind.ADD, OpKind.SUB, OpKind.FMA)
        and any(before in facts.held_loads(side) for side in made.op.inputs)
    )
