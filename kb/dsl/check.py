"""Does a document keep its own constraints? And what `AXIS=VALUE` means for it."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from itertools import islice

from kb.dsl.model import Document, same
from kb.errors import ConstraintViolated, InputError, SyntaxProblem, UnknownName
from kb.evidence import AxisKind
from kb.planner.constraints import Refusal, Rule, compile_constraint, environment, refusals
from kb.planner.evaluation import Value
from kb.planner.expressions import parse
from kb.planner.nodes import Literal
from kb.planner.rank import first_values, merged, points
from kb.planner.target import Target
from kb.space import Axis, Point, Scalar

MAX_TRIED = 10_000
NOWHERE = Target(name="any", label="any target", arch="", limits=())


def check_document(
    document: Document,
    *,
    target: Target | None = None,
    problem: Mapping[str, Value] | None = None,
    where: str = "",
) -> None:
    """Raise ConstraintViolated when the document breaks its constraints.

    It does when a value on a tuning axis, or a point listed in `tuning`, breaks one by itself, or
    when no point of the tuning axes keeps them all (tried up to `MAX_TRIED` points). Constraints
    that need a target or problem size nobody gave do not apply.
    """
    rules = [compile_constraint(constraint) for constraint in document.space.constraints]
    sizes = problem or {}
    for point in _alone(document):
        _refuse(rules, environment(sizes, target, point, document.canonical), point, where)
    fixed = first_values(document.space)
    tried = list(islice(points(document.space, sizes, target or NOWHERE, None), MAX_TRIED))
    if len(tried) == MAX_TRIED:
        return
    broken: tuple[Refusal, ...] = ()
    for point in tried:
        env = environment(sizes, target, merged(fixed, point), document.canonical)
        broken = refusals(rules, env)
        if not broken:
            return
    if broken:
        raise _violated("no point of the space keeps every constraint, as", broken, where)


def setting(text: str, document: Document) -> tuple[str, Scalar]:
    """The axis (as written) and value that `AXIS=VALUE` names.

    A value in quotes, a number or True/False is taken as such, anything else as a string. Raises
    SyntaxProblem without `=`, UnknownName for an axis the space lacks, and InputError for a value
    that is not on the axis; an axis without values takes any.
    """
    name, equals, given = text.partition("=")
    if not equals:
        raise SyntaxProblem(f"`{text}` sets nothing.", hint="Write AXIS=VALUE.")
    axis = _axis(name.strip(), document)
    value = _value(given.strip())
    if not axis.values:
        return axis.name, value
    for known in axis.values:
        if same(known, value) or str(known) == given.strip():
            return axis.name, known
    raise _not_on_axis(axis, given.strip())


def with_settings(document: Document, texts: tuple[str, ...]) -> Point:
    """The first value of every axis, with `AXIS=VALUE` settings over it, in file order."""
    chosen = dict(setting(text, document) for text in texts)
    return tuple(
        (axis.name, chosen.get(axis.name, axis.values[0] if axis.values else None))
        for axis in document.space.axes
        if axis.values or axis.name in chosen
    )


def _axis(name: str, document: Document) -> Axis:
    try:
        return document.axis(name)
    except UnknownName as error:
        known = [axis.name for axis in document.space.axes]
        near = get_close_matches(name, known, n=1)
        hint = f"Did you mean `{near[0]}`?" if near else error.hint
        raise UnknownName(error.message, hint=hint) from error


def _value(text: str) -> Scalar:
    try:
        tree = parse(text)
    except SyntaxProblem:
        return text
    return tree.value if isinstance(tree, Literal) else text


def _not_on_axis(axis: Axis, given: str) -> InputError:
    known = ", ".join(map(str, axis.values))
    near = get_close_matches(given, [str(value) for value in axis.values], n=1)
    hint = f"Did you mean `{near[0]}`?" if near else f"It has {known}."
    return InputError(f"`{given}` is not on the axis `{axis.name}`.", hint=hint)


def _alone(document: Document) -> list[Point]:
    """Each tuning value by itself, then the points that are listed."""
    tuning_axes = [axis for axis in document.space.axes if axis.kind is AxisKind.TUNING]
    singles: list[Point] = [((axis.name, v),) for axis in tuning_axes for v in axis.values]
    cases = document.tuning.spaces if document.tuning is not None else ()
    return [*singles, *(point for case in cases for point in case.points)]


def _refuse(rules: list[Rule], env: Mapping[str, Value], point: Point, where: str) -> None:
    broken = refusals(rules, env)
    if broken:
        shown = ", ".join(f"{name}={value}" for name, value in point)
        raise _violated(shown, broken, where)


def _violated(what: str, broken: tuple[Refusal, ...], where: str) -> ConstraintViolated:
    reasons = "; ".join(f"`{refusal.expression}`: {refusal.because}" for refusal in broken)
    hints = "; ".join(dict.fromkeys(refusal.hint for refusal in broken if refusal.hint))
    hint = f"Try: {hints}." if hints else "Change the value or the constraint."
    return ConstraintViolated(f"{what} breaks {reasons}.", where=where, hint=hint)
