"""Design spaces, templates and measurements as named graphs."""

from __future__ import annotations

from dataclasses import dataclass

from pyoxigraph import NamedNode, Quad

from kb.evidence import AxisKind, Measurement
from kb.graph import names
from kb.graph.encode import constraint_facts
from kb.graph.facts import Facts, canonical
from kb.graph.terms import vocabulary
from kb.space import Axis, DesignSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordGraph:
    """One named graph about `subject`; `programs` (digest to text) are what a store takes along."""

    name: str
    subject: str
    quads: tuple[Quad, ...]
    programs: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """Canonical N-Quads."""
        return canonical(self.quads)


def encode_space(space: DesignSpace) -> RecordGraph:
    """The graph of a design space; one with holes, or derived but without source, is a template."""
    facts = Facts()
    space_facts(facts, space)
    if space.holes or (space.derived_from and space.source_digest is None):
        facts.add("", "rdf:type", NamedNode(names.term("tl:Template")))
    return record_graph(facts, names.space_tail(space.name, facts.digest()))


def space_facts(facts: Facts, space: DesignSpace) -> None:
    """Axes, constraints, mapping and holes; what has no name or operation yet says none."""
    facts.add("", "rdf:type", NamedNode(names.term("tl:DesignSpace")))
    facts.maybe("", "tl:name", space.name or None)
    if space.operation:
        facts.add("", "tl:forOperation", NamedNode(names.operation(space.operation)))
    facts.maybe("", "tl:dialect", space.dialect)
    facts.maybe("", "tl:sha256", space.source_digest)
    derived_facts(facts, "", space.derived_from)
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


def record_graph(
    facts: Facts, tail: str, programs: tuple[tuple[str, str], ...] = ()
) -> RecordGraph:
    """The graph named by `tail`, about the record of the same tail."""
    graph, subject = names.graph(tail), names.ROOT + tail
    quads = facts.quads(subject, graph)
    return RecordGraph(name=graph, subject=subject, quads=quads, programs=programs)


def _axis(facts: Facts, axis: Axis, place: str, index: int) -> None:
    node = facts.node("", "tl:hasAxis", "tl:SpaceAxis", place, index)
    facts.add(node, "tl:name", axis.name)
    term = vocabulary().find_axis(axis.name)
    # A kernel's own tuning name may read like an axis of another kind, and is not that axis.
    if term is not None and (axis.kind is term.kind or axis.kind is not AxisKind.TUNING):
        facts.add(node, "tl:onAxis", NamedNode(names.axis(term.name)))
    facts.add(node, "tl:axisKind", axis.kind.value)
    facts.add(node, "tl:origin", axis.origin.value)
    facts.maybe(node, "tl:by", axis.by)
    facts.maybe(node, "tl:rationale", axis.rationale)
    derived_facts(facts, node, axis.derived_from)
    for position, value in enumerate(axis.values):
        choice = f"{node}/choice/{position}"
        facts.node(node, "tl:hasChoice", "tl:Choice", choice, position)
        facts.add(choice, "tl:value", value)


def derived_facts(facts: Facts, node: str, origins: tuple[str, ...]) -> None:
    """What something was derived from: IRIs for questions, the texts in order as JSON."""
    for origin in origins:
        facts.add(node, "prov:wasDerivedFrom", NamedNode(names.reference(origin)))
    if origins:
        facts.json(node, {"derivedFrom": origins})


def encode_measurement(measurement: Measurement) -> RecordGraph:
    """The graph of a measurement: an activity that used the measured program."""
    facts = Facts()
    facts.add("", "rdf:type", NamedNode(names.term("tl:Measurement")))
    measurement_facts(facts, "", measurement)
    return record_graph(facts, names.measurement_tail(facts.digest()))


def measurement_facts(facts: Facts, node: str, measurement: Measurement) -> None:
    """What a measurement says, at its node."""
    facts.add(node, "rdf:type", NamedNode(names.term("prov:Activity")))
    facts.add(node, "prov:used", NamedNode(names.program(measurement.kernel_digest)))
    facts.add(node, "prov:wasAssociatedWith", NamedNode(names.AGENT))
    facts.add(node, "tl:ofMetric", NamedNode(names.metric(measurement.metric)))
    facts.add(node, "tl:numericValue", float(measurement.value))
    facts.add(node, "tl:unit", NamedNode(names.unit(measurement.unit)))
    facts.json(node, {"unit": measurement.unit})
    facts.add(node, "tl:ranOn", NamedNode(names.target(measurement.target)))
    facts.add(node, "tl:samples", measurement.samples)
    facts.add(node, "tl:seed", measurement.seed)
    facts.add(node, "tl:kernelDigest", measurement.kernel_digest)
    facts.settings(node, "tl:withVersion", "version", measurement.versions)
    facts.settings(node, "tl:atSize", "size", measurement.problem)
    facts.settings(node, "tl:atPoint", "point", measurement.point)
