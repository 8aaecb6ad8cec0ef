"""`tilelore explain` and `tilelore diff`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from api import console
from api.commands.options import Format, Kb, Plain
from api.diff import diff_document
from api.explain import explain as explained
from api.explain import print_explanation
from api.references import kernel_named, kernels_named
from kb.graph.terms import vocabulary

KERNEL = "A kernel of the knowledge base by name or IRI, FILE, or FILE:KERNEL."


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(explain)
    app.command()(diff)


def explain(
    kernel: Annotated[str, typer.Argument(help=KERNEL)],
    kb: Kb = None,
    form: Format = Plain.TABLE,
) -> None:
    """A kernel's decisions: lines, rationale, price, alternatives; its constraints and findings."""
    iri, knowledge = kernel_named(kernel, kb)
    document = explained(iri, knowledge, vocabulary())
    if form is Plain.JSON:
        console.say_json(document)
    else:
        print_explanation(document)


def diff(
    left: Annotated[str, typer.Argument(metavar="A", help=KERNEL)],
    right: Annotated[str, typer.Argument(metavar="B", help=KERNEL)],
    kb: Kb = None,
    form: Format = Plain.TABLE,
) -> None:
    """Decisions and tuning that differ between two kernels, or two versions of a file.

    Kernels of two files are paired by name. Exit code 0 whether they differ or not.
    """
    ours = [knowledge for _, knowledge in kernels_named(left, kb)]
    theirs = [knowledge for _, knowledge in kernels_named(right, kb)]
    document = diff_document(ours, theirs)
    if form is Plain.JSON:
        console.say_json(document)
    else:
        print_diff(document)


def print_diff(document: Mapping[str, Any]) -> None:
    """The differences for people."""
    if document["same"]:
        console.say("no difference")
    for pair in document["pairs"]:
        rows = [
            (d["axis"] + (f" ({d['subject']})" if d["subject"] else ""),
             ", ".join(d["left"]), console.lines_text(d["left_lines"]),
             ", ".join(d["right"]), console.lines_text(d["right_lines"]))
            for d in pair["decisions"]
        ]  # fmt: skip
        if pair["operation"]:
            rows.insert(0, ("operation", str(pair["operation"]["left"]), "",
                            str(pair["operation"]["right"]), ""))  # fmt: skip
        rows += [(f"tuning {t['field']}", str(t["left"]), "", str(t["right"]), "")
                 for t in pair["tuning"]]  # fmt: skip
        columns = ("axis", pair["left"], "lines", pair["right"], "lines")
        console.table(f"{pair['left']} | {pair['right']}", columns, rows)
    for side, names in (("A", document["only_left"]), ("B", document["only_right"])):
        if names:
            console.say(f"only in {side}: {', '.join(names)}")
