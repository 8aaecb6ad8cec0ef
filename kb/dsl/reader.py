"""Design space text to records: `read(text, vocabulary)`. The inverse of `kb.dsl.writer.write`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kb.dsl.axes import Axes
from kb.dsl.comments import attach, moved, settle
from kb.dsl.facts import decision, finding, measurement, refusal
from kb.dsl.fields import Fields, Source, Words
from kb.dsl.forms import sections_of
from kb.dsl.model import Document, DocumentKind, Reading, Refusal
from kb.dsl.parser import parse_sections
from kb.dsl.tree import Arrow, Case, Demand, Fact, Field, Record, Section
from kb.errors import SyntaxProblem
from kb.evidence import AxisKind, Decision, Finding, Measurement
from kb.planner.expressions import parse, scalar_text
from kb.space import (
    Binding,
    Constraint,
    DesignSpace,
    GuardedPoints,
    Launch,
    Origin,
    Point,
    Tuning,
)
from kb.vocabulary_model import Vocabulary

HEADERS = tuple(DocumentKind)
SPACES = {
    "design_space": AxisKind.DESIGN,
    "tuning_space": AxisKind.TUNING,
    "host_space": AxisKind.HOST,
}
SINGLE = ("constraints", "mapping", "tuning", "program", "evidence", "refused", "holes")
SECTIONS = (*HEADERS, *SPACES, *SINGLE, "launch")
EVIDENCE: dict[str, Callable[[Source, Fact], Decision | Finding | Measurement]] = {
    "decision": decision,
    "finding": finding,
    "measurement": measurement,
}


def read(text: str, vocabulary: Vocabulary, *, where: str = "") -> Reading:
    """The document that `text` describes, with notes.

    Raises SyntaxProblem (line, column, hint) for text that breaks the grammar, and UnknownName for
    an axis that neither the vocabulary nor the kernel's own parameters know.
    """
    parsed = parse_sections(text, where=where)
    source = Source(where)
    found = _sort(parsed.sections, source)
    tuning = _tuning(source, found["tuning"][0]) if found.get("tuning") else None
    launches = tuple(_launch(source, section) for section in found.get("launch", ()))
    header = _Header(source, next((found[kind][0] for kind in HEADERS if kind in found), None))
    own = {*header.parameters, *_searched(tuning), *_launched(launches)}
    axes = Axes(source, vocabulary, own)
    for section in parsed.sections:
        if section.key in SPACES:
            axes.add(section, SPACES[section.key])
    facts = _evidence(source, _entries(found, "evidence"))
    document = Document(
        space=header.space(source, found, axes),
        kind=header.kind,
        tuning=tuning,
        launches=launches,
        program=found["program"][0].text if found.get("program") else None,
        decisions=tuple(fact for fact in facts if isinstance(fact, Decision)),
        findings=tuple(fact for fact in facts if isinstance(fact, Finding)),
        measurements=tuple(fact for fact in facts if isinstance(fact, Measurement)),
        refused=_refused(source, found),
        parameters=header.parameters,
        path=header.path,
        package=header.package,
        licence=header.licence,
        lines=header.lines,
        marks=axes.ordered_marks(),
        canonical=tuple(axes.canonical),
    )
    comments = moved(attach(parsed.comments, parsed.sections), axes.moves)
    document = replace(document, comments=settle(comments, sections_of(document)))
    program = found.get("program")
    began = program[0].place.line + 1 if program else 0
    return Reading(document=document, notes=tuple(axes.notes), program_line=began)


Found = dict[str, list[Section]]


def _sort(sections: Sequence[Section], source: Source) -> Found:
    """Sections by key; refuses unknown keys and a second one where there can be one."""
    found: Found = {}
    for section in sections:
        if section.key not in SECTIONS:
            raise source.unknown(section.key, SECTIONS, section.place)
        given = found.setdefault(section.key, [])
        headers = sum(len(found.get(kind, ())) for kind in HEADERS)
        if (section.key in HEADERS and headers) or (section.key in SINGLE and given):
            raise source.problem(
                f"there is a second `{section.key}`", section.place, "Merge the two."
            )
        given.append(section)
    return found


def _entries(found: Found, key: str) -> list[Section]:
    return found.get(key, [])


class _Header:
    """`kernel NAME { … }`, `template NAME { … }` or `space NAME { … }`."""

    def __init__(self, source: Source, section: Section | None) -> None:
        section = section or Section(DocumentKind.SPACE)
        fields = Fields(source, source.only(section.entries, Field, section), section.place)
        self.kind = DocumentKind(section.key)
        self.name = section.label or ""
        self.operation = fields.text("operation") or ""
        self.dialect = fields.text("dialect")
        self.digest = fields.text("source")
        self.path = fields.text("path")
        self.lines = fields.lines("lines")
        self.package = fields.text("package")
        self.licence = fields.text("licence")
        self.parameters = fields.texts("parameters") or ()
        self.derived_from = fields.texts("derived_from") or ()
        fields.finish()

    def space(self, source: Source, found: Found, axes: Axes) -> DesignSpace:
        """The design space with what the other sections say."""
        return DesignSpace(
            name=self.name,
            operation=self.operation,
            axes=axes.ordered(),
            constraints=tuple(
                _constraint(source, demand)
                for section in _entries(found, "constraints")
                for demand in source.only(section.entries, Demand, section)
            ),
            mapping=tuple(
                _mapping(arrow, source)
                for section in _entries(found, "mapping")
                for arrow in source.only(section.entries, Arrow, section)
            ),
            holes=tuple(
                _hole(fact, source)
                for section in _entries(found, "holes")
                for fact in source.only(section.entries, Fact, section)
            ),
            dialect=self.dialect,
            source_digest=self.digest,
            derived_from=self.derived_from,
        )


def _constraint(source: Source, demand: Demand) -> Constraint:
    _checked(source, demand)
    words = Words(source, demand.attributes, demand.place)
    origin = words.choice(Origin, Origin.PROPOSED)
    lines = words.lines()
    if len(lines) > 1:
        raise source.problem("a constraint has one range of lines", demand.place)
    constraint = Constraint(
        expression=demand.expression,
        origin=origin,
        because=words.text("because"),
        hint=words.text("hint"),
        source=words.text("source"),
        lines=lines[0] if lines else None,
        checked_by_host=words.flag("checked"),
    )
    words.finish()
    return constraint


def _checked(source: Source, demand: Demand) -> None:
    """Parse the expression where it stands, so that its errors point into the file."""
    try:
        parse(demand.expression)
    except SyntaxProblem as problem:
        column = int(problem.where.rsplit(":", 1)[-1])
        place = f"{demand.place.line}:{demand.place.column + column - 1}"
        where = f"{source.where}:{place}" if source.where else place
        raise SyntaxProblem(problem.message, where=where, hint=problem.hint) from problem


def _mapping(arrow: Arrow, source: Source) -> tuple[str, str]:
    left = " ".join((arrow.key, *map(scalar_text, arrow.argument)))
    return left, _string(arrow, source)


def _string(arrow: Arrow, source: Source) -> str:
    if isinstance(arrow.value, str):
        return arrow.value
    raise source.problem("after `->` stands a string in quotes", arrow.place)


def _hole(fact: Fact, source: Source) -> str:
    if fact.key or fact.attributes or not isinstance(fact.arguments[0], str):
        raise source.problem("a hole is one string in quotes", fact.place)
    return fact.arguments[0]


def _tuning(source: Source, section: Section) -> Tuning:
    cases = [entry for entry in section.entries if isinstance(entry, Case)]
    rest = [entry for entry in section.entries if not isinstance(entry, Case)]
    fields = Fields(source, source.only(rest, Field, section), section.place)
    tuning = Tuning(
        mechanism=fields.text("mechanism") or "none",
        spaces=tuple(_case(source, case) for case in cases),
        effective_axes=fields.texts("effective_axes") or (),
        dead_axes=fields.texts("dead_axes") or (),
        launched_with=fields.record("launched_with"),
        timed_with=fields.record("timed_with"),
        cache_key=fields.texts("cache_key"),
        lines=fields.lines("lines"),
    )
    fields.finish()
    return tuning


def _case(source: Source, case: Case) -> GuardedPoints:
    if case.key != "case" or case.label is None:
        hint = 'Write `case "always" { … }` or the condition.'
        raise source.problem(f"`{case.key}` is not a case with a condition", case.place, hint)
    points = [field for field in case.entries if field.key == "point"]
    fields = Fields(source, [f for f in case.entries if f.key != "point"], case.place)
    guarded = GuardedPoints(
        when=case.label,
        points=tuple(_point(source, field) for field in points),
        complete=fields.flag("complete", True),
        reason=fields.text("reason"),
        lines=fields.lines("lines"),
    )
    fields.finish()
    return guarded


def _point(source: Source, field: Field) -> Point:
    if isinstance(field.value, Record) and not field.attributes:
        return field.value.items
    raise source.problem("a point is a record, `{name: value}`", field.place)


def _launch(source: Source, section: Section) -> Launch:
    arrows = [entry for entry in section.entries if isinstance(entry, Arrow)]
    rest = [entry for entry in section.entries if not isinstance(entry, Arrow)]
    fields = Fields(source, source.only(rest, Field, section), section.place)
    lines = fields.lines("lines")
    if lines is None:
        raise source.problem("a launch needs `lines: first-last`", section.place)
    launch = Launch(
        grid=fields.texts("grid") or (),
        bindings=tuple(Binding(parameter=a.key, expression=_string(a, source)) for a in arrows),
        hints=fields.record("hints"),
        lines=lines,
        when=fields.text("when") or "always",
        host_function=section.label,
        file=fields.text("file"),
    )
    fields.finish()
    return launch


def _evidence(
    source: Source, sections: Sequence[Section]
) -> list[Decision | Finding | Measurement]:
    facts: list[Decision | Finding | Measurement] = []
    for section in sections:
        for fact in source.only(section.entries, Fact, section):
            if fact.key not in EVIDENCE:
                raise source.unknown(fact.key, EVIDENCE, fact.place)
            facts.append(EVIDENCE[fact.key](source, fact))
    return facts


def _refused(source: Source, found: Found) -> tuple[Refusal, ...]:
    return tuple(
        refusal(source, fact)
        for section in _entries(found, "refused")
        for fact in source.only(section.entries, Fact, section)
    )


def _searched(tuning: Tuning | None) -> set[str]:
    """Names that the kernel's tuning varies or sets."""
    if tuning is None:
        return set()
    points = [*(point for case in tuning.spaces for point in case.points)]
    points += [tuning.launched_with, tuning.timed_with]
    return {name for point in points for name, _ in point}


def _launched(launches: tuple[Launch, ...]) -> set[str]:
    """Names that a launch binds or hints."""
    bound = {binding.parameter for launch in launches for binding in launch.bindings}
    return bound | {name for launch in launches for name, _ in launch.hints}
