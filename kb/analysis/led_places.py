"""How loaded numbers come to say where something lies."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.ops import OpKind

_APART = (OpKind.FLOOR_DIV, OpKind.MOD)
_DEEP = 4


def led_by(facts: Facts, pairs: Iterable[tuple[Node, Node]]) -> list[Node]:
    """For loaded numbers and the accesses that they place: the loads that say where the numbers
    themselves lie, and where a number is taken apart into that of a page and a place in it."""
    found: dict[Node, None] = {}
    for number, access in pairs:
        pending = [number]
        for node in pending[:_DEEP]:
            own = facts.access(node)
            atoms = [a for e in own.index for a in e.atoms()] if own is not None else []
            names = [a.value for a in atoms if a.kind is AtomKind.LOADED]
            made = [n for name in names if (n := facts.graph.producer(name)) is not None]
            pending += [n for n in made if n not in pending]
        found.update(dict.fromkeys(pending[1:]))
        place = access.op.operand("pointer") or next(iter(access.op.inputs), "")
        apart = facts.graph.roots(place, *_APART)
        found.update((n, None) for n in apart if _of_number(facts, n, number))
    return list(found)


def in_ring(index: Expr, value: str) -> bool:
    """Whether a loaded number counts in a place by its remainder alone: the place in a buffer that
    is written round and round."""
    counted = [a for a in set(index.top()) if _counts(a, value)]
    return bool(counted) and all(_wraps(a, value) for a in counted)


def _wraps(atom: Atom, value: str) -> bool:
    if atom.kind is AtomKind.CHOICE:
        sides = [e for e in atom.args if any(a.value == value for a in e.atoms())]
        return bool(sides) and all(in_ring(e, value) for e in sides)
    held = atom.args[0].atom if atom.kind is AtomKind.MOD else None
    return held is not None and held.value == value


def _counts(atom: Atom, value: str) -> bool:
    return atom.value == value or any(a.value == value for e in atom.args for a in e.atoms())


def _of_number(facts: Facts, divided: Node, number: Node) -> bool:
    """Whether nothing but a loaded number is divided."""
    atom = facts.values.expr(divided.op.inputs[0]).atom
    return atom is not None and atom.value == number.result
