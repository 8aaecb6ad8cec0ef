"""A whole DSL document as one named graph: `decode_document` gives the same document back."""

from __future__ import annotations

import hashlib

from pyoxigraph import NamedNode

from kb.dsl.model import Document, DocumentKind, Refusal
from kb.errors import InputError
from kb.graph import names
from kb.graph.encode import decision_facts, finding_facts, launch_facts, tuning_facts
from kb.graph.encode_records import (
    RecordGraph,
    derived_facts,
    measurement_facts,
    record_graph,
    space_facts,
)
from kb.graph.facts import Facts
from kb.graph.terms import vocabulary


def encode_document(document: Document) -> RecordGraph:
    """The graph of a design space with everything that its file says, comments included.

    The program text travels in `programs`, under the digest of the kernel's own graph; a store
    takes `add(graph.name, graph.quads, dict(graph.programs))`. Raises InputError for a mark on a
    value that no axis has.
    """
    facts = Facts()
    space_facts(facts, document.space)
    facts.add("", "tl:spaceKind", document.kind.value)
    if document.kind is DocumentKind.TEMPLATE:
        facts.add("", "rdf:type", NamedNode(names.term("tl:Template")))
    _header(facts, document)
    _marks(facts, document)
    if document.tuning is not None:
        tuning_facts(facts, document.tuning)
    for index, launch in enumerate(document.launches):
        launch_facts(facts, launch, index)
    programs = _program(facts, document)
    _evidence(facts, document)
    for index, refusal in enumerate(document.refused):
        _refusal(facts, refusal, index)
    for index, comment in enumerate(document.comments):
        node = facts.node("", "tl:hasComment", "tl:Comment", f"/comment/{index}", index)
        facts.add(node, "tl:text", comment.text)
        facts.add(node, "tl:side", comment.side.value)
        facts.json(node, {"anchor": comment.anchor})
    return record_graph(facts, names.space_tail(document.space.name, facts.digest()), programs)


def _header(facts: Facts, document: Document) -> None:
    facts.maybe("", "tl:path", document.path)
    facts.maybe("", "tl:package", document.package)
    facts.maybe("", "dcterms:license", document.licence)
    if document.lines is not None:
        facts.add("", "tl:startLine", document.lines[0])
        facts.add("", "tl:endLine", document.lines[1])
    keys = names.distinct(list(document.parameters))
    for index, (name, key) in enumerate(zip(document.parameters, keys, strict=True)):
        node = facts.node("", "tl:hasParameter", "tl:Parameter", f"/parameter/{key}", index)
        facts.add(node, "tl:name", name)


def _marks(facts: Facts, document: Document) -> None:
    """Who says that an axis may take a value: at the choice."""
    axes = document.space.axes
    placed = 0
    for axis, key in zip(axes, names.distinct([axis.name for axis in axes]), strict=True):
        for position, mark in document.marked(axis).items():
            choice = f"/axis/{key}/choice/{position}"
            facts.add(choice, "tl:origin", mark.origin.value)
            facts.maybe(choice, "tl:by", mark.by)
            placed += 1
    if placed != len(document.marks):
        raise InputError(
            f"{len(document.marks) - placed} marks speak of values that no axis has.",
            hint="Add the values to their axes, or drop the marks.",
        )


def _program(facts: Facts, document: Document) -> tuple[tuple[str, str], ...]:
    if document.program is None:
        return ()
    digest = hashlib.sha256(document.program.encode(errors="surrogatepass")).hexdigest()
    facts.add("", "tl:hasProgram", NamedNode(names.program(digest)))
    facts.add("", "tl:programDigest", digest)
    return ((digest, document.program),)


def _evidence(facts: Facts, document: Document) -> None:
    """Decisions, findings and measurements, by one link: they are a kernel's, cited here."""
    for index, decision in enumerate(document.decisions):
        decision_facts(facts, _cited(facts, "tl:Decision", f"/decision/{index}", index), decision)
    for index, finding in enumerate(document.findings):
        finding_facts(facts, _cited(facts, "tl:Finding", f"/finding/{index}", index), finding)
    for index, measurement in enumerate(document.measurements):
        node = _cited(facts, "tl:Measurement", f"/measurement/{index}", index)
        measurement_facts(facts, node, measurement)


def _cited(facts: Facts, kind: str, place: str, index: int) -> str:
    return facts.node("", "tl:hasEvidence", kind, place, index)


def _refusal(facts: Facts, refusal: Refusal, index: int) -> None:
    node = facts.node("", "tl:hasRefusal", "tl:Refusal", f"/refusal/{index}", index)
    facts.add(node, "tl:name", refusal.axis)
    term = vocabulary().find_axis(refusal.axis)
    if term is not None:
        facts.add(node, "tl:onAxis", NamedNode(names.axis(term.name)))
    facts.add(node, "tl:value", refusal.value)
    facts.add(node, "tl:reason", refusal.reason)
    facts.maybe(node, "dcterms:source", refusal.source)
    derived_facts(facts, node, refusal.derived_from)
