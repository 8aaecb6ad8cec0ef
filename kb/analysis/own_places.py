"""Numbers that place a block's own tile although they are not block ids: looked up, or chosen
between what is looked up and a block id."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import sides
from kb.analysis.symbolic import Atom, AtomKind, Expr, mul, of
from kb.ops import OpKind


@lru_cache(maxsize=2)
def own_places(facts: Facts) -> frozenset[Atom]:
    """The loaded and chosen numbers that count tiles of what is stored."""
    return frozenset(
        atom
        for store in facts.stores
        for at, index in enumerate(store.index)
        for atom in index.top()
        if atom.kind in (AtomKind.LOADED, AtomKind.CHOICE) and _counts(facts, store, at, atom)
    )


def _counts(facts: Facts, store: Access, at: int, atom: Atom) -> bool:
    """True when from one value of the number to the next a store goes on by its whole tile."""
    index = store.index[at]
    lanes = [a for a in index.top() if a.kind is AtomKind.LANE]
    if lanes:
        by = index.coefficient(atom)
        return any(mul(index.coefficient(lane), lane.args[0]) == by for lane in lanes)
    shape = store.shape or facts.types.shape(store.value)
    if store.mode is Mode.POINTER or len(shape) != len(store.index) or shape[at] == "1":
        return False
    return str(index.coefficient(atom)) == ("1" if store.mode is Mode.TILE else shape[at])


def apart_from(expr: Expr, places: frozenset[Atom]) -> Iterator[Atom]:
    """What an expression is made of, those places taken as wholes."""
    for atom in expr.top():
        yield atom
        if atom not in places:
            for part in atom.args:
                yield from apart_from(part, places)


def scattered(store: Access, read: list[Access]) -> bool:
    """True when a store goes where a loaded number says, or adds to places that several blocks
    share: found by division of the positions of lanes, or without a block id that places what is
    read."""
    if any(index.has(AtomKind.LOADED) for index in store.index):
        return True
    own = {a for index in store.index for a in index.top() if _of_blocks(a)}
    ids = {a for one in read for i in one.index for a in i.top() if a.kind is AtomKind.BLOCK}
    return store.is_atomic and (not own or not ids <= own)


def _of_blocks(atom: Atom) -> bool:
    """True for a block id, and for what divisions leave of one alone."""
    found = of(atom)
    return found.has(AtomKind.BLOCK) and not found.has(AtomKind.LANE)


def by_one_block(facts: Facts, access: Access) -> bool:
    """Whether threads reach an access in one block only, whose number a test around it asks for."""
    if not facts.of_threads:
        return False
    around = (access.node, *access.node.around())
    asked = [
        branch.op.inputs[0] for branch in facts.guards(access.node)
        if any(n.parent is branch and n.branch == 0 for n in around)
    ]  # fmt: skip
    asked += [value for role, value in access.node.op.operands if role == "mask"]
    for condition in asked:
        for test in _all_of(facts, condition):
            one, other = sides(facts, test) if test.op.kind == OpKind.EQ else (None, None)
            for this, that in ((one, other), (other, one)):
                if this is not None and that is not None and that.constant is not None:
                    if {atom.kind for atom in this.top()} == {AtomKind.BLOCK}:
                        return True
    return False


def _all_of(facts: Facts, condition: str) -> list[Node]:
    """The tests that must all hold for a condition to hold."""
    found: list[Node] = []
    pending = [condition]
    for value in pending:
        node = facts.graph.producer(value)
        if node is None:
            continue
        if node.op.kind in (OpKind.AND, OpKind.BIT_AND):
            pending += node.op.inputs
        elif node.op.kind == OpKind.IF_EXPRESSION:
            last = node.op.regions[-1].terminator
            other = facts.graph.producer(last.inputs[0]) if last and last.inputs else None
            first = node.op.regions[0].terminator
            if other is not None and other.op.attribute("value") is False:
                pending += [node.op.inputs[0], *(first.inputs if first is not None else ())]
        else:
            found.append(node)
    return found
