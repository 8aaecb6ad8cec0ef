"""What was read of a kernel as a DSL document: observed values, program, tuning, evidence.

Every axis lists the values that were seen in the source. `tuning_space` holds the searched names
with their values in the order of the search; a tuning decision without a search (a latency hint)
keeps its own words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kb.dsl.model import Document, DocumentKind, same
from kb.evidence import AxisKind, Decision
from kb.ir_text import to_text
from kb.knowledge import KernelKnowledge, ParameterRole
from kb.space import Axis, DesignSpace, Origin, Point, Scalar, Tuning
from kb.vocabulary_model import folded

SIZES = frozenset({ParameterRole.TILE_SIZE, ParameterRole.PROBLEM_SIZE, ParameterRole.GROUPING})
"""Roles whose values are numbers."""


def knowledge_document(knowledge: KernelKnowledge) -> Document:
    """The design space of one kernel as text holds it; InputError when the program has no text."""
    source = knowledge.source
    tuned = _tuned(knowledge)
    parameters = tuple(parameter.name for parameter in knowledge.parameters)
    space = DesignSpace(
        name=knowledge.kernel.name,
        operation=knowledge.operation or "",
        axes=_axes(knowledge.decisions, tuned),
        constraints=knowledge.constraints,
        mapping=_mapping(tuned, parameters, knowledge.tuning),
        dialect=knowledge.kernel.dialect,
        source_digest=source.sha256,
    )
    return Document(
        space=space,
        kind=DocumentKind.KERNEL,
        tuning=knowledge.tuning,
        launches=knowledge.launches,
        program=to_text(knowledge.kernel).rstrip("\n"),
        decisions=knowledge.decisions,
        findings=knowledge.findings,
        parameters=parameters,
        path=source.path,
        package=source.package,
        licence=source.licence,
        lines=knowledge.lines,
    )


def _axes(
    decisions: Sequence[Decision], tuned: tuple[tuple[str, tuple[Scalar, ...]], ...]
) -> tuple[Axis, ...]:
    """Design, tuning, host axes; an axis that the search varies has the search's values."""
    searched = {folded(name) for name, _ in tuned}
    found: dict[AxisKind, list[Axis]] = {kind: [] for kind in AxisKind}
    for name, values in tuned:
        found[AxisKind.TUNING].append(Axis(name=name, kind=AxisKind.TUNING, values=values))
    for kind in AxisKind:
        for axis, texts in _grouped(d for d in decisions if d.kind is kind):
            if folded(axis) not in searched:
                found[kind].append(Axis(name=axis, kind=kind, values=texts, origin=Origin.OBSERVED))
    return tuple(axis for kind in AxisKind for axis in found[kind])


def _grouped(decisions: Iterable[Decision]) -> list[tuple[str, tuple[str, ...]]]:
    """Values by axis, each in order of appearance."""
    groups: dict[str, dict[str, None]] = {}
    for decision in decisions:
        groups.setdefault(decision.axis, {})[decision.value] = None
    return [(axis, tuple(values)) for axis, values in groups.items()]


def _tuned(knowledge: KernelKnowledge) -> tuple[tuple[str, tuple[Scalar, ...]], ...]:
    """Searched names with their values; what is only launched with comes last.

    A size that the host computes from the problem has an expression in place of a value; such are
    no values of the axis (they stay in `tuning`).
    """
    tuning = knowledge.tuning
    sizes = {p.name for p in knowledge.parameters if p.role in SIZES}
    found: dict[str, list[Scalar]] = {}
    points: list[Point] = [point for case in tuning.spaces for point in case.points]
    for name, value in (pair for point in [*points, tuning.launched_with] for pair in point):
        known = found.setdefault(name, [])
        computed = name in sizes and isinstance(value, str)
        if not computed and not any(same(value, other) for other in known):
            known.append(value)
    return tuple((name, tuple(values)) for name, values in found.items())


def _mapping(
    tuned: tuple[tuple[str, tuple[Scalar, ...]], ...], parameters: tuple[str, ...], tuning: Tuning
) -> tuple[tuple[str, str], ...]:
    """How a searched name reaches the kernel: as a parameter, or as a hint of the launch."""
    rows = []
    for name, _ in tuned:
        if name in parameters:
            rows.append((name, f"parameter {name}"))
        elif name not in tuning.dead_axes:
            rows.append((name, f"hint {name}"))
    return tuple(rows)
