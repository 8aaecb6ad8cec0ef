"""Design space as text: `write(document)`. It reads back as the same document, with comments."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from kb.dsl.forms import sections_of
from kb.dsl.model import Document
from kb.dsl.parser import INDENT
from kb.dsl.tree import (
    Arrow,
    Attribute,
    Case,
    Comment,
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
    Side,
    anchors,
)
from kb.errors import InputError
from kb.planner.expressions import quoted, scalar_text
from kb.space import Scalar

NAME = re.compile(r"(?!(?:True|False|None|true|false|none)\b)[A-Za-z_][\w.]*", re.ASCII)
"""What stands without quotes: a name that does not begin like a constant."""


def write(document: Document) -> str:
    """The text of `document`; InputError for a value that has no text, as an infinite number."""
    sections = sections_of(document)
    woven = _Comments(document.comments)
    blocks = [
        "\n".join(woven.around((name,), list(_section(section, (name,), woven)), ""))
        for name, section in zip(anchors(sections), sections, strict=True)
    ]
    rest = woven.rest()
    if rest:
        blocks.append("\n".join(rest))
    return "\n\n".join(blocks) + "\n" if blocks else ""


class _Comments:
    """Comments by anchor and side; each is given out once."""

    def __init__(self, comments: tuple[Comment, ...]) -> None:
        self.waiting = list(comments)

    def take(self, anchor: tuple[str, ...], side: Side) -> list[str]:
        """Texts of the comments of that place, in order."""
        mine = [c for c in self.waiting if c.anchor == anchor and c.side is side]
        self.waiting = [c for c in self.waiting if c not in mine] if mine else self.waiting
        return [comment.text for comment in mine]

    def around(self, anchor: tuple[str, ...], lines: list[str], indent: str) -> list[str]:
        """`lines` of one item with its comments before and after."""
        after = self.take(anchor, Side.AFTER)
        if after:
            lines = [*lines[:-1], f"{lines[-1]}  {' '.join(after)}"]
        return [*(indent + text for text in self.take(anchor, Side.BEFORE)), *lines]

    def rest(self) -> list[str]:
        """Comments whose item is gone, and those at the end of the file."""
        return [comment.text for comment in self.waiting]


def _section(section: Section, path: tuple[str, ...], woven: _Comments) -> Iterator[str]:
    if section.text is not None:
        yield f"{section.key} {{"
        yield from (INDENT + line if line else line for line in section.text.split("\n"))
        yield "}"
        return
    yield f"{section.key}{_label(section.label)} {{"
    for name, entry in zip(anchors(section.entries), section.entries, strict=True):
        yield from woven.around((*path, name), _entry(entry, (*path, name), woven), INDENT)
    yield from (INDENT + text for text in woven.take(path, Side.END))
    yield "}"


def _entry(entry: Entry, path: tuple[str, ...], woven: _Comments) -> list[str]:
    if not isinstance(entry, Case):
        return [INDENT + _line(entry)]
    inner: list[str] = []
    for name, line in zip(anchors(entry.entries), entry.entries, strict=True):
        inner += woven.around((*path, name), [2 * INDENT + _line(line)], 2 * INDENT)
    inner += [2 * INDENT + text for text in woven.take(path, Side.END)]
    return [f"{INDENT}{entry.key}{_label(entry.label)} {{", *inner, INDENT + "}"]


def _line(entry: Field | Arrow | Fact | Demand) -> str:
    match entry:
        case Field(key=key, value=value, attributes=attributes):
            return f"{_word(key)}: {_value(value)}{_attributes(attributes)}"
        case Arrow(key=key, argument=argument, value=value, quoted=is_quoted):
            left = quoted(key) if is_quoted else " ".join((key, *map(_scalar, argument)))
            return f"{left} -> {_scalar(value)}"
        case Fact(key=key, arguments=arguments, attributes=attributes):
            words = [*([key] if key else []), *map(_scalar, arguments)]
            return " ".join(words) + _attributes(attributes)
        case Demand(expression=expression, attributes=attributes):
            return expression + _attributes(attributes)


def _value(value: FieldValue) -> str:
    match value:
        case Listing(elements=elements):
            return f"[{', '.join(map(_element, elements))}]"
        case IntRange(first=first, last=last):
            return f"int range [{first}, {last}]"
        case Record(items=items):
            pairs = ", ".join(f"{_word(name)}: {_scalar(item)}" for name, item in items)
            return f"{{{pairs}}}"
        case LineRange(lines=(first, last)):
            return f"{first}-{last}"
    return _scalar(value)


def _element(element: Element) -> str:
    by = f" by {quoted(element.by)}" if element.by is not None else ""
    return _scalar(element.value) + (f" {element.origin}{by}" if element.origin else "")


def _attributes(attributes: tuple[Attribute, ...]) -> str:
    return "".join(f"; {' '.join((a.word, *map(_argument, a.arguments)))}" for a in attributes)


def _argument(argument: Scalar | tuple[int, int]) -> str:
    if isinstance(argument, tuple):
        return f"{argument[0]}-{argument[1]}"
    return _scalar(argument)


def _scalar(value: Scalar) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(
            f"`{value}` cannot be written in a design space.", hint="Use a finite number."
        )
    return scalar_text(value)


def _word(key: str) -> str:
    return key if NAME.fullmatch(key) else quoted(key)


def _label(label: str | None) -> str:
    return "" if label is None else f" {_word(label)}"
