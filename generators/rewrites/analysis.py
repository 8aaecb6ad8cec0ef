"""What rewrites ask the analysis of tile programs; the one place that knows where the analysis
lives."""

from __future__ import annotations

from kb.analysis.accesses import Access, Mode
from kb.analysis.exponentials import Exponential, Statistic, is_log2e
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, VIEWS, Node
from kb.analysis.idioms import (
    Applied,
    Mask,
    against_extent,
    between_lanes,
    masks,
    recomputed,
)
from kb.analysis.inline import inline
from kb.analysis.loops import Carried, Loop, Role
from kb.analysis.symbolic import Atom, AtomKind, Expr, floor_div

__all__ = [
    "CASTS", "COPIES", "VIEWS", "Access", "Applied", "Atom", "AtomKind", "Carried", "Exponential",
    "Expr", "Facts", "Loop", "Mask", "Mode", "Node", "Role", "Statistic", "against_extent",
    "between_lanes", "floor_div", "inline", "is_log2e", "masks", "recomputed",
]  # fmt: skip
