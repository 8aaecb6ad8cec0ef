"""`tilelore explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from api import console
from api.commands import compare
from api.commands.options import Format, Kb, Plain
from api.explain import explain as explained
from api.explain import print_explanation
from api.references import kernel_named
from kb.graph.terms import vocabulary

KERNEL = "A kernel of the knowledge base by name or IRI, FILE, or FILE:KERNEL."


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(explain)
    compare.register(app)


def explain(
    kernel: Annotated[str, typer.Argument(help=KERNEL)],
    kb: Kb = None,
    form: Format = Plain.TABLE,
) -> None:
    """A kernel's decisions: lines, rationale, price, whether changing one can change bits,
    alternatives; its constraints and findings."""
    iri, knowledge = kernel_named(kernel.replace("::", ":"), kb)
    document = explained(iri, knowledge, vocabulary())
    if form is Plain.JSON:
        console.say_json(document)
    else:
        print_explanation(document)
