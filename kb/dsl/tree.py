"""The shape of DSL text before it has a meaning: sections, entries, comments; bounded in depth."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kb.evidence import Lines
from kb.space import Point, Scalar


@dataclass(frozen=True, slots=True)
class Place:
    """First and last line and first column of something in the text, 1-based."""

    line: int = 0
    end_line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True)
class Attribute:
    """`; word argument …` after an entry."""

    word: str
    arguments: tuple[Scalar | Lines, ...] = ()


@dataclass(frozen=True, slots=True)
class Element:
    """A value in a list, with marks such as `proposed by "ada"`."""

    value: Scalar
    origin: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """`[a, b]`."""

    elements: tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class IntRange:
    """`int range [first, last]`, both ends included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Record:
    """`{name: value, …}`."""

    items: Point


@dataclass(frozen=True, slots=True)
class LineRange:
    """`12-15`: first and last source line."""

    lines: Lines


FieldValue = Scalar | Listing | IntRange | Record | LineRange


@dataclass(frozen=True, slots=True)
class Field:
    """`key: value; attributes`."""

    key: str
    value: FieldValue
    attributes: tuple[Attribute, ...] = ()
    place: Place = field(default=Place(), compare=False)


@dataclass(frozen=True, slots=True)
class Arrow:
    """`key argument -> value`; `quoted` when the left side is one string."""

    key: str
    argument: tuple[Scalar, ...]
    value: Scalar
    quoted: bool = False
    place: Place = field(default=Place(), compare=False)


@dataclass(frozen=True, slots=True)
class Fact:
    """`key argument …; attributes`; a hole is a fact with an empty key and one string."""

    key: str
    arguments: tuple[Scalar, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    place: Place = field(default=Place(), compare=False)


@dataclass(frozen=True, slots=True)
class Demand:
    """`expression; attributes` in `constraints`."""

    expression: str
    attributes: tuple[Attribute, ...] = ()
    place: Place = field(default=Place(), compare=False)


@dataclass(frozen=True, slots=True)
class Text:
    """The lines of `program { … }`, verbatim."""

    text: str
    place: Place = field(default=Place(), compare=False)


@dataclass(frozen=True, slots=True)
class Case:
    """`case "condition" { … }`: the one block inside a section."""

    key: str
    label: str | None
    entries: tuple[Field, ...]
    place: Place = field(default=Place(), compare=False)


Entry = Field | Arrow | Fact | Demand | Case


@dataclass(frozen=True, slots=True)
class Section:
    """`key label { entries }`, or the program."""

    key: str
    label: str | None = None
    entries: tuple[Entry, ...] = ()
    text: str | None = None
    place: Place = field(default=Place(), compare=False)


class Side(StrEnum):
    """Where a comment stands: before its item, on the item's last line, or last in its block."""

    BEFORE = "before"
    AFTER = "after"
    END = "end"


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment with its `#` and its item, as keys from the section down; () is the file."""

    text: str
    anchor: tuple[str, ...]
    side: Side


def anchors(entries: tuple[Entry, ...] | tuple[Section, ...]) -> tuple[str, ...]:
    """A name per entry, unique among its siblings: the key, with `#n` from its second use on."""
    seen: dict[str, int] = {}
    names: list[str] = []
    for entry in entries:
        key = _key(entry)
        count = seen.get(key, 0)
        seen[key] = count + 1
        names.append(f"{key}#{count}" if count else key)
    return tuple(names)


def _key(entry: Entry | Section) -> str:
    match entry:
        case Demand(expression=expression):
            return expression
        case Fact(key=key, arguments=arguments) | Arrow(key=key, argument=arguments):
            return " ".join((key, *map(repr, arguments)))
        case Case(key=key, label=label) | Section(key=key, label=label):
            return f"{key} {label}" if label is not None else key
    return entry.key
