"""Typed access to entries, with errors that say line, column, what is known and what was near."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar

from kb.dsl.tree import (
    Arrow,
    Attribute,
    Demand,
    Entry,
    Fact,
    Field,
    FieldValue,
    LineRange,
    Listing,
    Place,
    Record,
    Section,
)
from kb.errors import SyntaxProblem
from kb.evidence import Lines
from kb.space import Point, Scalar

FORMS: Mapping[type, str] = {
    Field: "Write `name: value`.",
    Arrow: 'Write `name -> "realisation"`.',
    Fact: "Write a word or a string, then its values.",
    Demand: "Write a constraint.",
}
"""How each kind of entry is written."""

Choice = TypeVar("Choice", bound=StrEnum)
Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Source:
    """The name of the text, for error messages."""

    where: str

    def at(self, place: Place) -> str:
        """`file:line:column`."""
        spot = f"{place.line}:{place.column}"
        return f"{self.where}:{spot}" if self.where else spot

    def problem(self, message: str, place: Place, hint: str = "") -> SyntaxProblem:
        """A SyntaxProblem at `place`."""
        return SyntaxProblem(f"{message}.", where=self.at(place), hint=hint)

    def unknown(self, word: str, known: Iterable[str], place: Place) -> SyntaxProblem:
        """A word that is none of `known`, with the nearest as hint."""
        choices = list(known)
        near = get_close_matches(word, choices, n=1)
        hint = f"Did you mean `{near[0]}`?" if near else f"Known are {', '.join(choices)}."
        return self.problem(f"`{word}` is not known here", place, hint)

    def only(self, entries: Sequence[Entry], kind: type[Kind], section: Section) -> list[Kind]:
        """`entries` if each is of that kind."""
        found: list[Kind] = []
        for entry in entries:
            if not isinstance(entry, kind):
                raise self.problem(
                    f"this does not belong in `{section.key}`", entry.place, FORMS[kind]
                )
            found.append(entry)
        return found


class Fields:
    """The fields of one block, asked for by name and type; `finish` refuses the rest."""

    def __init__(self, source: Source, entries: Sequence[Field], place: Place) -> None:
        self.source = source
        self.place = place
        self.asked: list[str] = []
        self.fields: dict[str, Field] = {}
        for field in entries:
            if field.key in self.fields:
                raise source.problem(f"`{field.key}` is given twice", field.place)
            if field.attributes:
                raise source.problem(f"`{field.key}` takes no `;` words here", field.place)
            self.fields[field.key] = field

    def value(self, key: str) -> FieldValue:
        """The value of `key`, None when it is not given."""
        self.asked.append(key)
        field = self.fields.get(key)
        return None if field is None else field.value

    def wrong(self, key: str, wanted: str) -> SyntaxProblem:
        """The value of `key` is of another type."""
        return self.source.problem(f"`{key}` needs {wanted}", self.fields[key].place)

    def text(self, key: str) -> str | None:
        """A string."""
        value = self.value(key)
        if value is None or isinstance(value, str):
            return value
        raise self.wrong(key, "a string in quotes")

    def flag(self, key: str, default: bool) -> bool:
        """True or False."""
        value = self.value(key)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        raise self.wrong(key, "True or False")

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of strings."""
        value = self.value(key)
        if value is None:
            return None
        if not isinstance(value, Listing):
            raise self.wrong(key, "a list of strings")
        texts = tuple(e.value for e in value.elements if isinstance(e.value, str) and not e.origin)
        if len(texts) != len(value.elements):
            raise self.wrong(key, "a list of strings")
        return texts

    def record(self, key: str) -> Point:
        """`{name: value}`."""
        value = self.value(key)
        if value is None:
            return ()
        if isinstance(value, Record):
            return value.items
        raise self.wrong(key, "a record, `{name: value}`")

    def lines(self, key: str) -> Lines | None:
        """`first-last`."""
        value = self.value(key)
        if value is None:
            return None
        if isinstance(value, LineRange):
            return value.lines
        raise self.wrong(key, "lines, `first-last`")

    def finish(self) -> None:
        """Refuse what nobody asked for."""
        for key, field in self.fields.items():
            if key not in self.asked:
                raise self.source.unknown(key, self.asked, field.place)


class Words:
    """The `;` words after one entry, asked for like fields."""

    def __init__(self, source: Source, attributes: tuple[Attribute, ...], place: Place) -> None:
        self.source = source
        self.place = place
        self.asked: list[str] = []
        self.given: dict[str, Attribute] = {}
        for attribute in attributes:
            if attribute.word in self.given:
                raise source.problem(f"`{attribute.word}` is given twice", place)
            self.given[attribute.word] = attribute

    def flag(self, word: str) -> bool:
        """Whether the word is there."""
        return self._take(word) is not None

    def choice(self, words: type[Choice], default: Choice) -> Choice:
        """The one word of an enum that is there."""
        found = [choice for choice in words if self._take(choice.value) is not None]
        if len(found) > 1:
            raise self.source.problem(
                f"`{found[0]}` and `{found[1]}` exclude each other", self.place
            )
        return found[0] if found else default

    def text(self, word: str) -> str | None:
        """The one string after the word."""
        found = self.texts(word)
        if found is None:
            return None
        if len(found) != 1:
            raise self._wrong(word, "one string in quotes")
        return found[0]

    def texts(self, word: str) -> tuple[str, ...] | None:
        """The strings after the word."""
        attribute = self._take(word)
        if attribute is None:
            return None
        texts = tuple(argument for argument in attribute.arguments if isinstance(argument, str))
        if not texts or len(texts) != len(attribute.arguments):
            raise self._wrong(word, "strings in quotes")
        return texts

    def pairs(self, word: str) -> tuple[tuple[str, str], ...]:
        """The strings after the word, two and two."""
        texts = self.texts(word) or ()
        if len(texts) % 2:
            raise self._wrong(word, "names and values in turn")
        return tuple(zip(texts[::2], texts[1::2], strict=True))

    def whole(self, word: str) -> int:
        """The whole number after the word, which must be there."""
        attribute = self._take(word)
        arguments: tuple[Scalar | Lines, ...] = attribute.arguments if attribute else ()
        if len(arguments) == 1 and isinstance(arguments[0], int):
            return arguments[0]
        raise self._wrong(word, "a whole number")

    def lines(self) -> tuple[Lines, ...]:
        """The ranges after `lines`."""
        attribute = self._take("lines")
        if attribute is None:
            return ()
        ranges = tuple(argument for argument in attribute.arguments if isinstance(argument, tuple))
        if not ranges or len(ranges) != len(attribute.arguments):
            raise self._wrong("lines", "ranges, `first-last`")
        return ranges

    def elsewhere(self) -> tuple[tuple[str, Lines], ...]:
        """The files after `elsewhere`, each with its ranges behind it."""
        attribute = self._take("elsewhere")
        found: list[tuple[str, Lines]] = []
        files: list[str] = []
        for argument in attribute.arguments if attribute else ():
            if isinstance(argument, str):
                files.append(argument)
            elif isinstance(argument, tuple) and files:
                found.append((files[-1], argument))
            else:
                raise self._wrong("elsewhere", 'files with ranges, `"file" first-last`')
        if {file for file, _ in found} != set(files) or (attribute and not files):
            raise self._wrong("elsewhere", 'files with ranges, `"file" first-last`')
        return tuple(found)

    def finish(self) -> None:
        """Refuse what nobody asked for."""
        for word in self.given:
            if word not in self.asked:
                raise self.source.unknown(word, self.asked, self.place)

    def _take(self, word: str) -> Attribute | None:
        self.asked.append(word)
        return self.given.get(word)

    def _wrong(self, word: str, wanted: str) -> SyntaxProblem:
        return self.source.problem(f"`; {word}` needs {wanted}", self.place)
