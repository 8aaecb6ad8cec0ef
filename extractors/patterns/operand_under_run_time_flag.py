"""Arrays that are read only where a flag given to the launch says so."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import vary
from extractors.patterns.operand_under_flag import (
    FLAGGED,
    FLAGGED_THREADS,
    FLAGGED_TILE,
    one_side,
)
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.evidence import Decision
from kb.ir import ParameterKind
from kb.ops import OpKind

_GIVEN = vary(FLAGGED, ("SHIFT: tl.constexpr", "SHIFT"))
_TILE = vary(FLAGGED_TILE, ("SHIFT: Bool", "SHIFT"))
_THREADS = vary(
    FLAGGED_THREADS,
    ("template <bool SHIFT>\n", ""),
    ("int n)", "int n, bool SHIFT)"),
    ("if constexpr (SHIFT)", "if (SHIFT)"),
)
_READ = "operand read under a runtime flag"


class OperandUnderRunTimeFlag(Pattern):
    """Every access of an array is a load under a branch on a scalar parameter alone, on the same
    side."""

    name = "operand-read-under-a-run-time-flag"
    axis = "optional_inputs"
    source = "CUDA C++ Programming Guide, branches that all threads of a grid take alike"
    matches = (
        Case(_GIVEN, _READ),
        Case(vary(_GIVEN, ("if SHIFT:", "if not SHIFT:")), _READ),
        Case(_TILE, _READ),
        Case(_THREADS, _READ),
        Case(_THREADS.replace("if (SHIFT) v += bias[at]", "v += SHIFT ? bias[at] : 0.f"), _READ),
        Case(_THREADS.replace("bool SHIFT", "int SHIFT"), _READ),
    )
    near_misses = (
        NearMiss(FLAGGED, why="chosen when it is compiled"),
        NearMiss(vary(_GIVEN, ("if SHIFT:", "if n > 4:")), why="a size decides, no flag"),
        NearMiss(vary(_GIVEN, ("load(bias", "load(x")), why="the array is read anyway"),
        NearMiss(
            vary(_GIVEN, ("    tl.store", "    else:\n        v += tl.load(bias)\n    tl.store")),
            why="read on both sides",
        ),
        NearMiss(FLAGGED_TILE, why="chosen when it is compiled"),
        NearMiss(FLAGGED_THREADS, why="chosen when it is compiled"),
        NearMiss(vary(_TILE, ("ct.load(bias,", "ct.load(x,")), why="the array is read anyway"),
        NearMiss(_THREADS.replace("if (SHIFT)", "if (at > 4)"), why="threads differ"),
        NearMiss(_THREADS.replace("if (SHIFT)", "if (n > 4)"), why="a size decides, no flag"),
        NearMiss(_THREADS.replace("if (SHIFT)", "if (bias)"), why="the pointer itself, no flag"),
        NearMiss(
            _THREADS.replace("v += bias[at]", "bias[at] = v").replace("const float* b", "float* b"),
            why="threads store it: a side output",
        ),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        flags = {
            node: flag
            for node in facts.graph.of(OpKind.IF, OpKind.IF_EXPRESSION)
            if (flag := _flag(facts, node.op.inputs[0])) is not None
        }
        arrays: dict[str, list[Access]] = {}
        for access in facts.accesses if flags else ():
            if access.array is not None:
                arrays.setdefault(access.array, []).append(access)
        found: dict[str, list[Where]] = {}
        for array, accesses in arrays.items():
            if any(access.is_store for access in accesses):
                continue
            shared = one_side(facts, [access.node for access in accesses], {*flags})
            asked = {flag for node, flag in flags.items() if node.op.inputs[0] in shared}
            heads = [node.head for node, flag in flags.items() if flag in asked]
            if heads:
                found[array] = [*facts.declared(*asked), *heads, *accesses]
        if found:
            where = [place for places in found.values() for place in places]
            yield self.decide(facts, _READ, where, ", ".join(sorted(found)))


def _flag(facts: Facts, condition: str) -> str | None:
    """The parameter that a condition asks for, and nothing else: whether it holds, or not; a
    pointer that may be null is no flag."""
    made = facts.graph.producer(condition)
    while made is not None and made.op.kind in (OpKind.NOT, OpKind.CAST) and made.op.inputs:
        condition = made.op.inputs[0]
        made = facts.graph.producer(condition)
    flags = {p.name for p in facts.kernel.entry.parameters if p.kind is not ParameterKind.ARRAY}
    given = made is None and condition in flags
    return condition if given and condition not in facts.constexprs else None
