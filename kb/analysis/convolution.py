"""Convolutions as implicit products: rows are output positions, the reduced axis is taps and
channels."""

from __future__ import annotations

from dataclasses import dataclass

from kb.analysis import symbolic as s
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.loops import Loop
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.ops import OpKind

_LESS = (OpKind.LE, OpKind.LT)
_MORE = (OpKind.GE, OpKind.GT)


@dataclass(frozen=True, slots=True, eq=False)
class Convolution:
    """The load of the input, its checks from below, the input positions that they test, and the
    loop."""

    load: Access
    checks: tuple[Node, ...]
    positions: tuple[Expr, ...]
    loop: Loop | None

    @property
    def by_engine(self) -> bool:
        """True when a copy engine finds the inputs of a tap from those of the first row."""
        return _by_engine(self.load)

    @property
    def rows(self) -> AtomKind:
        """What output positions are taken from: lanes, or the block's first row."""
        return AtomKind.BLOCK if self.by_engine else AtomKind.LANE


def convolution(facts: Facts) -> Convolution | None:
    """The convolution that a kernel computes, None when it computes none."""
    for access in facts.loads:
        if not any(facts.graph.rests_on(p.result, access.node) for p in facts.contractions):
            continue
        found = [
            (t, e)
            for t in comparisons(facts, access.mask)
            if (e := _position(facts, t)) is not None
        ]
        positions = tuple(dict.fromkeys(e for _, e in found))
        positions = positions or _gathered(access) or _of_engine(access)
        if positions:
            return Convolution(
                access, tuple(t for t, _ in found), positions, facts.loop(access.loop)
            )
    return None


def _gathered(access: Access) -> tuple[Expr, ...]:
    """Input positions of a gather by axes: made of decoded rows and of decoded taps; what lies
    outside the array is filled by the gather itself."""
    if access.mode is not Mode.ELEMENT or not access.padding:
        return ()
    return tuple(
        dict.fromkeys(
            index
            for index in access.index
            if any(decoded(a, AtomKind.LANE) for a in index.top())
            and any(decoded(a, AtomKind.INDUCTION) for a in index.top())
        )
    )


def _by_engine(access: Access) -> bool:
    return access.node.op.attribute("mode") == "im2col"


def _of_engine(access: Access) -> tuple[Expr, ...]:
    """Input positions of the block's first row, which a copy engine goes on from."""
    if not _by_engine(access):
        return ()
    decoded_rows = (
        index
        for index in access.index
        if any(decoded(a, AtomKind.BLOCK) for a in index.atoms()) and index.atom is None
    )
    return tuple(dict.fromkeys(decoded_rows))


def _position(facts: Facts, test: Node) -> Expr | None:
    """The input position that a comparison keeps from falling below zero."""
    left, right = sides(facts, test)
    if test.op.kind in _LESS and left.constant in (0, -1):
        position = right
    elif test.op.kind in _MORE and right.constant in (0, -1):
        position = left
    else:
        return None
    return position if position.has(AtomKind.FLOOR_DIV, AtomKind.MOD) else None


def decoded(atom: Atom, kind: AtomKind) -> bool:
    """True for a quotient or remainder taken from lanes, or from a loop variable."""
    return atom.kind in (AtomKind.FLOOR_DIV, AtomKind.MOD) and any(a.has(kind) for a in atom.args)


def factor(position: Expr, kind: AtomKind) -> Atom | None:
    """The parameter that multiplies the part of a position taken from lanes (a stride) or taps (a
    dilation)."""
    for factors, _ in position.terms:
        if any(decoded(a, kind) for a in factors):
            return next((a for a in factors if a.kind is AtomKind.PARAMETER), None)
    return None


def places(facts: Facts, found: Convolution) -> list[Node]:
    """The operations whose results are the input positions."""
    return [
        n
        for n in facts.graph.nodes
        if n.result and facts.values.exprs.get(n.result) in found.positions
    ]


def decoding(facts: Facts, kind: AtomKind) -> list[Node]:
    """Quotients and remainders of lanes, or of a loop variable."""
    return [
        n
        for n in facts.graph.of(OpKind.FLOOR_DIV, OpKind.MOD)
        if facts.values.expr(n.op.inputs[0]).has(kind) and facts.values.expr(n.result) != s.ZERO
    ]
