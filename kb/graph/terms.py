"""The ontology as the records of `kb.vocabulary_model` and as planner targets. Loaded once."""

from __future__ import annotations

from functools import cache

from rdflib import RDF
from rdflib.namespace import DCTERMS, SKOS
from rdflib.term import Literal, Node

from kb.graph import vocabulary as entries
from kb.graph.vocabulary import TL, local, ontology
from kb.planner.target import Target
from kb.space import Scalar
from kb.vocabulary_model import (
    Asked,
    AxisTerm,
    Carry,
    ConstraintTerm,
    OperationTerm,
    OwnAxis,
    ParameterTerm,
    PatternTerm,
    TransferRule,
    Vocabulary,
)


@cache
def vocabulary() -> Vocabulary:
    """Everything the ontology names, in plain records."""
    return Vocabulary(
        axes=tuple(
            AxisTerm(
                name=entry.name,
                kind=entry.kind,
                label=entry.label,
                aliases=entry.aliases,
                values=entry.values,
                scope=entry.scope,
                reasons=entry.reasons,
            )
            for entry in entries.axes().values()
        ),
        parameters=_parameters(),
        operations=tuple(
            OperationTerm(
                name=entry.name,
                label=entry.label,
                aliases=entry.aliases,
                broader=entry.broader,
                components=entry.components,
                axes=entry.axes,
            )
            for entry in entries.operations().values()
        ),
        patterns=tuple(
            PatternTerm(
                name=entry.name, axis=entry.axis, rationale=entry.rationale, price=entry.price
            )
            for entry in entries.patterns().values()
            if entry.axis is not None
        ),
        transfer_rules=_transfer_rules(),
        own_axes=_own_axes(),
        constraints=tuple(
            ConstraintTerm(
                name=entry.name,
                expression=entry.expression,
                because=entry.because,
                hint=entry.hint,
                axes=entry.axes,
                operations=entry.operations,
                source=entry.source,
            )
            for entry in entries.constraints().values()
        ),
    )


@cache
def targets() -> dict[str, Target]:
    """Every GPU of the ontology as the planner's record, by name."""
    return {
        entry.name: Target(
            name=entry.name,
            label=entry.label,
            arch=entry.arch,
            limits=entry.limits,
            features=entry.features,
        )
        for entry in entries.targets().values()
    }


def _parameters() -> tuple[ParameterTerm, ...]:
    return tuple(
        ParameterTerm(name=local(node), axis=_local(node, TL.realises))
        for node in _members(TL.TuningParameter)
    )


def _transfer_rules() -> tuple[TransferRule, ...]:
    return tuple(
        TransferRule(
            name=local(node),
            operation=_local(node, TL.toOperation),
            axis=_local(node, TL.onAxis),
            carry=Carry(_text(node, TL.carry)),
            reason=_text(node, TL.rationale),
            value=_text(node, TL.donorValue) or None,
            prefers=_text(node, TL.prefers) or None,
            source=_text(node, DCTERMS.source),
        )
        for node in _members(TL.TransferRule)
    )


def _own_axes() -> tuple[OwnAxis, ...]:
    return tuple(
        OwnAxis(
            name=local(node),
            operation=_local(node, TL.toOperation),
            axis=_local(node, TL.onAxis) or _local(node, TL.onParameter),
            asked=Asked(_text(node, TL.asksWhom)),
            question=_text(node, TL.question),
            reason=_text(node, TL.rationale),
            prefers=_text(node, TL.prefers) or None,
            candidates=_candidates(node),
            source=_text(node, DCTERMS.source),
        )
        for node in _members(TL.OwnAxis)
    )


def _candidates(node: Node) -> tuple[Scalar, ...]:
    found = ontology().objects(node, TL.candidate)
    values = [value.toPython() for value in found if isinstance(value, Literal)]
    numbers = sorted(value for value in values if isinstance(value, int | float))
    return (*numbers, *sorted(value for value in values if isinstance(value, str)))


def _members(kind: Node) -> list[Node]:
    """Individuals of a class, by label and name."""
    graph = ontology()
    found = list(graph.subjects(RDF.type, kind))
    return sorted(found, key=lambda node: (str(graph.value(node, SKOS.notation) or ""), str(node)))


def _text(node: Node, predicate: Node) -> str:
    value = ontology().value(node, predicate)
    return "" if value is None else str(value)


def _local(node: Node, predicate: Node) -> str:
    value = ontology().value(node, predicate)
    return "" if value is None else local(value)
