"""`tilelore transfer`, `generate` and `verify`: from knowledge to a design space to a kernel."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from api import console, later
from api.commands import roundtrip
from api.commands.options import Format, Kb, Out, Plain
from api.later import DEFAULT_ARCH
from api.references import document_named, donor_named
from api.turtle import turtle
from kb.dsl.bitwise import Bitwise
from kb.dsl.check import check_document
from kb.dsl.model import DocumentKind
from kb.dsl.writer import write
from kb.errors import InputError
from kb.graph.axis_numerics import axis_classes
from kb.graph.encode_records import encode_space
from kb.graph.terms import vocabulary
from kb.template import Template
from kb.transfer import transfer as transferred


class Written(StrEnum):
    """Forms of a template."""

    DSL = "dsl"
    JSON = "json"
    TTL = "ttl"


class Dialect(StrEnum):
    """Kernel languages that are written."""

    TRITON = "triton"
    CUTILE = "cutile"


Arch = Annotated[str, typer.Option("--arch", metavar="sm_90", help="The GPU to write for.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(transfer)
    app.command()(generate)
    app.command()(verify)


def transfer(
    source: Annotated[
        str, typer.Option("--from", metavar="KERNEL|OPERATION", help="Who gives, by any name.")
    ],
    target: Annotated[str, typer.Option("--to", metavar="OPERATION", help="Who receives.")],
    out: Out = None,
    form: Annotated[Written | None, typer.Option("--format", "-f", help="Else by --out.")] = None,
    kb: Kb = None,
) -> None:
    """A design space for another operation: what it inherits, decides anew, and leaves open."""
    chosen = form or _by_suffix(out)
    target = vocabulary().operation(target).name
    template = transferred(donor_named(source, kb), target, vocabulary())
    text = template_text(template, chosen)
    if out is None:
        console.say(text)
        return
    console.write_text(out, text)
    console.note(
        f"wrote {out}: {len(template.inherited)} axes inherited, {len(template.adapted)} to derive "
        f"anew, {len(template.own)} of its own, {len(template.missing)} unanswered, "
        f"{len(template.refused)} refused, {len(template.holes)} holes"
    )


def template_text(template: Template, form: Written) -> str:
    """The template in one of its three forms."""
    if form is Written.JSON:
        return json.dumps(template.to_json(), indent=2, ensure_ascii=False) + "\n"
    if form is Written.TTL:
        return turtle(encode_space(template.space()).quads)
    return write(template.document())


def _by_suffix(out: Path | None) -> Written:
    if out is None or out.suffix == ".dsl":
        return Written.DSL
    if out.suffix in (".json", ".ttl"):
        return Written(out.suffix[1:])
    hint = "Use .dsl, .json or .ttl, or say --format."
    raise InputError("the form is not clear from this name.", where=str(out), hint=hint)


def generate(  # noqa: PLR0913 - one parameter per option
    space: Annotated[
        str, typer.Argument(metavar="SPACE", help="A DSL file, a kernel of the base, FILE:KERNEL.")
    ],
    dialect: Annotated[Dialect, typer.Option("--dialect", help="Language.")] = Dialect.TRITON,
    setting: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="AXIS=VALUE", help="Repeatable.")
    ] = None,
    arch: Arch = DEFAULT_ARCH,
    out: Out = None,
    kb: Kb = None,
    form: Format = Plain.TABLE,
    bitwise_stable: Annotated[
        bool, typer.Option("--bitwise-stable", help="Refuse --set of axes that can change bits.")
    ] = False,
) -> None:
    """Write a kernel from a design space, with axes set as wished.

    Exit code 1 when --bitwise-stable is given and an axis is set that can change bits.
    """
    document = document_named(space, kb)
    if document.kind is not DocumentKind.KERNEL:  # what was observed in a source stands as it is
        check_document(document, where=space)
    settings = dict(parse_setting(text) for text in setting or ())
    if bitwise_stable:
        Bitwise(document, axis_classes()).require(settings)
    source = later.generate(document, dialect.value, settings, arch)
    if out is not None:
        console.write_text(out, source)
        console.note(f"wrote {out}")
    if form is Plain.JSON:
        console.say_json(
            {
                "schema": "tilelore.generate/1",
                "space": document.space.name,
                "dialect": dialect.value,
                "arch": arch,
                "settings": settings,
                "path": str(out) if out else None,
                "source": source,
            }
        )
    elif out is None:
        console.say(source)


def parse_setting(text: str) -> tuple[str, str]:
    """`AXIS=VALUE` in two; InputError without `=`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"`{text}` sets nothing.", where="--set", hint="Write AXIS=VALUE.")
    return name.strip(), value.strip()


def verify(  # noqa: PLR0913 - one parameter per option
    subjects: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|SPACE...", help="Generated kernels or design spaces; sources to go again."
        ),
    ],
    arch: Arch = DEFAULT_ARCH,
    kb: Kb = None,
    form: Format = Plain.TABLE,
    again: roundtrip.Again = False,
    jobs: roundtrip.Jobs = None,
    target: roundtrip.Targets = None,
) -> None:
    """Numerics against the reference, facts of compilers. Exit code 1 when one does not hold."""
    if again:
        chosen = roundtrip.options(jobs, target)
        code = roundtrip.verify_again(subjects, chosen, as_json=form is Plain.JSON)
        if code:
            raise typer.Exit(code)
        return
    reports = [_verified(subject, arch, kb) for subject in subjects]
    documents = [report.to_json() for report in reports]
    if form is Plain.JSON:
        console.say_json(documents[0] if len(documents) == 1 else documents)
    else:
        for document in documents:
            console.print_report(document)
    if not all(report.passed for report in reports):
        raise typer.Exit(1)


def _verified(subject: str, arch: str, kb: str | None) -> later.Report:
    path = Path(subject)
    source = path.is_file() and path.suffix == ".py"
    return later.verify(path if source else document_named(subject, kb), arch=arch)
