"""What a DSL file says, as records. Generators read this; reader and writer turn it into text."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kb.dsl.tree import Comment
from kb.errors import UnknownName
from kb.evidence import Decision, Diagnostic, Finding, Lines, Measurement
from kb.space import Axis, DesignSpace, Launch, Origin, Scalar, Tuning


class DocumentKind(StrEnum):
    """What the space belongs to; the keyword of the header."""

    KERNEL = "kernel"
    TEMPLATE = "template"
    SPACE = "space"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueMark:
    """Who says that `axis` may take `value`, where that differs from who says so for the axis."""

    axis: str
    value: Scalar
    origin: Origin
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A donor's value on an axis that must not be used here, and why."""

    axis: str
    value: str
    reason: str
    source: str | None = None
    derived_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One DSL file: a design space and everything known beside it.

    Axis names are as written. `canonical` gives the ontology's name for each written alias (derived
    from the vocabulary, so not part of equality); `axis` finds by either name.
    """

    space: DesignSpace
    kind: DocumentKind = DocumentKind.SPACE
    tuning: Tuning | None = None
    launches: tuple[Launch, ...] = ()
    program: str | None = None
    decisions: tuple[Decision, ...] = ()
    findings: tuple[Finding, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    refused: tuple[Refusal, ...] = ()
    parameters: tuple[str, ...] = ()
    path: str | None = None
    package: str | None = None
    licence: str | None = None
    lines: Lines | None = None
    marks: tuple[ValueMark, ...] = ()
    comments: tuple[Comment, ...] = ()
    canonical: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def axis(self, name: str) -> Axis:
        """The axis written or known as `name`; UnknownName when the space has none."""
        aliases = dict(self.canonical)
        for axis in self.space.axes:
            if name in (axis.name, aliases.get(axis.name)):
                return axis
        known = ", ".join(axis.name for axis in self.space.axes)
        raise UnknownName(f"the space has no axis `{name}`.", hint=f"It has {known}.")

    def origin_of(self, axis: Axis, value: Scalar) -> tuple[Origin, str | None]:
        """Who says that `axis` may take `value`."""
        for mark in self.marks:
            if mark.axis == axis.name and same(mark.value, value):
                return mark.origin, mark.by
        return axis.origin, axis.by

    def marked(self, axis: Axis) -> dict[int, ValueMark]:
        """Marks of `axis` by place among its values: of equal values the next one that is free."""
        found: dict[int, ValueMark] = {}
        last = -1
        for mark in self.marks:
            if mark.axis != axis.name:
                continue
            free = [
                place
                for place, value in enumerate(axis.values)
                if same(value, mark.value) and place not in found
            ]
            if free:
                last = next((place for place in free if place > last), free[0])
                found[last] = mark
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A document and what a person should be told, such as an axis moved to its own space."""

    document: Document
    notes: tuple[Diagnostic, ...] = ()
    program_line: int = 0
    """Line of the text that the program begins on, 0 when there is none."""


def same(one: Scalar, other: Scalar) -> bool:
    """Equal in type and value: `1`, `1.0` and `True` are three values."""
    return type(one) is type(other) and one == other
