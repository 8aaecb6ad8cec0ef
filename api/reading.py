"""One file, read to what a table shows and what a store takes: small enough to hand to another
process, and to keep."""

from __future__ import annotations

from dataclasses import dataclass, replace

from api.explain import tuning_summary
from kb.checked import checked
from kb.errors import DoesNotConform
from kb.evidence import Diagnostic, Lines
from kb.graph.encode import encode
from kb.knowledge import KernelKnowledge, Source, SourceKnowledge
from kb.store_records import CheckedGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSummary:
    """A row of the table; decisions, findings and operations are counted."""

    name: str
    lines: Lines
    operation: str | None
    decisions: int
    tuning: str
    findings: int
    opaque: int
    operations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one file gave. `refused` says why its graphs may not be stored; then there are none.

    `again` is False when nothing had changed since an earlier reading, whose result this is.
    """

    source: Source
    kernels: tuple[KernelSummary, ...]
    diagnostics: tuple[Diagnostic, ...]
    graphs: tuple[CheckedGraph, ...] = ()
    refused: str = ""
    again: bool = True


def summary(knowledge: KernelKnowledge) -> KernelSummary:
    """The row of a kernel."""
    return KernelSummary(
        name=knowledge.kernel.name,
        lines=knowledge.lines,
        operation=knowledge.operation,
        decisions=len(knowledge.decisions),
        tuning=tuning_summary(knowledge.tuning),
        findings=len(knowledge.findings),
        opaque=knowledge.opaque,
        operations=knowledge.operations,
    )


def reading_of(found: SourceKnowledge) -> Reading:
    """Encode, check and pack the kernels of a file: all of them, or none."""
    reading = Reading(
        source=found.source,
        kernels=tuple(summary(knowledge) for knowledge in found.kernels),
        diagnostics=found.diagnostics,
    )
    try:
        graphs = tuple(checked(encode(knowledge)) for knowledge in found.kernels)
    except DoesNotConform as error:
        return replace(reading, refused=error.text)
    return replace(reading, graphs=graphs)
