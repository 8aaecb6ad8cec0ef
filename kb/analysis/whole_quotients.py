"""Sizes that are divided without asking for a rest, where the rest would be lost."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.facts import Facts
from kb.analysis.graph import Lines
from kb.analysis.symbolic import Atom, AtomKind, Expr, of
from kb.ops import COMPARISONS, OpKind
from kb.space import Constraint, implied

_SHAPES = ("shape", "size", "block_shape")
_PLACES = frozenset({AtomKind.BLOCK, AtomKind.LANE, AtomKind.INDUCTION})
"""What tells one thread, block or round from another."""

_SIZES = (AtomKind.PARAMETER, AtomKind.EXTENT)
_CHOSEN = (OpKind.MINIMUM, OpKind.SELECT)


def quotients(facts: Facts) -> Iterator[Constraint]:
    """Sizes divided without asking for a rest, where the quotient is the extent of a tile, a bound
    of what is gone through, or what places are counted in."""
    used = [*_extents(facts), *_bounds(facts), *_counted_in(facts), *_begun(facts)]
    if not used:
        return
    rests = {
        (atom.args[0], atom.args[1])
        for node in facts.graph.of(OpKind.MOD)
        for atom in facts.values.expr(node.result).top()
        if atom.kind is AtomKind.MOD
    }
    seen: set[Atom] = set()
    for atom, what, lines in used:
        size, part = atom.args
        text = _part(facts, part)
        if not {(size, part), (_row(size), part)}.isdisjoint(rests) or atom in seen or not text:
            continue
        seen.add(atom)
        size = _row(size)
        if size.atom is not None and size.atom.kind is AtomKind.PARAMETER:
            yield implied(
                f"{size} % {text} == 0",
                f"{size} is divided by {text} to give {what}, and nothing takes a rest",
                "check it before the launch, or round up and mask the rest",
                lines if what == _TILE else _divided(facts, atom) or lines,
            )


_TILE = "the extent of a tile"


def _part(facts: Facts, part: Expr) -> str:
    """What a size is divided by, in words: a number above one, a parameter, or as many elements of
    a type as some bytes hold."""
    one = part.atom
    if one is None and part.constant is not None:
        return str(part) if part.constant > 1 else ""
    if one is None:
        ((factors, _), *more) = part.terms
        compiled = all(atom.value in facts.constexprs for atom in factors)
        return f"({part})" if compiled and not more else ""
    if one.kind is AtomKind.PARAMETER:
        return one.text
    if one.kind is not AtomKind.FLOOR_DIV or one.args[0].constant is None:
        return ""
    below = one.args[1].atom
    made = facts.graph.producer(facts.graph.core(below.value)) if below is not None else None
    if made is None or made.op.kind != OpKind.SIZE_OF:
        return ""
    name = facts.graph.core(made.op.inputs[0]) or ""
    return f"({one.args[0]} // bytes_of({name}))" if name.isidentifier() else ""


def _divided(facts: Facts, quotient: Atom) -> Lines | None:
    """Where a size is divided."""
    for node in facts.graph.of(OpKind.FLOOR_DIV):
        if facts.values.expr(node.result).atom == quotient:
            return node.lines
    return None


def _extents(facts: Facts) -> Iterator[tuple[Atom, str, Lines]]:
    for node in facts.graph.nodes:
        for role, value in node.op.operands:
            for item in facts.values.items(value) if role in _SHAPES else ():
                atom = facts.values.expr(item).atom
                if atom is not None and atom.kind is AtomKind.FLOOR_DIV:
                    yield atom, _TILE, node.lines


def _bounds(facts: Facts) -> Iterator[tuple[Atom, str, Lines]]:
    """Quotients that loops go to, or that places are compared with."""
    compared = facts.graph.of(OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)
    highs = [(loop.high, "the number of rounds of a loop", loop.node) for loop in facts.loops]
    highs += [(v, "a bound of places", node) for node in compared for v in node.op.inputs[:2]]
    asked = _asked(facts)
    for value, what, node in highs:
        atom = facts.values.expr(value).atom if value is not None else None
        if atom is not None and atom.kind is AtomKind.FLOOR_DIV:
            if atom.args[0].atom not in asked:
                yield atom, what, node.lines


def _counted_in(facts: Facts) -> Iterator[tuple[Atom, str, Lines]]:
    """Quotients that a place is multiplied or divided by."""
    asked = _asked(facts)
    for node in facts.graph.of(OpKind.MUL, OpKind.FLOOR_DIV, OpKind.MOD):
        left, right = (facts.values.expr(v) for v in node.op.inputs[:2])
        pairs = [(right, left), (left, right)] if node.op.kind == OpKind.MUL else [(right, left)]
        for quotient, place in pairs:
            atom = quotient.atom
            moves = any(one.kind in _PLACES for one in place.atoms())
            if moves and atom is not None and atom.kind is AtomKind.FLOOR_DIV:
                if node.op.kind != OpKind.MUL or atom.args[0].atom not in asked:
                    yield atom, "what places are counted in", node.lines


def _begun(facts: Facts) -> Iterator[tuple[Atom, str, Lines]]:
    """Quotients that say where a row begins: so many sizes, divided by what is counted in."""
    for access in facts.accesses:
        for factors, _ in (term for index in access.index for term in index.terms):
            quotient = factors[0] if len(factors) == 1 else None
            if quotient is not None and quotient.kind is AtomKind.FLOOR_DIV:
                if _row(quotient.args[0]) != quotient.args[0]:
                    yield quotient, "where a row begins", access.node.lines


def _row(size: Expr) -> Expr:
    """The one size of a product that blocks, threads and rounds count."""
    rows = [set(factors) for factors, _ in size.terms]
    shared = set.intersection(*rows) if rows else set()
    sizes = {atom for row in rows for atom in row if atom.kind in _SIZES}
    moves = any(atom.kind in _PLACES for atom in size.atoms())
    return of(next(iter(sizes))) if moves and len(sizes) == 1 and sizes <= shared else size


def _asked(facts: Facts) -> set[Atom | None]:
    """Sizes that a loop goes to or a comparison asks for as they are: what is left of them may be
    taken there."""
    bounds = [v for loop in facts.loops for v in (loop.low, loop.high) if v is not None]
    nodes = facts.graph.of(*COMPARISONS, OpKind.AND, *_CHOSEN)
    bounds += [v for node in nodes for v in node.op.inputs]
    return {atom for value in bounds for atom in facts.values.expr(value).top()}
