"""Text to sections by `grammar.lark`, comments beside them; errors have line, column and hint."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError
from lark.tree import Meta

from kb.dsl.tree import (
    Arrow,
    Attribute,
    Case,
    Demand,
    Element,
    Entry,
    Fact,
    Field,
    IntRange,
    LineRange,
    Listing,
    Place,
    Record,
    Section,
    Text,
)
from kb.errors import InputError, SyntaxProblem
from kb.planner.expressions import unquoted
from kb.space import Scalar

MAX_CHARACTERS = 4_000_000
MAX_TOKENS = 200_000
"""Words outside the program: some 40,000 settings of tuning points, read in a few seconds."""

MAX_DIGITS = 40
INDENT = "    "

EXPECTED = {
    "COLON": "`:`", "LBRACE": "`{`", "RBRACE": "`}`", "LSQB": "`[`", "RSQB": "`]`", "COMMA": "`,`",
    "SEMICOLON": "`;`", "_NL": "a new line", "NAME": "a name", "STRING": "a string",
    "INTEGER": "a number", "EXPRESSION": "a constraint", "INT": "`int range [a, b]`",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RawComment:
    """A comment where it stands; `column` is that of its `#`."""

    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Parsed:
    """Sections in order, and comments in order."""

    sections: tuple[Section, ...]
    comments: tuple[RawComment, ...]


def parse_sections(text: str, *, where: str = "") -> Parsed:
    """The sections of `text`; SyntaxProblem at the first place that breaks the grammar."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            "the file is too large.", where=where, hint=f"At most {MAX_CHARACTERS} characters."
        )
    run = _parser().parse_interactive(text if text.endswith("\n") else text + "\n")
    comments: list[RawComment] = []
    try:
        for count, token in enumerate(run.iter_parse()):
            if count > MAX_TOKENS:
                hint = f"A file holds at most {MAX_TOKENS} words."
                raise InputError("the file is too large.", where=where, hint=hint)
            if token.type == "_NL" and "#" in token:
                comments.extend(_comments(token))
        tree = run.resume_parse()  # type: ignore[no-untyped-call]
    except UnexpectedInput as error:
        raise _problem(error, text, where) from error
    try:
        return Parsed(_Builder(where).transform(tree), tuple(comments))
    except VisitError as error:
        raise error.orig_exc from None


@cache
def _parser() -> Lark:
    grammar = files("kb.dsl").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def _comments(token: Token) -> list[RawComment]:
    """Comments inside one line-end token, which begins in the middle of a line."""
    found: list[RawComment] = []
    line, column = token.line or 1, token.column or 1
    for part in str(token).split("\n"):
        if "#" in part:
            at = part.index("#")
            found.append(RawComment(part[at:].rstrip(), line, column + at))
        line, column = line + 1, 1
    return found


def _problem(error: UnexpectedInput, text: str, where: str) -> SyntaxProblem:
    line, column = error.line, error.column
    match error:
        case UnexpectedToken(token=token) if token.type == "$END":
            message = "the file ends inside a block"
            line, column = text.count("\n") + 1, 1
        case UnexpectedToken(token=token):
            message = f"{_shown(str(token))} does not belong here"
        case UnexpectedCharacters(char=char):
            message = f"{_shown(char)} does not belong here"
        case _:
            message = "the text is not a design space"
    place = f"{max(line, 1)}:{max(column, 1)}"
    hint = _hint(error, text, line)
    return SyntaxProblem(f"{message}.", where=f"{where}:{place}" if where else place, hint=hint)


def _hint(error: UnexpectedInput, text: str, line: int) -> str:
    lines = text.split("\n")
    here = lines[line - 1] if 0 < line <= len(lines) else ""
    if re.match(r"\s*program\s*\{", here):
        return "A program starts on the line after `program {` and ends with a `}` in column 1."
    wanted = getattr(error, "accepts", None) or getattr(error, "expected", None)
    wanted = wanted or getattr(error, "allowed", None) or ()
    known = sorted({EXPECTED[name] for name in wanted if name in EXPECTED})
    return f"Expected {' or '.join(known)}." if known else ""


def _shown(text: str) -> str:
    if not text.strip():
        return "the end of the line"
    first = text.split("\n", maxsplit=1)[0]
    return f"`{first if len(first) <= 30 else first[:27] + '...'}`"


def _place(meta: Meta) -> Place:
    return Place(meta.line, meta.end_line, meta.column)


@v_args(meta=True)
class _Builder(Transformer[Token, Any]):
    """Tree to records: one method per rule, children first. The grammar bounds the depth."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def start(self, _: Meta, sections: list[Section]) -> tuple[Section, ...]:
        return tuple(sections)

    def section(self, meta: Meta, parts: list[Any]) -> Section:
        key, label, entries = _headed(parts)
        return Section(key, label, entries, place=_place(meta))

    def constraints(self, meta: Meta, demands: list[Demand]) -> Section:
        return Section("constraints", entries=tuple(demands), place=_place(meta))

    def program(self, meta: Meta, parts: list[Token]) -> Section:
        lines = str(parts[0]).split("\n")[1:-1]
        text = "\n".join(line.removeprefix(INDENT) for line in lines)
        return Section("program", text=text, place=_place(meta))

    def label(self, _: Meta, parts: list[Token]) -> Text:
        return Text(_word(parts[0]))

    def case(self, meta: Meta, parts: list[Any]) -> Case:
        key, label, entries = _headed(parts)
        return Case(key, label, tuple(e for e in entries if isinstance(e, Field)), _place(meta))

    def field(self, meta: Meta, parts: list[Any]) -> Field:
        return Field(_word(parts[0]), parts[1], tuple(parts[2:]), _place(meta))

    def arrow(self, meta: Meta, parts: list[Any]) -> Arrow:
        return Arrow(str(parts[0]), tuple(parts[1:-1]), parts[-1], False, _place(meta))

    def quoted_arrow(self, meta: Meta, parts: list[Any]) -> Arrow:
        return Arrow(_word(parts[0]), (), parts[1], True, _place(meta))

    def fact(self, meta: Meta, parts: list[Any]) -> Fact:
        attributes = tuple(part for part in parts if isinstance(part, Attribute))
        return Fact(
            str(parts[0]), tuple(parts[1 : len(parts) - len(attributes)]), attributes, _place(meta)
        )

    def hole(self, meta: Meta, parts: list[Any]) -> Fact:
        return Fact("", (_word(parts[0]),), tuple(parts[1:]), _place(meta))

    def demand(self, meta: Meta, parts: list[Any]) -> Demand:
        return Demand(str(parts[0]).strip(), tuple(parts[1:]), _place(meta))

    def attribute(self, _: Meta, parts: list[Any]) -> Attribute:
        return Attribute(str(parts[0]), tuple(parts[1:]))

    def lines(self, _: Meta, parts: list[Token]) -> tuple[int, int]:
        first, last = (self.whole(number, parts[0]) for number in str(parts[0]).split("-"))
        return first, last

    def line_range(self, meta: Meta, parts: list[Token]) -> LineRange:
        return LineRange(self.lines(meta, parts))

    def int_range(self, meta: Meta, parts: list[Any]) -> IntRange:
        if not all(isinstance(end, int) for end in parts):
            raise self.problem("an int range has whole ends", meta.line, meta.column)
        return IntRange(*parts)

    def listing(self, _: Meta, elements: list[Element]) -> Listing:
        return Listing(tuple(elements))

    def element(self, _: Meta, parts: list[Any]) -> Element:
        origin = str(parts[1]) if len(parts) > 1 else None
        return Element(parts[0], origin, _word(parts[2]) if len(parts) > 2 else None)

    def record(self, _: Meta, pairs: list[tuple[str, Scalar]]) -> Record:
        return Record(tuple(pairs))

    def pair(self, _: Meta, parts: list[Any]) -> tuple[str, Scalar]:
        return _word(parts[0]), parts[1]

    def integer(self, _: Meta, parts: list[Token]) -> int:
        return self.whole(str(parts[0]), parts[0])

    def floating(self, _: Meta, parts: list[Token]) -> float:
        value = float(parts[0])
        if value in (float("inf"), float("-inf")):
            raise self.problem("the number is not finite", parts[0].line, parts[0].column)
        return value

    def number(self, _: Meta, parts: list[int | float]) -> int | float:
        return parts[0]

    def string(self, _: Meta, parts: list[Token]) -> str:
        return unquoted(str(parts[0]))

    def constant(self, _: Meta, parts: list[Token]) -> Scalar:
        return {"true": True, "false": False, "none": None}[str(parts[0]).lower()]

    def whole(self, digits: str, token: Token) -> int:
        if len(digits) > MAX_DIGITS:
            raise self.problem("the number is too long", token.line, token.column)
        return int(digits)

    def problem(self, message: str, line: int | None, column: int | None) -> SyntaxProblem:
        place = f"{line}:{column}"
        return SyntaxProblem(f"{message}.", where=f"{self.where}:{place}" if self.where else place)


def _word(token: Token) -> str:
    return unquoted(str(token)) if token.type == "STRING" else str(token)


def _headed(parts: list[Any]) -> tuple[str, str | None, tuple[Entry, ...]]:
    """Key, label and entries of a block."""
    label = parts[1].text if len(parts) > 1 and isinstance(parts[1], Text) else None
    return str(parts[0]), label, tuple(parts[1 if label is None else 2 :])
