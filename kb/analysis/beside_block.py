"""Places that a loop counts on from the own block."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.symbolic import Atom, AtomKind, Expr


def beside_block(count: Atom | None, exprs: Iterable[Expr]) -> bool:
    """True when the own block is added to what is counted."""
    tops = (list(e.top()) for e in (exprs if count is not None else ()))
    return any(count in atoms and any(a.kind is AtomKind.BLOCK for a in atoms) for atoms in tops)
