"""What a reader of a broken file is told: where it stops being Python, and why."""

from __future__ import annotations

import re

import libcst as cst

from extractors.syntax.builtin_parser import python_module
from kb.errors import SyntaxProblem

_PARSER_ERROR = re.compile(r"parser error: error at (\d+):(\d+): (.*)", re.DOTALL)
_LAST_TOKEN = re.compile(r"(\w+|[^\w\s])\s*$")
_LONGEST_EXPECTATION = 60


def syntax_problem(error: cst.ParserSyntaxError, source: str, path: str) -> SyntaxProblem:
    """The error of libcst, in the words of the running Python where the two agree on the line.

    libcst reads newer grammar than the running Python, so its line counts; Python's words are
    clearer.
    """
    line, column, message = _of_libcst(error, source)
    python = _of_python(source)
    if python is not None and (line in (0, python[0]) or "never closed" in python[2]):
        line, column, message = python
    return SyntaxProblem(
        f"This is not Python: {message}.",
        where=f"{path}:{max(line, 1)}:{max(column, 1)}",
        hint="Correct the syntax, or give a Python source file.",
    )


def _of_libcst(error: cst.ParserSyntaxError, source: str) -> tuple[int, int, str]:
    """Line (0: unknown), column from 1, and message. libcst names the place after the bad token."""
    match = _PARSER_ERROR.match(error.message)
    if match is None:
        return 0, 1, error.message.removeprefix("tokenizer error: ").rstrip(".")
    lines = source.split("\n")[: int(match.group(1))]
    lines[-1] = lines[-1][: int(match.group(2))]
    before = "\n".join(lines)
    token = _LAST_TOKEN.search(before)
    start = 0 if token is None else token.start(1)
    expected = match.group(3)
    if token is None or len(expected) > _LONGEST_EXPECTATION:
        expected = f"unexpected `{token.group(1)}`" if token else "invalid syntax"
    return before.count("\n", 0, start) + 1, start - before.rfind("\n", 0, start), expected


def _of_python(source: str) -> tuple[int, int, str] | None:
    """Line, column from 1, and message of the running Python, or None where it reads the text."""
    try:
        python_module(source)
    except SyntaxError as error:
        return error.lineno or 1, error.offset or 1, error.msg.rstrip(".?")
    return None
