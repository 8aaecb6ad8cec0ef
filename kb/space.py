"""Design spaces as values: axes, tuning spaces, launches, constraints. What the graph stores and
the DSL prints."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kb.evidence import AxisKind, Lines

Scalar = int | float | bool | str | None
"""A value on an axis."""

Point = tuple[tuple[str, Scalar], ...]
"""Axis names with their values, in the order in which the source wrote them."""


class Origin(StrEnum):
    """Who says so: seen in source, stated by a host check, implied by the program, or proposed by a
    person or rule."""

    OBSERVED = "observed"
    STATED = "stated"
    IMPLIED = "implied"
    INHERITED = "inherited"
    PROPOSED = "proposed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis of a space: `values` in preference order; `by` names who proposed values not
    observed in source."""

    name: str
    kind: AxisKind
    values: tuple[Scalar, ...]
    origin: Origin = Origin.OBSERVED
    by: str | None = None
    derived_from: tuple[str, ...] = ()
    rationale: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """What must hold between axes, problem sizes and target; `expression` is in the DSL's
    expression grammar."""

    expression: str
    origin: Origin
    because: str | None = None
    hint: str | None = None
    source: str | None = None
    lines: Lines | None = None
    checked_by_host: bool = False


def implied(expression: str, because: str, hint: str, lines: Lines | None) -> Constraint:
    """A constraint that follows from the program of a kernel."""
    return Constraint(
        expression=expression, origin=Origin.IMPLIED, because=because, hint=hint, lines=lines
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedPoints:
    """The tuning points that hold under one condition on target or problem (`always` when there is
    none)."""

    when: str
    points: tuple[Point, ...]
    complete: bool = True
    reason: str | None = None
    lines: Lines | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What the host passes for one kernel parameter: an expression over tensor shapes, scalars and
    tuning axes."""

    parameter: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch site: grid and argument expressions, the hints of the launched kernel, and when it
    is taken; `file` where that is another one than the kernel's."""

    grid: tuple[str, ...]
    bindings: tuple[Binding, ...]
    hints: Point
    lines: Lines
    when: str = "always"
    host_function: str | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """How the values of the tuning axes are chosen, and which of the searched axes reach the
    launched kernel."""

    mechanism: str = "none"
    spaces: tuple[GuardedPoints, ...] = ()
    effective_axes: tuple[str, ...] = ()
    dead_axes: tuple[str, ...] = ()
    launched_with: Point = ()
    timed_with: Point = ()
    cache_key: tuple[str, ...] | None = None
    lines: Lines | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignSpace:
    """Design axes and tuning axes (never mixed), constraints and mapping of one kernel or
    operation."""

    name: str
    operation: str
    axes: tuple[Axis, ...]
    constraints: tuple[Constraint, ...] = ()
    mapping: tuple[tuple[str, str], ...] = ()
    holes: tuple[str, ...] = ()
    dialect: str | None = None
    source_digest: str | None = None
    derived_from: tuple[str, ...] = ()
