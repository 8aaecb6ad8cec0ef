"""Document to sections: what goes under which heading, in which words. `reader` is the inverse."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from kb.dsl.model import Document, DocumentKind, Refusal, same
from kb.dsl.tree import (
    Arrow,
    Attribute,
    Case,
    Demand,
    Element,
    Entry,
    Fact,
    Field,
    FieldValue,
    IntRange,
    LineRange,
    Listing,
    Record,
    Section,
)
from kb.evidence import AxisKind, Decision, Finding, Lines, Measurement
from kb.planner.expressions import parse, scalar_text, to_text
from kb.space import Axis, Constraint, GuardedPoints, Launch, Origin, Scalar, Tuning

SPACES = {
    AxisKind.DESIGN: "design_space",
    AxisKind.TUNING: "tuning_space",
    AxisKind.HOST: "host_space",
}
MAPPED = re.compile(r"(?P<axis>[A-Za-z_][\w.]*)(?: (?P<value>\S.*))?", re.ASCII)


def sections_of(document: Document) -> tuple[Section, ...]:
    """The sections of `document` in their order; empty ones are left out."""
    space = document.space
    sections = [_header(document)]
    for kind, axes in groupby(space.axes, key=lambda axis: axis.kind):
        sections.append(
            Section(SPACES[kind], entries=tuple(_axis(document, axis) for axis in axes))
        )
    sections.append(Section("constraints", entries=tuple(map(_constraint, space.constraints))))
    sections.append(Section("mapping", entries=tuple(_mapping(*pair) for pair in space.mapping)))
    if document.tuning is not None:
        sections.append(_tuning(document.tuning))
    sections += [_launch(launch) for launch in document.launches]
    if document.program is not None:
        sections.append(Section("program", text=document.program))
    sections.append(Section("evidence", entries=_evidence(document)))
    sections.append(Section("refused", entries=tuple(map(_refusal, document.refused))))
    sections.append(Section("holes", entries=tuple(Fact("", (hole,)) for hole in space.holes)))
    bare = ("constraints", "mapping", "evidence", "refused", "holes")
    return tuple(s for s in sections if s.entries or (s.key not in bare and not _is_bare(s)))


def _is_bare(section: Section) -> bool:
    return section.key == DocumentKind.SPACE and section.label is None and not section.entries


def _header(document: Document) -> Section:
    space = document.space
    pairs: list[tuple[str, FieldValue]] = [
        ("operation", space.operation or None),
        ("dialect", space.dialect),
        ("source", space.source_digest),
        ("path", document.path),
        ("lines", LineRange(document.lines) if document.lines is not None else None),
        ("package", document.package),
        ("licence", document.licence),
        ("parameters", _optional_list(document.parameters)),
        ("derived_from", _optional_list(space.derived_from)),
    ]
    return Section(document.kind, space.name or None, _fields(pairs))


def _fields(pairs: Iterable[tuple[str, FieldValue]]) -> tuple[Field, ...]:
    """Fields for what has a value."""
    return tuple(Field(key, value) for key, value in pairs if value is not None)


def _list(values: Iterable[Scalar]) -> Listing:
    return Listing(tuple(Element(value) for value in values))


def _optional_list(values: tuple[str, ...]) -> Listing | None:
    return _list(values) if values else None


def _attributes(**words: tuple[Scalar | Lines, ...] | None) -> tuple[Attribute, ...]:
    """One attribute per keyword that is not None, in the order given; a trailing `_` is dropped."""
    return tuple(
        Attribute(word.rstrip("_"), arguments)
        for word, arguments in words.items()
        if arguments is not None
    )


def _one(value: Scalar) -> tuple[Scalar, ...] | None:
    return None if value is None else (value,)


def _some(values: tuple[str, ...] | tuple[Lines, ...]) -> tuple[Scalar | Lines, ...] | None:
    return tuple(values) or None


def _marked(origin: Origin) -> tuple[Attribute, ...]:
    """What a person writes is proposed, so that needs no mark."""
    return () if origin is Origin.PROPOSED else (Attribute(origin.value),)


def _axis(document: Document, axis: Axis) -> Field:
    marks = document.marked(axis)
    elements: list[Element] = []
    for place, value in enumerate(axis.values):
        mark = marks.get(place)
        elements.append(Element(value, mark.origin, mark.by) if mark else Element(value))
    by, from_, because = _one(axis.by), _some(axis.derived_from), _one(axis.rationale)
    attributes = _marked(axis.origin) + _attributes(by=by, from_=from_, because=because)
    plain = not any(element.origin for element in elements)
    whole = _as_range(axis.values) if plain else None
    return Field(axis.name, whole or Listing(tuple(elements)), attributes)


def _as_range(values: tuple[Scalar, ...]) -> IntRange | None:
    """Three or more whole numbers in a row are written as a range."""
    first = values[0] if len(values) >= 3 else None
    if not isinstance(first, int) or isinstance(first, bool):
        return None
    wanted = range(first, first + len(values))
    if all(same(value, step) for value, step in zip(values, wanted, strict=True)):
        return IntRange(first, wanted[-1])
    return None


def _constraint(constraint: Constraint) -> Demand:
    expression = constraint.expression.strip()
    tree = parse(expression)
    lines = None if constraint.lines is None else (constraint.lines,)
    attributes = _marked(constraint.origin) + _attributes(
        checked=() if constraint.checked_by_host else None,
        lines=lines,
        because=_one(constraint.because),
        hint=_one(constraint.hint),
        source=_one(constraint.source),
    )
    return Demand(to_text(tree) if "\n" in expression else expression, attributes)


def _mapping(left: str, right: str) -> Arrow:
    match = MAPPED.fullmatch(left)
    value = match["value"] if match else None
    if match is None or (value is not None and not _is_scalar(value)):
        return Arrow(left, (), right, quoted=True)
    return Arrow(match["axis"], () if value is None else (_scalar_of(value),), right)


def _is_scalar(text: str) -> bool:
    """Whether `text` is the normal text of a string or whole number."""
    if re.fullmatch(r"-?(0|[1-9]\d{0,30})|True|False|None", text, re.ASCII):
        return text != "-0"
    return (
        bool(re.fullmatch(r'"(?:[^"\\\n]|\\.)*"', text)) and scalar_text(_scalar_of(text)) == text
    )


def _scalar_of(text: str) -> Scalar:
    tree = parse(text)
    return getattr(tree, "value", None)


def _tuning(tuning: Tuning) -> Section:
    pairs: list[tuple[str, FieldValue]] = [
        ("mechanism", tuning.mechanism),
        ("lines", LineRange(tuning.lines) if tuning.lines is not None else None),
        ("effective_axes", _optional_list(tuning.effective_axes)),
        ("dead_axes", _optional_list(tuning.dead_axes)),
        ("launched_with", Record(tuning.launched_with) if tuning.launched_with else None),
        ("timed_with", Record(tuning.timed_with) if tuning.timed_with else None),
        ("cache_key", None if tuning.cache_key is None else _list(tuning.cache_key)),
    ]
    cases: tuple[Entry, ...] = tuple(_case(case) for case in tuning.spaces)
    return Section("tuning", entries=_fields(pairs) + cases)


def _case(case: GuardedPoints) -> Case:
    pairs: list[tuple[str, FieldValue]] = [
        ("lines", LineRange(case.lines) if case.lines is not None else None),
        ("complete", None if case.complete else False),
        ("reason", case.reason),
        *(("point", Record(point)) for point in case.points),
    ]
    return Case("case", case.when, _fields(pairs))


def _launch(launch: Launch) -> Section:
    pairs: list[tuple[str, FieldValue]] = [
        ("when", None if launch.when == "always" else launch.when),
        ("lines", LineRange(launch.lines)),
        ("file", launch.file),
        ("grid", _list(launch.grid)),
        ("hints", Record(launch.hints) if launch.hints else None),
    ]
    bound: tuple[Entry, ...] = tuple(
        Arrow(
            b.parameter,
            (),
            b.expression,
            quoted=not MAPPED.fullmatch(b.parameter) or " " in b.parameter,
        )
        for b in launch.bindings
    )
    return Section("launch", launch.host_function, _fields(pairs) + bound)


def _evidence(document: Document) -> tuple[Entry, ...]:
    return (
        *map(_decision, document.decisions),
        *map(_finding, document.findings),
        *map(_measurement, document.measurements),
    )


def _decision(decision: Decision) -> Fact:
    elsewhere: list[Scalar | Lines] = []
    for file, lines in decision.by_file.items():
        elsewhere += [file, *lines]
    attributes = _attributes(
        kind=None if decision.kind is AxisKind.DESIGN else (decision.kind.value,),
        pattern=(decision.pattern,),
        lines=_some(decision.lines),
        subject=_one(decision.subject),
        file=_one(decision.file),
        elsewhere=tuple(elsewhere) or None,
    )
    return Fact("decision", (decision.axis, decision.value), attributes)


def _finding(finding: Finding) -> Fact:
    attributes = _attributes(
        severity=(finding.severity.value,), lines=_some(finding.lines), fix=_one(finding.fix)
    )
    return Fact("finding", (finding.rule, finding.message), attributes)


def _measurement(measurement: Measurement) -> Fact:
    attributes = _attributes(
        target=(measurement.target,),
        samples=(measurement.samples,),
        seed=(measurement.seed,),
        kernel=(measurement.kernel_digest,),
        versions=_flat(measurement.versions),
        problem=_flat(measurement.problem),
        point=_flat(measurement.point),
    )
    return Fact(
        "measurement", (measurement.metric, measurement.value, measurement.unit), attributes
    )


def _flat(pairs: tuple[tuple[str, str], ...]) -> tuple[Scalar, ...] | None:
    return tuple(word for pair in pairs for word in pair) or None


def _refusal(refusal: Refusal) -> Fact:
    attributes = _attributes(
        because=(refusal.reason,), source=_one(refusal.source), from_=_some(refusal.derived_from)
    )
    return Fact("refuse", (refusal.axis, refusal.value), attributes)
