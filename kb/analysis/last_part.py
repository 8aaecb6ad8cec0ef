"""Parts of an extent that are alike but for the last one."""

from __future__ import annotations

from kb.analysis.symbolic import Atom, AtomKind, Expr, scale

_DIVIDED = (AtomKind.FLOOR_DIV, AtomKind.MOD, AtomKind.CHOICE)


def placed(atom: Atom) -> bool:
    """A block id, or what divisions leave of one."""
    return atom.kind is AtomKind.BLOCK or (
        atom.kind in _DIVIDED and any(a.has(AtomKind.BLOCK) for a in atom.args)
    )


def last_is_shorter(length: Expr) -> bool:
    """True for the least of a number and of what is left of an extent of which the blocks before
    took that number each; or for so many tiles of it."""
    atom = length.atom
    while atom is not None and atom.kind in (AtomKind.CEIL_DIV, AtomKind.FLOOR_DIV):
        atom = atom.args[0].atom
    if atom is None or atom.kind is not AtomKind.MINIMUM:
        return False
    return any(
        rest.coefficient(block) == scale(whole, -1)
        for whole in atom.args
        for rest in atom.args
        for block in rest.top()
        if placed(block)
    )
