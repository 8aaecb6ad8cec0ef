"""Lanes of an expression on other axes."""

from __future__ import annotations

from collections.abc import Callable

from kb.analysis import symbolic as s
from kb.analysis.symbolic import Atom, AtomKind, Expr


def relane(expr: Expr, moves: dict[int, int]) -> Expr:
    """The expression with its lanes moved to other axes, counted from the last axis."""
    if not expr.has(AtomKind.LANE):
        return expr
    terms = [
        (tuple(_relaned(atom, moves) for atom in factors), count) for factors, count in expr.terms
    ]
    return s.make(terms)


def _relaned(atom: Atom, moves: dict[int, int]) -> Atom:
    if atom.kind is AtomKind.LANE:
        place = moves.get(int(atom.value), int(atom.value))
        return Atom(f"lane({atom.args[0]})[{place}]", AtomKind.LANE, atom.args, str(place))
    if not atom.args or not any(arg.has(AtomKind.LANE) for arg in atom.args):
        return atom
    args = tuple(relane(arg, moves) for arg in atom.args)
    if atom.kind is AtomKind.CHOICE:
        return Atom(f"choice({', '.join(map(str, args))})", atom.kind, args, atom.value)
    if atom.kind in (AtomKind.MINIMUM, AtomKind.MAXIMUM):
        return next(iter(s.extreme(atom.kind, list(args)).top()))
    rebuilt = _REBUILT.get(atom.kind)
    made = rebuilt(*args).atom if rebuilt is not None else None
    return made or Atom(f"{atom.kind}({', '.join(map(str, args))})", atom.kind, args, atom.value)


_REBUILT: dict[AtomKind, Callable[[Expr, Expr], Expr]] = {
    AtomKind.FLOOR_DIV: s.floor_div, AtomKind.CEIL_DIV: s.ceil_div, AtomKind.MOD: s.mod,
}  # fmt: skip
