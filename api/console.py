"""What people see: tables on standard output, notes and progress on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from api.extract import Progress as Tell
from kb.errors import InputError

WIDE = 140
"""Columns of a table that does not go to a terminal."""


def output() -> Console:
    """Standard output as it is now; wide and plain when it is no terminal."""
    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else WIDE, highlight=False, soft_wrap=False)


def note(text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(text + "\n")


def say(text: str) -> None:
    """Plain text on standard output, with a line end."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def say_json(document: Any) -> None:
    """A document as JSON on standard output."""
    say(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; nothing when it has no rows."""
    listed = [[escape(_cell(cell)) for cell in row] for row in rows]
    if not listed:
        return
    drawn = Table(title=escape(title) or None, title_justify="left", title_style="bold")
    for column in columns:
        drawn.add_column(column, overflow="fold")
    for row in listed:
        drawn.add_row(*row)
    output().print(drawn)


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def lines_text(lines: Iterable[Sequence[int]]) -> str:
    """`12, 15-18`."""
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in lines)


def write_text(path: Path, text: str) -> None:
    """A file, whole or not at all; InputError when it cannot be written."""
    beside = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise InputError(
            f"it cannot be written: {error.strerror}.", where=str(path), hint="Check the folder."
        ) from None


@contextmanager
def progress(title: str) -> Iterator[Tell]:
    """A bar on standard error, where that is a terminal; silent elsewhere."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[name]}"),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(title, total=None, name="")

        def tell(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, name=name)

        yield tell


def print_report(document: Mapping[str, Any]) -> None:
    """A report for people: lists of records as tables, the rest as lines."""
    for name, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            rows = [[row.get(column) for column in value[0]] for row in value]
            table(name, tuple(value[0]), rows)
        elif name != "schema":
            say(f"{name}: {value if isinstance(value, str) else json.dumps(value)}")
