"""A template: the design space of an operation without a kernel, and where each axis came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kb.dsl.model import Document, DocumentKind, Refusal
from kb.evidence import AxisKind, Decision
from kb.space import Axis, Constraint, DesignSpace, Origin, Scalar
from kb.vocabulary_model import Asked

RULE = "rule transfer/{}"
COMPOSITION = "rule composition"


@dataclass(frozen=True, slots=True, kw_only=True)
class DonorFact:
    """A donor's decision; `iri` names the decision, `kernel` the kernel it was read from."""

    decision: Decision
    kernel: str
    iri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritedAxis:
    """An axis whose donor values hold for the target; `via` are the components that bring it."""

    axis: str
    kind: AxisKind
    values: tuple[str, ...]
    facts: tuple[DonorFact, ...]
    via: tuple[str, ...]
    reason: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptedAxis:
    """An axis that the donor decides and the target too, with another value.

    `candidates` are what to choose from on the target, in order of preference; `donor_values` show
    what was left behind.
    """

    axis: str
    kind: AxisKind
    candidates: tuple[Scalar, ...]
    donor_values: tuple[Scalar, ...]
    facts: tuple[DonorFact, ...]
    via: tuple[str, ...]
    reason: str
    rule: str
    kernels: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """IRIs of the decisions behind it, or of the kernels whose tuning searched it."""
        return tuple(fact.iri for fact in self.facts) or self.kernels


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedAxis:
    """An axis that no donor answers: the target's own (with `question`), or one left unanswered."""

    axis: str
    kind: AxisKind
    candidates: tuple[Scalar, ...]
    via: tuple[str, ...]
    reason: str
    rule: str
    question: str | None = None
    asked: Asked | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What transfer yields: axes by origin, what must not carry over, what a person must fill."""

    name: str
    operation: str
    donor: str
    donor_operation: str
    kernels: tuple[str, ...]
    components: tuple[str, ...]
    shared: tuple[str, ...]
    inherited: tuple[InheritedAxis, ...]
    adapted: tuple[AdaptedAxis, ...]
    own: tuple[AddedAxis, ...]
    missing: tuple[AddedAxis, ...]
    refused: tuple[Refusal, ...]
    constraints: tuple[Constraint, ...]
    mapping: tuple[tuple[str, str], ...]
    holes: tuple[str, ...]

    def space(self) -> DesignSpace:
        """The template as a design space: design axes first, then tuning, then host."""
        axes = [
            *(_inherited(axis) for axis in self.inherited),
            *(_adapted(axis) for axis in self.adapted),
            *(_added(axis) for axis in (*self.own, *self.missing)),
        ]
        order = list(AxisKind)
        return DesignSpace(
            name=self.name,
            operation=self.operation,
            axes=tuple(sorted(axes, key=lambda axis: order.index(axis.kind))),
            constraints=self.constraints,
            mapping=self.mapping,
            holes=self.holes,
            derived_from=self.kernels,
        )

    def document(self) -> Document:
        """The template as a DSL document, with the donor's decisions as evidence."""
        facts = [fact for inherited in self.inherited for fact in inherited.facts]
        facts += [fact for adapted in self.adapted for fact in adapted.facts]
        return Document(
            space=self.space(),
            kind=DocumentKind.TEMPLATE,
            decisions=tuple(dict.fromkeys(fact.decision for fact in facts)),
            refused=self.refused,
        )

    def to_json(self) -> dict[str, Any]:
        """The template as JSON values; key order is fixed."""
        return {
            "schema": "tilelore.template/1",
            "name": self.name,
            "operation": self.operation,
            "from": {
                "name": self.donor,
                "operation": self.donor_operation,
                "kernels": list(self.kernels),
            },
            "components": list(self.components),
            "shared_components": list(self.shared),
            "inherited": [_inherited_json(axis) for axis in self.inherited],
            "adapted": [_adapted_json(axis) for axis in self.adapted],
            "own": [_added_json(axis) for axis in self.own],
            "missing": [_added_json(axis) for axis in self.missing],
            "must_not_transfer": [_refusal_json(refusal) for refusal in self.refused],
            "constraints": [_constraint_json(constraint) for constraint in self.constraints],
            "holes": list(self.holes),
        }


def _inherited(axis: InheritedAxis) -> Axis:
    return Axis(
        name=axis.axis,
        kind=axis.kind,
        values=axis.values,
        origin=Origin.INHERITED,
        by=axis.rule,
        derived_from=tuple(fact.iri for fact in axis.facts),
        rationale=axis.reason,
    )


def _adapted(axis: AdaptedAxis) -> Axis:
    return Axis(
        name=axis.axis,
        kind=axis.kind,
        values=axis.candidates,
        origin=Origin.PROPOSED,
        by=axis.rule,
        derived_from=axis.sources,
        rationale=f"axis only, derive the value anew: {axis.reason}",
    )


def _added(axis: AddedAxis) -> Axis:
    return Axis(
        name=axis.axis,
        kind=axis.kind,
        values=axis.candidates,
        origin=Origin.PROPOSED,
        by=axis.rule,
        rationale=axis.reason,
    )


def _facts_json(facts: tuple[DonorFact, ...]) -> list[dict[str, Any]]:
    return [
        {
            "decision": fact.iri,
            "kernel": fact.kernel,
            "value": fact.decision.value,
            "pattern": fact.decision.pattern,
            "lines": [list(lines) for lines in fact.decision.lines],
            "file": fact.decision.file,
        }
        for fact in facts
    ]


def _ruled_json(axis: InheritedAxis | AdaptedAxis | AddedAxis) -> dict[str, Any]:
    return {
        "axis": axis.axis,
        "kind": axis.kind.value,
        "via": list(axis.via),
        "reason": axis.reason,
        "rule": axis.rule,
    }


def _inherited_json(axis: InheritedAxis) -> dict[str, Any]:
    return {
        **_ruled_json(axis),
        "values": list(axis.values),
        "derived_from": _facts_json(axis.facts),
    }


def _adapted_json(axis: AdaptedAxis) -> dict[str, Any]:
    return {
        **_ruled_json(axis),
        "candidates": list(axis.candidates),
        "donor_values": list(axis.donor_values),
        "kernels": list(axis.kernels),
        "derived_from": _facts_json(axis.facts),
    }


def _added_json(axis: AddedAxis) -> dict[str, Any]:
    return {
        **_ruled_json(axis),
        "candidates": list(axis.candidates),
        "question": axis.question,
        "asked_of": axis.asked.value if axis.asked else None,
    }


def _refusal_json(refusal: Refusal) -> dict[str, Any]:
    return {
        "axis": refusal.axis,
        "value": refusal.value,
        "reason": refusal.reason,
        "source": refusal.source,
        "derived_from": list(refusal.derived_from),
    }


def _constraint_json(constraint: Constraint) -> dict[str, Any]:
    return {
        "expression": constraint.expression,
        "origin": constraint.origin.value,
        "because": constraint.because,
        "hint": constraint.hint,
        "source": constraint.source,
    }
