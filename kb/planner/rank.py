"""Put every point of a space on one of two piles: kept, by cost, or refused with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from kb.errors import InputError
from kb.evidence import AxisKind
from kb.planner.constraints import (
    Refusal,
    Rule,
    compile_constraint,
    environment,
    open_names,
    refusals,
)
from kb.planner.cost import UNFITTED, Coefficients, Shape, Terms, cost, terms_of, work_of
from kb.planner.evaluation import Value
from kb.planner.expressions import evaluate, parse
from kb.planner.target import Target
from kb.space import Axis, DesignSpace, Point, Tuning

MAX_POINTS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A point that may run; `cost` and `terms` are None when the problem lacks sizes."""

    point: Point
    cost: float | None
    terms: Terms | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A point that cannot run, and every reason."""

    point: Point
    reasons: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Every point on one of two piles.

    `kept` is best first; `not_applied` names the values that constraints still lack; `notes` say
    what the order rests on.
    """

    kept: tuple[Kept, ...]
    refused: tuple[Refused, ...]
    not_applied: tuple[str, ...]
    notes: tuple[str, ...]


def rank(
    space: DesignSpace,
    problem: Mapping[str, Value],
    target: Target,
    *,
    tuning: Tuning | None = None,
    coefficients: Coefficients = UNFITTED,
) -> Ranking:
    """Refuse what a constraint forbids and order the rest by cost, ties in the space's own order.

    Points are those of `tuning` whose guard holds, else the product of the tuning axes. Design axes
    stand at their first value. Raises InputError when there are more than `MAX_POINTS`.
    """
    rules = [compile_constraint(constraint) for constraint in space.constraints]
    shape = shape_of(problem)
    fixed = first_values(space)
    kept: list[Kept] = []
    refused: list[Refused] = []
    for point in points(space, problem, target, tuning):
        env = environment(problem, target, merged(fixed, point))
        reasons = refusals(rules, env)
        if reasons:
            refused.append(Refused(point=point, reasons=reasons))
        else:
            kept.append(_kept(point, shape, env, target, coefficients))
    kept.sort(key=lambda entry: float("inf") if entry.cost is None else entry.cost)
    return Ranking(
        kept=tuple(kept),
        refused=tuple(refused),
        not_applied=_not_applied(rules, space, problem, target),
        notes=_notes(kept, coefficients),
    )


def points(
    space: DesignSpace, problem: Mapping[str, Value], target: Target, tuning: Tuning | None
) -> Iterator[Point]:
    """The tuning points to consider, each once, in the space's order of preference."""
    if tuning is not None and any(case.points for case in tuning.spaces):
        yield from _guarded(tuning, problem, target)
        return
    axes = [axis for axis in space.axes if axis.kind is AxisKind.TUNING and axis.values]
    count = prod(len(axis.values) for axis in axes)
    if count > MAX_POINTS:
        hint = "Take values off the tuning axes, or list points in `tuning`."
        raise InputError(
            f"the space has {count} points; at most {MAX_POINTS} are ranked.", hint=hint
        )
    for values in product(*(axis.values for axis in axes)):
        yield tuple((axis.name, value) for axis, value in zip(axes, values, strict=True))


def first_values(space: DesignSpace) -> Point:
    """Design axes at their preferred value."""
    return tuple(
        _first(axis) for axis in space.axes if axis.kind is AxisKind.DESIGN and axis.values
    )


def merged(fixed: Point, point: Point) -> Point:
    """`point` over `fixed`."""
    return tuple({**dict(fixed), **dict(point)}.items())


def shape_of(problem: Mapping[str, Value]) -> Shape | None:
    """Which iteration space the problem's sizes describe; None when none of the known ones."""
    if {"q_len", "head_dim"} <= problem.keys():
        return Shape.ATTENTION
    if {"row_count", "row_length"} <= problem.keys():
        return Shape.ROWS
    if {"m", "n", "k"} <= problem.keys():
        return Shape.CONTRACTION
    return None


def _first(axis: Axis) -> tuple[str, int | float | bool | str | None]:
    return axis.name, axis.values[0]


def _guarded(tuning: Tuning, problem: Mapping[str, Value], target: Target) -> Iterator[Point]:
    """Points of every case whose guard holds, or cannot be decided from what is known."""
    seen: set[str] = set()
    record = target.record()
    env = {**problem, "target": record, "capability": record["capability"]}
    for case in tuning.spaces:
        if case.when != "always" and not _holds(case.when, env):
            continue
        for point in case.points:
            if repr(point) not in seen:
                seen.add(repr(point))
                yield point


def _holds(guard: str, env: Mapping[str, Value]) -> bool:
    try:
        return bool(evaluate(parse(guard), env))
    except InputError:
        return True


def _kept(
    point: Point,
    shape: Shape | None,
    env: Mapping[str, Value],
    target: Target,
    coefficients: Coefficients,
) -> Kept:
    work = work_of(shape, env) if shape is not None else None
    if work is None:
        return Kept(point=point, cost=None, terms=None)
    terms = terms_of(work, target)
    return Kept(point=point, cost=cost(terms, coefficients), terms=terms)


def _not_applied(
    rules: list[Rule], space: DesignSpace, problem: Mapping[str, Value], target: Target
) -> tuple[str, ...]:
    sample = tuple(_first(axis) for axis in space.axes if axis.values)
    return open_names(rules, environment(problem, target, sample))


def _notes(kept: list[Kept], coefficients: Coefficients) -> tuple[str, ...]:
    notes = []
    if any(entry.cost is None for entry in kept):
        notes.append("some points have no cost: the problem lacks sizes; they keep their order")
    if coefficients.fitted_on is None:
        notes.append("the coefficients are unfitted: the order is a first guess, not a measurement")
    else:
        notes.append(f"coefficients fitted on {coefficients.fitted_on}")
    return tuple(notes)
