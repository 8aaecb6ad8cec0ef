"""Numbers in arrays that say where other arrays are read or written: they must be places there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.flags import unless
from kb.analysis.symbolic import ONE, Atom, AtomKind, Expr, sub
from kb.dtypes import is_float
from kb.ops import OpKind
from kb.space import Constraint, implied

_DIVIDED = (AtomKind.FLOOR_DIV, AtomKind.MOD)
_GOES = (AtomKind.LANE, AtomKind.INDUCTION, AtomKind.BLOCK)
_ASKS = (OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)


@dataclass(frozen=True, slots=True)
class Unasked:
    """An access that goes where arrays say, and nothing asks whether they name a place there: the
    loads of the places, each with the extent below which they must be, by the arrays they are
    of."""

    access: Access
    sources: dict[str, tuple[Access, str]]


def unasked_places(facts: Facts) -> Iterator[Unasked]:
    """Those of the accesses that no access of their array before went by; none where the kernel
    asks whether the place is there."""
    sources = {load.value: load for load in facts.loads}
    bounds = _bounds(facts)
    told: set[tuple[str, str]] = set()
    for access in facts.accesses:
        if access.array is None or access.array in bounds:
            continue  # a table of parts goes with the numbers of its parts
        found: dict[str, tuple[Access, str]] = {}
        for axis, index in enumerate(access.index):
            end = f"{access.array}.shape[{axis}]" if len(access.index) > 1 else ""
            for source in (sources.get(atom.value) for atom in _named(index)):
                if source is None or source.array in (None, access.array):
                    continue
                if not _floats(facts, source) and not _asked(facts, access, source):
                    found.setdefault(source.array or "", (source, end or f"{access.array}.numel"))
        found = {name: one for name, one in found.items() if (name, access.array) not in told}
        told |= {(name, access.array) for name in found}
        if found:
            yield Unasked(access, found)


def loaded_places(facts: Facts) -> Iterator[Constraint]:
    """One constraint for each access that goes where arrays of places say."""
    for one in unasked_places(facts):
        yield _inside(facts, one.access, {name: end for name, (_, end) in one.sources.items()})


def _inside(facts: Facts, access: Access, found: dict[str, str]) -> Constraint:
    """What is asked of arrays of places, each with how many places there are."""
    without = "".join(f"{one} or " for one in unless(facts, access.node))
    asked = [f"{name}.values >= 0 and {name}.values < {end}" for name, end in found.items()]
    text = " and ".join(asked)
    return implied(
        f"{without}({text})" if without else text,
        f"what is loaded from {', '.join(found)} says where {access.array} is "
        f"{'written' if access.is_store else 'read'}, and the kernel does not ask whether the "
        "place is there",
        "check the numbers before the launch, or mask those that are none",
        access.node.lines,
    )


def _bounds(facts: Facts) -> set[str | None]:
    """Arrays of which two neighbours are read: where a part begins, and where it ends."""
    seen = {(one.array, one.index[0]) for one in facts.loads if len(one.index) == 1}
    return {array for array, index in seen if (array, sub(index, ONE)) in seen}


def _named(index: Expr) -> Iterator[Atom]:
    """Loaded numbers that name a row or an element of an index, perhaps as page and place in the
    page; not where a part begins, from which lanes, rounds or blocks go on."""
    for factors, number in index.terms:
        for atom in factors:
            inner = atom.args[0].atom if atom.kind in _DIVIDED else atom
            if inner is None or inner.kind is not AtomKind.LOADED:
                continue
            rest = [one for one in factors if one is not atom]
            if not any(_beside(other, times, rest, number) for other, times in index.terms):
                yield inner


def _beside(factors: tuple[Atom, ...], times: int, rest: list[Atom], number: int) -> bool:
    """Whether a term moves through the same rows as a loaded number does."""
    more = [one for one in factors if one not in rest and not _single(one)]
    same = times == number and len(more) + len(rest) == len(factors)
    return same and len(more) == 1 and more[0].kind in _GOES


def _single(atom: Atom) -> bool:
    """Whether a lane is the only one."""
    return atom.kind is AtomKind.LANE and bool(atom.args) and str(atom.args[0]) == "1"


def _floats(facts: Facts, source: Access) -> bool:
    return is_float(facts.types.dtype(source.value))


def _asked(facts: Facts, access: Access, source: Access) -> bool:
    """Whether a comparison of the loaded number decides about an access: in its mask, in a branch
    around it, or in one that ends the block."""
    graph = facts.graph
    ending = [one.parent for one in graph.of(OpKind.RETURN) if one.parent is not None]
    branches = [one.op.inputs[0] for one in ending if one.op.kind == OpKind.IF]
    deciding = [access.mask, *(one.op.inputs[0] for one in facts.guards(access.node))]
    return any(
        node.op.kind in _ASKS and graph.rests_on(node.result, source.node)
        for value in deciding
        if value is not None
        for node in graph.upstream(value)
    ) or any(
        node.op.kind in _ASKS
        and graph.rests_on(node.result, source.node)
        and all(facts.values.expr(side).constant is None for side in node.op.inputs[:2])
        for value in branches
        for node in graph.upstream(value)
    )
