"""A kernel graph back to the knowledge that `encode` wrote."""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import Quad

from kb.evidence import (
    AxisKind,
    AxisNumerics,
    Decision,
    Finding,
    Lines,
    Numerics,
    Severity,
)
from kb.graph import names
from kb.graph.facts import Reading, whole
from kb.ir_text import parse
from kb.knowledge import KernelKnowledge, ParameterFact, ParameterRole, Source
from kb.space import Binding, Constraint, GuardedPoints, Launch, Origin, Tuning


@whole()
def decode(quads: Iterable[Quad], program_text: str) -> KernelKnowledge:
    """What a kernel graph and the text of its program say.

    Raises InputError when the graph holds no kernel or lacks a fact, SyntaxProblem when the text is
    no program.
    """
    reading = Reading(quads)
    kernel = reading.subject("tl:Kernel")
    operation = None
    if reading.has(kernel, "tl:implements"):
        operation = names.last_text(reading.link(kernel, "tl:implements"))
    dialect = reading.text(kernel, "tl:dialect")
    return KernelKnowledge(
        kernel=parse(program_text, where=reading.text(kernel, "tl:programDigest")),
        source=_source(reading, reading.link(kernel, "tl:hasSource"), dialect),
        lines=(reading.integer(kernel, "tl:startLine"), reading.integer(kernel, "tl:endLine")),
        operation=operation,
        parameters=tuple(_parameter(reading, n) for n in reading.parts(kernel, "tl:hasParameter")),
        decisions=tuple(decision_of(reading, n) for n in reading.parts(kernel, "tl:hasDecision")),
        tuning=tuning_of(reading, reading.link(kernel, "tl:hasTuning")),
        launches=tuple(launch_of(reading, n) for n in reading.parts(kernel, "tl:hasLaunch")),
        constraints=constraints(reading, kernel),
        findings=tuple(finding_of(reading, n) for n in reading.parts(kernel, "tl:hasFinding")),
        operations=reading.integer(kernel, "tl:operationCount"),
        opaque=reading.integer(kernel, "tl:opaqueCount"),
        numerics=tuple(_numerics(reading, n) for n in reading.parts(kernel, "tl:hasNumerics")),
    )


def _numerics(reading: Reading, node: str) -> AxisNumerics:
    return AxisNumerics(
        name=reading.text(node, "tl:name"),
        numerics=Numerics(reading.text(node, "tl:numerics")),
        reason=reading.text(node, "tl:because"),
        lines=reading.lines(node),
    )


def _source(reading: Reading, node: str, dialect: str) -> Source:
    return Source(
        path=reading.text(node, "tl:path"),
        sha256=reading.text(node, "tl:sha256"),
        dialect=dialect,
        package=reading.optional(node, "tl:package"),
        licence=reading.optional(node, "dcterms:license"),
    )


def _parameter(reading: Reading, node: str) -> ParameterFact:
    return ParameterFact(
        name=reading.text(node, "tl:name"),
        kind=reading.text(node, "tl:parameterKind"),
        role=ParameterRole(reading.text(node, "tl:role")),
        dtype=reading.optional(node, "tl:dtype"),
        rank=reading.integer(node, "tl:rank") if reading.has(node, "tl:rank") else None,
    )


def decision_of(reading: Reading, node: str) -> Decision:
    """A decision, from its node."""
    return Decision(
        axis=names.last_text(reading.link(node, "tl:onAxis")),
        value=reading.text(node, "tl:value"),
        pattern=names.last_text(reading.link(node, "tl:seenBy")),
        lines=reading.lines(node),
        kind=AxisKind(reading.text(node, "tl:axisKind")),
        subject=reading.optional(node, "tl:subject"),
        file=reading.optional(node, "tl:file"),
        elsewhere=reading.elsewhere(node),
    )


def tuning_of(reading: Reading, node: str) -> Tuning:
    """The tuning of a kernel or design space, from its node."""
    more = reading.json(node)
    key = tuple(
        reading.text(part, "tl:expression") for part in reading.parts(node, "tl:cacheKeyPart")
    )
    return Tuning(
        mechanism=reading.text(node, "tl:mechanism"),
        spaces=tuple(_case(reading, n) for n in reading.parts(node, "tl:hasCase")),
        effective_axes=tuple(more.get("effectiveAxes", ())),
        dead_axes=tuple(more.get("deadAxes", ())),
        launched_with=reading.settings(node, "tl:launchedWith"),
        timed_with=reading.settings(node, "tl:timedWith"),
        cache_key=key if more.get("cacheKey") else None,
        lines=_only(reading.lines(node)),
    )


def _only(lines: tuple[Lines, ...]) -> Lines | None:
    return lines[0] if lines else None


def _case(reading: Reading, node: str) -> GuardedPoints:
    return GuardedPoints(
        when=reading.text(node, "tl:when"),
        points=tuple(
            reading.settings(point, "tl:setting") for point in reading.parts(node, "tl:hasPoint")
        ),
        complete=reading.get(node, "tl:complete") is True,
        reason=reading.optional(node, "tl:reason"),
        lines=_only(reading.lines(node)),
    )


def launch_of(reading: Reading, node: str) -> Launch:
    """A launch, from its node."""
    bindings = tuple(
        Binding(
            parameter=names.last_text(reading.link(part, "tl:parameter")),
            expression=reading.text(part, "tl:expression"),
        )
        for part in reading.parts(node, "tl:binding")
    )
    return Launch(
        grid=tuple(
            reading.text(part, "tl:expression") for part in reading.parts(node, "tl:gridAxis")
        ),
        bindings=bindings,
        hints=reading.settings(node, "tl:hint"),
        lines=reading.lines(node)[0],
        when=reading.text(node, "tl:when"),
        host_function=reading.optional(node, "tl:hostFunction"),
        file=reading.optional(node, "tl:file"),
    )


def constraints(reading: Reading, owner: str) -> tuple[Constraint, ...]:
    """The constraints of a kernel or of a design space."""
    return tuple(
        Constraint(
            expression=reading.text(node, "tl:expression"),
            origin=Origin(reading.text(node, "tl:origin")),
            because=reading.optional(node, "tl:because"),
            hint=reading.optional(node, "tl:hint"),
            source=reading.optional(node, "dcterms:source"),
            lines=_only(reading.lines(node)),
            checked_by_host=reading.get(node, "tl:checkedByHost") is True,
        )
        for node in reading.parts(owner, "tl:hasConstraint")
    )


def finding_of(reading: Reading, node: str) -> Finding:
    """A finding, from its node."""
    return Finding(
        rule=names.last_text(reading.link(node, "tl:rule")),
        severity=Severity(reading.text(node, "tl:severity")),
        message=reading.text(node, "tl:message"),
        lines=reading.lines(node),
        fix=reading.optional(node, "tl:fix"),
    )
