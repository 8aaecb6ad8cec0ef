"""Design spaces, templates and measurements as named graphs."""

from __future__ import annotations

from dataclasses import dataclass

from pyoxigraph import NamedNode, Quad

from kb.evidence import Measurement
from kb.graph import names, vocabulary
from kb.graph.encode import constraint_facts
from kb.graph.facts import Facts, canonical
from kb.space import Axis, DesignSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordGraph:
    """One named graph about `subject`."""

    name: str
    subject: str
    quads: tuple[Quad, ...]

    @property
    def text(self) -> str:
        """Canonical N-Quads."""
        return canonical(self.quads)


def encode_space(space: DesignSpace) -> RecordGraph:
    """The graph of a design space; one with holes, or derived but without source, is a template."""
    facts = Facts()
    template = bool(space.holes or (space.derived_from and space.source_digest is None))
    facts.add("", "rdf:type", NamedNode(names.term("tl:DesignSpace")))
    if template:
        facts.add("", "rdf:type", NamedNode(names.term("tl:Template")))
    facts.add("", "tl:name", space.name)
    facts.add("", "tl:forOperation", NamedNode(names.operation(space.operation)))
    facts.maybe("", "tl:dialect", space.dialect)
    facts.maybe("", "tl:programDigest", space.source_digest)
    _derived(facts, "", space.derived_from)
    keys = names.distinct([axis.name for axis in space.axes])
    for index, (axis, key) in enumerate(zip(space.axes, keys, strict=True)):
        _axis(facts, axis, f"/axis/{key}", index)
    for index, constraint in enumerate(space.constraints):
        constraint_facts(facts, constraint, index)
    for index, (name, text) in enumerate(space.mapping):
        node = facts.node("", "tl:hasMapping", "tl:Mapping", f"/mapping/{index}", index)
        facts.add(node, "tl:name", name)
        facts.add(node, "tl:expression", text)
    for index, hole in enumerate(space.holes):
        node = facts.node("", "tl:hasHole", "tl:Hole", f"/hole/{index}", index)
        facts.add(node, "tl:name", hole)
    return _graph(facts, names.space_tail(space.name, facts.digest()))


def _graph(facts: Facts, tail: str) -> RecordGraph:
    graph, subject = names.graph(tail), names.ROOT + tail
    return RecordGraph(name=graph, subject=subject, quads=facts.quads(subject, graph))


def _axis(facts: Facts, axis: Axis, place: str, index: int) -> None:
    node = facts.node("", "tl:hasAxis", "tl:SpaceAxis", place, index)
    facts.add(node, "tl:name", axis.name)
    if axis.name in vocabulary.axes():
        facts.add(node, "tl:onAxis", NamedNode(names.axis(axis.name)))
    facts.add(node, "tl:axisKind", axis.kind.value)
    facts.add(node, "tl:origin", axis.origin.value)
    facts.maybe(node, "tl:by", axis.by)
    facts.maybe(node, "tl:rationale", axis.rationale)
    _derived(facts, node, axis.derived_from)
    for position, value in enumerate(axis.values):
        choice = f"{node}/choice/{position}"
        facts.node(node, "tl:hasChoice", "tl:Choice", choice, position)
        facts.add(choice, "tl:value", value)


def _derived(facts: Facts, node: str, origins: tuple[str, ...]) -> None:
    """What something was derived from: IRIs for questions, the texts in order as JSON."""
    for origin in origins:
        facts.add(node, "prov:wasDerivedFrom", NamedNode(names.reference(origin)))
    if origins:
        facts.json(node, {"derivedFrom": origins})


def encode_measurement(measurement: Measurement) -> RecordGraph:
    """The graph of a measurement: an activity that used the measured program."""
    facts = Facts()
    for kind in ("tl:Measurement", "prov:Activity"):
        facts.add("", "rdf:type", NamedNode(names.term(kind)))
    facts.add("", "prov:used", NamedNode(names.program(measurement.kernel_digest)))
    facts.add("", "prov:wasAssociatedWith", NamedNode(names.AGENT))
    facts.add("", "tl:ofMetric", NamedNode(names.metric(measurement.metric)))
    facts.add("", "tl:numericValue", float(measurement.value))
    facts.add("", "tl:unit", NamedNode(names.unit(measurement.unit)))
    facts.json("", {"unit": measurement.unit})
    facts.add("", "tl:ranOn", NamedNode(names.target(measurement.target)))
    facts.add("", "tl:samples", measurement.samples)
    facts.add("", "tl:seed", measurement.seed)
    facts.add("", "tl:kernelDigest", measurement.kernel_digest)
    facts.settings("", "tl:withVersion", "version", measurement.versions)
    facts.settings("", "tl:atSize", "size", measurement.problem)
    facts.settings("", "tl:atPoint", "point", measurement.point)
    return _graph(facts, names.measurement_tail(facts.digest()))
