"""Design spaces, templates and measurements back from their graphs."""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import Quad

from kb.errors import InputError
from kb.evidence import AxisKind, Measurement
from kb.graph import names
from kb.graph.decode import constraints
from kb.graph.facts import Reading, whole
from kb.space import Axis, DesignSpace, Origin


@whole()
def decode_space(quads: Iterable[Quad]) -> DesignSpace:
    """The design space of a graph; InputError when the graph holds none, or not a whole one."""
    reading = Reading(quads)
    return space_of(reading, reading.subject("tl:DesignSpace"))


def space_of(reading: Reading, node: str) -> DesignSpace:
    """A design space, from its node."""
    operation = ""
    if reading.has(node, "tl:forOperation"):
        operation = names.last_text(reading.link(node, "tl:forOperation"))
    return DesignSpace(
        name=reading.optional(node, "tl:name") or "",
        operation=operation,
        axes=tuple(_axis(reading, part) for part in reading.parts(node, "tl:hasAxis")),
        constraints=constraints(reading, node),
        mapping=tuple(
            (reading.text(part, "tl:name"), reading.text(part, "tl:expression"))
            for part in reading.parts(node, "tl:hasMapping")
        ),
        holes=tuple(reading.text(part, "tl:name") for part in reading.parts(node, "tl:hasHole")),
        dialect=reading.optional(node, "tl:dialect"),
        source_digest=reading.optional(node, "tl:sha256"),
        derived_from=derived_of(reading, node),
    )


def _axis(reading: Reading, node: str) -> Axis:
    return Axis(
        name=reading.text(node, "tl:name"),
        kind=AxisKind(reading.text(node, "tl:axisKind")),
        values=tuple(
            reading.get(choice, "tl:value") for choice in reading.parts(node, "tl:hasChoice")
        ),
        origin=Origin(reading.text(node, "tl:origin")),
        by=reading.optional(node, "tl:by"),
        derived_from=derived_of(reading, node),
        rationale=reading.optional(node, "tl:rationale"),
    )


def derived_of(reading: Reading, node: str) -> tuple[str, ...]:
    """What something was derived from, in order."""
    return tuple(reading.json(node).get("derivedFrom", ()))


@whole()
def decode_measurement(quads: Iterable[Quad]) -> Measurement:
    """The measurement of a graph; InputError when the graph holds none, or not a whole one."""
    reading = Reading(quads)
    return measurement_of(reading, reading.subject("tl:Measurement"))


def measurement_of(reading: Reading, node: str) -> Measurement:
    """A measurement, from its node."""
    value = reading.get(node, "tl:numericValue")
    if not isinstance(value, float):
        raise InputError(
            "tl:numericValue should be a double.", where=node, hint="Encode the record again."
        )
    return Measurement(
        metric=names.last_text(reading.link(node, "tl:ofMetric")),
        value=value,
        unit=str(reading.json(node)["unit"]),
        target=names.last_text(reading.link(node, "tl:ranOn")),
        samples=reading.integer(node, "tl:samples"),
        seed=reading.integer(node, "tl:seed"),
        versions=_texts(reading, node, "tl:withVersion"),
        kernel_digest=reading.text(node, "tl:kernelDigest"),
        problem=_texts(reading, node, "tl:atSize"),
        point=_texts(reading, node, "tl:atPoint"),
    )


def _texts(reading: Reading, node: str, link: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in reading.settings(node, link))
