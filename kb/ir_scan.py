"""The words of the program text: names, values, literals, types and spans, read at a position."""

from __future__ import annotations

import math
import re
from typing import NoReturn

from kb.errors import SyntaxProblem
from kb.ir import Literal, MemorySpace, Span, TileType, TypeKind

MAX_DIGITS = 1000
"""Digits of a decimal number; longer ones are written in hexadecimal."""

NAME = re.compile(r"[^\W\d]\w*+")
VALUE_NAME = re.compile(r"[\w.]++")
DTYPE = re.compile(r"[\w?.]++(?:\([\w?.]*+\))?")
REGION_WORDS = ("do", "then", "else", "test", "region")
RESERVED = frozenset(REGION_WORDS)
_EXTENT = re.compile(r"[\w?.+*/%(), -]++")
_SPACE = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*+)"')
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))", re.DOTALL)
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"'}
_WORDS: dict[str, Literal] = {
    "true": True, "false": False, "none": None, "inf": math.inf, "-inf": -math.inf, "nan": math.nan,
}  # fmt: skip
_WORD = re.compile(r"-?[^\W\d]\w*+")
_NUMBER = re.compile(
    r"-?(?:0x[0-9a-f]++|[0-9]++(\.[0-9]*+)?([eE][+-]?[0-9]++)?)(?![\w.])", re.ASCII
)
_KINDS = tuple(kind.value for kind in TypeKind)
_SPACES = tuple(space.value for space in MemorySpace)
_SPACE_MARK = re.compile(r"@[a-z]")
_SPAN = re.compile(
    r'@(?:("(?:[^"\\\n]|\\.)*+"):)?(-?[0-9]{1,18})(?::(-?[0-9]{1,18}))?(?:-(-?[0-9]{1,18}))?'
    r"(?:<([0-9]{1,18})((?:<[0-9]{1,18})*))?"
)


class Scanner:
    """A position in a text; every method skips white space and `#` comments before it looks."""

    def __init__(self, text: str, where: str = "") -> None:
        self.text = text
        self.where = where
        self.position = 0
        self._skip()

    def _skip(self) -> None:
        found = _SPACE.match(self.text, self.position)
        self.position = found.end() if found else self.position

    def fail(self, message: str, hint: str, at: int | None = None) -> NoReturn:
        """Raise SyntaxProblem at a place, this one when none is given."""
        place = self.position if at is None else at
        line = self.text.count("\n", 0, place) + 1
        column = place - self.text.rfind("\n", 0, place)
        spot = f"{line}:{column}"
        where = f"{self.where}:{spot}" if self.where else spot
        raise SyntaxProblem(message, where=where, hint=hint)

    @property
    def shown(self) -> str:
        """What stands here, for a message."""
        rest = self.text[self.position : self.position + 30].split("\n")[0]
        return f"`{rest}`" if rest else "the end of the text"

    @property
    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self.position >= len(self.text)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The match of a pattern here, taken."""
        found = pattern.match(self.text, self.position)
        if found:
            self.position = found.end()
            self._skip()
        return found

    def peek(self, mark: str) -> bool:
        """Whether `mark` stands here."""
        return self.text.startswith(mark, self.position)

    def accept(self, mark: str) -> bool:
        """Take `mark` when it stands here."""
        if not self.peek(mark):
            return False
        self.position += len(mark)
        self._skip()
        return True

    def expect(self, mark: str, hint: str) -> None:
        """Take `mark`; SyntaxProblem when something else stands here."""
        if not self.accept(mark):
            self.fail(f"expected `{mark}`, found {self.shown}.", hint)

    def keyword(self, *words: str) -> str | None:
        """Take one of the bare words when it stands here."""
        found = NAME.match(self.text, self.position)
        if found and found[0] in words:
            self.take(NAME)
            return found[0]
        return None

    # -- words

    def string(self) -> str | None:
        """A quoted text, decoded."""
        start = self.position
        found = self.take(_STRING)
        if found is None:
            return None
        return _ESCAPE.sub(lambda escape: self._unescaped(escape, start), found[1])

    def _unescaped(self, escape: re.Match[str], start: int) -> str:
        code = escape[1] or escape[2] or escape[3]
        if code is not None and int(code, 16) <= 0x10FFFF:
            return chr(int(code, 16))
        if code is not None or escape[4] not in _PLAIN_ESCAPES:
            hint = r"Use \n \t \r \\ \xNN \uNNNN or \UNNNNNNNN with lower-case digits."
            self.fail(f"unknown escape `{escape[0]}`.", hint, start)
        return _PLAIN_ESCAPES[escape[4]]

    def word(self, what: str) -> str:
        """A bare name or a quoted one."""
        found = self.take(NAME)
        if found:
            return found[0]
        text = self.string()
        if text is None:
            self.fail(f"expected {what}, found {self.shown}.", "Write a name, or quote it.")
        return text

    def value(self) -> str:
        """A value name behind its `%`."""
        if not self.peek("%"):
            self.fail(f"expected a value, found {self.shown}.", "Values are written `%name.1`.")
        self.position += 1
        found = self.take(VALUE_NAME)
        if found:
            return found[0]
        text = self.string()
        if text is None:
            self.fail("`%` without a name.", "Values are written `%name.1`.")
        return text

    def literal(self) -> Literal:
        """A number, a quoted text, true, false, none, inf, -inf or nan."""
        start = self.position
        word = _WORD.match(self.text, start)
        if word and word[0] in _WORDS:
            self.take(_WORD)
            return _WORDS[word[0]]
        number = self.take(_NUMBER)
        if number:
            return self._number(number, start)
        text = self.string()
        if text is None:
            hint = 'Write a number, "text", true, false, none, inf, -inf or nan.'
            self.fail(f"expected a literal, found {self.shown}.", hint)
        return text

    def _number(self, found: re.Match[str], start: int) -> int | float:
        text = found[0]
        if "x" in text:
            return int(text, 16)
        if len(text) > MAX_DIGITS:
            self.fail("the number is too long.", "Write it in hexadecimal.", start)
        return float(text) if found[1] or found[2] else int(text)

    # -- types and spans

    def type(self) -> TileType:
        """A type such as `tile<f32>[TILE_M, 64]@shared`."""
        start = self.position
        name = self.take(NAME)
        if name is None or name[0] not in _KINDS:
            kinds = ", ".join(_KINDS)
            self.fail(f"expected a type, found {self.shown}.", f"A type is {kinds}.", start)
        self.expect("<", "The element type stands in angle brackets: `tile<f32>`.")
        dtype = self.plain_or_quoted(DTYPE, "an element type")
        self.expect(">", "The element type ends with `>`.")
        shape: tuple[str, ...] = ()
        if self.accept("["):
            extents = [self._extent()]
            while self.accept(","):
                extents.append(self._extent())
            self.expect("]", "Extents stand in square brackets: `[TILE_M, 64]`.")
            shape = tuple(extents)
        return TileType(TypeKind(name[0]), dtype, shape, self._space())

    def plain_or_quoted(self, pattern: re.Pattern[str], what: str) -> str:
        """A text of the pattern as it stands, or any text in quotes."""
        found = self.take(pattern)
        text = found[0] if found else self.string()
        if text is None:
            self.fail(f"expected {what}, found {self.shown}.", "Write a name, or quote it.")
        return text

    def _extent(self) -> str:
        quoted = self.string()
        if quoted is not None:
            return quoted
        depth, end = 0, self.position
        while end < len(self.text) and _EXTENT.match(self.text[end]):
            char = self.text[end]
            depth += (char == "(") - (char == ")")
            if depth < 0 or (char == "," and depth == 0):
                break
            end += 1
        text = self.text[self.position : end].strip(" ")
        if not text:
            self.fail(f"expected an extent, found {self.shown}.", "Write a number, a name or `?`.")
        self.position = end
        self._skip()
        return text

    def _space(self) -> MemorySpace:
        if not _SPACE_MARK.match(self.text, self.position):
            return MemorySpace.NONE
        self.accept("@")
        start = self.position
        name = self.take(NAME)
        if name is None or name[0] not in _SPACES:
            self.fail("unknown memory space.", f"Use {', '.join(_SPACES)}.", start)
        return MemorySpace(name[0])

    def span(self, path: str) -> Span:
        """`@LINE:COLUMN-END_LINE<CALL<VIA`, all but the line optional; Span(0) for none."""
        if not self.peek("@"):
            return Span(0)
        start = self.position
        found = self.take(_SPAN)
        if found is None:
            hint = 'Write `@LINE`, `@LINE:COLUMN-END_LINE` or `@"file.py":LINE`.'
            self.fail(f"expected a span, found {self.shown}.", hint, start)
        line, column = int(found[2]), int(found[3] or 0)
        end = int(found[4]) if found[4] is not None else line
        if found[1] is not None:
            path = Scanner(found[1], self.where).string() or ""
        via = tuple(int(one) for one in (found[6] or "").split("<")[1:])
        return Span(line, column, end, path, int(found[5] or 0), via)


def plain_extent(text: str) -> bool:
    """Whether an extent reads back as it stands, without quotes."""
    if not _EXTENT.fullmatch(text) or text != text.strip(" "):
        return False
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0 or (char == "," and depth == 0):
            return False
    return depth == 0
