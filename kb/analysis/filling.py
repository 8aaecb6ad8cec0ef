"""Loops that only fill memory with numbers, beside the work of a kernel."""

from __future__ import annotations

from kb.analysis.facts import Facts
from kb.analysis.loops import Loop
from kb.ops import READS


def fills(facts: Facts, loop: Loop) -> bool:
    """Whether nothing that a loop stores was loaded, and what is stored outside of it was."""
    inside = [s for s in facts.stores if s.node.inside(loop.node)]
    outside = [s for s in facts.stores if not s.node.inside(loop.node)]
    if not inside or any(facts.graph.roots(s.value, *READS) for s in inside):
        return False
    return any(facts.graph.roots(s.value, *READS) for s in outside)
