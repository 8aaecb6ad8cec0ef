"""How far the threads of a warp lie apart in what they load and store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.symbolic import Atom, AtomKind
from kb.ir import TileType
from kb.ops import READS, OpKind

MAX_VALUES = 200
"""Values that an address is followed through."""

_NEXT = "threads(0)"
"""The axis along which neighbouring threads are those of a warp."""


@dataclass(frozen=True, slots=True)
class Apart:
    """An access whose neighbouring threads are more elements apart than each of them moves;
    `elements` is that number, or the compile-time parameters that make it."""

    access: Access
    elements: str
    moved: int


def apart(facts: Facts) -> Iterator[Apart]:
    """Loads and stores of global memory by threads that do not lie side by side; of arrays that are
    moved in vectors elsewhere the rest is none."""
    if not facts.of_threads:
        return
    wide = {access.array for access in facts.accesses if _moved(facts, access) != 1}
    for access in facts.accesses:
        plain = access.node.op.kind in (OpKind.LOAD, OpKind.STORE) and len(access.index) == 1
        shared = access.node.op.attribute("space") == "shared"
        if not plain or shared or access.array is None or access.array in wide:
            continue
        terms = access.index[0].terms
        placed = [(f, n) for f, n in terms if any(_next(a) or _inside(a) for a in f)]
        moved = _moved(facts, access) if len(placed) == 1 else None
        if moved is None or _indirect(facts, access):
            continue
        factors, number = placed[0]
        others = [atom for atom in factors if not _next(atom)]
        if len(others) != len(factors) - 1 or number < 1:
            continue
        names = [a.value for a in others if a.kind is AtomKind.PARAMETER]
        if len(names) != len(others) or not set(names) <= facts.constexprs:
            continue
        if names or number > moved:
            shown = " * ".join([*([str(number)] if number > 1 else []), *names])
            yield Apart(access, shown, moved)


def _next(atom: Atom) -> bool:
    return atom.kind is AtomKind.LANE and _NEXT in atom.text


def _inside(atom: Atom) -> bool:
    """Whether the number of such a thread is part of what an atom stands for."""
    return any(_next(one) for arg in atom.args for one in arg.atoms())


def _moved(facts: Facts, access: Access) -> int | None:
    """How many elements of its array a thread moves at once; None where that is not known."""
    held = _type(facts, access.value)
    of = _type(facts, access.node.op.operand("pointer") or "")
    if held is None or of is None or held.dtype in ("", "?") or held.dtype != of.dtype:
        return None
    return prod(map(int, held.shape)) if all(one.isdigit() for one in held.shape) else None


def _type(facts: Facts, value: str) -> TileType | None:
    made = facts.threads.producer(value)
    results = made.op.results if made is not None else ()
    found = next((one.type for one in results if one.name == value), None)
    return found if isinstance(found, TileType) else None


def _indirect(facts: Facts, access: Access) -> bool:
    """Whether a place is read from memory, or a pointer is seen as one to another type on the way,
    so that places and what moves are not counted in the same elements."""
    pending = [access.node.op.operand("pointer") or ""]
    seen = set(pending)
    for value in pending:
        node = facts.threads.producer(value)
        if node is None:
            continue
        if node.op.kind == OpKind.POINTER_CAST or node.op.kind in READS or len(seen) > MAX_VALUES:
            return True
        new = [one for one in node.op.inputs if one not in seen]
        seen.update(new)
        pending += new
    return False
