"""`tilelore validate`: shapes for Turtle, grammar and constraints for design spaces."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from api import console
from api.commands.options import Format, Plain
from api.references import read_dsl
from kb.dsl.check import check_document
from kb.errors import ConstraintViolated, InputError, TileloreError
from kb.validation import validate_turtle

SCHEMA = "tilelore.validate/1"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a file."""

    where: str
    message: str
    hint: str
    shape: str = ""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(validate)


def validate(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Turtle or DSL files.")],
    form: Format = Plain.TABLE,
) -> None:
    """Check Turtle (.ttl) against the shapes, design spaces (.dsl) against grammar and constraints.

    Exit code 1 when something is violated, 2 when a file cannot be read or breaks its grammar.
    """
    code, rows = 0, []
    for name in files:
        worst, problems, notes = _checked(name)
        code = max(code, worst)
        rows.append((name, problems, notes))
    if form is Plain.JSON:
        console.say_json({"schema": SCHEMA, "files": [_file_json(*row) for row in rows]})
    else:
        for name, problems, notes in rows:
            _print(name, problems, notes)
    if code:
        raise typer.Exit(code)


def _checked(name: str) -> tuple[int, list[Problem], list[str]]:
    """Exit code, problems and notes of one file."""
    try:
        if Path(name).suffix in (".ttl", ".turtle"):
            found = _turtle(name)
            return int(bool(found)), found, []
        document = read_dsl(name)
        check_document(document, where=name)
    except TileloreError as error:
        code = 1 if isinstance(error, ConstraintViolated) else 2
        return code, [Problem(error.where or name, error.message, error.hint)], []
    return (
        0,
        [],
        [f"{len(document.space.axes)} axes, {len(document.space.constraints)} constraints"],
    )


def _turtle(name: str) -> list[Problem]:
    try:
        text = Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}.", where=name) from None
    except UnicodeDecodeError:
        raise InputError("it is not UTF-8 text.", where=name) from None
    return [
        Problem(f"{row.focus} {row.path}".strip(), row.message, "", row.shape)
        for row in validate_turtle(text, where=name)
    ]


def _file_json(name: str, problems: list[Problem], notes: list[str]) -> dict[str, Any]:
    return {
        "path": name,
        "valid": not problems,
        "problems": [asdict(problem) for problem in problems],
        "notes": notes,
    }


def _print(name: str, problems: list[Problem], notes: list[str]) -> None:
    if not problems:
        console.say(f"{name}: valid{''.join(f', {note}' for note in notes)}")
    for problem in problems:
        shape = f" [{problem.shape}]" if problem.shape else ""
        where = problem.where if problem.where.startswith(name) else f"{name}: {problem.where}"
        console.note(f"{where}: {problem.message} {problem.hint}".rstrip() + shape)
