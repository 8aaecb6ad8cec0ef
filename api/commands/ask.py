"""`tilelore query`: a named question, a query file, or SPARQL on the command line."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from api import console
from api.commands.options import Kb
from kb.errors import InputError
from kb.questions import prepare
from kb.store import (
    QUESTIONS,
    Answer,
    BindingsFormat,
    Formats,
    GraphFormat,
    GraphText,
    Query,
    Result,
    Rows,
    Store,
    open_store,
    question,
)

SCHEMA = "tilelore.query/1"
MAX_QUERY_BYTES = 1_000_000


class Answered(StrEnum):
    """Forms of an answer; the last four are those of the SPARQL standard."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    TSV = "tsv"
    XML = "xml"
    SPARQL_JSON = "sparql-json"


STANDARD = {
    Answered.CSV: BindingsFormat.CSV,
    Answered.TSV: BindingsFormat.TSV,
    Answered.XML: BindingsFormat.XML,
    Answered.SPARQL_JSON: BindingsFormat.JSON,
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(query)


def query(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME|FILE.rq", help="Nothing: list the questions.")
    ] = None,
    expression: Annotated[
        str | None, typer.Option("-e", metavar="SPARQL", help="The query itself.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", metavar="K=V", help="Of a named question.")
    ] = None,
    kb: Kb = None,
    form: Annotated[Answered, typer.Option("--format", "-f", help="Form of the answer.")] = (
        Answered.TABLE
    ),
) -> None:
    """Ask the knowledge base. Exit code 1 when a yes-or-no question is answered with no.

    Prefixes tl:, rdfs: and the like need no declaration. Each kernel has its own named graph.
    """
    if name is None and expression is None:
        _list_questions(form)
        return
    if name is not None and expression is not None:
        hint = "Leave one of the two out."
        raise InputError("there is a name and a query text.", where="query", hint=hint)
    text = _text(name) if expression is None else expression
    if text is not None and param:
        hint = "Write the value into the query."
        raise InputError("only named questions have parameters.", where="--param", hint=hint)
    bindings = dict(_pair(item) for item in param or ())
    with open_store(kb, read_only=True) as store:
        if form in STANDARD:
            if text is None:
                text = prepare(QUESTIONS, name or "", bindings, store.named)
            _standard(store, text, STANDARD[form])
            return
        found = store.query(text) if text is not None else store.ask(name or "", **bindings)
    _show(found, name if text is None else None, form)
    if isinstance(found, Answer) and not found:
        raise typer.Exit(1)


def _text(name: str | None) -> str | None:
    """The text of a query file; None when the name is that of a question."""
    path = Path(name or "")
    if path.suffix != ".rq" and not path.is_file():
        question(QUESTIONS, name or "")
        return None
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}.", where=str(path)) from None
    if len(data) > MAX_QUERY_BYTES:
        raise InputError(f"a query has at most {MAX_QUERY_BYTES} bytes.", where=str(path))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("it is not UTF-8 text.", where=str(path)) from None


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"`{text}` sets nothing.", where="--param", hint="Write NAME=VALUE.")
    return name, value


def _standard(store: Store, text: str, form: BindingsFormat) -> None:
    formats = Formats(bindings=form, boolean=form, graph=GraphFormat.TURTLE)
    sys.stdout.write(store.query_serialized(Query(text, formats=formats)).body.decode())


def _show(found: Result, name: str | None, form: Answered) -> None:
    if form is Answered.JSON:
        console.say_json(answer_document(found, name))
    elif isinstance(found, Rows):
        rows = [[_short(value) for value in row.values()] for row in found]
        console.table(QUESTIONS[name].title if name else "", found.variables, rows)
        console.note(f"{len(found)} rows")
    elif isinstance(found, Answer):
        console.say("yes" if found else "no")
    else:
        console.say(found.turtle)


def answer_document(found: Result, name: str | None) -> dict[str, Any]:
    """An answer as JSON values: `rows` by column, `answer` of a yes-or-no question, or `turtle`."""
    document: dict[str, Any] = {"schema": SCHEMA, "question": name}
    match found:
        case Rows():
            return document | {"columns": list(found.variables), "rows": list(found)}
        case Answer():
            return document | {"answer": bool(found)}
        case GraphText():
            return document | {"turtle": found.turtle}


def _short(value: object) -> object:
    """An IRI of ours without what all share."""
    return str(value).removeprefix("https://w3id.org/tilelore/") if value is not None else ""


def _list_questions(form: Answered) -> None:
    if form is Answered.JSON:
        rows = [
            {
                "name": q.name,
                "title": q.title,
                "description": q.description,
                "parameters": [
                    {"name": p.name, "kind": p.kind, "default": p.default} for p in q.parameters
                ],
            }
            for q in QUESTIONS.values()
        ]
        console.say_json({"schema": "tilelore.questions/1", "questions": rows})
        return
    console.table(
        "Named questions",
        ("name", "parameters", "what it answers"),
        [
            (
                q.name,
                ", ".join(f"{p.name}={p.default}" if p.default else p.name for p in q.parameters),
                q.title,
            )
            for q in QUESTIONS.values()
        ],
    )
