"""Who gives: the decisions of kernels, of a DSL file or of several kernels of one operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kb.dsl.model import Document, same
from kb.errors import InputError
from kb.evidence import AxisKind, Decision
from kb.knowledge import KernelKnowledge
from kb.space import Constraint, Scalar, Tuning
from kb.template import DonorFact


@dataclass(frozen=True, slots=True, kw_only=True)
class Donor:
    """What kernels of one operation decided; `tuned` are searched names with their values."""

    name: str
    operation: str
    facts: tuple[DonorFact, ...]
    constraints: tuple[Constraint, ...] = ()
    tuned: tuple[tuple[str, tuple[Scalar, ...]], ...] = ()


def donor_from_decisions(
    decisions: Sequence[Decision],
    *,
    name: str,
    operation: str,
    kernel: str,
    tuning: Tuning | None = None,
) -> Donor:
    """A donor from bare decisions; the n-th is named `KERNEL/decision/N`, counted from 0."""
    facts = tuple(
        DonorFact(decision=decision, kernel=kernel, iri=f"{kernel}/decision/{number}")
        for number, decision in enumerate(decisions)
    )
    return Donor(name=name, operation=operation, facts=facts, tuned=_tuned(tuning))


def donor_from_knowledge(knowledge: KernelKnowledge, *, kernel: str) -> Donor:
    """A donor from what was read of the kernel with that IRI; InputError without an operation."""
    if knowledge.operation is None:
        hint = "Transfer from a kernel whose operation is known."
        raise InputError("the operation of the kernel is not known.", where=kernel, hint=hint)
    located = [
        decision if decision.file else replace(decision, file=knowledge.source.path)
        for decision in knowledge.decisions
    ]
    donor = donor_from_decisions(
        located,
        name=knowledge.operation,
        operation=knowledge.operation,
        kernel=kernel,
        tuning=knowledge.tuning,
    )
    return replace(donor, constraints=knowledge.constraints)


def donor_from_document(document: Document, *, kernel: str) -> Donor:
    """A donor from a DSL file: its decisions, or the first value of each axis when it has none."""
    space = document.space
    if not space.operation:
        hint = 'Write `operation: "…"` in its header.'
        raise InputError("the design space does not name its operation.", hint=hint)
    decisions = document.decisions or tuple(
        Decision(axis=axis.name, value=str(axis.values[0]), pattern="", lines=(), kind=axis.kind)
        for axis in space.axes
        if axis.values and axis.kind is not AxisKind.TUNING
    )
    donor = donor_from_decisions(
        decisions,
        name=space.name or space.operation,
        operation=space.operation,
        kernel=kernel,
        tuning=document.tuning,
    )
    return replace(donor, constraints=space.constraints)


def merged(donors: Sequence[Donor]) -> Donor:
    """Several kernels of one operation as one donor."""
    if not donors:
        raise InputError("there is no kernel to transfer from.", hint="Extract one first.")
    return Donor(
        name=donors[0].operation,
        operation=donors[0].operation,
        facts=tuple(fact for donor in donors for fact in donor.facts),
        constraints=tuple(dict.fromkeys(c for donor in donors for c in donor.constraints)),
        tuned=tuple(dict.fromkeys(entry for donor in donors for entry in donor.tuned)),
    )


def _tuned(tuning: Tuning | None) -> tuple[tuple[str, tuple[Scalar, ...]], ...]:
    """Searched names with their values, in order of appearance."""
    values: dict[str, list[Scalar]] = {}
    for case in tuning.spaces if tuning is not None else ():
        for point in case.points:
            for name, value in point:
                known = values.setdefault(name, [])
                if not any(same(value, other) for other in known):
                    known.append(value)
    return tuple((name, tuple(known)) for name, known in values.items())
