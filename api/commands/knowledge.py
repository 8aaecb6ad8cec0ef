"""`tilelore extract` and `tilelore lint`: from source to knowledge, to the store, to findings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from api import console
from api.commands.options import Kb, Out
from api.extract import extract_many, kernels_of
from api.json_form import extract_document
from api.lint import lint_document, print_lint
from api.read_each import read_each
from api.reading import KernelSummary, Reading
from api.remember import Memory, Remembered, remember
from api.sarif import sarif_document
from api.sources import SourceFile, source_files
from api.turtle import turtle
from kb.dsl.bitwise import Bitwise
from kb.dsl.from_knowledge import knowledge_document
from kb.dsl.writer import write
from kb.errors import InputError
from kb.evidence import Severity
from kb.graph.axis_numerics import axis_classes
from kb.graph.encode import encode
from kb.knowledge import KernelKnowledge, SourceKnowledge
from kb.store import default_location


class Extracted(StrEnum):
    """Forms of what was read."""

    TABLE = "table"
    JSON = "json"
    DSL = "dsl"
    TTL = "ttl"


class Linted(StrEnum):
    """Forms of findings."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH|DIST...",
        help="Files, folders, pinned corpora (NAME or NAME==VERSION), `default`: a set of them, or "
        "any archive of the index as NAME==VERSION@sha256:DIGEST.",
    ),
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=0, help="Processes; 0: one per core.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(extract)
    app.command()(lint)


def extract(  # noqa: PLR0913 - one parameter per option
    paths: Paths,
    kb: Kb = None,
    out: Out = None,
    form: Annotated[Extracted, typer.Option("--format", "-f", help="Form of the answer.")] = (
        Extracted.TABLE
    ),
    no_kb: Annotated[bool, typer.Option("--no-kb", help="Do not remember what is read.")] = False,
    jobs: Jobs = 0,
    bitwise_stable: Annotated[
        bool, typer.Option("--bitwise-stable", help="DSL: hold axes that can change bits.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Read again even what has not changed.")
    ] = False,
) -> None:
    """Read kernels: program, decisions, tuning space, constraints, findings.

    For the table, files that are as they were, with all that was looked at for them, are not read
    again.

    The table form remembers what it read in the knowledge base; another form, which is an export,
    does so only with --kb. Exit code 2 when a named file cannot be read or holds no kernel.
    """
    if bitwise_stable and form is not Extracted.DSL:
        hint = "Add --format dsl."
        raise InputError("only a DSL file can be held to it.", where="--bitwise-stable", hint=hint)
    files = source_files(paths)
    if form is Extracted.TABLE:
        target = None if no_kb else kb or default_location()
        readings = _read_and_remember(files, jobs, again, target)
        print_sources([r for f, r in zip(files, readings, strict=True) if r.kernels or not f.asked])
        refused = _refused(files, readings)
    else:
        sources = _read(files, jobs)
        kernels = tuple(kernels_of(sources))
        refused = _refused(files, sources)
        _export(form, sources, kernels, out, bitwise_stable=bitwise_stable)
        if kernels and kb is not None and not no_kb:
            _say_remembered(remember(sources, kb), kb)
    if refused and len(files) == 1:
        raise refused[0]
    if refused:
        for problem in refused:
            console.note(f"tilelore: {problem.text}")
        raise typer.Exit(2)


def _read_and_remember(
    files: Sequence[SourceFile], jobs: int, again: bool, kb: str | None
) -> tuple[Reading, ...]:
    """Readings in the order of the files, without their graphs, which went to the store."""
    found: dict[int, Reading] = {}
    with Memory(kb) as memory, console.progress("reading") as tell:
        for index, reading in read_each(files, jobs=jobs, again=again):
            if kb is not None:
                memory.add(reading)
            found[index] = replace(reading, graphs=())
            tell(len(found), len(files), files[index].shown)
        done = memory.done()
    if kb is not None and any(reading.kernels for reading in found.values()):
        _say_remembered(done, kb)
    if len(files) > 1:
        count = sum(reading.again for reading in found.values())
        console.note(f"read {count} of {len(files)} files; the others had not changed")
    return tuple(found[index] for index in range(len(files)))


def _read(files: Sequence[SourceFile], jobs: int) -> tuple[SourceKnowledge, ...]:
    with console.progress("reading") as tell:
        return extract_many(files, jobs=jobs, progress=tell)


def _refused(
    files: Sequence[SourceFile], sources: Sequence[SourceKnowledge | Reading]
) -> list[InputError]:
    """Why files that a person named yield nothing; one in a folder may well hold no kernel."""
    found = []
    for file, source in zip(files, sources, strict=True):
        if source.kernels or not file.asked:
            continue
        note = source.diagnostics[0]
        place = f":{note.lines[0]}" if note.lines else ""
        found.append(InputError(note.message, where=f"{file.shown}{place}", hint=note.hint or ""))
    return found


def _say_remembered(done: Remembered, kb: str) -> None:
    console.note(
        f"remembered in {kb}: {done.added} added, {done.unchanged} unchanged, "
        f"{done.replaced} replaced"
    )


def print_sources(sources: Sequence[Reading]) -> None:
    """A table of kernels per file, then what was not understood."""
    columns = ("kernel", "lines", "operation", "decisions", "tuning", "findings", "opaque")
    for source in sources:
        package = f"  ({source.source.package})" if source.source.package else ""
        console.table(source.source.path + package, columns, map(_row, source.kernels))
        for note in source.diagnostics:
            if note.severity is not Severity.NOTE:
                place = f":{note.lines[0]}" if note.lines else ""
                console.note(f"{source.source.path}{place}: {note.severity}: {note.message}")
    silent = sum(1 for source in sources if not source.kernels)
    if silent and silent < len(sources):
        console.note(f"{silent} further files hold no kernel")


def _row(k: KernelSummary) -> tuple[object, ...]:
    return (
        k.name,
        console.lines_text([k.lines]),
        k.operation or "-",
        k.decisions,
        k.tuning,
        k.findings,
        f"{k.opaque}/{k.operations}",
    )


def _export(
    form: Extracted,
    sources: Sequence[SourceKnowledge],
    kernels: Sequence[KernelKnowledge],
    out: Path | None,
    *,
    bitwise_stable: bool,
) -> None:
    if form is Extracted.JSON:
        document = extract_document(sources)
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        _deliver(text, out, "knowledge.json")
        return
    texts = [(k, _text(form, k, bitwise_stable=bitwise_stable)) for k in kernels]
    if out is not None and (out.is_dir() or not out.suffix):
        for knowledge, text in texts:
            path = out / f"{Path(knowledge.source.path).stem}.{knowledge.kernel.name}.{form.value}"
            console.write_text(path, text)
            console.note(f"wrote {path}")
        return
    if form is Extracted.DSL and len(texts) > 1 and out is not None:
        hint = "Give a folder: each kernel has its own file."
        raise InputError("a DSL file holds one kernel.", where=str(out), hint=hint)
    if texts:
        _deliver("\n".join(text for _, text in texts), out, f"knowledge.{form.value}")


def _text(form: Extracted, knowledge: KernelKnowledge, *, bitwise_stable: bool) -> str:
    if form is Extracted.DSL:
        document = knowledge_document(knowledge)
        held = Bitwise(document, axis_classes()).restricted() if bitwise_stable else document
        return write(held)
    return turtle(encode(knowledge).quads)


def _deliver(text: str, out: Path | None, name: str) -> None:
    if out is None:
        console.say(text)
        return
    path = out / name if out.is_dir() else out
    console.write_text(path, text)
    console.note(f"wrote {path}")


def lint(
    paths: Paths,
    form: Annotated[Linted, typer.Option("--format", "-f", help="Form of the answer.")] = (
        Linted.TEXT
    ),
    out: Out = None,
    jobs: Jobs = 0,
) -> None:
    """Findings only: what readers should know, by rules over kernel and host code.

    Exit code 0 when nothing is worse than a note, 1 from a warning upwards, 2 when a named file
    cannot be read. JSON is described in api/lint.py; SARIF 2.1.0 is for code hosts.
    """
    files = source_files(paths)
    sources = _read(files, jobs)
    refused = _refused(files, sources)
    if refused and len(files) == 1:
        raise refused[0]
    if form is Linted.TEXT:
        print_lint(sources)
    else:
        document = lint_document(sources) if form is Linted.JSON else sarif_document(sources)
        _deliver(json.dumps(document, indent=2, ensure_ascii=False) + "\n", out, "lint.json")
    for problem in refused:
        console.note(f"tilelore: {problem.text}")
    if refused:
        raise typer.Exit(2)
    if any(f.severity is not Severity.NOTE for k in kernels_of(sources) for f in k.findings):
        raise typer.Exit(1)
