"""`tilelore diff` and `tilelore blame`: what kernels decide differently, and since when."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from api import console
from api.blame import blame_document
from api.commands.options import Format, Kb, Plain
from api.remember import recall
from api.revisions import Repository
from api.versions import compared, revisions_compared
from kb.errors import InputError
from kb.store import open_store

Repo = Annotated[
    Path | None, typer.Option("--git", metavar="REPO", help="Compare two revisions of it.")
]
SIDES = "Kernels, FILE[::KERNEL], NAME==VERSION[@sha256:DIGEST]; with --git REV1 REV2 [PATH...]."


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(diff)
    app.command()(blame)


def diff(
    sides: Annotated[list[str], typer.Argument(metavar="A B [PATH...]", help=SIDES)],
    git: Repo = None,
    trust_index: Annotated[
        bool, typer.Option("--trust-index", help="Take a wheel by the digest that the index has.")
    ] = False,
    kb: Kb = None,
    form: Format = Plain.TABLE,
) -> None:
    """Decisions, tuning, constraints and findings that differ.

    Between two kernels, two versions of a package or two revisions of a repository, whose files are
    read with git's plumbing and never checked out. Kernels are paired by file and name, then by
    program, then by name. Exit codes: 0 no difference, 1 they differ, 2 bad input.
    """
    if len(sides) < 2 or (len(sides) > 2 and git is None):
        hint = "Name two; paths belong to --git REPO."
        raise InputError(f"{len(sides)} things to compare.", where="diff", hint=hint)
    with console.progress("reading") as tell:
        if git is not None:
            document = revisions_compared(git, sides[0], sides[1], sides[2:], tell)
        else:
            document = compared(sides[0], sides[1], kb, trust_index=trust_index, progress=tell)
    for label, digest in document.get("digests", {}).items() if trust_index else ():
        if digest:
            console.note(f"{label} has sha256:{digest}")
    if form is Plain.JSON:
        console.say_json(document)
    else:
        print_diff(document)
    if not document["same"]:
        raise typer.Exit(1)


def blame(
    kernel: Annotated[
        str, typer.Argument(help="FILE::KERNEL from the root of REPO, or a kernel of the base.")
    ],
    repo: Annotated[Path, typer.Option("--repo", metavar="REPO", help="A git repository.")],
    revision: Annotated[str, typer.Option("--rev", help="Look back from here.")] = "HEAD",
    axis: Annotated[str, typer.Option("--axis", metavar="AXIS", help="Only this axis.")] = "",
    kb: Kb = None,
    form: Format = Plain.TABLE,
) -> None:
    """Which revision introduced each decision that a kernel now makes."""
    path, _, name = kernel.partition("::")
    if not name and not path.endswith(".py"):
        with open_store(kb, read_only=True) as store:
            _, knowledge = recall(store, kernel)
        path, name = knowledge.source.path, knowledge.kernel.name
    with Repository(repo) as repository:
        document = blame_document(repository, path, name, revision=revision, axis=axis)
    if form is Plain.JSON:
        console.say_json(document)
    else:
        print_blame(document)


def print_blame(document: Mapping[str, Any]) -> None:
    """The origins for people, newest first."""
    rows = sorted(document["decisions"], key=lambda row: row["date"], reverse=True)
    columns = ("revision", "date", "axis", "value", "lines now", "summary")
    console.table(
        f"{document['kernel']}  {document['path']}",
        columns,
        [
            (row["revision"][:10], row["date"][:10], _axis(row), row["value"],
             console.lines_text(row["lines"]), row["summary"])
            for row in rows
        ],
    )  # fmt: skip
    for note in document["notes"]:
        console.note(note)


def _axis(row: Mapping[str, Any]) -> str:
    return f"{row['axis']} ({row['subject']})" if row["subject"] else str(row["axis"])


def print_diff(document: Mapping[str, Any]) -> None:
    """The differences for people."""
    left, right = document["left"], document["right"]
    for pair in document["pairs"]:
        if not pair["same"] or pair["match"] == "same program":
            _print_pair(pair)
    for side, rows in ((left, document["only_left"]), (right, document["only_right"])):
        columns = ("kernel", "file", "lines", "operation", "decisions")
        console.table(
            f"only in {side}",
            columns,
            [(k["name"], k["path"], console.lines_text([k["lines"]]), k["operation"],
              k["decisions"]) for k in rows],
        )  # fmt: skip
    counts = ", ".join(f"{count} {what}" for what, count in document["kernels"].items() if count)
    files = document["unchanged_files"]
    same_files = f"; {files} files with the same bytes" if files else ""
    console.say(f"{left} | {right}: {counts or 'no kernel'}{same_files}")
    if document["same"]:
        console.say("no difference")


def _print_pair(pair: Mapping[str, Any]) -> None:
    rows: list[tuple[object, ...]] = []
    if pair["left_path"] != pair["right_path"]:
        rows.append(("file", pair["left_path"], "", pair["right_path"], ""))
    if pair["operation"]:
        rows.append(("operation", pair["operation"]["left"], "", pair["operation"]["right"], ""))
    for row in (*pair["decisions"], *pair["tuning"]):
        name = _axis(row) if "axis" in row else f"tuning: {row['field']}"
        rows.append((name, _text(row["left"]), console.lines_text(row["left_lines"]),
                     _text(row["right"]), console.lines_text(row["right_lines"])))  # fmt: skip
    for what in ("constraint", "finding"):
        for row in pair[f"{what}s"]:
            text = row["expression" if what == "constraint" else "finding"]
            lines = console.lines_text(row["lines"])
            ours = (text, lines, "", "") if row["only"] == "left" else ("", "", text, lines)
            rows.append((what, *ours))
    names = f"{pair['left']} | {pair['right']}"
    moved = " (same program, moved or renamed)" if pair["match"] == "same program" else ""
    both = f"; {pair['decisions_in_both']} decisions in both"
    columns = ("axis", pair["left"], "lines", pair["right"], "lines")
    console.table(names + moved + both, columns, rows)


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return "; ".join(f"{name}: {len(held)} points" if isinstance(held, list) else
                         f"{name}={held}" for name, held in value.items())  # fmt: skip
    return "" if value is None else str(value)
