"""The vocabulary of the ontology as plain records: axes, components, operations, patterns, rules.

`kb.graph.vocabulary` loads it from Turtle; the DSL, the planner and transfer get it passed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from kb.errors import UnknownName
from kb.evidence import AxisKind
from kb.space import Constraint, Origin, Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisTerm:
    """An axis; `aliases` are its other names, `values` those seen so far.

    `reasons` are (value, rationale, price) of values that have other ones than their pattern.
    """

    name: str
    kind: AxisKind
    label: str = ""
    aliases: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    scope: str = "common"
    reasons: tuple[tuple[str, str, str], ...] = ()

    def reason(self, value: str) -> tuple[str, str] | None:
        """Rationale and price of a value, by its name without a remark in brackets."""
        wanted = _bare(value)
        found = ((why, price) for name, why, price in self.reasons if _bare(name) == wanted)
        return next(found, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterTerm:
    """A name that programs use for part of a tuning axis, as `tile_m` for `tile_selection`."""

    name: str
    axis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationTerm:
    """An operation: what it is composed of, in order, and the axes that it brings by itself."""

    name: str
    label: str = ""
    aliases: tuple[str, ...] = ()
    broader: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternTerm:
    """A recogniser of an axis's values: why one would choose them, and what that costs."""

    name: str
    axis: str
    rationale: str = ""
    price: str = ""


class Carry(StrEnum):
    """What becomes of a donor's decision in another operation."""

    VALUE = "value"
    AXIS = "axis"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRule:
    """What carries over on `axis` to `operation`, and why.

    `carry` VALUE: the value itself is right. AXIS: the knob is, its value must be re-derived.
    NOTHING: the donor's value must not be used. `value` narrows the rule to donor values that
    contain it, letter case aside. `prefers` is what to try first on the target.
    """

    name: str
    operation: str
    axis: str
    carry: Carry
    reason: str
    value: str | None = None
    prefers: str | None = None
    source: str = ""


class Asked(StrEnum):
    """Who answers an own axis: a person (semantics), or knowledge with evidence (strategy)."""

    PERSON = "person"
    KNOWLEDGE = "knowledge"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAxis:
    """An axis or tuning parameter that `operation` has and no donor can answer."""

    name: str
    operation: str
    axis: str
    asked: Asked
    question: str
    reason: str
    prefers: str | None = None
    candidates: tuple[Scalar, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintTerm:
    """A constraint of the ontology; it holds for every operation when `operations` is empty."""

    name: str
    expression: str
    because: str = ""
    hint: str = ""
    axes: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    source: str = ""

    def as_constraint(self) -> Constraint:
        """As a space holds it."""
        return Constraint(
            expression=self.expression,
            origin=Origin.INHERITED,
            because=self.because or None,
            hint=self.hint or None,
            source=self.source or None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Everything the ontology names, sorted by name."""

    axes: tuple[AxisTerm, ...] = ()
    parameters: tuple[ParameterTerm, ...] = ()
    operations: tuple[OperationTerm, ...] = ()
    patterns: tuple[PatternTerm, ...] = ()
    transfer_rules: tuple[TransferRule, ...] = ()
    own_axes: tuple[OwnAxis, ...] = ()
    constraints: tuple[ConstraintTerm, ...] = ()

    def find_axis(self, name: str) -> AxisTerm | None:
        """The axis of that name, else the one with that alias; letter case does not matter."""
        wanted = folded(name)
        for axis in self.axes:
            if folded(axis.name) == wanted:
                return axis
        for axis in self.axes:
            if wanted in map(folded, axis.aliases):
                return axis
        return None

    def is_parameter(self, name: str) -> bool:
        """Whether tile programs use the name for part of a tuning axis."""
        return folded(name) in {parameter.name for parameter in self.parameters}

    def near_axis(self, name: str) -> str | None:
        """The known axis name or alias closest in spelling to `name`."""
        known = [axis.name for axis in self.axes]
        known += [alias for axis in self.axes for alias in axis.aliases]
        known += [parameter.name for parameter in self.parameters]
        near = get_close_matches(folded(name), known, n=1)
        return near[0] if near else None

    def operation(self, name: str) -> OperationTerm:
        """The operation of that name or alias; UnknownName with the nearest when there is none."""
        wanted = folded(name)
        for operation in self.operations:
            if wanted in map(folded, (operation.name, operation.label, *operation.aliases)):
                return operation
        known = [operation.name for operation in self.operations]
        near = get_close_matches(wanted, known, n=1)
        hint = f"Did you mean `{near[0]}`?" if near else f"Known are {', '.join(known)}."
        raise UnknownName(f"there is no operation `{name}`.", hint=hint)

    def closure(self, name: str) -> tuple[OperationTerm, ...]:
        """The operation, its components and everything broader, nearest first."""
        known = {operation.name: operation for operation in self.operations}
        found: list[OperationTerm] = []
        waiting = [self.operation(name).name]
        for step in waiting:
            term = known.get(step)
            if term is not None and term not in found:
                found.append(term)
                waiting.extend((*term.components, *term.broader))
        return tuple(found)


def _bare(value: str) -> str:
    return folded(value.partition(" (")[0])


def folded(name: str) -> str:
    """`name` as names are compared: lower case, words joined by underscores."""
    return name.strip().lower().replace("-", "_").replace(" ", "_")
