"""How deep a Python text nests, counted in one pass over its tokens, before any parser sees it.

Parsers and tree walkers call themselves once per level, so a hostile text could end the process.
The count is an upper bound of the depth of the syntax tree: brackets, indentation, operators,
neighbouring strings, `elif` branches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kb.errors import SyntaxProblem

MAX_DEPTH = 64
"""Levels of brackets and indentation together; the 2,250 files of the pinned corpora reach 16."""

MAX_CHAIN = 200
"""Levels that also count operators, attributes, calls and strings; the corpora reach 43."""

MAX_PATTERN_DEPTH = 6
"""Brackets in the pattern of a `case`: the time libcst takes grows fourfold with each of them."""

_TOKEN = re.compile(
    r"""(?:[ \t\f]+|\\\n|\#[^\n]*
        |(?!(?:not|and|or|if|in|is|await|yield|lambda|for)\b)\w++(?!["']))*+
    (?:(?P<newline>\n)
    |(?P<string>(?P<prefix>[A-Za-z]{0,2})(?P<quote>\"{3}|'{3}|\"|'))
    |(?P<word>\w+)
    |(?P<open>[\[({])
    |(?P<close>[\])}])
    |(?P<comma>[,;])
    |(?P<operator>\*\*|//|<<|>>|->|[-+*/%&|^@<>=!:]=|[^\s\w:])
    |(?P<colon>:)
    |(?P<other>.))""",
    re.VERBOSE,
)
"""One token that may count, behind spaces, comments and names that do not."""

_TEXT = re.compile(
    r"""\\N\{[^}\n]*\}|\\.|\{\{|\}\}|[{}]|\"{3}|'{3}|["']|[^\\{}"']+|\\""", re.DOTALL
)
_STRING_END = {
    "'": re.compile(r"(?:[^\\\n']|\\.)*'", re.DOTALL),
    '"': re.compile(r'(?:[^\\\n"]|\\.)*"', re.DOTALL),
    "'''": re.compile(r"(?:[^\\]|\\.)*?'''", re.DOTALL),
    '"""': re.compile(r'(?:[^\\]|\\.)*?"""', re.DOTALL),
}
_INDENT = re.compile(r"(?P<blank>[ \t\f]*)(?P<word>\w*|\#|\n)")
_OPERATOR_WORDS = frozenset({"not", "and", "or", "if", "in", "is", "await", "yield", "lambda"})
_CLOSER = {"(": ")", "[": "]", "{": "}"}


@dataclass(slots=True)
class _Level:
    """One open bracket (`closer` ends it) or the text of an open formatted string."""

    closer: str
    text: bool = False
    chain: int = 0
    lambdas: int = 0
    clauses: int = 0


@dataclass(slots=True)
class _Indent:
    width: int
    branches: int = 0


class _DepthCount:
    """The pass itself; `check` raises at the first place that nests too deep."""

    def __init__(self, text: str, path: str) -> None:
        self.source = text
        self.path = path
        self.levels = [_Level("")]
        self.indents = [_Indent(0)]
        self.total = 0
        self.in_pattern = False
        self.deep_pattern: int | None = None

    def check(self) -> None:
        position = self._line_start(0)
        while position < len(self.source):
            top = self.levels[-1]
            position = self._text(position, top) if top.text else self._code(position, top)

    def _code(self, position: int, top: _Level) -> int:
        match = _TOKEN.match(self.source, position)
        if match is None or match.lastgroup is None:
            return len(self.source)
        kind, end = match.lastgroup, match.end()
        text, position = match[kind], match.start(kind)
        if kind == "newline":
            return self._line_start(end) if len(self.levels) == 1 else end
        if kind == "open":
            self._push(_Level(_CLOSER[text]), position)
        elif kind == "close" and text == top.closer:
            self._pop(position)
        elif kind == "string":
            return self._string(match, top)
        elif kind == "comma" and top.lambdas == 0:
            self.total -= top.chain
            top.chain = 0
        elif kind == "colon":
            self._colon(top)
        elif kind == "operator" or (kind == "word" and (text in _OPERATOR_WORDS or text == "for")):
            self._step(text, top, position)
        return end

    def _step(self, text: str, top: _Level, position: int) -> None:
        """An operator or a word that makes the tree one level deeper."""
        if text == "lambda":
            top.lambdas += 1
        if text == "for":
            top.clauses += 1
        else:
            top.chain += 1
        self._add(1, position)

    def _colon(self, top: _Level) -> None:
        if top.lambdas:
            top.lambdas -= 1
        elif len(self.levels) == 1:
            self._end_of_pattern()
        elif top.closer == "}" and self.levels[-2].text:
            top.text = True  # what follows is the format specification of a replacement field

    def _end_of_pattern(self) -> None:
        """A colon outside of brackets: what began with `case` was a pattern, not a call."""
        if self.in_pattern and self.deep_pattern is not None:
            what = f"more than {MAX_PATTERN_DEPTH} levels of brackets in one `case`."
            self._refuse(what, self.deep_pattern)
        self.in_pattern = False

    def _string(self, match: re.Match[str], top: _Level) -> int:
        top.chain += 1
        start = match.start("string")
        self._add(1, start)
        quote, prefix = match.group("quote"), match.group("prefix").lower()
        if "f" in prefix or "t" in prefix:
            self._push(_Level(quote, text=True), start)
            return match.end()
        found = _STRING_END[quote].match(self.source, match.end())
        return len(self.source) if found is None else found.end()

    def _text(self, position: int, top: _Level) -> int:
        """A piece of a formatted string, or of a format specification (closed by a brace)."""
        match = _TEXT.match(self.source, position)
        if match is None:
            return position + 1
        piece = match.group()
        specification = top.closer == "}"
        if piece == top.closer or (specification and piece == "}}"):
            self._pop(position)
            return position + len(top.closer)
        if piece == "{" or (specification and piece == "{{"):
            self._push(_Level("}"), position)
            return position + 1
        if piece[:1] in "\"'" and len(piece) == 3 and len(top.closer) == 1:
            return position + 1 if piece[0] != top.closer else self._close_short(position)
        return match.end()

    def _close_short(self, position: int) -> int:
        self._pop(position)
        return position + 1

    def _push(self, level: _Level, position: int) -> None:
        self.levels.append(level)
        if (
            self.in_pattern
            and self.deep_pattern is None
            and len(self.levels) > MAX_PATTERN_DEPTH + 1
        ):
            self.deep_pattern = position
        self._add(1, position)

    def _pop(self, position: int) -> None:
        closed = self.levels.pop()
        self.levels[-1].chain += 1
        self.total += -(closed.chain + closed.clauses + 1)
        self._add(1, position)

    def _line_start(self, position: int) -> int:
        """A new logical line: its indentation, and whether it goes on with an `if`."""
        match = _INDENT.match(self.source, position)
        word = "" if match is None else match.group("word")
        bottom = self.levels[0]
        self.total -= bottom.chain + bottom.clauses
        self.levels[0] = _Level("")
        if match is None or word in ("#", "\n") or match.end() == len(self.source):
            return position if match is None else match.end("blank")
        width = len(match.group("blank").expandtabs(8))
        while self.indents[-1].width > width:
            self.total -= 1 + self.indents.pop().branches
        if self.indents[-1].width < width:
            self.indents.append(_Indent(width))
            self._add(1, match.end("blank"))
        self._branch(word, match.end("blank"))
        return match.end("blank")

    def _branch(self, word: str, position: int) -> None:
        self.in_pattern, self.deep_pattern = word == "case", None
        here = self.indents[-1]
        if word == "elif":
            here.branches += 1
            self._add(1, position)
        elif word != "else":
            self.total -= here.branches
            here.branches = 0

    def _add(self, steps: int, position: int) -> None:
        self.total += steps
        if len(self.levels) + len(self.indents) - 2 > MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} levels of brackets and indentation.", position)
        if self.total > MAX_CHAIN:
            self._refuse(f"more than {MAX_CHAIN} levels of nested expressions.", position)

    def _refuse(self, what: str, position: int) -> None:
        line = self.source.count("\n", 0, position) + 1
        column = position - self.source.rfind("\n", 0, position)
        raise SyntaxProblem(
            f"This text has {what}",
            where=f"{self.path}:{line}:{column}",
            hint="Split the expression or the branch into named steps.",
        )


def check_depth(text: str, path: str) -> None:
    """Raise SyntaxProblem at the first place that nests deeper than MAX_DEPTH or MAX_CHAIN."""
    _DepthCount(text, path).check()
