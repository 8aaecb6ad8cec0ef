"""`tilelore kb`, `serve` and `demo`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from api import console
from api.commands.options import Format, Kb, Out, Plain
from api.later import loaded
from api.remember import open_for_writing
from kb.errors import InputError
from kb.store import DumpFormat, open_store


class Dump(StrEnum):
    """Forms of an export."""

    NQUADS = "nquads"
    TRIG = "trig"


base = typer.Typer(no_args_is_help=True, help="The knowledge base as a whole.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(base, name="kb")
    app.command()(serve)
    app.command()(demo)


@base.command()
def stats(kb: Kb = None, form: Format = Plain.TABLE) -> None:
    """How much it holds, and its kernels."""
    with open_store(kb, read_only=True) as store:
        numbers, kernels = store.stats(), store.kernels()
    if form is Plain.JSON:
        rows = [{"id": kernel.id, **asdict(kernel)} for kernel in kernels]
        document = {**asdict(numbers), "dialects": dict(numbers.dialects)}
        console.say_json({"schema": "tilelore.stats/1", **document, "listing": rows})
        return
    pairs = [(name, value) for name, value in asdict(numbers).items() if name != "dialects"]
    pairs += [(f"kernels in {name}", count) for name, count in numbers.dialects]
    console.table("Knowledge base", ("what", "how many"), pairs)
    columns = ("kernel", "operation", "file", "lines", "decisions", "findings")
    console.table(
        "Kernels",
        columns,
        [
            (k.label, k.operation.rpartition("/")[2], k.path, f"{k.start_line}-{k.end_line}",
             k.decisions, k.findings)
            for k in kernels
        ],
    )  # fmt: skip


@base.command()
def export(
    out: Out = None,
    form: Annotated[Dump, typer.Option("--format", "-f", help="Form.")] = Dump.NQUADS,
    kb: Kb = None,
) -> None:
    """All kernel graphs and programs as one file."""
    wanted = DumpFormat(form.value)
    with open_store(kb, read_only=True) as store:
        if out is None:
            store.export(sys.stdout.buffer, wanted)
            return
        beside = out.with_name(f".{out.name}.tmp")
        try:
            with beside.open("wb") as handle:
                count = store.export(handle, wanted)
            beside.replace(out)
        except OSError as error:
            raise InputError(f"it cannot be written: {error.strerror}.", where=str(out)) from None
        finally:
            beside.unlink(missing_ok=True)
    console.note(f"wrote {out}: {count} quads")


@base.command()
def load(
    file: Annotated[Path, typer.Argument(help="N-Quads, TriG or Turtle, as `kb export` writes.")],
    kb: Kb = None,
    form: Format = Plain.TABLE,
) -> None:
    """Add the graphs of a file; none when one of them breaks a shape."""
    with open_for_writing(kb) as store:
        loaded = store.load(file)
    rows = [{"graph": row.graph, "result": row.result.value} for row in loaded]
    if form is Plain.JSON:
        console.say_json({"schema": "tilelore.load/1", "graphs": rows})
    else:
        console.table("", ("graph", "result"), [tuple(row.values()) for row in rows])
        console.note(f"{len(rows)} graphs")


@base.command()
def check(kb: Kb = None, form: Format = Plain.TABLE) -> None:
    """Verify digests and the index. Exit code 1 when something is wrong."""
    with open_store(kb, read_only=True) as store:
        problems = store.check()
    if form is Plain.JSON:
        rows = [asdict(problem) for problem in problems]
        console.say_json({"schema": "tilelore.check/1", "problems": rows})
    else:
        for problem in problems:
            console.note(f"{problem.where}: {problem.what} {problem.hint}")
        console.say("sound" if not problems else f"{len(problems)} problems")
    if problems:
        raise typer.Exit(1)


@base.command()
def rebuild(kb: Kb = None, form: Format = Plain.TABLE) -> None:
    """Make the index again from the files."""
    with open_for_writing(kb) as store:
        count = store.rebuild()
    if form is Plain.JSON:
        console.say_json({"schema": "tilelore.rebuild/1", "graphs": count})
    else:
        console.say(f"{count} graphs")


def serve(
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port.")] = 8765,
    writable: Annotated[
        bool, typer.Option("--writable", help="Take updates; only for a SPARQL server's URL.")
    ] = False,
    kb: Kb = None,
) -> None:
    """HTTP: SPARQL 1.1 at /sparql, kernels, questions, transfer and generation, explorer page."""
    loaded("api.serving", "run_server")(kb, host=host, port=port, writable=writable)


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder.")] = Path("build/demo"),
) -> None:
    """The main job on NVIDIA's attention kernel: read, remember, ask, transfer, write, verify."""
    if not loaded("api.demo", "run_demo")(out):
        raise typer.Exit(1)
