"""The tile program of a document, checked: its grammar, its form, and the types of its operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kb.analysis.type_check import MAX_POINTS, type_problems
from kb.dsl.model import Document, Reading
from kb.dsl.parser import INDENT
from kb.errors import InputError, SyntaxProblem
from kb.ir import Kernel
from kb.ir_parse import parse
from kb.ir_verify import Problem, verify

MAX_PROBLEMS = 5
"""Problems of a program that are told at once."""


@dataclass(frozen=True, slots=True)
class _Text:
    """A program's text as it stands in a file, or by itself when no file is known."""

    text: str
    where: str
    in_file: bool

    def parsed(self, *, own_lines: bool = False) -> Kernel:
        """The program; with `own_lines` its spans name lines of the file."""
        where = self.where if self.in_file or not own_lines else f"{self.where}, program"
        return parse(self.text, where=where, own_lines=own_lines)


def check_program(reading: Reading, *, where: str) -> None:
    """Raises what `document_program` raises, with the line of the DSL file `where`; nothing to
    check in a document without a program."""
    if reading.document.program is not None:
        document_program(reading.document, where=where, first_line=reading.program_line)


def document_program(document: Document, *, where: str = "", first_line: int = 0) -> Kernel:
    """The tile program of a kernel's document.

    Raises InputError when it has none (a template), SyntaxProblem when its text is no program, one
    that is not well formed, or one with an operand that its operation cannot take. Lines are those
    of the file `where`, in which the program begins at `first_line`; without one they count from
    the first line of the program.
    """
    if document.program is None:
        raise InputError(
            "the design space holds no tile program.",
            where=document.space.name,
            hint="Write one with `tilelore extract FILE --format dsl`.",
        )
    text = _text(document, where, first_line)
    kernel = text.parsed()
    _refuse(verify, kernel, text, "Put the program right, or extract it again.")
    points = _points(document)
    _refuse(lambda k: type_problems(k, points), kernel, text, "")
    return kernel


def _text(document: Document, where: str, first_line: int) -> _Text:
    program = document.program or ""
    if not where or first_line < 1:
        return _Text(program + "\n", document.space.name, in_file=False)
    lines = [INDENT + line for line in program.split("\n")]
    return _Text("\n" * (first_line - 1) + "\n".join(lines) + "\n", where, in_file=True)


def _refuse(
    check: Callable[[Kernel], tuple[Problem, ...]], kernel: Kernel, text: _Text, hint: str
) -> None:
    """The first problems in one message, each with its line."""
    if not check(kernel):
        return
    first, *others = check(text.parsed(own_lines=True))
    rest = [f"line {p.span.line}: {p.message.rstrip('.')}" for p in others[: MAX_PROBLEMS - 1]]
    more = len(others) - len(rest)
    also = f" Also {'; '.join(rest)}{f'; and {more} more' if more else ''}." if rest else ""
    message = f"in {first.function}: {first.message}{also}"
    raise SyntaxProblem(message, where=f"{first.span.path}:{first.span.line}", hint=hint)


def _points(document: Document) -> list[dict[str, int]]:
    """What the tuning space sets parameters to, as far as it is numbers."""
    if document.tuning is None:
        return []
    points = [point for case in document.tuning.spaces for point in case.points]
    points.append(document.tuning.launched_with)
    found: list[dict[str, int]] = []
    for point in points:
        sizes = {n: v for n, v in point if isinstance(v, int) and not isinstance(v, bool)}
        if sizes and sizes not in found:
            found.append(sizes)
        if len(found) == MAX_POINTS:
            break
    return found
