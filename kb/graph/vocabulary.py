"""The ontology as data: loads `ontology/*.ttl` once and answers in plain records.

Everything here is a fact of the Turtle files; nothing is written back. Names are the last part of
an IRI (`softmax_scheme`, `fmha`, `h100`), so that the DSL, the planner and transfer need no IRIs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from rdflib import RDF, RDFS, Graph, Namespace, URIRef
from rdflib.namespace import DCTERMS, SKOS
from rdflib.term import Node

from kb.errors import UnknownName
from kb.evidence import AxisKind
from kb.graph.native import turtle_graph

BASE = "https://w3id.org/tilelore/"
TL = Namespace(BASE + "ns#")


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisEntry:
    """An axis with the values seen so far, in the order of the vocabulary; `values` is open.

    `reasons` are (value, rationale, price) of values that have their own.
    """

    name: str
    kind: AxisKind
    label: str
    definition: str
    scope: str
    values: tuple[str, ...]
    aliases: tuple[str, ...]
    source: str
    reasons: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternEntry:
    """A pattern; `axis` is None for an artefact that readers normalise away.

    `dialects` are those in which kernels decide so; `unseen` says of a dialect why no code tells it
    yet. `examples` are places `file:lines` in TileGym.
    """

    name: str
    axis: str | None
    label: str
    definition: str
    rationale: str
    price: str
    dialects: tuple[str, ...]
    unseen: tuple[tuple[str, str], ...]
    examples: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationEntry:
    """An operation: `components` in order, `axes` brought by itself, not by its components."""

    name: str
    label: str
    definition: str
    broader: tuple[str, ...]
    components: tuple[str, ...]
    axes: tuple[str, ...]
    requires: tuple[str, ...]
    admits: tuple[str, ...]
    aliases: tuple[str, ...]
    online: bool
    formula: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintEntry:
    """A constraint as data; it applies to every operation when `operations` is empty."""

    name: str
    label: str
    expression: str
    because: str
    hint: str
    axes: tuple[str, ...]
    operations: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionEntry:
    """A fusion rule: `parts` are (name, operation) in order, `obstacles` are (expression, why)."""

    name: str
    label: str
    definition: str
    parts: tuple[tuple[str, str], ...]
    tile_condition: str
    order_condition: str
    obstacles: tuple[tuple[str, str], ...]
    saves: str
    rationale: str
    axes: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEntry:
    """A GPU: `limits` by name in the units of the ontology, `sources` where each was read."""

    name: str
    label: str
    arch: str
    capability: str
    limits: tuple[tuple[str, int], ...]
    sources: tuple[tuple[str, str], ...]
    features: tuple[str, ...]

    def limit(self, name: str) -> int:
        """The limit called `name`; UnknownName when the target has none of that name."""
        for key, amount in self.limits:
            if key == name:
                return amount
        known = ", ".join(key for key, _ in self.limits)
        raise UnknownName(f"no limit `{name}`", where=self.name, hint=f"Known limits: {known}.")


@cache
def ontology() -> Graph:
    """Every module of the ontology in one graph; read it, never write to it."""
    return turtle_graph("ontology")


def local(node: Node) -> str:
    """Last part of an IRI: `h100` for `.../target/h100`."""
    return str(node).rpartition("#" if "#" in str(node) else "/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleEntry:
    """A rule that yields findings: what it looks for, why that matters, what to do about it."""

    name: str
    label: str
    definition: str
    rationale: str
    remedy: str
    severity: str
    source: str


def _text(subject: Node, predicate: Node) -> str:
    value = ontology().value(subject, predicate)
    return "" if value is None else str(value)


def _texts(subject: Node, predicate: Node) -> tuple[str, ...]:
    return tuple(sorted(str(value) for value in ontology().objects(subject, predicate)))


def _pair(text: str) -> tuple[str, str]:
    """`dialect: reason`."""
    dialect, _, reason = text.partition(": ")
    return dialect, reason


def _names(subject: Node, predicate: Node) -> tuple[str, ...]:
    return tuple(sorted(local(value) for value in ontology().objects(subject, predicate)))


def _members(*classes: URIRef) -> Iterator[URIRef]:
    graph = ontology()
    found = {node for kind in classes for node in graph.subjects(RDF.type, kind)}
    return iter(sorted(node for node in found if isinstance(node, URIRef)))


def _ordered(subject: Node, predicate: Node) -> list[Node]:
    """Objects in the order of their tl:position."""
    graph = ontology()
    return sorted(
        graph.objects(subject, predicate), key=lambda n: int(str(graph.value(n, TL.position)))
    )


@cache
def axes() -> dict[str, AxisEntry]:
    """Every axis by name."""
    graph = ontology()
    values: dict[Node, list[tuple[int, str]]] = {}
    reasons: dict[Node, list[tuple[str, str, str]]] = {}
    for value, axis in graph.subject_objects(TL.ofAxis):
        place = int(str(graph.value(value, TL.position)))
        label = _text(value, RDFS.label)
        values.setdefault(axis, []).append((place, label))
        if why := _text(value, TL.rationale):
            reasons.setdefault(axis, []).append((label, why, _text(value, TL.price)))
    return {
        local(node): AxisEntry(
            name=local(node),
            kind=AxisKind(_text(node, TL.axisKind)),
            label=_text(node, RDFS.label),
            definition=_text(node, SKOS.definition),
            scope=_text(node, TL.scope),
            values=tuple(text for _, text in sorted(values.get(node, []))),
            aliases=_texts(node, SKOS.altLabel),
            source=_text(node, DCTERMS.source),
            reasons=tuple(sorted(reasons.get(node, []))),
        )
        for node in _members(TL.DesignAxis, TL.TuningAxis, TL.HostAxis)
    }


@cache
def patterns() -> dict[str, PatternEntry]:
    """Every pattern by name, artefacts included."""
    return {
        local(node): PatternEntry(
            name=local(node),
            axis=next(iter(_names(node, TL.recognises)), None),
            label=_text(node, RDFS.label),
            definition=_text(node, SKOS.definition),
            rationale=_text(node, TL.rationale),
            price=_text(node, TL.price),
            dialects=_texts(node, TL.occursIn),
            unseen=tuple(_pair(text) for text in _texts(node, TL.unseenIn)),
            examples=_texts(node, SKOS.example),
            source=_text(node, DCTERMS.source),
        )
        for node in _members(TL.Pattern)
    }


@cache
def operations() -> dict[str, OperationEntry]:
    """Every operation by name."""
    graph = ontology()
    return {
        local(node): OperationEntry(
            name=local(node),
            label=_text(node, RDFS.label),
            definition=_text(node, SKOS.definition),
            broader=_names(node, SKOS.broader),
            components=tuple(
                local(part)
                for place in _ordered(node, TL.hasComponent)
                for part in graph.objects(place, TL.ofOperation)
            ),
            axes=_names(node, TL.bringsAxis),
            requires=_names(node, TL.requires),
            admits=_names(node, TL.admits),
            aliases=_texts(node, SKOS.altLabel),
            online=_text(node, TL.requiresOnlineReduction) == "true",
            formula=_text(node, TL.formula),
            source=_text(node, DCTERMS.source),
        )
        for node in _members(TL.Operation)
    }


@cache
def constraints() -> dict[str, ConstraintEntry]:
    """Every constraint of the ontology by name."""
    return {
        local(node): ConstraintEntry(
            name=local(node),
            label=_text(node, RDFS.label),
            expression=_text(node, TL.expression),
            because=_text(node, TL.because),
            hint=_text(node, TL.hint),
            axes=_names(node, TL.constrainsAxis),
            operations=_names(node, TL.forOperation),
            source=_text(node, DCTERMS.source),
        )
        for node in _members(TL.Constraint)
    }


@cache
def fusion_rules() -> dict[str, FusionEntry]:
    """Every fusion rule by name."""
    return {
        local(node): FusionEntry(
            name=local(node),
            label=_text(node, RDFS.label),
            definition=_text(node, SKOS.definition),
            parts=tuple(
                (_text(part, TL.name), _names(part, TL.partOperation)[0])
                for part in _ordered(node, TL.hasPart)
            ),
            tile_condition=_text(node, TL.tileCondition),
            order_condition=_text(node, TL.orderCondition),
            obstacles=tuple(
                (_text(item, TL.expression), _text(item, TL.because))
                for item in _ordered(node, TL.forbiddenBy)
            ),
            saves=_text(node, TL.saves),
            rationale=_text(node, TL.rationale),
            axes=_names(node, TL.constrainsAxis),
            source=_text(node, DCTERMS.source),
        )
        for node in _members(TL.FusionRule)
    }


@cache
def rules() -> dict[str, RuleEntry]:
    """Every rule by name."""
    return {
        local(node): RuleEntry(
            name=local(node),
            label=_text(node, RDFS.label),
            definition=_text(node, SKOS.definition),
            rationale=_text(node, TL.rationale),
            remedy=_text(node, TL.remedy),
            severity=_text(node, TL.usualSeverity),
            source=_text(node, DCTERMS.source),
        )
        for node in _members(TL.Rule)
    }


@cache
def targets() -> dict[str, TargetEntry]:
    """Every GPU by name."""
    graph = ontology()
    found = {}
    for node in _members(TL.Target):
        limits = sorted(graph.objects(node, TL.hasLimit), key=str)
        found[local(node)] = TargetEntry(
            name=local(node),
            label=_text(node, RDFS.label),
            arch=_text(node, TL.arch),
            capability=_text(node, TL.computeCapability),
            limits=tuple((_text(limit, TL.name), int(_text(limit, TL.amount))) for limit in limits),
            sources=tuple(
                (_text(limit, TL.name), _text(limit, DCTERMS.source)) for limit in limits
            ),
            features=_names(node, TL.hasFeature),
        )
    return found


@cache
def design_steps() -> tuple[str, ...]:
    """Names of the steps of the design procedure, in order."""
    graph = ontology()
    nodes = sorted(_members(TL.DesignStep), key=lambda n: int(str(graph.value(n, TL.position))))
    return tuple(local(node) for node in nodes)
