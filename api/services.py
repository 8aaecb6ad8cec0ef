"""What the HTTP interface offers beside the store: transfer, generation, explanation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.diff import diff_document
from api.explain import explain
from api.http import Services
from api.later import DEFAULT_ARCH, generate
from api.references import donor_of_store
from api.remember import recall
from kb.dsl.check import check_document
from kb.dsl.model import DocumentKind
from kb.dsl.program import check_program
from kb.dsl.reader import read
from kb.graph.terms import vocabulary
from kb.store import Store
from kb.transfer import transfer


def services(store: Store) -> Services:
    """The services over one store."""

    def transferred(source: str, target: str) -> Mapping[str, Any]:
        template = transfer(donor_of_store(store, source), target, vocabulary())
        return template.to_json()

    def generated(space: str, dialect: str, settings: Mapping[str, Any]) -> str:
        reading = read(space, vocabulary(), where="space")
        check_program(reading, where="space")
        document = reading.document
        if document.kind is not DocumentKind.KERNEL:  # observed in a source: it stands as it is
            check_document(document, where="space")
        return generate(document, dialect, as_texts(settings), DEFAULT_ARCH)

    def explained(kernel: str) -> Mapping[str, Any]:
        iri, knowledge = recall(store, kernel)
        return explain(iri, knowledge, vocabulary())

    def compared(left: str, right: str) -> Mapping[str, Any]:
        sides = [(recall(store, name)[1],) for name in (left, right)]
        return diff_document(sides[0], sides[1], (left, right), asked=True)

    return Services(transfer=transferred, generate=generated, explain=explained, diff=compared)


def as_texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as the command line writes them."""
    return {name: str(value) for name, value in settings.items()}
