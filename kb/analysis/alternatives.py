"""What a choice in an index may be."""

from __future__ import annotations

from kb.analysis.symbolic import AtomKind, Expr, add, mul, of, sub


def alternatives(index: Expr, value: str) -> list[Expr]:
    """An index, or with what a choice in it may be where a number is a part of each side of it."""
    if any(a.value == value for a in index.top()):
        return [index]
    for atom in (a for a in index.top() if a.kind is AtomKind.CHOICE):
        by = index.coefficient(atom)
        whole = mul(by, of(atom))
        parts = [mul(by, e) for e in atom.args if any(a.value == value for a in e.atoms())]
        if whole is not None and len(parts) == len(atom.args) and None not in parts:
            rest = sub(index, whole)
            found = [add(rest, part) for part in parts if part is not None]
            return [side for e in found for side in alternatives(e, value)]
    return [index]
