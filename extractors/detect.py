"""detect(kernel) -> Detection: the decisions of a kernel, what it computes, its parameters,
constraints, findings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from extractors.exact_grids import exact_grids
from extractors.host.facts import HostFacts
from extractors.longest import longest
from extractors.patterns.registry import patterns
from extractors.reach import reach
from extractors.rules.base import Subject
from extractors.rules.registry import findings_of
from extractors.twins import same_shapes
from kb.analysis.constraints import constraints_of
from kb.analysis.facts import Facts
from kb.analysis.graph import Lines
from kb.analysis.operations import operation_of
from kb.analysis.parameters import parameters_of
from kb.errors import InputError
from kb.evidence import Decision, Finding
from kb.ir import Kernel, Origin, kernel_ops
from kb.knowledge import ParameterFact
from kb.ops import TERMINATORS, OpKind
from kb.space import Constraint


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """What the program itself tells, and the findings that rules make of it and its host code; the
    host side adds tuning, launches and stated constraints.

    `facts` are kept for questions that need both sides.
    """

    decisions: tuple[Decision, ...]
    operation: str | None
    parameters: tuple[ParameterFact, ...]
    constraints: tuple[Constraint, ...]
    findings: tuple[Finding, ...]
    operations: int
    opaque: int
    facts: Facts


def decisions_of(facts: Facts) -> tuple[Decision, ...]:
    """Every decision that a pattern sees, ordered by axis, lines and value; one for all the places
    at which a pattern sees the same."""
    places: dict[Decision, tuple[set[Lines], set[Origin]]] = {}
    for pattern in patterns():
        for seen in pattern.seen(facts):
            lines, led = places.setdefault(replace(seen, lines=(), elsewhere=()), (set(), set()))
            lines.update(seen.lines)
            led.update(seen.elsewhere)
    found = [
        replace(d, lines=tuple(lines), elsewhere=tuple(sorted(led)))
        for d, (lines, led) in places.items()
    ]
    return tuple(
        sorted(found, key=lambda d: (d.axis, d.lines, d.pattern, d.value, d.subject or ""))
    )


def detect(kernel: Kernel, host: HostFacts | None = None) -> Detection:
    """Everything that the program of one kernel tells; `host` is for findings that need both.

    Raises InputError when the program nests too deeply.
    """
    try:
        return _detect(kernel, host or HostFacts())
    except RecursionError:
        raise InputError(
            "branches and loops nest too deeply to be analysed.",
            where=str(kernel.entry.span),
            hint="Split the kernel.",
        ) from None


def _detect(kernel: Kernel, host: HostFacts) -> Detection:
    facts = Facts(kernel)
    ops = [op for op in kernel_ops(kernel) if op.kind not in TERMINATORS]
    subject = Subject(facts, host)
    own = constraints_of(facts)
    return Detection(
        decisions=decisions_of(facts),
        operation=operation_of(facts),
        parameters=parameters_of(facts),
        constraints=(
            *own,
            *longest(facts, host),
            *same_shapes(facts, host),
            *exact_grids(facts, host),
            *reach(subject, own),
        ),
        findings=findings_of(subject),
        operations=len(ops),
        opaque=sum(op.kind == OpKind.OPAQUE for op in ops),
        facts=facts,
    )
