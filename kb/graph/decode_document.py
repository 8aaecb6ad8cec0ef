"""A graph back to the DSL document that `encode_document` wrote."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from pyoxigraph import Quad

from kb.dsl.model import Document, DocumentKind, Refusal, ValueMark
from kb.dsl.tree import Comment, Side
from kb.errors import InputError
from kb.evidence import Lines
from kb.graph.decode import decision_of, finding_of, launch_of, tuning_of
from kb.graph.decode_records import derived_of, measurement_of, space_of
from kb.graph.facts import Reading, whole
from kb.graph.terms import vocabulary
from kb.space import DesignSpace, Origin
from kb.vocabulary_model import folded


@whole()
def decode_document(quads: Iterable[Quad], program_text: str | None = None) -> Document:
    """The document of a graph; `program_text` is the text of the program that the graph names.

    Marks come back in the order of the axes. Raises InputError when the graph holds no design space
    or lacks a fact, or when the program is missing or another one.
    """
    reading = Reading(quads)
    node = reading.subject("tl:DesignSpace")
    space = space_of(reading, node)
    tuning = reading.link(node, "tl:hasTuning") if reading.has(node, "tl:hasTuning") else None
    return Document(
        space=space,
        kind=DocumentKind(reading.text(node, "tl:spaceKind")),
        tuning=None if tuning is None else tuning_of(reading, tuning),
        launches=tuple(launch_of(reading, n) for n in reading.parts(node, "tl:hasLaunch")),
        program=_program(reading, node, program_text),
        decisions=tuple(decision_of(reading, n) for n in _cited(reading, node, "tl:Decision")),
        findings=tuple(finding_of(reading, n) for n in _cited(reading, node, "tl:Finding")),
        measurements=tuple(
            measurement_of(reading, n) for n in _cited(reading, node, "tl:Measurement")
        ),
        refused=tuple(_refusal(reading, n) for n in reading.parts(node, "tl:hasRefusal")),
        parameters=tuple(
            reading.text(n, "tl:name") for n in reading.parts(node, "tl:hasParameter")
        ),
        path=reading.optional(node, "tl:path"),
        package=reading.optional(node, "tl:package"),
        licence=reading.optional(node, "dcterms:license"),
        lines=_lines(reading, node),
        marks=_marks(reading, node),
        comments=tuple(_comment(reading, n) for n in reading.parts(node, "tl:hasComment")),
        canonical=_canonical(space),
    )


def _cited(reading: Reading, node: str, kind: str) -> list[str]:
    return [n for n in reading.parts(node, "tl:hasEvidence") if reading.is_a(n, kind)]


def _lines(reading: Reading, node: str) -> Lines | None:
    if not reading.has(node, "tl:startLine"):
        return None
    return reading.integer(node, "tl:startLine"), reading.integer(node, "tl:endLine")


def _program(reading: Reading, node: str, text: str | None) -> str | None:
    if not reading.has(node, "tl:programDigest"):
        return None
    digest = reading.text(node, "tl:programDigest")
    given = hashlib.sha256((text or "").encode(errors="surrogatepass")).hexdigest()
    if text is None or given != digest:
        raise InputError(
            "the program of the design space is not given." if text is None
            else "the text is not the program that the design space names.",
            where=node,
            hint=f"Pass the text with the digest {digest}.",
        )  # fmt: skip
    return text


def _marks(reading: Reading, node: str) -> tuple[ValueMark, ...]:
    return tuple(
        ValueMark(
            axis=reading.text(axis, "tl:name"),
            value=reading.get(choice, "tl:value"),
            origin=Origin(reading.text(choice, "tl:origin")),
            by=reading.optional(choice, "tl:by"),
        )
        for axis in reading.parts(node, "tl:hasAxis")
        for choice in reading.parts(axis, "tl:hasChoice")
        if reading.has(choice, "tl:origin")
    )


def _refusal(reading: Reading, node: str) -> Refusal:
    return Refusal(
        axis=reading.text(node, "tl:name"),
        value=reading.text(node, "tl:value"),
        reason=reading.text(node, "tl:reason"),
        source=reading.optional(node, "dcterms:source"),
        derived_from=derived_of(reading, node),
    )


def _comment(reading: Reading, node: str) -> Comment:
    return Comment(
        text=reading.text(node, "tl:text"),
        anchor=tuple(reading.json(node)["anchor"]),
        side=Side(reading.text(node, "tl:side")),
    )


def _canonical(space: DesignSpace) -> tuple[tuple[str, str], ...]:
    """The ontology's names of axes that are written under another one, as the reader gives them."""
    terms = [(axis.name, vocabulary().find_axis(axis.name)) for axis in space.axes]
    return tuple(
        (name, term.name) for name, term in terms if term and folded(term.name) != folded(name)
    )
