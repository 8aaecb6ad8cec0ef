"""Convolutions: as implicit products, whose rows are output positions and whose reduced axis is
taps and channels, and as sums of inputs times weights over loops of taps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kb.analysis import symbolic as s
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.loops import Loop, Role
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.ops import OpKind

_LESS = (OpKind.LE, OpKind.LT)
_MORE = (OpKind.GE, OpKind.GT)


@dataclass(frozen=True, slots=True, eq=False)
class Convolution:
    """The load of the input, its checks from below, the input positions that they test, and the
    loop; without a matrix product, the load of the weights and what multiplies the two."""

    load: Access
    checks: tuple[Node, ...]
    positions: tuple[Expr, ...]
    loop: Loop | None
    weights: Access | None = None
    product: Node | None = None

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
    return _implicit(facts) if facts.contractions else _direct(facts)


def _implicit(facts: Facts) -> Convolution | None:
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


def _direct(facts: Facts) -> Convolution | None:
    """Inputs at output positions moved by taps, times weights that the taps pick, summed."""
    sums = [loop for loop in facts.loops if loop.of(Role.SUM)]
    for access in facts.loads if sums else ():
        if not any(access.node.inside(loop.node) for loop in sums):
            continue
        tests = comparisons(facts, access.mask) + tuple(
            t for g in facts.guards(access.node) for t in comparisons(facts, g.op.inputs[0])
        )
        found = [(t, e) for t in tests if (e := _kept(facts, t)) is not None and slides(e)]
        filled = access.mode is Mode.ELEMENT and access.padding
        rows = [e for _, e in found] or [
            e
            for e in access.index
            if filled and slides(e) and any(holds(a, AtomKind.BLOCK) for a in e.top())
        ]
        for weights, product in _weighted(facts, access, rows) if rows else ():
            checks = tuple(t for t, _ in found)
            places_ = tuple(dict.fromkeys(rows))
            loop = facts.loop(access.loop)
            return Convolution(access, checks, places_, loop, weights, product)
    return None


def _weighted(facts: Facts, access: Access, positions: list[Expr]) -> Iterator[tuple[Access, Node]]:
    """Loads of other arrays by the taps and not by the output positions, with the product."""
    moved = {a for e in positions for a in e.atoms() if a.kind is AtomKind.INDUCTION}
    fixed = {a for e in positions for a in e.top() if holds(a, AtomKind.BLOCK)}
    for node in facts.graph.of(OpKind.MUL, OpKind.FMA):
        for own, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
            if not facts.graph.rests_on(own, access.node):
                continue
            for load in facts.feeding(other):
                atoms = {a for e in load.index for a in e.atoms()}
                if load.array != access.array and atoms & moved and not atoms & fixed:
                    yield load, node


def holds(atom: Atom, kind: AtomKind) -> bool:
    """True for an atom of a kind, or one that is taken from such."""
    return atom.kind is kind or any(a.has(kind) for a in atom.args)


def is_tap(atom: Atom) -> bool:
    """True for what loops of taps count."""
    return holds(atom, AtomKind.INDUCTION)


def is_output(atom: Atom) -> bool:
    """True for what blocks and lanes tell of output positions."""
    return not is_tap(atom) and (holds(atom, AtomKind.LANE) or holds(atom, AtomKind.BLOCK))


def slides(position: Expr) -> bool:
    """True for an output position that a tap moves."""
    atoms = list(position.top())
    return any(map(is_tap, atoms)) and any(map(is_output, atoms))


def _gathered(access: Access) -> tuple[Expr, ...]:
    """Input positions of a gather by axes: made of decoded rows and of decoded taps, which are
    not one; what lies outside the array is filled by the gather itself."""
    if access.mode is not Mode.ELEMENT or not access.padding:
        return ()
    return tuple(
        dict.fromkeys(
            index
            for index in access.index
            if any(decoded(a, AtomKind.LANE) and not is_tap(a) for a in index.top())
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
    """The input position made of decoded rows that a comparison keeps from falling below zero."""
    position = _kept(facts, test)
    if position is None or not position.has(AtomKind.FLOOR_DIV, AtomKind.MOD):
        return None
    return position


def _kept(facts: Facts, test: Node) -> Expr | None:
    """What a comparison keeps from falling below zero."""
    left, right = sides(facts, test)
    if test.op.kind in _LESS and left.constant in (0, -1):
        return right
    if test.op.kind in _MORE and right.constant in (0, -1):
        return left
    return None


def decoded(atom: Atom, kind: AtomKind) -> bool:
    """True for a quotient or remainder taken from lanes, or from a loop variable."""
    return atom.kind in (AtomKind.FLOOR_DIV, AtomKind.MOD) and any(a.has(kind) for a in atom.args)


def factor(position: Expr, *, taps: bool) -> Atom | None:
    """The parameter that multiplies the taps of a position (a dilation), or what it has of output
    positions (a stride); of several terms the one with the fewest factors tells."""
    part = is_tap if taps else is_output
    terms = [factors for factors, _ in position.terms if any(map(part, factors))]
    fewest = min(terms, key=len, default=())
    return next((a for a in fewest if a.kind is AtomKind.PARAMETER), None)


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
