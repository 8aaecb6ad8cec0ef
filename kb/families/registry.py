"""Families by the operation that they build."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kb.dsl.model import Document
from kb.errors import UnknownName
from kb.families import layernorm
from kb.families.model import FamilyProgram
from kb.space import Scalar

Build = Callable[[Document, Mapping[str, Scalar]], FamilyProgram]

FAMILIES: Mapping[str, Build] = dict.fromkeys(layernorm.OPERATIONS, layernorm.build)
"""Operation name of the ontology -> builder. A new family enters here."""


def family_of(document: Document) -> Build:
    """The builder of the operation of a document; UnknownName when no family builds it."""
    found = FAMILIES.get(document.space.operation)
    if found is None:
        known = ", ".join(sorted(FAMILIES))
        raise UnknownName(
            f"no family builds `{document.space.operation}`, and the file has no program.",
            hint=f"Families build {known}; a kernel file brings its own program.",
        )
    return found
