"""Rows that are loaded once and used again after they were reduced."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import partial_reductions
from kb.analysis.loops import Role
from kb.analysis.row_chunks import chunked, summary
from kb.analysis.symbolic import AtomKind, sub
from kb.ops import OpKind

_GROWING = (Role.SUM, Role.RUNNING_SUM, Role.RUNNING_MAXIMUM, Role.RUNNING_MINIMUM)
_SCALING = (OpKind.MUL, OpKind.SUB, OpKind.DIV, OpKind.FMA)


def resident(facts: Facts) -> list[Access]:
    """Loads that a reduction reads and that are used again beside its result; else tiles with rows
    that are reduced as wholes."""
    return [a for a in facts.loads if _kept(facts, a)] or _whole(facts)


def reduced(facts: Facts, loads: list[Access]) -> list[Node]:
    """Where rows that are seen as groups are reduced."""
    return [
        r
        for r in facts.reductions
        for a in loads
        if _direct(facts, r, a) and _axes(facts, a.value) < _axes(facts, r.op.inputs[0])
    ]


def shared_vector(facts: Facts, access: Access) -> bool:
    """A vector that the block id does not move: it is read beside the row, by every block."""
    moved = any(index.has(AtomKind.BLOCK) for index in access.index)
    return (
        not moved and access.loop is None and bool(_axes(facts, access.value)) and not facts.loops
    )


def over_rounds(facts: Facts) -> list[Node]:
    """Tiles that are loaded before a loop, that every round makes anew without a load, and that are
    stored when it ends; with the loop."""
    found: list[Node] = []
    for loop in facts.loops if not facts.of_threads else ():
        if any(a.node.inside(loop.node) for a in facts.loads):
            continue
        for carried in loop.carried:
            own = facts.graph.rests_on_argument(carried.next, carried.argument)
            if carried.role in _GROWING or not own or not _axes(facts, carried.argument):
                continue
            above = facts.graph.upstream(carried.init, summary)
            held = {a.node for a in facts.loads if _axes(facts, a.value)} & {*above}
            if held and facts.stored_in(carried.result):
                found += [*held, loop.node]
    return found


def read_for_own_part(facts: Facts) -> list[Access]:
    """A row that every block reads whole for what it reduces, and of which it reads the part that
    it stores once more."""
    rows = [a for a in facts.loads if _axes(facts, a.value) and a.array is not None]
    rows = [a for a in rows if not facts.of_threads and a.loop is None]
    summed = [a for a in rows if any(_direct(facts, r, a) for r in facts.reductions)]
    for access in rows:
        first = [a for a in summed if a.array == access.array and a.index != access.index]
        if access in summed or not first:
            continue
        stores = facts.stored_in(access.value)
        if any(_part_of(access, a) for a in first) and any(
            facts.graph.rests_on(s.value, a.node) for s in stores for a in first
        ):
            return [*first, access]
    return []


def read_again(facts: Facts) -> dict[Access, int]:
    """Loads of a row that is read again, in no loop of its own, after it was reduced; with how many
    loads of it lie before."""
    depth: dict[Access, int] = {}
    rows = [a for a in facts.loads if a.array is not None and _axes(facts, a.value)]
    for access in rows if not facts.of_threads else ():
        alike = [a for a in rows if a.index == access.index and a.array == access.array]
        before = [a for a in alike if a.loop is access.loop and _reduced_for(facts, a, access)]
        for earlier in before:
            depth.setdefault(earlier, 0)
            depth[access] = max(depth.get(access, 0), depth[earlier] + 1)
    return depth


def _reduced_for(facts: Facts, access: Access, later: Access) -> bool:
    """Whether a load is reduced to what is stored together with a load that comes later."""
    if access.node.index >= later.node.index or access.node.excludes(later.node):
        return False
    stores = [s for s in facts.stores if facts.graph.rests_on(s.value, later.node)]
    return any(
        _direct(facts, r, access)
        and not facts.graph.rests_on(r.result, later.node)
        and any(facts.graph.rests_on(s.value, r) for s in stores)
        for r in facts.reductions
    )


def _part_of(access: Access, row: Access) -> bool:
    """Whether a load lies somewhere in a row by a block id that the row has not."""
    if len(access.index) != len(row.index):
        return False
    own = {a for i in row.index for a in i.atoms() if a.kind is AtomKind.BLOCK}
    apart = [sub(a, b) for a, b in zip(access.index, row.index, strict=True)]
    blocks = {a for i in apart for a in i.atoms() if a.kind is AtomKind.BLOCK}
    return bool(blocks) and not blocks & own


def _kept(facts: Facts, access: Access) -> bool:
    """A load that a reduction reads and that is used again beside its result."""
    if not facts.types.shape(access.value):
        return False
    read = [r for r in facts.reductions if _direct(facts, r, access)]
    if chunked(facts, access):
        read = [r for r in read if _complete(facts, r, access)]
    return any(
        any(facts.graph.rests_on(s.value, r) for s in facts.stores) and _again(facts, r, access)
        for r in read
    )


def _complete(facts: Facts, reduction: Node, access: Access) -> bool:
    """One round of a loop loads, reduces and stores, and hands no sum or extreme on: what it goes
    along are groups with a number of their own each."""
    loop = facts.loop(access.loop)
    if loop is None or reduction.loop is not loop.node:
        return False
    if any(facts.graph.rests_on(c.next, reduction) for c in loop.of(*_GROWING)):
        return False
    stores = [s for s in facts.stores if s.node.inside(loop.node)]
    return any(facts.graph.rests_on(s.value, reduction) for s in stores)


def _whole(facts: Facts) -> list[Access]:
    """Tiles with rows that are reduced as wholes, where there is no loop."""
    if facts.loops or facts.of_threads or partial_reductions(facts):
        return []
    return [
        a
        for a in facts.loads
        if _axes(facts, a.value) > 1 and any(_direct(facts, r, a) for r in facts.reductions)
    ]


def _direct(facts: Facts, reduction: Node, access: Access) -> bool:
    """Whether a reduction goes along what was loaded: as it lies, or seen as rows of groups."""
    summed = reduction.op.inputs[0]
    if not facts.graph.rests_on(summed, access.node):
        return False
    width = _axes(facts, access.value)
    if width >= _axes(facts, summed):
        return True
    folds = (n for n in facts.graph.upstream(summed, summary) if n.op.kind == OpKind.RESHAPE)
    return any(width >= _axes(facts, n.op.inputs[0]) > 0 for n in folds)


def _axes(facts: Facts, value: str) -> int:
    return sum(extent != "1" for extent in facts.types.shape(value))


def _again(facts: Facts, reduction: Node, access: Access) -> bool:
    """Arithmetic that takes both the load and the reduced number in."""
    for node in facts.graph.downstream(reduction.result):
        added = node.op.kind == OpKind.ADD
        added = added and OpKind.MUL in map(facts.graph.kind_of, node.op.inputs[:2])
        if added or node.op.kind in _SCALING:
            others = [v for v in node.op.inputs[:2] if not facts.graph.rests_on(v, reduction)]
            if any(access.node in facts.graph.upstream(v, summary) for v in others):
                return True
    return False
