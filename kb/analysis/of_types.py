"""Numbers that are known when a kernel is compiled: constexpr parameters and what types give."""

from __future__ import annotations

from collections.abc import Mapping

from kb.analysis.graph import Graph
from kb.analysis.symbolic import Atom, AtomKind
from kb.ir import ParameterKind
from kb.ops import OpKind


def compiled_in(graph: Graph, atom: Atom, kinds: Mapping[str, ParameterKind]) -> bool:
    """True for a constexpr parameter, a member of one, and the size of a type."""
    if atom.kind is AtomKind.PARAMETER:
        return kinds.get(atom.value) is ParameterKind.CONSTEXPR
    made = graph.producer(graph.core(atom.value)) if atom.kind is AtomKind.OPAQUE else None
    if made is None or made.op.kind not in (OpKind.SIZE_OF, OpKind.ATTRIBUTE):
        return False
    of = graph.core(made.op.inputs[0])
    return made.op.kind == OpKind.SIZE_OF or kinds.get(of or "") is ParameterKind.CONSTEXPR
