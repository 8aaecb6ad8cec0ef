"""Rows and columns of an array that belong to a warp, to a block or to lanes of a block."""

from __future__ import annotations

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop, Role
from kb.analysis.shared import WARP
from kb.analysis.symbolic import AtomKind, Expr, floor_div, mul, number
from kb.ops import READS


def column_sums(facts: Facts, store: Access) -> list[Loop]:
    """Loops of threads that add up what is stored, over rows that lie as far apart as the launch
    says, in columns that the block id counts."""
    if not facts.of_threads or facts.contractions:
        return []
    found = []
    for loop in facts.loops:
        sums = [c for c in loop.of(Role.SUM) if store in facts.stored_in(c.result, [store])]
        if not sums or store.node.inside(loop.node):
            continue
        rows = [
            a
            for a in facts.loads
            if a.array != store.array and a.node.inside(loop.node)
            if any(a.node in facts.graph.upstream(c.next, _read) for c in sums)
        ]
        if rows and all(_by_rows(facts, loop, a) and _by_columns(a) for a in rows):
            found.append(loop)
    return found


def _read(node: Node) -> bool:
    return node.op.kind in READS


def _by_rows(facts: Facts, loop: Loop, access: Access) -> bool:
    """Whether the rounds of a loop move an access by what the launch gives."""
    step = facts.values.expr(loop.induction).atom if loop.induction is not None else None
    moved = [i.coefficient(a) for i in access.index for a in i.top() if a == step]
    return any(by.has(AtomKind.PARAMETER) for by in moved)


def _by_columns(access: Access) -> bool:
    """Whether the block id moves an access by what no launch gives as the length of a row."""
    moved = [i.coefficient(a) for i in access.index for a in i.top() if a.kind is AtomKind.BLOCK]
    return bool(moved) and not any(by.has(AtomKind.PARAMETER) for by in moved)


def row_of_warp(access: Access) -> bool:
    """True when the own warp, plus the block id times the warps of a block, chooses the row."""
    for index in access.index:
        for warp in index.top():
            lane = warp.args[0].atom if warp.kind is AtomKind.FLOOR_DIV else None
            if lane is None or lane.kind is not AtomKind.LANE or warp.args[1] != number(WARP):
                continue
            blocks = [atom for atom in index.top() if atom.kind is AtomKind.BLOCK]
            for threads in (lane.args[0], *_all_threads(lane.args[0], index)):
                warps = mul(index.coefficient(warp), floor_div(threads, warp.args[1]))
                if any(index.coefficient(block) == warps for block in blocks):
                    return True
    return False


def _all_threads(threads: Expr, index: Expr) -> list[Expr]:
    """The threads of a whole block that warps are counted of, where those along one axis give the
    own warp."""
    own = set(threads.atoms())
    halves = [a.args[0] for a in index.atoms() if a.kind is AtomKind.FLOOR_DIV]
    return [e for e in halves if len(e.terms) == 1 and own and own <= set(e.terms[0][0])]


def by_lanes(index: Expr) -> bool:
    """True when a block steps over so many elements as lanes of a part of it lie beside each
    other."""
    steps = [index.coefficient(atom) for atom in index.top() if atom.kind is AtomKind.BLOCK]
    lanes = [
        a.args[1] for a in index.top() if a.kind is AtomKind.MOD and a.args[0].has(AtomKind.LANE)
    ]
    return any(step in lanes for step in steps)
